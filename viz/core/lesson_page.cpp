#include "viz/core/lesson_page.h"

#include <algorithm>

#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

PageSpan page_span(const OpenLesson& open, const LessonSpan& span) {
  using Kind = LessonSpan::Kind;
  using Style = PageSpan::Style;
  switch (span.kind) {
    case Kind::text: return {Style::text, span.text};
    case Kind::strong: return {Style::strong, span.text};
    case Kind::emphasis: return {Style::emphasis, span.text};
    case Kind::code: return {Style::code, span.text};
    case Kind::value: return {Style::value, open.value(span.text), span.text};
    case Kind::link:
      if (!is_link_address(span.target)) return {Style::text, span.text};
      return {Style::link, span.text, "", span.target};
    case Kind::image: return {Style::emphasis, span.text, "", span.target};
    case Kind::term: break;
  }
  const Term* term = find_term(span.target);
  const auto own = open.lesson.terms.find(span.target);
  return {Style::term, span.text, own != open.lesson.terms.end() ? own->second : term ? term->meaning : "", "", term};
}

}  // namespace

PageText page_text(const OpenLesson& open, const LessonText& text) {
  PageText page;
  std::string before;
  for (const LessonSpan& span : text) {
    page.push_back(page_span(open, span));
    if (page.back().style == PageSpan::Style::code) continue;
    page.back().text = kept_together(page.back().text, before);
    before = page.back().text;
  }
  return page;
}

PageText plain(const std::string& text) { return {{PageSpan::Style::text, kept_together(text)}}; }

namespace {

/// "You said 30 MB; it is 8.91 MB." Of options the list itself shows which one is right.
std::string compared(const Question& question, const AskState& state) {
  if (question.kind == LessonAsk::Kind::choice) {
    if (state.chosen.empty()) return "The tick marks the answer.";
    return state.chosen == question.right_option ? "As you guessed."
                                                 : "Not what you guessed: the tick marks the answer.";
  }
  const std::string said = question.kind == LessonAsk::Kind::number ? state.typed : "";
  return (said.empty() ? "It is " : "You said " + said + "; it is ") + question.right_text() + ".";
}

PageAsk page_ask(const OpenLesson& open, const LearnState& learn, std::size_t index) {
  const LessonAsk& ask = open.lesson.asks[index];
  const Question& question = open.questions[index];
  PageAsk page;
  page.index = index;
  page.kind = ask.kind;
  page.predict = ask.predict;
  page.question = page_text(open, ask.question);
  page.unit = question.unit.name;
  page.options = question.options;
  page.state = ask_state(learn, ask.id);
  page.items = page.state.order.empty() ? question.items : page.state.order;
  page.closed = page.state.closed() || learn.lecturer;
  for (int n = 0; n < page.state.hints; ++n)
    page.hints.push_back(page_text(open, ask.hints[static_cast<std::size_t>(n)]));
  page.more_hints = !page.closed && page.state.hints < static_cast<int>(ask.hints.size());
  const Grade grade = page.state.graded ? grade_of(question, page.state) : Grade{};
  if (page.state.right) {
    page.verdict = page.state.tries > 1 ? "Right, at try " + std::to_string(page.state.tries) + "." : "Right.";
    page.good = true;
  } else if (page.predict && page.state.revealed) {
    page.verdict = compared(question, page.state);
    page.good = page.state.graded && grade.verdict == Grade::Verdict::right;
  } else if (page.state.graded) {
    page.verdict = grade.verdict == Grade::Verdict::unreadable || page.state.revealed ? "" : "Not yet.";
  }
  const bool says_nothing = grade.mistake < 0 && grade.note.empty() && page.verdict == "Not yet.";
  if (says_nothing && grade.side != 0) page.verdict = grade.side < 0 ? "Not yet: too small." : "Not yet: too large.";
  if (page.state.graded) {
    if (grade.mistake >= 0) page.remark = page_text(open, ask.mistakes[static_cast<std::size_t>(grade.mistake)].say);
    if (page.remark.empty() && !grade.note.empty()) page.remark = plain(grade.note);
    if (!grade.reading.empty())
      page.remark.insert(page.remark.begin(),
                         {PageSpan::Style::text, grade.reading + (page.remark.empty() ? "" : " ")});
  }
  if (page.closed) {
    page.answer = question.right_text();
    // Said once: not again where the verdict has it, or where the options show it.
    page.says_answer =
        !page.state.right && page.kind != LessonAsk::Kind::choice && !(page.predict && page.state.revealed);
    page.reason = page_text(open, ask.reason);
  }
  return page;
}

}  // namespace

LessonPage lesson_page(const OpenLesson& open, const LearnState& state) {
  const Lesson& lesson = open.lesson;
  const LessonStep& step = lesson.steps[std::min(static_cast<std::size_t>(state.step), lesson.steps.size() - 1)];
  LessonPage page;
  page.title = kept_together(step.title);
  for (const LessonBlock& from : step.blocks) {
    PageBlock block;
    block.kind = from.kind;
    block.text = page_text(open, from.text);
    block.code = from.code;
    block.number = from.number;
    block.index = from.index;
    for (const auto& row : from.table) {
      block.table.emplace_back();
      for (const LessonText& cell : row) block.table.back().push_back(page_text(open, cell));
    }
    if (from.kind == LessonBlock::Kind::image) {
      const std::string& file = from.text[0].target;
      if (open.pictures.count(file))
        block.picture = file;
      else
        block.text = plain("[picture " + file + " is missing: " + from.text[0].text + "]");
    }
    if (from.kind == LessonBlock::Kind::show && !lesson.shows[from.index].point.empty()) {
      const std::string& point = lesson.shows[from.index].point;
      block.text = page_text(open, {{LessonSpan::Kind::text, "Look at ", "", from.line},
                                    {LessonSpan::Kind::term, point, point, from.line}});
    }
    if (from.kind == LessonBlock::Kind::ask) block.ask = page_ask(open, state, from.index);
    page.waits = block.ask.predict && !block.ask.closed;
    page.blocks.push_back(std::move(block));
    if (page.waits) break;
  }
  return page;
}

std::vector<LessonEntry> lesson_entries(const std::vector<Lesson>& lessons, const Progress& progress) {
  std::vector<LessonEntry> entries;
  for (const Lesson& lesson : lessons) {
    LessonEntry entry;
    entry.lesson = &lesson;
    entry.steps = static_cast<int>(lesson.steps.size());
    if (const auto known = progress.find(lesson.id); known != progress.end()) {
      entry.done = known->second.done;
      entry.step = known->second.furthest + 1;
    }
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace flashscope::viz
