// Where a learner is: a value that is part of the window's state, and what each action makes of it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "viz/core/lesson_runtime.h"
#include "viz/io/lesson_progress.h"

namespace flashscope::viz {

/// One question, as far as the learner has got with it.
struct AskState {
  std::string typed;               // number
  std::string chosen;              // choice
  std::vector<std::string> order;  // order; empty: as shown
  int hints = 0;                   // that are shown
  int tries = 0;
  bool right = false;
  bool revealed = false;  // the answer is shown
  bool graded = false;    // it is graded as it stands (grade_of), and not changed since
  bool operator==(const AskState&) const = default;
  /// Reason and answer are shown.
  bool closed() const { return right || revealed; }
};

struct LearnState {
  std::string lesson;  // id; "": the list of lessons
  int step = 0;
  bool lecturer = false;                 // every answer shown, no progress kept
  std::map<std::string, AskState> asks;  // by id, of this lesson
  Progress progress;                     // of all lessons
  std::string followed;                  // the show that the stage has; "": the step's is to be shown (again)
  bool seeking = false;                  // its moment is not reached yet, because the stage is being computed
  bool sweeping = false;                 // the step's picture is a sweep, which the session is to be asked for
  bool operator==(const LearnState&) const = default;
};

/// Opens a lesson where the learner left it; "" goes to the list.
LearnState go_to_lesson(LearnState state, const Lesson* lesson);
/// Any step, clamped; notes it in the progress. Going back lowers nothing.
LearnState go_to_step(LearnState state, const Lesson& lesson, int step);

/// What the answer's grading says.
Grade grade_of(const Question& question, const AskState& answer);
/// Grades what is typed, chosen or ordered. What cannot be read is no try.
LearnState submit(LearnState state, const OpenLesson& open, std::size_t ask);
LearnState show_hint(LearnState state, const OpenLesson& open, std::size_t ask);
LearnState reveal(LearnState state, const OpenLesson& open, std::size_t ask);
/// Moves an item of an order up (-1) or down (1).
LearnState move_item(LearnState state, const OpenLesson& open, std::size_t ask, std::size_t item, int by);

/// The state of a question; a fresh one where nothing was done.
AskState ask_state(const LearnState& state, const std::string& id);

}  // namespace flashscope::viz
