#include "viz/core/lesson_runtime.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/error.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

std::string place(const Lesson& lesson, int line) { return lesson.file + ":" + std::to_string(line) + ": "; }

/// Opens a lesson part by part; each part that fails leaves a fault.
class Opener {
 public:
  Opener(OpenLesson& open) : m_open(open) {
    m_documents = [this](const std::string& name) -> const Json& {
      const auto run = m_open.runs.find(name);
      if (run != m_open.runs.end()) return *run->second.document;
      std::string names;
      for (const LessonRun& r : m_open.lesson.runs) names += (names.empty() ? "" : ", ") + r.name;
      throw Error(ErrorKind::input,
                  "'" + name + "' is not one of the runs " + (names.empty() ? "(there is none)" : names));
    };
  }

  template <class Body>
  void guarded(int line, Body body) {
    try {
      body();
    } catch (const Error& error) {
      fault(line, error.what());
    }
  }

  void fault(int line, const std::string& text) { m_open.faults.push_back(place(m_open.lesson, line) + text); }

  void claims() {
    for (const LessonClaim& claim : m_open.lesson.claims)
      guarded(claim.line, [&] {
        if (!evaluate_truth(claim.expression, m_documents))
          fault(claim.line, "the claim '" + claim.expression + "' is false");
      });
  }

  void texts() {
    for (const LessonStep& step : m_open.lesson.steps)
      for (const LessonBlock& block : step.blocks) {
        text(block.text);
        for (const auto& row : block.table)
          for (const LessonText& cell : row) text(cell);
      }
    for (const LessonAsk& ask : m_open.lesson.asks) {
      text(ask.question);
      text(ask.reason);
      for (const LessonText& hint : ask.hints) text(hint);
      for (const LessonAsk::Mistake& mistake : ask.mistakes) text(mistake.say);
    }
  }

  void questions() {
    for (const LessonAsk& ask : m_open.lesson.asks) {
      Question question;
      question.kind = ask.kind;
      guarded(ask.line, [&] {
        try {
          fill(question, ask);
        } catch (const Error& error) {
          question.unknown = error.what();
          throw;
        }
      });
      m_open.questions.push_back(std::move(question));
    }
  }

 private:
  void text(const LessonText& spans) {
    for (const LessonSpan& span : spans) {
      if (span.kind != LessonSpan::Kind::value || m_open.values.count(span.text)) continue;
      std::string& shown = m_open.values[span.text];
      shown = "(not known)";
      guarded(span.line, [&] {
        const Formatted parts = split_unit(span.text);
        const Value value = evaluate(parts.expression, m_documents);
        if (value.kind == Value::Kind::text && value.text.rfind("unavailable", 0) == 0) {
          shown = value.text;
          fault(span.line, "'" + span.text + "' is " + value.text);
          return;
        }
        shown = value_text(value, parts.unit);
      });
    }
  }

  void fill(Question& question, const LessonAsk& ask) {
    switch (ask.kind) {
      case LessonAsk::Kind::number:
        question.unit = unit_or_label(ask.unit);
        question.tolerance = parse_tolerance(ask.tolerance);
        question.right = evaluate_number(ask.answer, m_documents);
        for (const LessonAsk::Mistake& mistake : ask.mistakes)
          question.mistakes.push_back(evaluate_number(mistake.answer, m_documents));
        break;
      case LessonAsk::Kind::choice: {
        question.right_option = with_values(ask.right, ask.line);
        std::vector<std::string> options = {question.right_option};
        for (const LessonAsk::Mistake& mistake : ask.mistakes) {
          options.push_back(with_values(mistake.answer, ask.line));
          question.mistake_options.push_back(options.back());
        }
        for (std::size_t at : shuffled(options.size(), m_open.lesson.id + "/" + ask.id))
          question.options.push_back(options[at]);
        if (std::set<std::string>(options.begin(), options.end()).size() != options.size())
          fault(ask.line, "two options read the same");
        break;
      }
      case LessonAsk::Kind::order: fill_order(question, ask); break;
    }
  }

  void fill_order(Question& question, const LessonAsk& ask) {
    std::vector<std::pair<Number, std::string>> items;
    for (std::size_t n = 0; n < ask.items.size(); ++n) {
      const LessonAsk::Item& item = ask.items[n];
      const Number key = item.expression.empty() ? Number(static_cast<std::int64_t>(n))
                                                 : evaluate_number(item.expression, m_documents);
      if (std::isnan(key.value()))
        throw Error(ErrorKind::input, "items: '" + item.expression + "' is not a number (NaN), so it has no place");
      items.emplace_back(key, with_values(item.label, ask.line));
    }
    const bool descending = ask.descending && !ask.items[0].expression.empty();
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return descending ? b.first < a.first : a.first < b.first; });
    for (std::size_t n = 0; n < items.size(); ++n) {
      if (n > 0 && items[n].first == items[n - 1].first)
        fault(ask.line,
              "items: '" + items[n].second + "' and '" + items[n - 1].second + "' are equal, so no order is right");
      question.right_items.push_back(items[n].second);
    }
    for (const LessonAsk::Mistake& mistake : ask.mistakes)
      question.mistake_pairs.emplace_back(with_values(mistake.answer, ask.line), with_values(mistake.before, ask.line));
    question.items = question.right_items;
    const std::set<std::string> different(question.items.begin(), question.items.end());
    if (different.size() != question.items.size())
      return fault(ask.line, "items: two of them read the same, so no order can be told from another");
    // Shuffled until it is not the right order already.
    for (std::string seed = m_open.lesson.id + "/" + ask.id; question.items == question.right_items; seed += "+") {
      question.items.clear();
      for (std::size_t at : shuffled(items.size(), seed)) question.items.push_back(items[at].second);
    }
  }

  /// An option or a label is plain text in which values may stand.
  std::string with_values(const std::string& label, int line) {
    const LessonText spans = parse_lesson_text(label, m_open.lesson.file, line);
    text(spans);
    return m_open.plain(spans);
  }

  OpenLesson& m_open;
  Documents m_documents;
};

}  // namespace

std::string OpenLesson::value(const std::string& text) const {
  const auto found = values.find(text);
  return found == values.end() ? "(not known)" : found->second;
}

std::string OpenLesson::plain(const LessonText& text) const {
  std::string out;
  for (const LessonSpan& span : text) out += span.kind == LessonSpan::Kind::value ? value(span.text) : span.text;
  return out;
}

OpenLesson open_lesson(Lesson lesson, const LessonLibrary& library, const LessonEngine& engine,
                       const StillWanted& progress) {
  OpenLesson open;
  open.lesson = std::move(lesson);
  Opener opener(open);
  std::size_t done = 0;
  for (const LessonRun& run : open.lesson.runs) {
    const auto still_wanted = [&](double share) {
      return !progress || progress((static_cast<double>(done) + share) / static_cast<double>(open.lesson.runs.size()));
    };
    const auto stop_if_unwanted = [&] {
      if (!still_wanted(0)) throw Error(ErrorKind::internal, "cancelled");
    };
    stop_if_unwanted();
    opener.guarded(run.line, [&] {
      try {
        open.runs[run.name] = engine(run, library, still_wanted);
      } catch (const Error& error) {
        throw Error(ErrorKind::input, "run " + run.name + ": " + error.what());
      }
    });
    stop_if_unwanted();  // a cancelled run is no fault of the lesson
    ++done;
  }
  opener.claims();
  opener.texts();
  opener.questions();
  return open;
}

Json graded_report(const OpenLesson& open, const Json& answers, const std::string& file) {
  const Lesson& lesson = open.lesson;
  if (!answers.is_object()) throw Error(ErrorKind::input, file + ": answers: expected an object of question ids");
  for (const auto& [id, answer] : answers.items()) {
    const std::string& wanted = id;
    if (std::none_of(lesson.asks.begin(), lesson.asks.end(), [&](const LessonAsk& ask) { return ask.id == wanted; })) {
      std::string ids;
      for (const LessonAsk& ask : lesson.asks) ids += (ids.empty() ? "" : ", ") + ask.id;
      throw Error(ErrorKind::input,
                  file + ": answers: '" + wanted + "' is not one of the questions " + ids + " of " + lesson.name);
    }
  }
  Json asks = Json::array();
  int counted = 0, answered = 0, right = 0;
  for (std::size_t n = 0; n < lesson.asks.size(); ++n) {
    const LessonAsk& ask = lesson.asks[n];
    const Question& question = open.questions[n];
    static const char* kinds[] = {"number", "choice", "order"};
    Json entry = {{"id", ask.id},
                  {"kind", kinds[static_cast<int>(ask.kind)]},
                  {"predict", ask.predict},
                  {"question", open.plain(ask.question)}};
    Grade grade;
    const auto given = answers.find(ask.id);
    const bool has_answer = question.unknown.empty() && given != answers.end() && !given->is_null();
    if (has_answer) {
      entry["answer"] = *given;
      const std::string where = file + ": answers." + ask.id;
      if (ask.kind == LessonAsk::Kind::order) {
        std::vector<std::string> items;
        for (const Json& item : given->is_array() ? *given : Json::array({nullptr})) {
          if (!item.is_string()) throw Error(ErrorKind::input, where + ": expected a list of texts");
          items.push_back(item.get<std::string>());
        }
        grade = grade_order(question, items);
      } else {
        if (!given->is_string() && !given->is_number())
          throw Error(ErrorKind::input, where + ": expected a text or a number");
        const std::string text = given->is_string() ? given->get<std::string>() : given->dump();
        grade = ask.kind == LessonAsk::Kind::number ? grade_number(question, text) : grade_choice(question, text);
      }
    }
    static const char* verdicts[] = {"right", "wrong", "unreadable"};
    const bool is_right = has_answer && grade.verdict == Grade::Verdict::right;
    entry["verdict"] = !question.unknown.empty() ? "unavailable"
                       : !has_answer             ? "unanswered"
                       : ask.predict && grade.verdict != Grade::Verdict::unreadable
                           ? "predicted"
                           : verdicts[static_cast<int>(grade.verdict)];
    entry["expected"] = question.unknown.empty() ? question.right_text() : "unavailable (" + question.unknown + ")";
    if (!grade.reading.empty()) entry["reading"] = grade.reading;
    if (!grade.note.empty()) entry["note"] = grade.note;
    if (grade.mistake >= 0) {
      const std::string say = open.plain(ask.mistakes[static_cast<std::size_t>(grade.mistake)].say);
      if (!say.empty()) entry["mistake"] = say;
    }
    entry["reason"] = open.plain(ask.reason);
    if (!ask.predict && question.unknown.empty()) {
      ++counted;
      right += is_right;
      entry["score"] = is_right ? 1 : 0;
    }
    answered += has_answer;
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
