#include "viz/core/lesson_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/error.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

void refuse_unknown_ids(const Lesson& lesson, const Json& answers, const std::string& file) {
  if (!answers.is_object()) throw Error(ErrorKind::input, file + ": answers: expected an object of question ids");
  for (const auto& item : answers.items()) {
    const auto is_it = [&](const LessonAsk& ask) { return ask.id == item.key(); };
    if (std::any_of(lesson.asks.begin(), lesson.asks.end(), is_it)) continue;
    std::string ids;
    for (const LessonAsk& ask : lesson.asks) ids += (ids.empty() ? "" : ", ") + ask.id;
    throw Error(ErrorKind::input,
                file + ": answers: '" + item.key() + "' is not one of the questions " + ids + " of " + lesson.name);
  }
}

/// `where`: for messages.
Grade grade_of_json(const Question& question, const Json& answer, const std::string& where) {
  if (question.kind == LessonAsk::Kind::order) {
    if (!answer.is_array()) throw Error(ErrorKind::input, where + ": expected a list of texts");
    std::vector<std::string> items;
    for (const Json& item : answer) {
      if (!item.is_string()) throw Error(ErrorKind::input, where + ": expected a list of texts");
      items.push_back(item.get<std::string>());
    }
    return grade_order(question, items);
  }
  if (!answer.is_string() && !answer.is_number())
    throw Error(ErrorKind::input, where + ": expected a text or a number");
  const std::string text = answer.is_string() ? answer.get<std::string>() : answer.dump();
  return question.kind == LessonAsk::Kind::number ? grade_number(question, text) : grade_choice(question, text);
}

/// `grade`: nothing where nobody answered, or nobody can.
std::string verdict_of(const LessonAsk& ask, const Question& question, const std::optional<Grade>& grade) {
  if (!question.unknown.empty()) return "unavailable";
  if (!grade) return "unanswered";
  return ask.predict && grade->verdict != Grade::Verdict::unreadable ? "predicted" : name_of(grade->verdict);
}

void add_remarks(Json& entry, const OpenLesson& open, const LessonAsk& ask, const Grade& grade) {
  if (!grade.reading.empty()) entry["reading"] = grade.reading;
  if (!grade.note.empty()) entry["note"] = grade.note;
  if (grade.mistake < 0) return;
  const std::string say = open.plain(ask.mistakes[static_cast<std::size_t>(grade.mistake)].say);
  if (!say.empty()) entry["mistake"] = say;
}

}  // namespace

Json graded_report(const OpenLesson& open, const Json& answers, const std::string& file) {
  const Lesson& lesson = open.lesson;
  refuse_unknown_ids(lesson, answers, file);
  Json asks = Json::array();
  int counted = 0, answered = 0, right = 0;
  for (std::size_t n = 0; n < lesson.asks.size(); ++n) {
    const LessonAsk& ask = lesson.asks[n];
    const Question& question = open.questions[n];
    Json entry = {{"id", ask.id},
                  {"kind", name_of(ask.kind)},
                  {"predict", ask.predict},
                  {"question", open.plain(ask.question)}};
    const bool is_known = question.unknown.empty();
    std::optional<Grade> grade;
    const auto given = answers.find(ask.id);
    if (is_known && given != answers.end() && !given->is_null()) {
      entry["answer"] = *given;
      grade = grade_of_json(question, *given, file + ": answers." + ask.id);
      ++answered;
    }
    entry["verdict"] = verdict_of(ask, question, grade);
    entry["expected"] = is_known ? question.right_text() : "unavailable (" + question.unknown + ")";
    if (grade) add_remarks(entry, open, ask, *grade);
    entry["reason"] = open.plain(ask.reason);
    if (!ask.predict && is_known) {
      const int score = grade && grade->verdict == Grade::Verdict::right ? 1 : 0;
      entry["score"] = score;
      right += score;
      ++counted;
    }
    asks.push_back(std::move(entry));
  }
  Json report = {{"lesson", lesson.name}, {"id", lesson.id}, {"title", lesson.title}};
  report["asked"] = static_cast<int>(lesson.asks.size());
  report["answered"] = answered;
  report["counted"] = counted;
  report["right"] = right;
  report["score"] = counted ? std::round(100.0 * right / counted) / 100 : 1.0;
  report["asks"] = std::move(asks);
  return report;
}

}  // namespace flashscope::viz
