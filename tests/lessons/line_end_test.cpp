// Where a line of a lesson may not end: between a number and its unit.
#include <doctest/doctest.h>

#include <regex>

#include "support.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/lesson_page.h"
#include "viz/core/text.h"
#include "viz/io/toml.h"

namespace flashscope::viz {
namespace {

#define NB "\u00a0"

TEST_CASE("a number and its unit are kept together, and nothing else is") {
  const std::pair<const char*, const char*> cases[] = {
      {"it is 8.91 MB.", "it is 8.91" NB "MB."},
      {"98.4 % of it", "98.4" NB "% of it"},
      {"4,456,448 bytes, or 4.25 MiB", "4,456,448" NB "bytes, or 4.25" NB "MiB"},
      {"2.1 × as much", "2.1" NB "× as much"},
      {"1.11 × 10⁻¹⁶ is", "1.11" NB "×" NB "10⁻¹⁶ is"},
      {"64 × 64 tiles", "64" NB "×" NB "64 tiles"},
      {"√(141 GB ÷ 128 B)", "√(141" NB "GB ÷ 128" NB "B)"},
      {"(−3.5 µs)", "(−3.5" NB "µs)"},
      {"about 4 million B/s", "about 4" NB "million B/s"},
      {"with d = 64, Br = 128:", "with d" NB "=" NB "64, Br" NB "=" NB "128:"},
      {"for N = ", "for N" NB "=" NB},
      {"8 MB = two pages", "8" NB "MB = two pages"},
      {"l = rescale of it", "l" NB "= rescale of it"},
      {"In 2022, MB meant", "In 2022, MB meant"},
      {"step 3. s is", "step 3. s is"},
      {"two MB", "two MB"},
      {"K × V", "K × V"},
      {"", ""},
      {" 5  MB ", " 5 " NB "MB "},
  };
  for (const auto& [text, kept] : cases) {
    CAPTURE(std::string(text));
    CHECK(kept_together(text) == kept);
    CHECK(kept_together(kept_together(text)) == kept);
  }
  CHECK(kept_together(" MB of it", "it is 8.9") == NB "MB of it");  // the number stands in bold, the unit does not
  CHECK(kept_together("94.1 %", kept_together("N ÷ (N + d) = ")) == "94.1" NB "%");
  CHECK(kept_together(" MB of it", "in 3.") == " MB of it");
}

TEST_CASE("no line of a shipped lesson can end between a number and its unit" * doctest::skip(!can_read_toml())) {
  const LessonEngine counts = [engine = make_lesson_engine()](LessonRun run, const LessonLibrary& library,
                                                              const StillWanted& wanted) {
    run.timed = false;
    return engine(run, library, wanted);
  };
  const std::regex breakable("[0-9] ((B|kB|MB|GB|TB|KiB|MiB|bytes|ns|µs|ms|s|%|×|GB/s|TB/s|TFLOP/s)([ .,;:)]|$))");
  const LessonLibrary library = LessonLibrary::shipped();
  for (const Lesson& lesson : read_lessons(library).lessons) {
    const OpenLesson open = open_lesson(lesson, library, counts);
    for_each_text(lesson, [&](const LessonText& text) {
      std::string line;
      for (const PageSpan& span : page_text(open, text))
        line += span.style == PageSpan::Style::code ? "code" : span.text;
      CAPTURE(lesson.file);
      CAPTURE(line);
      CHECK_FALSE(std::regex_search(line, breakable));
    });
  }
}

}  // namespace
}  // namespace flashscope::viz
