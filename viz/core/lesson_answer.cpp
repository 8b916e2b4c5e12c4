#include "viz/core/lesson_answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "sim/error.h"
#include "viz/core/lesson_typed.h"
#include "viz/core/lesson_values.h"
#include "viz/core/text.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

using Verdict = Grade::Verdict;

/// `value` and the right answer are in the unit's base.
bool is_close(const Number& value, const Number& right, const Question& question) {
  if (!std::isfinite(right.value()) || !std::isfinite(value.value())) return value == right;
  const Tolerance& t = question.tolerance;
  Number allowed = t.absolute * question.unit.scale;
  if (!t.relative.is_zero()) allowed = allowed + (right.is_zero() ? kSmallestTolerance : abs(right) * t.relative);
  // A computed time is a double: its own rounding must not decide.
  if (!right.is_exact()) allowed = allowed + Number::of(std::fabs(right.value()) * 1e-12);
  return abs(value - right) <= allowed;
}

/// Whether the right answer, rounded to the digits that were typed, is what was typed: 2.7 for 2.732.
bool is_rounding(const Typed& read, const Number& scale, const Question& question) {
  return read.last_place && abs(read.written * scale - question.right) * Number(2) <= *read.last_place * scale;
}

/// The known mistake that was meant: within the tolerance, or else the nearest one within 1 %, where a question is
/// asked to more digits than people give to a wrong number. Nothing where the right answer is nearer, or was `rounded`.
int mistake_of(const Number& value, const Question& question, bool rounded) {
  for (std::size_t n = 0; n < question.mistakes.size(); ++n)
    if (is_close(value, question.mistakes[n], question)) return static_cast<int>(n);
  if (rounded) return -1;
  const auto distance = [&](const Number& to) { return std::fabs(value.value() - to.value()); };
  int nearest = -1;
  double least = distance(question.right);
  for (std::size_t n = 0; n < question.mistakes.size(); ++n) {
    const double away = distance(question.mistakes[n]);
    if (away < least && away <= 0.01 * std::fabs(question.mistakes[n].value())) {
      nearest = static_cast<int>(n);
      least = away;
    }
  }
  return nearest;
}

/// The unit that is as large to the eye: MB and MiB.
std::optional<LessonUnit> lookalike(const LessonUnit& unit) {
  static const std::pair<const char*, const char*> pairs[] = {
      {"kB", "KiB"}, {"MB", "MiB"}, {"GB", "GiB"}, {"TB", "TiB"}};
  for (const auto& [decimal, binary] : pairs) {
    if (unit.name == decimal) return unit_named(binary);
    if (unit.name == binary) return unit_named(decimal);
  }
  return std::nullopt;
}

std::string binary_note(const LessonUnit& unit) {
  const auto size = [](const LessonUnit& of) { return "1 " + of.name + " is " + grouped(of.scale.whole()); };
  const LessonUnit other = *lookalike(unit);
  const bool binary = unit.name.size() > other.name.size();
  return "That is the number of " + unit.name + ": " + size(binary ? other : unit) + " bytes, " +
         size(binary ? unit : other) + ".";
}

/// Shares and factors are told apart, and each from what is its reverse: faults of a kind, whatever the question.
std::string reversed_note(const Typed& read, const Question& question) {
  using Dimension = LessonUnit::Dimension;
  const double right = question.right.value();
  const bool factor =
      question.unit.dimension == Dimension::plain && (question.unit.name == "×" || question.unit.name == "times");
  const bool share = question.unit.dimension == Dimension::share;
  if ((!factor && !share) || !std::isfinite(right) || right <= 0 || right == 1) return "";
  const bool in_percent = read.unit && read.unit->dimension == Dimension::share;
  const double written = read.written.value(), as_share = written / 100;
  const auto near = [&](double value, double wanted) {
    return std::fabs(value - wanted) <= std::max(0.005, question.tolerance.relative.value()) * std::fabs(wanted);
  };
  // Shares are rounded to whole per cents.
  const auto near_share = [&](double value, double wanted) {
    return near(value, wanted) || (wanted > 0.005 && std::fabs(value - wanted) < 0.006);
  };
  if (factor) {
    if (!in_percent && near(written, 1 / right))
      return "That is the other way round: 1 divided by the factor. Which of the two is the larger one?";
    if (right < 1) return "";
    if (near_share(as_share, 1 - 1 / right) || (!in_percent && near(written, 1 - 1 / right)))
      return "That is the share that goes away. Asked is the factor: how many times the one is the other.";
    if (near_share(as_share, 1 / right))
      return "That is the one as a share of the other. Asked is the factor: how many times the one is the other.";
    if (near(as_share, right - 1)) return "That is by how many per cent it is more. Asked is the factor.";
    return "";
  }
  if (right > 1) return "";
  const bool plain = !read.unit;  // a fraction of 1, or per cent without the sign
  if (near_share(as_share, 1 - right) || (plain && near(written, 1 - right)))
    return "That is the rest: what is asked and this are 100 % together.";
  if (near(as_share, 1 / right) || (plain && near(written, 1 / right)))
    return "That is how many times the part goes into the whole. Asked is the share: the part divided by the whole.";
  if (near(as_share, right / (1 - right)) || (plain && near(written, right / (1 - right))))
    return "That is the one part against the other. Asked is its share of both together.";
  return "";
}

/// The unit in which a plain number would be right, or its rounding: 0.000495 where ms are asked and s were meant.
std::optional<LessonUnit> unit_left_out(const Typed& read, const Question& question) {
  if (read.unit) return std::nullopt;
  using Dimension = LessonUnit::Dimension;
  static const char* bytes[] = {"kB", "MB", "GB", "TB"};
  static const char* times[] = {"ns", "ms", "s"};
  const auto among = [&](const auto& names) -> std::optional<LessonUnit> {
    for (const char* name : names) {
      const LessonUnit unit = *unit_named(name);
      const bool two_digits = read.last_place && *read.last_place * Number(10) <= read.written;
      if (is_close(read.written * unit.scale, question.right, question) ||
          (unit.name != question.unit.name && two_digits && is_rounding(read, unit.scale, question)))
        return unit;
    }
    return std::nullopt;
  };
  if (question.unit.dimension == Dimension::bytes) return among(bytes);
  if (question.unit.dimension == Dimension::time) return among(times);
  return std::nullopt;
}

/// What a near miss lacks: nobody should look for a mistake of thought behind a digit too few. A value that is near and
/// no rounding of the right one has another reason, and more digits of it would not help.
std::string near_miss(const Number& value, const Question& question, bool rounded) {
  const Tolerance& t = question.tolerance;
  const Number distance = abs(value - question.right), size = abs(question.right);
  if (question.guess || !std::isfinite(distance.value()) || size * Number::fraction(6, 100) < distance) return "";
  if (t.relative.is_zero() && t.absolute.is_zero()) return "Close, and this one is exact.";
  return "Close: it is asked to within " +
         (t.relative.is_zero() ? quantity_text(t.absolute * question.unit.scale, question.unit)
                               : quantity_text(t.relative, *unit_named("%"))) +
         (rounded ? ". Take more digits." : ".");
}

}  // namespace

std::string as_compared(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\r' || c == '\n' || c == '\t') c = ' ';
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::right: return "right";
    case Verdict::wrong: return "wrong";
    case Verdict::unreadable: break;
  }
  return "unreadable";
}

Tolerance parse_tolerance(const std::string& text) {
  std::string number = trimmed(text);
  const bool percent = !number.empty() && number.back() == '%';
  if (percent) number = trimmed(number.substr(0, number.size() - 1));
  const auto value = Number::decimal(number);
  if (!value || !std::isfinite(value->value()))
    throw Error(ErrorKind::input, "tolerance: '" + text + "' is not a number or a number and %");
  return percent ? Tolerance{Number(0), *value / Number(100)} : Tolerance{*value, Number(0)};
}

std::string Question::right_text() const {
  if (!unknown.empty()) return "unavailable";
  switch (kind) {
    case LessonAsk::Kind::number: return quantity_text(right, unit);
    case LessonAsk::Kind::choice: return right_option;
    case LessonAsk::Kind::order: break;
  }
  std::string text;
  for (const std::string& item : right_items) text += (text.empty() ? "" : ", then ") + item;
  return text;
}

Grade grade_number(const Question& question, const std::string& typed) {
  Grade grade;
  if (!question.unknown.empty()) {
    grade.note = "This question has no answer here: " + question.unknown;
    return grade;
  }
  const LessonUnit& unit = question.unit;
  const auto read = parse_typed(typed, unit.dimension == LessonUnit::Dimension::plain ? unit.name : "", grade.note);
  if (!read) return grade;
  if (read->unit && read->unit->dimension != unit.dimension) {
    // A ratio may be written in per cent, and a label left out.
    const bool ratio =
        unit.dimension == LessonUnit::Dimension::plain && read->unit->dimension == LessonUnit::Dimension::share;
    if (!ratio) {
      grade.note = "The answer is " + (unit.name.empty() ? std::string("a plain number") : "in " + unit.name) +
                   ", not in " + read->unit->name + ".";
      return grade;
    }
  }
  const Number value = read->written * (read->unit ? read->unit->scale : unit.scale);
  if (read->by_comma) grade.reading = "Read as " + read->digits + ".";
  const auto right = [&](const Number& v) { return is_close(v, question.right, question); };
  grade.verdict = Verdict::right;
  if (right(value)) return grade;
  // Nobody means 4,456,448 MB: a plain number that is right in bytes (or as a fraction of 1) is right.
  const bool may_be_base = !read->unit && !(unit.scale == Number(1));
  const std::string taken = std::string("Taken as ") +
                            (unit.dimension == LessonUnit::Dimension::bytes  ? "bytes"
                             : unit.dimension == LessonUnit::Dimension::time ? "microseconds"
                                                                             : "a fraction of 1") +
                            ".";
  if (may_be_base && right(read->written)) {
    grade.note = taken;
    return grade;
  }
  const bool other_is_right = read->other && right(*read->other * (read->unit ? read->unit->scale : unit.scale));
  // What groups thousands here is a decimal comma elsewhere: who may have meant the right number is asked.
  if (other_is_right && read->by_comma) {
    grade.verdict = Verdict::unreadable;
    grade.reading.clear();
    grade.note = "Is that " + read->digits + " or " + read->other_digits + "? Type the one you mean.";
    return grade;
  }
  if (other_is_right) grade.reading = "Read as " + read->digits + ": the point is a decimal point here.";
  grade.verdict = Verdict::wrong;
  grade.side = value < question.right ? -1 : question.right < value ? 1 : 0;
  // The very digits of the right answer in the other kind of unit are no other mistake.
  if (const auto other = lookalike(read->unit ? *read->unit : unit); other && question.right.is_exact())
    if (read->written * other->scale == question.right) {
      grade.note = binary_note(*other);
      return grade;
    }
  const bool rounded = is_rounding(*read, read->unit ? read->unit->scale : unit.scale, question);
  const bool rounded_base = may_be_base && is_rounding(*read, Number(1), question);
  grade.mistake = mistake_of(value, question, rounded);
  if (grade.mistake < 0 && may_be_base) {
    grade.mistake = mistake_of(read->written, question, rounded_base);
    if (grade.mistake >= 0) grade.note = taken;
  }
  if (const auto other = lookalike(read->unit ? *read->unit : unit); other && grade.mistake < 0)
    if (right(read->written * other->scale)) grade.note = binary_note(*other);
  if (grade.mistake < 0 && grade.note.empty() && unit_left_out(*read, question))
    grade.note = "In which unit? Asked is " + unit.name + "; write the one you mean behind the number.";
  if (grade.mistake < 0 && grade.note.empty()) grade.note = reversed_note(*read, question);
  if (grade.mistake < 0 && grade.note.empty()) grade.note = near_miss(value, question, rounded);
  if (grade.mistake < 0 && grade.note.empty() && may_be_base)
    grade.note = near_miss(read->written, question, rounded_base);
  return grade;
}

Grade grade_choice(const Question& question, const std::string& option) {
  Grade grade;
  const std::string wanted = as_compared(option);
  if (wanted == as_compared(question.right_option)) {
    grade.verdict = Verdict::right;
    return grade;
  }
  for (std::size_t n = 0; n < question.mistake_options.size(); ++n)
    if (wanted == as_compared(question.mistake_options[n])) {
      grade.verdict = Verdict::wrong;
      grade.mistake = static_cast<int>(n);
      return grade;
    }
  grade.note = "“" + shortened(option) + "” is not one of the options.";
  return grade;
}

Grade grade_order(const Question& question, const std::vector<std::string>& items) {
  Grade grade;
  std::vector<std::string> given, wanted;
  for (const std::string& item : items) given.push_back(as_compared(item));
  for (const std::string& item : question.right_items) wanted.push_back(as_compared(item));
  const std::multiset<std::string> sorted(given.begin(), given.end());
  if (sorted != std::multiset<std::string>(wanted.begin(), wanted.end())) {
    grade.note = "Each of the " + std::to_string(wanted.size()) + " items stands in the list once.";
    return grade;
  }
  grade.verdict = given == wanted ? Verdict::right : Verdict::wrong;
  if (grade.verdict == Verdict::right) return grade;
  const auto place = [](const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) - list.begin();
  };
  for (std::size_t n = 0; n < question.mistake_pairs.size() && grade.mistake < 0; ++n) {
    const std::string first = as_compared(question.mistake_pairs[n].first),
                      second = as_compared(question.mistake_pairs[n].second);
    if (place(given, first) < place(given, second) && place(wanted, second) < place(wanted, first))
      grade.mistake = static_cast<int>(n);
  }
  // Some neighbours stand the wrong way round, or the order were right.
  for (std::size_t n = 1; n < given.size() && grade.mistake < 0 && grade.note.empty(); ++n)
    if (place(wanted, given[n]) < place(wanted, given[n - 1]))
      grade.note = "Look at these two again: “" + shortened(items[n - 1]) + "” and “" + shortened(items[n]) + "”.";
  return grade;
}

std::vector<std::size_t> shuffled(std::size_t count, const std::string& seed) {
  std::uint64_t state = 14695981039346656037u;  // FNV-1a of the text
  for (char c : seed) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    std::swap(order[left - 1], order[(state >> 33) % left]);
  }
  if (std::is_sorted(order.begin(), order.end()) && count > 1)
    std::rotate(order.begin(), order.begin() + 1, order.end());
  return order;
}

int score_tenths(int tries) { return tries < 1 ? 0 : std::max(1, 13 - 3 * tries); }

}  // namespace flashscope::viz
