// Reading a number that somebody typed, with or without its unit.
#pragma once
#include <optional>
#include <string>

#include "viz/core/lesson_units.h"

namespace flashscope::viz {

/// A number that somebody typed.
struct Typed {
  Number written;                         // without its unit
  std::optional<LessonUnit> unit = {};    // as typed
  std::optional<Number> last_place = {};  // of a number in digits: what one more in the last of them would add
  // Where one comma or point stands before three digits, "2,732" or "2.732", that can be read in two ways.
  std::optional<Number> other = {};            // the reading that was not taken
  std::string digits = "", other_digits = "";  // both without separators; "" where there is one reading only
  bool by_comma = false;                       // a comma was taken to group thousands: worth saying
};
/// Takes 4456448, 4,456,448, 4 456 448, 4.4e6, 4.4·10^6, 4.4M, 2^22, 2²², 1/3, 0,5, ½, exp(2)/3, ~4.4 MB, 33 % of it,
/// N = 33,000, 44 times as many, minus infinity, 64 key tiles, 16 of 132, twice, fourfold, three quarters, e^{-0.5},
/// two hundred fifty-six, 16 2/3, (622 MB - 403 MB) / 622 MB, 2 MB / 4 TB/s, 68.7 GFLOP / 25.2 MB, the same.
/// A comma before three digits groups thousands, as in the lessons' own numbers; one point is a decimal point.
/// `label` is the word that may follow. On failure the result is empty and `why` says what to write.
std::optional<Typed> parse_typed(const std::string& text, const std::string& label, std::string& why);

}  // namespace flashscope::viz
