// Values of lessons as text.
#pragma once
#include <string>
#include <string_view>

#include "viz/core/lesson_expression.h"
#include "viz/core/lesson_units.h"

namespace flashscope::viz {

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

}  // namespace flashscope::viz
