// A lesson as a document: Markdown with TOML front matter, `##` steps, terms, computed values, and the fenced blocks
// run, claims, show and ask (docs/file-formats.md). Parsing computes nothing and checks what can be checked without
// running.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flashscope {

/// A run of text in one style. A term, a value and a link keep what they point at.
struct LessonSpan {
  enum class Kind : std::uint8_t { text, strong, emphasis, code, term, value, link, image };
  Kind kind = Kind::text;
  std::string text;    // shown; a value: its expression; an image: what stands in for it
  std::string target;  // term: its name; link, image: the address
  int line = 0;
};
using LessonText = std::vector<LessonSpan>;

struct LessonBlock {
  enum class Kind : std::uint8_t { paragraph, heading, bullet, numbered, quote, code, table, image, show, ask };
  Kind kind = Kind::paragraph;
  int line = 0;
  LessonText text;                             // paragraph, heading, bullet, numbered, quote, image
  std::string code;                            // code
  int number = 0;                              // numbered
  std::vector<std::vector<LessonText>> table;  // rows of cells; the first row is the heading
  std::size_t index = 0;                       // show, ask: of Lesson::shows, Lesson::asks
};

struct LessonStep {
  std::string title;
  int line = 0;
  std::vector<LessonBlock> blocks;
};

/// ```run NAME: a problem with the command line's option names, or a file of tensors to attend to.
struct LessonRun {
  std::string name;
  std::map<std::string, std::string> options;  // "seqlen" → "4096"; a flag → "true"; those of `like` included
  std::string tensors;                         // file in the lesson's folder: executed as `attend --steps` does
  bool timed = true;                           // false: counted alone, which is quick at any size
  int line = 0;
};

/// A line of a ```claims block: what the prose takes for granted.
struct LessonClaim {
  std::string expression;
  int line = 0;
};

/// ```show: what stands beside the text while the step is read: the stage at one moment, or an inspector in its place.
struct LessonShow {
  enum class Panel : std::uint8_t { stage, bytes, roofline, occupancy, memory, softmax, sweep };
  enum class View : std::uint8_t { one_sm, two_sms, gpu };
  std::vector<std::string> runs;  // one or two names of runs; occupancy: up to four
  std::string kernel;             // "" : any
  int cta = 0;
  int i = -1, j = -1;     // tile indices; -1: any
  std::string operation;  // "" : the start of the run; "load K", "store S", "online_softmax", …
  double moment = 0.5;    // share of the operation that has passed
  bool at_end = false;    // after everything
  std::string point;      // a term's name: what to look at
  Panel panel = Panel::stage;  // bytes: a stage and, beside it, predicted against recorded
  View view = View::two_sms;   // how much of the GPU the stage shows
  int zoom = 1;                // the timeline shows one of so many parts of the run, around the moment
  bool tall_timeline = false;  // the timeline in place of the stage, with the units of an SM
  std::string over, quantity;  // sweep: the parameter ("br") and what is drawn ("time"), as in the window
  std::size_t step = 0;
  int line = 0;
  bool has_stage() const { return panel == Panel::stage || panel == Panel::bytes; }
};

/// ```ask. Texts are Markdown with values.
struct LessonAsk {
  enum class Kind : std::uint8_t { number, choice, order };
  Kind kind = Kind::number;
  std::string id;        // "two-kernels", or "3.1": the first question of step 3
  bool predict = false;  // commit to an answer, then see: nothing is right or wrong
  LessonText question;
  std::vector<LessonText> hints;
  LessonText reason;
  // number
  std::string answer, unit, tolerance;
  // number: an expression and what went wrong; choice: a wrong option and why it is wrong; order: a label, another that
  // it must not stand before, and why
  struct Mistake {
    std::string answer;
    LessonText say;
    std::string before = {};  // order: the other label
  };
  std::vector<Mistake> mistakes;
  // choice
  std::string right;
  // order: labels in the right order, or with an expression each, by whose value they are sorted
  struct Item {
    std::string label, expression;
  };
  std::vector<Item> items;
  bool descending = false;
  std::size_t step = 0;
  int line = 0;
};

const char* name_of(LessonAsk::Kind kind);

struct Lesson {
  std::string file;  // "03-streaming-softmax.md"
  std::string name;  // the file's without ".md": what the command line takes
  std::string id;    // keeps a learner's progress when the file is renamed
  std::string title;
  std::string summary;
  int number = 0;
  std::map<std::string, std::string> terms;  // of this lesson alone: name → meaning
  std::vector<LessonStep> steps;
  std::vector<LessonRun> runs;
  std::vector<LessonClaim> claims;
  std::vector<LessonShow> shows;
  std::vector<LessonAsk> asks;
};

/// Calls `read` with each text of the lesson: those of the steps, then those of the questions. Options and labels are
/// no texts.
template <class Read>
void for_each_text(const Lesson& lesson, Read read) {
  for (const LessonStep& step : lesson.steps)
    for (const LessonBlock& block : step.blocks) {
      read(block.text);
      for (const auto& row : block.table)
        for (const LessonText& cell : row) read(cell);
    }
  for (const LessonAsk& ask : lesson.asks) {
    read(ask.question);
    read(ask.reason);
    for (const LessonText& hint : ask.hints) read(hint);
    for (const LessonAsk::Mistake& mistake : ask.mistakes) read(mistake.say);
  }
}

/// Throws Error(input) with file and line.
Lesson parse_lesson(std::string_view text, const std::string& file);

/// Inline Markdown: **strong**, *emphasis*, `code`, [text](address), ![text](address), [[term]], [[shown|term]],
/// {{ expression }}; a backslash takes the next character as it is. Throws Error(input) where one is not closed.
LessonText parse_lesson_text(std::string_view text, const std::string& file, int line);

/// What a link may lead to: a page of the web, or a file of the folder. Nothing that a browser would run.
bool is_link_address(const std::string& address);

/// True for a path below the lesson's folder: relative, without "..", without a scheme.
bool is_inside_folder(const std::string& path);

}  // namespace flashscope
