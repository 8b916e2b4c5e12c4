// Panels driven without OpenGL: any size, sliders that clamp, buttons that work.
#include <doctest/doctest.h>
#include <imgui.h>
#include <imgui_internal.h>

#include "support.h"
#include "viz/app/workspace.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

constexpr int kEnter = 1, kSelectAll = 2;  // places in KeysDown

/// The workspace with ImGui and no graphics behind it.
struct Desk {
  Session session{{small_machine()}, {}};
  AppState state;
  Results results;
  Ui ui;
  float width = 1280, height = 720;

  Desk() {
    ImGui::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.KeyMap[ImGuiKey_Enter] = kEnter;
    io.KeyMap[ImGuiKey_A] = kSelectAll;
    ui.fonts = load_fonts(1);
    unsigned char* pixels = nullptr;
    int w = 0, h = 0;
    io.Fonts->GetTexDataAsRGBA32(&pixels, &w, &h);
    state.settings.gpu = small_machine().name;
    state.settings.problem = small_problem();
    state.settings.tile = {16, 16, 1};
    session.request(state.settings);
    results = session.wait();
  }
  ~Desk() { ImGui::DestroyContext(); }

  void frame() {
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = {width, height};
    io.DeltaTime = 1.0f / 60;
    ui.colors = &palette(state.looks.theme);
    apply_style(ui);
    ImGui::NewFrame();
    state = draw_workspace(ui, {0, 0, width, height}, state, session, results).state;
    ImGui::Render();
  }

  /// Moves the mouse over the window until the widget of this name is under it.
  bool hover(const char* window_name, const char* widget) {
    frame();
    const ImGuiWindow* window = ImGui::FindWindowByName(window_name);
    if (!window) return false;
    const ImGuiID id = ImHashStr(widget, 0, window->ID);
    for (float y = window->Pos.y + 4; y < window->Pos.y + window->Size.y; y += 7)
      for (float x = window->Pos.x + 12; x < window->Pos.x + window->Size.x;
           x += window_name[0] == 't' ? 14.0f : 60.0f) {
        ImGui::GetIO().MousePos = {x, y};
        frame();
        if (ImGui::GetCurrentContext()->HoveredId == id) return true;
      }
    return false;
  }
  void click() {
    ImGui::GetIO().MouseDown[0] = true;
    frame();
    ImGui::GetIO().MouseDown[0] = false;
    frame();
  }
  /// Ctrl+click on a slider, then a number and Enter.
  void type(const char* widget, const char* text) {
    ImGuiIO& io = ImGui::GetIO();
    REQUIRE(hover("controls", widget));
    io.KeyCtrl = true;
    io.KeyMods = ImGuiKeyModFlags_Ctrl;
    click();
    io.KeyCtrl = false;
    io.KeyMods = ImGuiKeyModFlags_None;
    frame();
    for (const char* c = text; *c; ++c) io.AddInputCharacter(static_cast<unsigned char>(*c));
    frame();
    io.KeysDown[kEnter] = true;
    frame();
    io.KeysDown[kEnter] = false;
    frame();
    frame();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Desk, "any size draws without a crash, also none at all, and the state stays") {
  state.playback.t = results.duration / 2;
  const Playback before = state.playback;
  for (const auto& [w, h] : {std::pair{1280.0f, 720.0f},
                             {0.0f, 0.0f},
                             {640.0f, 0.0f},
                             {0.0f, 480.0f},
                             {1.0f, 1.0f},
                             {320.0f, 200.0f},
                             {5000.0f, 300.0f},
                             {1280.0f, 720.0f}}) {
    width = w;
    height = h;
    for (int n = 0; n < 5; ++n) frame();
  }
  CHECK(state.playback == before);
  CHECK(ImGui::GetDrawData()->TotalVtxCount > 1000);
}

TEST_CASE_FIXTURE(Desk, "typed numbers are clamped before they are used") {
  struct Try {
    const char* text;
    int least, most;
  };
  for (const Try& t : {Try{"-5", 1, 1},
                       {"0", 1, 1},
                       {"1000000000", 65536, 65536},
                       {"1e9", 1, 65536},
                       {"nan", 1, 65536},
                       {"777", 777, 777}}) {
    CAPTURE(t.text);
    type("##seqlen N", t.text);
    CHECK(state.settings.problem.seqlen_q >= t.least);
    CHECK(state.settings.problem.seqlen_q <= t.most);
    CHECK(state.settings.problem.seqlen_k == state.settings.problem.seqlen_q);
  }
  for (const char* text : {"-5", "0", "1000000000", "nan"}) {
    type("##tile rows Br", text);
    type("##keys Bc", text);
    type("##heads", text);
    CHECK(state.settings == clamp(state.settings));
  }
}

TEST_CASE_FIXTURE(Desk, "a new length is simulated anew") {
  frame();
  type("##seqlen N", "64");
  session.request(state.settings);
  results = session.wait();
  CHECK(results.settings.problem.seqlen_q == 64);
  CHECK(results.stage[0]->schedule().problem().seqlen_q == 64);
}

TEST_CASE_FIXTURE(Desk, "the buttons play, step and scrub") {
  REQUIRE(hover("timeline", "##play"));
  click();
  CHECK(state.playback.playing);
  click();
  CHECK_FALSE(state.playback.playing);
  REQUIRE(hover("timeline", "##forward"));
  click();
  CHECK(state.playback.t == results.boundaries[1]);
  REQUIRE(hover("timeline", "##back"));
  click();
  CHECK(state.playback.t == 0);
  REQUIRE(hover("timeline", "##scrub"));
  click();
  CHECK(state.playback.t >= 0);
  CHECK_FALSE(state.playback.playing);
}

TEST_CASE_FIXTURE(Desk, "drawing changes nothing: every panel, every theme, help open") {
  for (Theme theme : {Theme::light, Theme::dark})
    for (bool help : {false, true})
      for (int step = 0; step <= 10; ++step) {
        state.looks.theme = theme;
        state.show_help = help;
        state.playback.t = results.duration * step / 10;
        const AppState before = state;
        frame();
        CHECK(state == before);
      }
}

TEST_CASE_FIXTURE(Desk, "an error takes the place of its stage") {
  results.stage[1] = nullptr;
  results.errors[1] = "flash_v2: one CTA needs too much";
  frame();
  frame();
  CHECK(ImGui::GetDrawData()->TotalVtxCount > 1000);
}
