#include "viz/core/lesson_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "sim/error.h"
#include "viz/core/lesson_show.h"
#include "viz/core/lesson_terms.h"
#include "viz/core/lesson_values.h"
#include "viz/core/scene.h"
#include "viz/core/session.h"
#include "viz/io/machine_io.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

using Verdict = Grade::Verdict;

class Checker {
 public:
  Checker(const OpenLesson& open, const LessonLibrary& library) : m_open(open), m_library(library) {}

  LessonCheck run() {
    const Lesson& lesson = m_open.lesson;
    m_check.name = lesson.name;
    m_check.title = lesson.title;
    m_check.faults = m_open.faults;
    m_check.steps = static_cast<int>(lesson.steps.size());
    m_check.runs = static_cast<int>(lesson.runs.size());
    m_check.values = static_cast<int>(m_open.values.size());
    m_check.claims = static_cast<int>(lesson.claims.size());
    m_check.shows = static_cast<int>(lesson.shows.size());
    m_check.asks = static_cast<int>(lesson.asks.size());
    steps();
    for_each_text(lesson, [&](const LessonText& text) { spans(text); });
    for (std::size_t n = 0; n < lesson.asks.size(); ++n) answers(lesson.asks[n], m_open.questions[n]);
    for (const LessonShow& show : lesson.shows) stage(show);
    last_question();
    reading();
    return std::move(m_check);
  }

 private:
  void fault(int line, const std::string& text) {
    m_check.faults.push_back(m_open.lesson.file + ":" + std::to_string(line) + ": " + text);
  }

  void steps() {
    std::set<std::string> titles;
    for (const LessonStep& step : m_open.lesson.steps) {
      if (step.title.empty()) fault(step.line, "this step has no title");
      if (!titles.insert(step.title).second) fault(step.line, "a second step is called '" + step.title + "'");
      if (step.blocks.empty()) fault(step.line, "this step is empty");
    }
  }

  void spans(const LessonText& text) {
    for (const LessonSpan& span : text) {
      const std::string& target = span.target;
      switch (span.kind) {
        case LessonSpan::Kind::term:
          if (!find_term(target) && !m_open.lesson.terms.count(target))
            fault(span.line, "[[" + target + "]] is no known term; explain it under [terms] in the front matter");
          break;
        case LessonSpan::Kind::link:
          if (is_link_address(target) && !is_inside_folder(target)) break;  // of the web: not fetched
          [[fallthrough]];
        case LessonSpan::Kind::image:
          if (!is_inside_folder(target))
            fault(span.line, "'" + target + "' is outside the lesson's folder");
          else if (!m_library.has(target))
            fault(span.line, "'" + target + "' is not in the lesson's folder");
          else if (span.kind == LessonSpan::Kind::image)
            picture(span);
          break;
        default: break;
      }
    }
  }

  /// A file called .png that is none shows nothing, and says so nowhere.
  void picture(const LessonSpan& span) {
    const std::string& file = span.target;
    const bool is_called_png = file.size() > 4 && file.compare(file.size() - 4, 4, ".png") == 0;
    if (is_called_png && m_library.bytes(file).compare(0, 8, "\x89PNG\r\n\x1a\n") != 0)
      fault(span.line, "'" + file + "' is no PNG picture");
  }

  void expect(const LessonAsk& ask, const Grade& grade, Verdict wanted, const std::string& answer) {
    if (grade.verdict == wanted) return;
    fault(ask.line, "question " + ask.id + ": the answer '" + answer + "' is graded " + name_of(grade.verdict) +
                        " instead of " + name_of(wanted));
  }

  void answers(const LessonAsk& ask, const Question& question) {
    if (!question.unknown.empty()) return;  // told already
    if (ask.kind == LessonAsk::Kind::number) return number(ask, question);
    if (ask.kind == LessonAsk::Kind::choice) {
      expect(ask, grade_choice(question, question.right_option), Verdict::right, question.right_option);
      for (const std::string& option : question.mistake_options)
        expect(ask, grade_choice(question, option), Verdict::wrong, option);
      return;
    }
    if (question.right_items.empty()) return;  // its expressions failed, which is told already
    std::vector<std::string> reversed = question.right_items;
    std::reverse(reversed.begin(), reversed.end());
    expect(ask, grade_order(question, question.right_items), Verdict::right, question.right_text());
    expect(ask, grade_order(question, reversed), Verdict::wrong, "the reverse");
    expect(ask, grade_order(question, question.items), Verdict::wrong, "the order shown");
    const auto place = [&](const std::string& item) {
      return std::find(question.right_items.begin(), question.right_items.end(), item) - question.right_items.begin();
    };
    for (const auto& [first, second] : question.mistake_pairs)
      if (place(first) <= place(second))
        fault(ask.line,
              "question " + ask.id + ": '" + first + "' does stand before '" + second + "', so it is no mistake");
  }

  void number(const LessonAsk& ask, const Question& question) {
    const std::string shown = question.right_text();
    expect(ask, grade_number(question, shown), Verdict::right, shown);
    if (question.right.is_whole()) {
      const std::string digits = std::to_string(question.right.whole());
      expect(ask, grade_number(question, digits), Verdict::right, digits);
    }
    Question off = question;
    // Off by more than all of it, away from zero: never the right answer, whatever its sign. Zero where that overflows.
    const Number& scale = question.unit.scale;
    off.right = question.right * Number(2) + (question.right < Number(0) ? -scale : scale);
    if (!std::isfinite(off.right.value())) off.right = Number(0);
    const std::string wrong = quantity_text(off.right, question.unit);
    expect(ask, grade_number(question, wrong), Verdict::wrong, wrong);
    for (std::size_t n = 0; n < question.mistakes.size(); ++n) {
      // Without separators, which may be decimal commas to somebody: "2,518 ms" where 2.518 ms is right.
      std::string mistake = quantity_text(question.mistakes[n], question.unit);
      mistake.erase(std::remove(mistake.begin(), mistake.end(), ','), mistake.end());
      const Grade grade = grade_number(question, mistake);
      expect(ask, grade, Verdict::wrong, mistake);
      if (grade.verdict == Verdict::wrong && grade.mistake != static_cast<int>(n))
        fault(ask.line, "question " + ask.id + ": the mistake '" + mistake + "' is taken for another one");
    }
  }

  void stage(const LessonShow& show) {
    if (!show.point.empty() && !find_term(show.point)) fault(show.line, "point: '" + show.point + "' is no known term");
    using Panel = LessonShow::Panel;
    try {
      if (show.panel == Panel::softmax) {
        if (softmax_steps(softmax_of(m_open, show)).naive_exp.empty()) fault(show.line, "the panel has no key");
        return;
      }
      if (show.panel == Panel::occupancy) {
        for (const OccupancyRow& row : occupancy_of(m_open, show))
          if (row.ctas_per_sm == 0) fault(show.line, "runs: no CTA of " + row.kernel + " fits on an SM");
        return;
      }
      const Settings settings = stage_settings(m_open, show);
      if (show.panel == Panel::sweep) sweep_of(m_open, show);
      if (!show.has_stage()) return;
      StageTraces traces;
      for (std::size_t n = 0; n < show.runs.size(); ++n) traces.push_back(traced(settings, settings.algorithms[n]));
      const Picoseconds t = moment_of(m_open.lesson, show, traces);
      for (std::size_t n = 0; n < show.runs.size(); ++n) {
        if (make_scene(*traces[n], t, 2).maps.empty()) fault(show.line, "the stage of '" + show.runs[n] + "' is empty");
      }
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::string here = m_open.lesson.file + ":";
      m_check.faults.push_back(text.rfind(here, 0) == 0 ? text : here + std::to_string(show.line) + ": " + text);
    }
  }

  std::shared_ptr<const StageTrace> traced(const Settings& settings, const std::string& algorithm) {
    for (const auto& [known, name, trace] : m_traces)
      if (known == settings && name == algorithm) return trace;
    const Machine machine = load_machine(settings.gpu);
    m_traces.emplace_back(
        settings, algorithm,
        trace_stage(algorithm, stage_problem(settings, kMaxStageOps), settings.tile, machine, settings.start));
    return std::get<2>(m_traces.back());
  }

  void last_question() {
    const Lesson& lesson = m_open.lesson;
    const bool asked = std::any_of(lesson.asks.begin(), lesson.asks.end(), [&](const LessonAsk& ask) {
      return ask.step + 1 == lesson.steps.size() && !ask.predict;
    });
    if (!asked) fault(lesson.steps.back().line, "the last step asks nothing; a lesson ends with a question");
  }

  void reading() {
    std::string text;
    for (const LessonStep& step : m_open.lesson.steps)
      for (const LessonBlock& block : step.blocks) {
        if (!block.text.empty()) text += m_open.plain(block.text) + ".\n";
        if (block.kind != LessonBlock::Kind::ask) continue;
        const LessonAsk& ask = m_open.lesson.asks[block.index];
        text += m_open.plain(ask.question) + "\n" + m_open.plain(ask.reason) + "\n";
      }
    const Readability prose = readability(text);
    m_check.words = prose.words;
    m_check.reading_ease = prose.ease();
    m_check.minutes = prose.words / 180.0 + 0.75 * m_check.asks + 0.3 * m_check.shows;
  }

  const OpenLesson& m_open;
  const LessonLibrary& m_library;
  LessonCheck m_check;
  std::vector<std::tuple<Settings, std::string, std::shared_ptr<const StageTrace>>> m_traces;
};

/// Groups of vowels, a silent e at the end left out: good enough to compare texts.
int syllables_of(const std::string& word) {
  int count = 0;
  bool before = false;
  for (char c : word) {
    const bool vowel = std::string("aeiouyAEIOUY").find(c) != std::string::npos;
    count += vowel && !before;
    before = vowel;
  }
  if (count > 1 && (word.back() == 'e' || word.back() == 'E')) --count;
  return std::max(1, count);
}

}  // namespace

Readability readability(const std::string& text) {
  Readability result;
  std::string word;
  bool open_sentence = false;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : '\n';
    if (is_letter(c) || (c == '\'' && !word.empty())) {
      word += c;
      continue;
    }
    if (!word.empty()) {
      ++result.words;
      result.syllables += syllables_of(word);
      word.clear();
      open_sentence = true;
    }
    // A point between digits ends nothing.
    const bool ends = c == '.' || c == '!' || c == '?' || c == ':';
    const bool at_word_end = at + 1 >= text.size() || text[at + 1] == ' ' || text[at + 1] == '\n';
    if (ends && at_word_end && open_sentence) {
      ++result.sentences;
      open_sentence = false;
    }
  }
  result.sentences += open_sentence;
  return result;
}

double Readability::ease() const {
  if (words == 0) return 0;
  const double length = static_cast<double>(words) / std::max(1, sentences);
  return 206.835 - 1.015 * length - 84.6 * syllables / words;
}

LessonCheck check_lesson(const OpenLesson& open, const LessonLibrary& library) { return Checker(open, library).run(); }

}  // namespace flashscope::viz
