// Units of lessons: how values are shown, and what people type. Within expressions bytes are bytes, times microseconds,
// shares fractions of 1; a unit says how they are written.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "viz/core/lesson_expression.h"

namespace flashscope::viz {

struct LessonUnit {
  enum class Dimension : std::uint8_t { plain, bytes, time, share, byte_rate, flop_rate };
  std::string name;  // as it is shown: "MB", "µs", "%", "tiles"
  Dimension dimension = Dimension::plain;
  Number scale = Number(1);  // of the base (byte, µs, 1, GB/s, TFLOP/s) in one of this unit
};

/// A known unit by any of its spellings ("us" is "µs", "per cent" is "%").
std::optional<LessonUnit> unit_named(std::string_view name);
/// A known unit, or else a word of the author's: a plain number of "tiles".
LessonUnit unit_or_label(const std::string& name);

/// "expression in unit" taken apart; an empty unit where there is none.
struct Formatted {
  std::string expression, unit;
};
Formatted split_unit(std::string_view text);

/// The value as text: "8,912,896 B", "8.91 MB", "1.10 ms", "33.3 %", "2.1 ×", "1.11 × 10⁻¹⁶".
/// Beyond the units of unit_named(): "bytes" and "time" choose one that fits, "N decimals" and "x" as they say.
/// Throws Error(input) for a unit that is not known.
std::string value_text(const Value& value, const std::string& unit);
/// In the unit given, with three digits where that is not exact.
std::string quantity_text(const Number& base, const LessonUnit& unit);

/// A number that somebody typed.
struct Typed {
  Number written;                       // without its unit
  std::optional<LessonUnit> unit = {};  // as typed
  // Where one comma or point stands before three digits, "2,732" or "2.732", that can be read in two ways.
  std::optional<Number> other = {};            // the reading that was not taken
  std::string digits = "", other_digits = "";  // both without separators; "" where there is one reading only
  bool by_comma = false;                       // a comma was taken to group thousands: worth saying
};
/// Takes 4456448, 4,456,448, 4 456 448, 4.4e6, 4.4·10^6, 4.4M, 2^22, 2²², 1/3, 0,5, ½, exp(2)/3, ~4.4 MB, 33 % of it,
/// N = 33,000, 44 times as many, minus infinity, 64 key tiles, 16 of 132, twice, fourfold, three quarters, e^{-0.5},
/// (622 MB - 403 MB) / 622 MB, 2 MB / 4 TB/s;
/// A comma before three digits groups thousands, as in the lessons' own numbers; one point is a decimal point.
/// `label` is the word that may follow. On failure the result is empty and `why` says what to write.
std::optional<Typed> parse_typed(const std::string& text, const std::string& label, std::string& why);

}  // namespace flashscope::viz
