#define GL_GLEXT_PROTOTYPES
#include "viz/app/window.h"

#define GLFW_INCLUDE_NONE
#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "sim/error.h"
#include "viz/app/keys.h"
#include "viz/app/picture.h"
#include "viz/app/platform.h"
#include "viz/app/window_memory.h"
#include "viz/app/workspace.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/history.h"
#include "viz/core/snapshot.h"
#include "viz/core/state_token.h"
#include "viz/io/files.h"
#include "viz/io/machine_io.h"

namespace flashscope::viz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFrameSeconds = 1.0 / 60;  // at most this many frames while playing, also without a vertical sync
constexpr int kFramesAfterEvent = 3;        // ImGui settles hovers and popups over the frames that follow an event
constexpr auto kNoticeTime = std::chrono::seconds(10);
constexpr auto kStateShownEach = std::chrono::seconds(1);  // while the clock runs

std::string glfw_error_text;  // GLFW reports through a callback without user data

/// GLFW for the time of the window.
struct Glfw {
  Glfw() {
    platform::require_display();
    glfwSetErrorCallback([](int, const char* text) { glfw_error_text = text; });
    if (!glfwInit())
      throw Error(ErrorKind::env, "no display: " + glfw_error_text +
                                      "; 'flashscope compare' shows the same in this terminal, 'flashscope-window "
                                      "--render FILE.png' draws it to a file");
  }
  ~Glfw() { glfwTerminate(); }
};

/// What callbacks collect between frames.
struct Input {
  std::vector<Action> actions;
  std::vector<std::string> dropped;  // paths of files
  std::vector<int> tapped;           // keys that went down since the last frame
  bool escape = false;
  bool touched = false;  // by any event: the next frames are worth drawing
  /// A question on the page waits for a number: what is typed belongs to it, also before its field has the focus. Then
  /// it is kept here until the field, which the next frames give the focus, can take it.
  bool question_waits = false;
  std::vector<unsigned> typed;
  bool takes_typing() const { return question_waits && (!ImGui::GetIO().WantTextInput || !typed.empty()); }
};

Input& input_of(GLFWwindow* window) { return *static_cast<Input*>(glfwGetWindowUserPointer(window)); }

void on_key(GLFWwindow* window, int key, int scancode, int action, int mods) {
  Input& input = input_of(window);
  input.touched = true;
  if (action == GLFW_RELEASE) return;
  if (key >= 0) input.tapped.push_back(key);
  if (key == GLFW_KEY_ESCAPE) input.escape = true;
  const char* const layout_name = glfwGetKeyName(key, scancode);
  const auto pressed = action_of_glfw_key(key, mods, layout_name);
  if (!pressed) return;
  if (input.takes_typing() && is_character(name_of_key(key, mods, layout_name))) return;  // on_character has it
  // While something is being typed, letters, arrows and Ctrl+C belong to it. Not so the page keys: every field here has
  // one line, and a presenter's clicker turns the page of a lesson whose question is still open.
  const bool function_key = key >= GLFW_KEY_F1 && key <= GLFW_KEY_F12;
  const bool page_key = key == GLFW_KEY_PAGE_UP || key == GLFW_KEY_PAGE_DOWN;
  if (ImGui::GetIO().WantTextInput && !function_key && !page_key && pressed->command != Command::quit) return;
  input.actions.push_back(*pressed);
  platform::took_key(pressed->command);
}

void on_character(GLFWwindow* window, unsigned character) {
  Input& input = input_of(window);
  input.touched = true;
  if (input.takes_typing() && character > ' ')
    input.typed.push_back(character);
  else
    ImGui_ImplGlfw_CharCallback(window, character);
}

constexpr int kFrames = 200;  // of a run that is saved as pictures

/// The whole run, a picture a turn of the loop.
struct FrameExport {
  std::string folder;
  int next = 0;
  Playback before;  // to go back to
};

/// Where pictures and tables go: the user's picture folder for those, else the home folder.
std::string export_path(const char* extension) {
  const char* home = std::getenv("HOME");
  std::string folder = home ? home : "/tmp";
  std::error_code failed;
  if (std::string(extension) != ".csv" && std::string(extension) != ".json" && std::filesystem::is_directory(folder + "/Pictures", failed))
    folder += "/Pictures";
  char name[64];
  const std::time_t now = std::time(nullptr);
  std::strftime(name, sizeof name, "/flashscope-%Y%m%d-%H%M%S", std::localtime(&now));
  return folder + name + extension;
}

class Window {
 public:
  Window(const WindowPlace& place, bool placed) {
    platform::hint_window(placed);
    glfwWindowHint(GLFW_VISIBLE, GLFW_FALSE);
    m_window = glfwCreateWindow(place.width, place.height, "FlashScope", nullptr, nullptr);
    if (!m_window)
      throw Error(ErrorKind::env, "no window with OpenGL 3.3: " + glfw_error_text +
                                      "; 'flashscope compare' shows the same in a terminal");
    if (placed) glfwSetWindowPos(m_window, place.x, place.y);
    glfwShowWindow(m_window);
    glfwMakeContextCurrent(m_window);
    glfwSwapInterval(1);
    glfwSetWindowUserPointer(m_window, &m_input);
    // Before ImGui's own callbacks, which call these.
    glfwSetKeyCallback(m_window, on_key);
    glfwSetCursorPosCallback(m_window, [](GLFWwindow* w, double, double) { input_of(w).touched = true; });
    glfwSetCursorEnterCallback(m_window, [](GLFWwindow* w, int) { input_of(w).touched = true; });
    glfwSetMouseButtonCallback(m_window, [](GLFWwindow* w, int, int, int) { input_of(w).touched = true; });
    glfwSetScrollCallback(m_window, [](GLFWwindow* w, double, double) { input_of(w).touched = true; });
    glfwSetWindowFocusCallback(m_window, [](GLFWwindow* w, int) { input_of(w).touched = true; });
    glfwSetFramebufferSizeCallback(m_window, [](GLFWwindow* w, int, int) { input_of(w).touched = true; });
    glfwSetDropCallback(m_window, [](GLFWwindow* w, int count, const char** paths) {
      Input& input = input_of(w);
      input.touched = true;
      input.dropped.insert(input.dropped.end(), paths, paths + count);
    });
    glfwSetWindowRefreshCallback(m_window, [](GLFWwindow* w) { input_of(w).touched = true; });
    IMGUI_CHECKVERSION();
    ImGui::CreateContext();
    ImGui::GetIO().IniFilename = nullptr;  // the layout is a function of the size: nothing to keep
    ImGui_ImplGlfw_InitForOpenGL(m_window, true);
    glfwSetCharCallback(m_window, on_character);  // which calls ImGui's
    ImGui_ImplOpenGL3_Init(platform::kGlsl);
    m_textures = make_gl_textures();
    m_ui.textures = m_textures.get();
  }
  ~Window() {
    m_textures.reset();
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
    glfwDestroyWindow(m_window);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Input& input() { return m_input; }
  /// After the context was lost and is there again: what OpenGL held is made anew.
  void restore() {
    m_textures = make_gl_textures();
    m_ui.textures = m_textures.get();
    ImGui_ImplOpenGL3_Shutdown();  // all of it: it remembers how large its buffers were, too
    ImGui_ImplOpenGL3_Init(platform::kGlsl);
  }
  bool wants_to_close() const { return glfwWindowShouldClose(m_window); }
  void close() { glfwSetWindowShouldClose(m_window, GLFW_TRUE); }
  std::string clipboard() const {
    const char* text = glfwGetClipboardString(m_window);
    return text ? text : "";
  }
  void set_clipboard(const std::string& text) { glfwSetClipboardString(m_window, text.c_str()); }

  WindowPlace place() const {
    WindowPlace p;
    glfwGetWindowPos(m_window, &p.x, &p.y);
    glfwGetWindowSize(m_window, &p.width, &p.height);
    return p;
  }
  bool is_minimised() const {
    int w = 0, h = 0;
    glfwGetFramebufferSize(m_window, &w, &h);
    return w < 1 || h < 1 || glfwGetWindowAttrib(m_window, GLFW_ICONIFIED);
  }

  FrameResult draw(const AppState& state, const Session& session, const Results& results, const std::string& notice,
                   const LessonBook& book) {
    int w = 0, h = 0;
    glfwGetFramebufferSize(m_window, &w, &h);
    fit_to(static_cast<float>(w), static_cast<float>(h), state.looks);
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    ImGuiIO& io = ImGui::GetIO();
    if (!(io.DeltaTime > 0)) io.DeltaTime = 1.0f / 60;
    const std::vector<int> up_already = hold_tapped_keys(io);
    if (io.WantTextInput)  // the field has the focus
      for (const unsigned character : std::exchange(m_input.typed, {})) io.AddInputCharacter(character);
    ImGui::NewFrame();
    const FrameResult result = draw_workspace(m_ui, {0, 0, io.DisplaySize.x, io.DisplaySize.y}, state, session, results,
                                              notice, &book, !m_input.typed.empty());
    m_input.question_waits = result.question_waits;
    if (!result.question_waits) m_input.typed.clear();
    m_input.touched = m_input.touched || !m_input.typed.empty();
    ImGui::Render();
    release(io, up_already);
    glViewport(0, 0, w, h);
    const ImVec4 background = ImGui::ColorConvertU32ToFloat4(m_ui.colors->window);
    glClearColor(background.x, background.y, background.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    platform::wants_text(io.WantTextInput);
    return result;
  }
  void show() { glfwSwapBuffers(m_window); }

  /// Where a frame takes longer than a key is down, Enter after an answer would be lost: before 1.87 ImGui looks at
  /// the keys once a frame. Keys that went down and up in between are held for this one; the answer is which.
  std::vector<int> hold_tapped_keys(ImGuiIO& io) {
    std::vector<int> held;
#if IMGUI_VERSION_NUM < 18700
    for (int key : m_input.tapped)
      if (key < IM_ARRAYSIZE(io.KeysDown) && !io.KeysDown[key]) {
        io.KeysDown[key] = true;
        held.push_back(key);
      }
#else
    (void)io;  // it queues events itself
#endif
    m_input.tapped.clear();
    return held;
  }
  void release(ImGuiIO& io, const std::vector<int>& held) {
#if IMGUI_VERSION_NUM < 18700
    for (int key : held) io.KeysDown[key] = false;
#else
    (void)io;
#endif
    m_input.touched = m_input.touched || !held.empty();
  }

  Picture picture() const {
    int w = 0, h = 0;
    glfwGetFramebufferSize(m_window, &w, &h);
    return read_framebuffer(w, h);
  }

 private:
  void fit_to(float width, float height, const Looks& looks) {
    const float scale = scale_for(width, height, looks, platform::least_scale());
    const bool rescaled = m_ui.fonts.body == nullptr || scale != m_ui.scale;
    if (rescaled) {
      m_ui.scale = scale;
      ImGui::GetIO().Fonts->Clear();
      m_ui.fonts = load_fonts(scale);
      ImGui_ImplOpenGL3_DestroyFontsTexture();
      ImGui_ImplOpenGL3_CreateFontsTexture();
    }
    if (rescaled || m_ui.colors != &palette(looks.theme)) {
      m_ui.colors = &palette(looks.theme);
      apply_style(m_ui);
    }
  }

  GLFWwindow* m_window = nullptr;
  Input m_input;
  Ui m_ui;
  std::unique_ptr<TileTextures> m_textures;
};

/// Throws Error(usage) when the token is none.
void go_to_state(const std::string& token, AppState& state, History& history) {
  const Settings before = state.settings;
  state = state_of_token(token, state);
  history.record(before, state.settings, false);
}

/// Does what apply() leaves to the window; returns what to tell the user, or "".
std::string perform(Command command, Window& window, AppState& state, History& history, const Results& results,
                    const Session& session, const LessonBook& book) {
  const auto saved = [](const std::string& path, const std::string& text) {
    if (text.empty()) return std::string("Nothing to save yet");
    write_file_atomically(path, text);
    return platform::hand_over(path);
  };
  switch (command) {
    case Command::undo:
      if (!history.can_undo()) return "Nothing to undo";
      state.settings = history.undo(state.settings);
      return "";
    case Command::redo:
      if (!history.can_redo()) return "Nothing to redo";
      state.settings = history.redo(state.settings);
      return "";
    case Command::copy_state: {
      const std::string link = platform::link_of(token_of(state));
      window.set_clipboard(link);
      return "Copied: " + link;
    }
    case Command::paste_state: {
      const std::string text = window.clipboard();
      go_to_state(text.substr(text.rfind('#') + 1), state, history);  // of a link, what stands after #
      return "Went to the state on the clipboard";
    }
    case Command::save_picture: {
      const std::string path = export_path(".png");
      window.draw(state, session, results, "", book);  // once more, without what the window tells its user
      write_png(path, window.picture());
      return platform::hand_over(path);
    }
    case Command::export_csv: return saved(export_path(".csv"), seen_as_csv(state, results, session));
    case Command::export_json: return saved(export_path(".json"), snapshot_json(state, results, session));
    case Command::export_trace: return saved(export_path(".trace.json"), stage_as_trace(state, results));
    case Command::open_files: return platform::ask_for_files();
    case Command::quit: {
      const std::string why_not = platform::why_not_closed();
      if (why_not.empty()) window.close();
      return why_not;
    }
    default: return "";
  }
}

/// Cancel means what is in front.
void cancel_shown(Session& session, const AppState& state) {
  if (state.view == View::validate)
    session.cancel_validation();
  else if (state.inspector == Inspector::sweep)
    session.cancel_sweep();
  else {
    session.cancel();
    session.cancel_live();
  }
}

}  // namespace

float scale_for(float width, float height, const Looks& looks, float least) {
  const float wanted = static_cast<float>(looks.percent) / 100 * (looks.projector ? 1.2f : 1);
  // What the panels are made for, side by side and one below the other (workspace.cpp).
  const float fit = wanted * (height > width ? std::min(width / 640, height / 1180) : std::min(width / 1280, height / 720));
  return std::clamp(std::max(std::floor(fit * 16) / 16, least * wanted), 0.25f, 6.0f);
}

void run_window(AppState state, std::vector<Machine> machines, std::function<std::vector<Recording>()> read_recordings,
                LessonLibrary library, bool looks_given, bool layout_given, std::string notice) {
  const Glfw glfw;
  const std::string memory_path = window_memory_path();
  const WindowMemory memory = load_window_memory(memory_path, notice);
  if (!looks_given) {
    if (memory.looks)
      state.looks = *memory.looks;
    else
      state.looks.theme = theme_of(platform::prefers_dark(), is_safe(state.looks.theme));
  }
  if (!memory.layout.empty() && !layout_given) state = with_layout(state, memory.layout);
  // Written at once, so that a folder that cannot be written is told while there is a window to tell it in.
  if (const std::string refused = save_window_memory(memory_path, memory); !refused.empty()) notice = refused;
  if (!notice.empty()) std::fprintf(stderr, "flashscope-window: %s\n", notice.c_str());
  auto notice_until = Clock::now() + kNoticeTime;

  const WindowPlace place = made_visible(memory.place.value_or(WindowPlace{}), platform::monitor_places());
  Window window(place, memory.place.has_value());
  std::atomic<bool> news = false;
  const auto wake = [&news] {
    news = true;
    glfwPostEmptyEvent();
  };
  bool is_shown = false;
  std::vector<Recording> recordings;
  auto session_owner = std::make_unique<Session>(machines, recordings, wake, kernels::open_device);
  auto lessons = std::make_unique<LessonSession>(std::move(library), make_lesson_engine(), wake);
  const std::string kept_progress = progress_path();
  Progress saved = state.learn.progress;
  bool is_saved = true;  // false: another process held the file, or it could not be written
  Looks kept_looks = state.looks;
  History history;
  std::optional<FrameExport> frames;
  int measurements = 0;

  auto last = Clock::now(), state_shown = last;
  int frames_due = kFramesAfterEvent;
  while (!window.wants_to_close()) {
    // 1. Wait: for the next frame's time while something moves, else for an event.
    const auto seconds_until = [](Clock::time_point t) {
      return std::chrono::duration<double>(t - Clock::now()).count();
    };
    const bool moving = state.playback.playing || frames_due > 0;
    if (moving)
      platform::wait_events(std::max(0.001, kFrameSeconds + seconds_until(last)), true);
    else
      platform::wait_events(notice.empty() ? -1 : std::max(0.001, seconds_until(notice_until)), false);
    const auto now = Clock::now();
    if (std::exchange(window.input().touched, false) || news.exchange(false) || platform::has_news())
      frames_due = kFramesAfterEvent;
    const platform::Context context = platform::context();
    if (context == platform::Context::restored) window.restore();
    const double seconds = std::min(0.25, std::chrono::duration<double>(now - last).count());
    last = now;
    if (!notice.empty() && now >= notice_until) {
      notice.clear();
      frames_due = 1;
    }
    if (!state.playback.playing && frames_due <= 0) continue;  // woken for nothing

    // 2. What takes its time to read, now that there is something to look at; files dropped on the window; a state that came
    // from outside.
    if (is_shown && read_recordings) {
      recordings = std::exchange(read_recordings, nullptr)();
      session_owner = std::make_unique<Session>(machines, recordings, wake, kernels::open_device);
    }
    const auto tell = [&](const std::string& text) {
      notice = text;
      notice_until = Clock::now() + kNoticeTime;
    };
    const std::vector<std::string> dropped = std::exchange(window.input().dropped, {});
    const auto is_lesson = [](const std::string& path) { return std::filesystem::path(path).extension() == ".md"; };
    const bool with_lesson = std::any_of(dropped.begin(), dropped.end(), is_lesson);
    for (const std::string& path : dropped) {
      if (with_lesson && !is_lesson(path)) continue;  // what the lesson uses, in its folder
      try {
        if (is_lesson(path)) {  // those of its folder are the lessons now
          LessonLibrary own = LessonLibrary::of_folder(std::filesystem::path(path).parent_path().string());
          const Lesson lesson = own.lesson(std::filesystem::path(path).filename().string());
          lessons = std::make_unique<LessonSession>(std::move(own), make_lesson_engine(), wake);
          state.learn = go_to_lesson(state.learn, &lesson);
          state.view = View::learn;
          tell("Opened " + lesson.title);
          continue;
        }
        const Machine machine = load_machine(path);  // a session that knows it as well
        machines.erase(
            std::remove_if(machines.begin(), machines.end(), [&](const Machine& m) { return m.name == machine.name; }),
            machines.end());
        machines.push_back(machine);
        session_owner = std::make_unique<Session>(machines, recordings, wake, kernels::open_device);
        state.settings.gpu = machine.name;
        request_for(*session_owner, state);
        const std::vector<std::string> shipped = machine_names();
        const bool stands_for_shipped = std::find(shipped.begin(), shipped.end(), machine.name) != shipped.end();
        tell("Added " + machine.title +
             (stands_for_shipped ? ", in place of the shipped " + machine.name + " until the program ends; no link carries it" : ""));
      } catch (const Error& error) {
        tell(error.what());
      }
    }
    if (const std::string text = platform::told(); !text.empty()) tell(text);
    if (const auto token = platform::wanted_state()) {
      try {
        go_to_state(*token, state, history);
      } catch (const Error& error) {
        tell(error.what());
      }
    }
    Session& session = *session_owner;

    // 3. Keys, then the clock.
    const Results& results = session.poll();
    std::vector<Action> actions = std::exchange(window.input().actions, {});
    for (const Action& action : actions) state = apply(action, state, results);
    if (std::exchange(window.input().escape, false)) {
      state.show_help = false;
      notice.clear();
      if (frames) {
        state.playback = frames->before;
        tell("Stopped after " + std::to_string(frames->next) + " pictures in " + frames->folder);
        frames.reset();
      }
    }
    if (frames) {
      state.playback.playing = false;
      state.playback.t = results.duration * frames->next / (kFrames - 1);
      frames_due = kFramesAfterEvent;
    }
    if (results.duration > 0) state.playback = advance(state.playback, seconds, results.duration);
    // A restored clock waits for the run it belongs to.
    if (results.duration > 0 && results.settings == state.settings)
      state.playback = scrub(state.playback, state.playback.t, results.duration);

    // 4. Draw, unless there is nothing to draw on.
    if (window.is_minimised() || context == platform::Context::lost) {
      for (const Action& action : actions)
        if (action.command == Command::save_picture) tell("The window is minimised: there is no picture to save");
      for (const Action& action : actions)
        if (action.command == Command::quit) window.close();
      frames_due = 0;
      continue;
    }
    lessons->request(state.view == View::learn ? state.learn.lesson : "");
    const LessonBook book = lessons->poll();
    const FrameResult frame = window.draw(state, session, results, frames ? "" : notice, book);
    history.record(state.settings, frame.state.settings, frame.holding);
    if (frame.state != state) frames_due = kFramesAfterEvent;
    state = frame.state;
    actions.insert(actions.end(), frame.actions.begin(), frame.actions.end());

    // 5. What is the window's own: undo, clipboard, files.
    try {
      if (frames) {
        char name[32];
        std::snprintf(name, sizeof name, "/frame-%04d.png", frames->next + 1);
        write_png(frames->folder + name, window.picture());
        if (++frames->next == kFrames) {
          state.playback = frames->before;
          tell("Saved " + std::to_string(kFrames) + " pictures in " + frames->folder);
          frames.reset();
        }
      }
    } catch (const Error& error) {
      frames.reset();
      tell(error.what());
    }
    for (const Action& action : actions) {
      frames_due = kFramesAfterEvent;
      if (action.command == Command::save_frames && !frames && results.duration > 0) {
        if (const std::string why_not = platform::why_no_folder(); !why_not.empty()) {
          tell(why_not);
          continue;
        }
        frames = FrameExport{export_path(""), 0, state.playback};
        std::error_code failed;  // the first picture says what is wrong
        std::filesystem::create_directories(frames->folder, failed);
        continue;
      }
      try {
        const std::string told = perform(action.command, window, state, history, results, session, book);
        if (!told.empty()) tell(told);
      } catch (const Error& error) {
        tell(error.what());
      }
    }
    window.show();
    --frames_due;
    is_shown = true;

    // 6. What the user changed.
    if (state.learn.progress != saved) {
      saved = state.learn.progress;
      const std::string refused = save_progress(kept_progress, saved);
      is_saved = refused.empty();
      if (!is_saved) tell(refused);
      if (const std::string told = platform::keep(kept_progress); !told.empty()) tell(told);
    }
    if (state.looks != kept_looks) {
      kept_looks = state.looks;
      save_window_memory(memory_path, {memory.place, state.looks, layout_token(state)});
      if (const std::string told = platform::keep(memory_path); !told.empty()) tell(told);
    }
    if (!state.playback.playing || Clock::now() > state_shown + kStateShownEach) {
      platform::show_state(token_of(state));
      state_shown = Clock::now();
    }
    if (!read_recordings) request_for(session, state);
    if (frame.confirm) session.confirm();
    if (frame.measure) session.request_live({state.settings, ++measurements});
    if (frame.cancel) cancel_shown(session, state);
    if (frame.resume) state.view == View::validate ? session.resume_validation() : session.resume_sweep();
  }
  if (!is_saved)
    if (const std::string refused = save_progress(kept_progress, saved); !refused.empty())
      std::fprintf(stderr, "flashscope-window: %s\n", refused.c_str());
  save_window_memory(memory_path,
                     {window.is_minimised() ? memory.place : window.place(), state.looks, layout_token(state)});
  // Closing the window does not wait long for work that is slow to leave.
  Session& session = *session_owner;
  session.cancel();
  session.cancel_sweep();
  session.cancel_validation();
  session.cancel_live();
  for (int n = 0; n < 20 && session.is_working(); ++n) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (session.is_working()) std::_Exit(0);
}

}  // namespace flashscope::viz
