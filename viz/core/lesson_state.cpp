#include "viz/core/lesson_state.h"

#include <algorithm>

namespace flashscope::viz {
namespace {

/// Done: the last step was reached and each question that counts is closed by a right answer.
bool is_done(const Lesson& lesson, const LessonProgress& progress) {
  if (progress.furthest + 1 < static_cast<int>(lesson.steps.size())) return false;
  return std::all_of(lesson.asks.begin(), lesson.asks.end(), [&](const LessonAsk& ask) {
    const auto answer = progress.answers.find(ask.id);
    return ask.predict || (answer != progress.answers.end() && answer->second.right);
  });
}

void note(LearnState& state, const Lesson& lesson, const std::string& id) {
  LessonProgress& progress = state.progress[lesson.id];
  const AskState& ask = state.asks[id];
  AnswerProgress& answer = progress.answers[id];
  answer.tries = std::max(answer.tries, ask.tries);
  answer.revealed = answer.revealed || ask.revealed;
  if (ask.right && !answer.right) {
    answer.right = true;
    // Found after it was shown: an answer, and no points.
    if (!answer.revealed) answer.score_tenths = score_tenths(ask.tries);
  }
  progress.done = progress.done || is_done(lesson, progress);
}

}  // namespace

AskState ask_state(const LearnState& state, const std::string& id) {
  const auto found = state.asks.find(id);
  return found == state.asks.end() ? AskState{} : found->second;
}

LearnState go_to_lesson(LearnState state, const Lesson* lesson) {
  state.lesson = lesson ? lesson->id : "";
  state.asks.clear();
  state.step = 0;
  if (!lesson) return state;
  const auto known = state.progress.find(lesson->id);
  if (known == state.progress.end()) return go_to_step(std::move(state), *lesson, 0);
  for (const auto& [id, answer] : known->second.answers) {
    AskState& ask = state.asks[id];
    ask.tries = answer.tries;
    ask.right = answer.right;
    ask.revealed = answer.revealed;
  }
  const int step = known->second.step;
  return go_to_step(std::move(state), *lesson, step);
}

LearnState go_to_step(LearnState state, const Lesson& lesson, int step) {
  state.step = std::clamp(step, 0, std::max(0, static_cast<int>(lesson.steps.size()) - 1));
  if (state.lecturer) return state;  // showing a lesson is not taking it
  LessonProgress& progress = state.progress[lesson.id];
  progress.step = state.step;
  progress.furthest = std::max(progress.furthest, state.step);
  progress.done = progress.done || is_done(lesson, progress);
  return state;
}

Grade grade_of(const Question& question, const AskState& answer) {
  switch (question.kind) {
    case LessonAsk::Kind::number: return grade_number(question, answer.typed);
    case LessonAsk::Kind::choice: return grade_choice(question, answer.chosen);
    case LessonAsk::Kind::order: break;
  }
  return grade_order(question, answer.order.empty() ? question.items : answer.order);
}

LearnState submit(LearnState state, const OpenLesson& open, std::size_t index) {
  const LessonAsk& ask = open.lesson.asks[index];
  const Question& question = open.questions[index];
  AskState& answer = state.asks[ask.id];
  if (answer.right) return state;
  const Grade::Verdict verdict = grade_of(question, answer).verdict;
  answer.graded = true;
  if (verdict == Grade::Verdict::unreadable) return state;
  ++answer.tries;
  if (ask.predict)
    answer.revealed = true;
  else
    answer.right = verdict == Grade::Verdict::right;
  if (!state.lecturer) note(state, open.lesson, ask.id);
  return state;
}

LearnState show_hint(LearnState state, const OpenLesson& open, std::size_t index) {
  const LessonAsk& ask = open.lesson.asks[index];
  AskState& answer = state.asks[ask.id];
  answer.hints = std::min(answer.hints + 1, static_cast<int>(ask.hints.size()));
  return state;
}

LearnState reveal(LearnState state, const OpenLesson& open, std::size_t index) {
  const LessonAsk& ask = open.lesson.asks[index];
  state.asks[ask.id].revealed = true;
  if (!state.lecturer) note(state, open.lesson, ask.id);
  return state;
}

LearnState move_item(LearnState state, const OpenLesson& open, std::size_t index, std::size_t item, int by) {
  AskState& answer = state.asks[open.lesson.asks[index].id];
  if (answer.order.empty()) answer.order = open.questions[index].items;
  const std::size_t to = item + static_cast<std::size_t>(by);
  if (item < answer.order.size() && to < answer.order.size()) std::swap(answer.order[item], answer.order[to]);
  answer.graded = false;
  return state;
}

}  // namespace flashscope::viz
