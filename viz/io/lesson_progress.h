// What a learner has done, kept between starts. Nothing that was reached is ever lost by saving: two windows, an older
// program, a file that was cut off or cannot be read for the moment.
#pragma once
#include <map>
#include <string>

namespace flashscope {

struct AnswerProgress {
  int tries = 0;
  bool right = false;
  bool revealed = false;  // the answer was shown before it was found
  int score_tenths = 0;   // of a point
  bool operator==(const AnswerProgress&) const = default;
};

struct LessonProgress {
  int step = 0;      // where the learner left, from 0
  int furthest = 0;  // the last step seen
  bool done = false;
  std::map<std::string, AnswerProgress> answers;  // by question id
  bool operator==(const LessonProgress&) const = default;
};

/// By lesson id, not by file name: renaming or reordering lessons keeps the ticks. Ids of lessons that no longer exist
/// stay.
using Progress = std::map<std::string, LessonProgress>;

/// The union: the further step, the better answer. `step` is that of `newer`.
Progress merged(const Progress& older, const Progress& newer);

/// $XDG_DATA_HOME/flashscope/progress.json, or below $HOME/.local/share; "" when neither is set.
std::string progress_path();

/// Empty at the first start. A file that makes no sense is kept as *.bak (or *.bak2 …: none is replaced) and the one
/// before it (*.previous) is used, also at later starts until something is saved; one that cannot be read is left alone.
/// Each is told in `notice`.
Progress load_progress(const std::string& path, std::string& notice);

/// Writes the union of `progress` and what the file holds now, with the keys there that are not known here. Returns a
/// notice when it could not, else "": what cannot be read is never written over, and another process is waited for at
/// most 200 ms.
std::string save_progress(const std::string& path, const Progress& progress);

}  // namespace flashscope
