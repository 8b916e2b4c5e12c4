#define GL_GLEXT_PROTOTYPES
#include "viz/app/offscreen.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <backends/imgui_impl_opengl3.h>

#include "sim/error.h"
#include "viz/app/workspace.h"

namespace flashscope::viz {
namespace {

[[noreturn]] void refuse(const char* what) {
  char code[16];
  std::snprintf(code, sizeof code, "0x%04x", static_cast<unsigned>(eglGetError()));
  throw Error(ErrorKind::env, std::string("off-screen drawing: ") + what + " failed (EGL error " + code +
                                  "); Mesa's libegl-mesa0 and libgl1-mesa-dri are enough, without a GPU");
}

}  // namespace

struct Offscreen::Context {
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLContext context = EGL_NO_CONTEXT;
  GLuint framebuffer = 0, color = 0;
  int width = 0, height = 0;
  bool imgui = false;
  Ui ui;
  std::unique_ptr<TileTextures> textures;

  void open_display() {
    const auto get_display =
        reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(eglGetProcAddress("eglGetPlatformDisplayEXT"));
    if (get_display) display = get_display(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr)) return;
    // Drivers without Mesa's surfaceless platform offer their devices instead.
    const auto query_devices = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(eglGetProcAddress("eglQueryDevicesEXT"));
    EGLDeviceEXT device;
    EGLint found = 0;
    if (get_display && query_devices && query_devices(1, &device, &found) && found > 0) {
      display = get_display(EGL_PLATFORM_DEVICE_EXT, device, nullptr);
      if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr)) return;
    }
    display = EGL_NO_DISPLAY;
    refuse("opening a display without a window system");
  }

  void open_context() {
    if (!eglBindAPI(EGL_OPENGL_API)) refuse("choosing OpenGL");
    const EGLint attributes[] = {
        EGL_CONTEXT_MAJOR_VERSION,           3,       EGL_CONTEXT_MINOR_VERSION, 3, EGL_CONTEXT_OPENGL_PROFILE_MASK,
        EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};
    context = eglCreateContext(display, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, attributes);
    if (context == EGL_NO_CONTEXT) refuse("creating an OpenGL 3.3 context");
    if (!eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context)) refuse("making the context current");
  }

  void open_framebuffer() {
    glGenRenderbuffers(1, &color);
    glBindRenderbuffer(GL_RENDERBUFFER, color);
    glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8, width, height);
    glGenFramebuffers(1, &framebuffer);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, color);
    if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE)
      throw Error(ErrorKind::env, "off-screen drawing: no framebuffer of " + std::to_string(width) + " × " +
                                      std::to_string(height) + " pixels");
  }

  ~Context() {
    textures.reset();
    if (imgui) {
      ImGui_ImplOpenGL3_Shutdown();
      ImGui::DestroyContext();
    }
    if (framebuffer) glDeleteFramebuffers(1, &framebuffer);
    if (color) glDeleteRenderbuffers(1, &color);
    if (display == EGL_NO_DISPLAY) return;
    eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (context != EGL_NO_CONTEXT) eglDestroyContext(display, context);
    eglTerminate(display);
  }
};

Offscreen::Offscreen(int width, int height, float scale) : m_context(std::make_unique<Context>()) {
  m_context->width = width;
  m_context->height = height;
  m_context->open_display();
  m_context->open_context();
  m_context->open_framebuffer();
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;
  ImGui_ImplOpenGL3_Init("#version 330 core");
  m_context->imgui = true;
  m_context->ui.scale = scale;
  m_context->ui.fonts = load_fonts(scale);
  m_context->textures = make_gl_textures();
  m_context->ui.textures = m_context->textures.get();
}

Offscreen::~Offscreen() = default;

void Offscreen::frame(const AppState& state, const Session& session, const Results& results, const LessonBook* book) {
  Context& c = *m_context;
  c.ui.colors = &palette(state.looks.theme);
  apply_style(c.ui);
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(c.width), static_cast<float>(c.height)};
  io.DeltaTime = 1.0f / 60;
  glBindFramebuffer(GL_FRAMEBUFFER, c.framebuffer);
  glViewport(0, 0, c.width, c.height);
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  draw_workspace(c.ui, {0, 0, io.DisplaySize.x, io.DisplaySize.y}, state, session, results, "", book);
  ImGui::Render();
  const ImVec4 background = ImGui::ColorConvertU32ToFloat4(c.ui.colors->window);
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  glFinish();
}

Picture Offscreen::draw(const AppState& state, const Session& session, const Results& results,
                        const LessonBook* book) {
  // Twice: ImGui learns the sizes of its windows from the frame before.
  for (int n = 0; n < 2; ++n) frame(state, session, results, book);
  return read_framebuffer(m_context->width, m_context->height);
}

}  // namespace flashscope::viz
