// Every step of every lesson as it is seen on a projector, for the eye: pictures that nobody looked at are not shown.
//   FLASHSCOPE_LESSON_PICTURES=FOLDER test_window -tc="pictures*"
// writes FOLDER/LESSON-STEP-WIDTH-THEME.png; FLASHSCOPE_LESSON_PICTURES_OF=1280-light takes one size and theme only.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "viz/app/learn_view.h"
#include "viz/app/offscreen.h"
#include "viz/app/shipped.h"
#include "viz/app/window.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/lesson_session.h"
#include "viz/io/toml.h"

using namespace flashscope;
using namespace flashscope::viz;

TEST_CASE("pictures of every step of every lesson" *
          doctest::skip(!can_read_toml() || !std::getenv("FLASHSCOPE_LESSON_PICTURES"))) {
  const std::string folder = std::getenv("FLASHSCOPE_LESSON_PICTURES");
  const char* const only = std::getenv("FLASHSCOPE_LESSON_PICTURES_OF");
  std::filesystem::create_directories(folder);
  Session session(known_machines("nvidia-h200"), shipped_recordings());
  const LessonLibrary library = LessonLibrary::shipped();
  LessonSession lessons(library, make_lesson_engine());
  for (const int width : {1280, 1920})
    for (const Theme theme : {Theme::light, Theme::dark}) {
      const std::string name = std::to_string(width) + (is_dark(theme) ? "-dark" : "-light");
      if (only && only != name) continue;
      AppState start;
      start.view = View::learn;
      start.looks.theme = theme;
      start.looks.projector = true;
      const int height = width * 9 / 16;
      Offscreen offscreen(width, height, scale_for(static_cast<float>(width), static_cast<float>(height), start.looks));
      for (const std::string& file : library.files()) {
        const Lesson lesson = library.lesson(file);
        lessons.request(lesson.id);
        const LessonBook book = lessons.wait();
        for (int step = 0; step < static_cast<int>(lesson.steps.size()); ++step) {
          AppState state = start;
          state.learn = go_to_step(go_to_lesson(state.learn, &lesson), lesson, step);
          state = settled(state, session, book);
          write_png(folder + "/" + std::to_string(lesson.number) + "-" + std::to_string(step + 1) + "-" + name + ".png",
                    offscreen.draw(state, session, session.wait(), &book));
        }
      }
    }
}
