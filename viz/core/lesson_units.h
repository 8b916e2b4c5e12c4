// Units of lessons. Within expressions bytes are bytes, times microseconds, shares fractions of 1; a unit says how they
// are written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "viz/core/lesson_number.h"

namespace flashscope::viz {

struct LessonUnit {
  enum class Dimension : std::uint8_t { plain, bytes, time, share, flops, byte_rate, flop_rate };
  std::string name;  // as it is shown: "MB", "µs", "%", "tiles"
  Dimension dimension = Dimension::plain;
  Number scale = Number(1);  // of the base (byte, µs, 1, FLOP, GB/s, TFLOP/s) in one of this unit
};

/// A known unit by any of its spellings ("us" is "µs", "per cent" is "%").
std::optional<LessonUnit> unit_named(std::string_view name);
/// A known unit, or else a word of the author's: a plain number of "tiles".
LessonUnit unit_or_label(const std::string& name);
/// All known units, for the message about one that is not: "B, kB, …".
std::string unit_names();

}  // namespace flashscope::viz
