#include "viz/core/lesson_runtime.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/error.h"
#include "viz/core/lesson_values.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

std::string place(const Lesson& lesson, int line) { return lesson.file + ":" + std::to_string(line) + ": "; }

/// Opens a lesson part by part; each part that fails leaves a fault.
class Opener {
 public:
  Opener(OpenLesson& open) : m_open(open) {
    m_documents = [this](const std::string& name) -> const Json& { return *m_open.run(name).document; };
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

  void texts(const LessonLibrary& library) {
    for_each_text(m_open.lesson, [&](const LessonText& spans) {
      text(spans);
      for (const LessonSpan& span : spans)
        if (span.kind == LessonSpan::Kind::image && library.has(span.target)) m_open.pictures.insert(span.target);
    });
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
        question.guess = ask.predict;
        question.unit = unit_or_label(ask.unit);
        question.tolerance = parse_tolerance(ask.tolerance);
        question.right = evaluate_number(ask.answer, m_documents);
        if (std::isnan(question.right.value()))
          throw Error(ErrorKind::input, "answer: '" + ask.answer + "' is not a number (NaN), so nothing is right");
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
        if (different(options) != options.size()) fault(ask.line, "two options read the same");
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
    if (different(question.items) != question.items.size())
      return fault(ask.line, "items: two of them read the same, so no order can be told from another");
    // Shuffled until it is not the right order already.
    for (std::string seed = m_open.lesson.id + "/" + ask.id; question.items == question.right_items; seed += "+") {
      question.items.clear();
      for (std::size_t at : shuffled(items.size(), seed)) question.items.push_back(items[at].second);
    }
  }

  /// How many of the texts can be told from each other in an answer.
  static std::size_t different(const std::vector<std::string>& texts) {
    std::set<std::string> compared;
    for (const std::string& text : texts) compared.insert(as_compared(text));
    return compared.size();
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

const RunFacts& OpenLesson::run(const std::string& name) const {
  const auto found = runs.find(name);
  if (found != runs.end()) return found->second;
  std::string names;
  for (const LessonRun& other : lesson.runs) {
    if (other.name == name)
      throw Error(ErrorKind::input, "'" + name + "' could not be predicted; its own line says why");
    names += (names.empty() ? "" : ", ") + other.name;
  }
  throw Error(ErrorKind::input, "'" + name + "' is not one of the runs " + (names.empty() ? "(there is none)" : names));
}

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
  opener.texts(library);
  opener.questions();
  return open;
}

}  // namespace flashscope::viz
