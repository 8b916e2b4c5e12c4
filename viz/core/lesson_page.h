// One step of a lesson as it is shown: text with its values in place, terms with their colour and meaning, questions
// with what the learner did. Plain values: the Learn panel and the exported page only draw them.
#pragma once
#include <string>
#include <vector>

#include "viz/core/lesson_state.h"
#include "viz/core/lesson_terms.h"

namespace flashscope::viz {

struct PageSpan {
  enum class Style : std::uint8_t { text, strong, emphasis, code, value, term, link };
  Style style = Style::text;
  std::string text = {};
  std::string tip = {};        // term: its meaning; value: its expression
  std::string target = {};     // link
  const Term* term = nullptr;  // with a colour when it is a thing of the stage
};
using PageText = std::vector<PageSpan>;

/// A text of the lesson with its values and terms in place, no line of which ends between a number and its unit.
PageText page_text(const OpenLesson& open, const LessonText& text);
/// A text of no style, likewise.
PageText plain(const std::string& text);

struct PageAsk {
  std::size_t index = 0;  // of Lesson::asks
  LessonAsk::Kind kind = LessonAsk::Kind::number;
  bool predict = false;
  PageText question;
  std::string unit;                  // number: what a number without a unit means
  std::vector<std::string> options;  // choice
  std::vector<std::string> items;    // order, as the learner has them now
  AskState state;
  std::vector<PageText> hints;  // those shown
  bool more_hints = false;
  std::string verdict;  // "Right.", "Not yet.", "You said 30 MB; it is 8.91 MB.", "" when not graded
  bool good = false;    // the verdict is a happy one
  PageText remark;      // on the mistake or on what was typed
  bool closed = false;  // answer and reason are shown
  std::string answer;
  bool says_answer = false;  // it is to be written out: neither the verdict nor the options show it
  PageText reason;
};

struct PageBlock {
  LessonBlock::Kind kind = LessonBlock::Kind::paragraph;
  PageText text;
  std::string code;
  int number = 0;
  std::vector<std::vector<PageText>> table;
  std::string picture;    // image: its file; "" when it is missing, which the text then says
  std::size_t index = 0;  // show, ask: of the lesson's lists
  PageAsk ask;
};

struct LessonPage {
  std::string title;
  std::vector<PageBlock> blocks;
  bool waits = false;  // the blocks end with a prediction that is not made yet: what follows would give it away
};

/// The step that `state` has, or the last.
LessonPage lesson_page(const OpenLesson& open, const LearnState& state);

/// A line of the list of lessons.
struct LessonEntry {
  const Lesson* lesson = nullptr;
  bool done = false;
  int step = 0, steps = 0;  // furthest step seen, from 1; 0: not begun
};
std::vector<LessonEntry> lesson_entries(const std::vector<Lesson>& lessons, const Progress& progress);

}  // namespace flashscope::viz
