// Grading. Decimal answers and tolerances are exact fractions, so 45.6 is within 0.2 of 45.8; choices and orders are
// compared by their text, never by a position on the screen.
#pragma once
#include <string>
#include <vector>

#include "viz/core/lesson_units.h"
#include "viz/io/lesson.h"

namespace flashscope::viz {

struct Tolerance {
  Number absolute;  // in the question's unit
  Number relative;  // of the right answer
};
/// What a relative tolerance accepts around a right answer of 0 (in the unit's base), of which there is no share.
inline const Number kSmallestTolerance = Number::fraction(1, 1'000'000'000);
/// "0.2", "2 %", "0" (exact). Throws Error(input).
Tolerance parse_tolerance(const std::string& text);

/// A question whose expressions have been evaluated.
struct Question {
  LessonAsk::Kind kind = LessonAsk::Kind::number;
  bool guess = false;   // before it is told: nobody is asked to be more exact
  std::string unknown;  // why it has no answer, as on a machine of which nothing is recorded; else ""
  // number, in the unit's base
  Number right;
  LessonUnit unit;
  Tolerance tolerance;
  std::vector<Number> mistakes;
  // choice: `options` in the order in which they are shown, which is the same every time
  std::string right_option;
  std::vector<std::string> options;
  std::vector<std::string> mistake_options;
  // order: labels as shown, and in the right order
  std::vector<std::string> items, right_items;
  std::vector<std::pair<std::string, std::string>> mistake_pairs;  // the first put before the second, and it is not

  std::string right_text() const;
};

struct Grade {
  enum class Verdict : std::uint8_t { right, wrong, unreadable };
  Verdict verdict = Verdict::unreadable;
  std::string reading;  // "Read as 2732.", where "2,732" was typed and can be read in two ways
  std::string note;     // about what was typed: "taken as bytes", "that is MiB", why it cannot be read
  int mistake = -1;     // index of the known mistake that it is
  int side = 0;         // of a wrong number: -1 too small, 1 too large
  bool operator==(const Grade&) const = default;
};
const char* name_of(Grade::Verdict verdict);

Grade grade_number(const Question& question, const std::string& typed);
/// Case, and blanks around it, do not matter.
/// A text as choices and items of an order are compared: in small letters, each run of blanks as one.
std::string as_compared(const std::string& text);

Grade grade_choice(const Question& question, const std::string& option);
Grade grade_order(const Question& question, const std::vector<std::string>& items);

/// The order in which `count` things are shown: the same for the same text on every machine, never the given order for
/// two or more.
std::vector<std::size_t> shuffled(std::size_t count, const std::string& seed);

/// Tenths of a point for an answer that was right at the `tries`-th try: 10, 7, 4, 1.
int score_tenths(int tries);

}  // namespace flashscope::viz
