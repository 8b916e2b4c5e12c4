// The window without a window: the same frames, drawn through EGL where there is no display.
#pragma once
#include <memory>

#include "viz/app/picture.h"
#include "viz/core/app_state.h"
#include "viz/core/lesson_session.h"

namespace flashscope::viz {

class Offscreen {
 public:
  /// Opens an OpenGL 3.3 context without a window system, and a framebuffer. Throws Error(env) with the reason.
  Offscreen(int width, int height, float scale);
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;

  /// One frame, drawn to its end and left on the framebuffer.
  void frame(const AppState& state, const Session& session, const Results& results, const LessonBook* book = nullptr);
  /// One picture of the state and what the session knows about it.
  Picture draw(const AppState& state, const Session& session, const Results& results,
               const LessonBook* book = nullptr);

 private:
  struct Context;
  std::unique_ptr<Context> m_context;
};

}  // namespace flashscope::viz
