// Panels driven without OpenGL: any size, sliders that clamp, buttons that work.
#include <doctest/doctest.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <chrono>

#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/app/workspace.h"
#include "viz/render/tile_map.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

constexpr int kEnter = 1, kSelectAll = 2, kEscape = 3;  // places in KeysDown

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
    io.KeyMap[ImGuiKey_Escape] = kEscape;
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
           x += window_name[0] == 't' ? 14.0f : 45.0f) {
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

TEST_CASE_FIXTURE(Desk, "G01: any size draws without a crash, also none at all, and the state stays") {
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

TEST_CASE_FIXTURE(Desk, "P05: typed numbers are clamped before they are used") {
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
    type("##window left", text);
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

TEST_CASE_FIXTURE(Desk, "G04: a button is hit where it is drawn, at every scale") {
  for (float scale : {1.0f, 1.5f, 2.0f}) {
    CAPTURE(scale);
    ui.scale = scale;
    width = 1280 * scale;
    height = 720 * scale;
    const bool before = state.playback.playing;
    REQUIRE(hover("timeline", "##play"));
    click();
    CHECK(state.playback.playing != before);
  }
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

namespace {

struct CountingTextures final : TileTextures {
  ImTextureID upload(const std::string&, int w, int h, const std::vector<std::uint32_t>& pixels) override {
    width = w;
    height = h;
    first = pixels.empty() ? 0 : pixels.front();
    return reinterpret_cast<ImTextureID>(std::intptr_t{1});
  }
  int width = 0, height = 0;
  std::uint32_t first = 0;
};

}  // namespace

TEST_CASE_FIXTURE(Desk, "a map of 4096 tiles a side uploads at most two texels a pixel, in a frame's time") {
  TileMap map{Tensor::S, 4096, 4096, std::vector<TileCell>(4096u * 4096u, {viz::TileState::read, false, false})};
  CountingTextures textures;
  ui.textures = &textures;
  ui.colors = &palette(Theme::light);
  ImGui::GetIO().DisplaySize = {width, height};
  ImGui::NewFrame();
  const auto begin = std::chrono::steady_clock::now();
  draw_tile_map(ui, ImGui::GetForegroundDrawList(), {0, 0, 300, 200}, map, MapView::state, "large");
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ImGui::EndFrame();
  MESSAGE("drawn in ", ms, " ms");
  CHECK(textures.width <= 2 * 300 + 1);
  CHECK(textures.height <= 2 * 200 + 1);
  CHECK(textures.first == tile_color(ui, Tensor::S, map.cells.front(), MapView::state));
  CHECK(ms < 200);  // a few, on a machine that does nothing else
}

TEST_CASE_FIXTURE(Desk, "what only L2 has is not drawn as if HBM had it, in large maps and in small ones") {
  ui.colors = &palette(Theme::light);
  const TileCell in_hbm{viz::TileState::written, true, false}, in_l2{viz::TileState::written, true, true};
  CHECK(tile_color(ui, Tensor::O, in_hbm, MapView::state) != tile_color(ui, Tensor::O, in_l2, MapView::state));
  CHECK(tile_color(ui, Tensor::O, {}, MapView::state) != tile_color(ui, Tensor::O, in_l2, MapView::state));
  // On its way it has the colour of its way, whoever has it.
  const TileCell moving{viz::TileState::reading, true, false}, moving_dirty{viz::TileState::reading, true, true};
  CHECK(tile_color(ui, Tensor::O, moving, MapView::state) == tile_color(ui, Tensor::O, moving_dirty, MapView::state));
}

TEST_CASE_FIXTURE(Desk, "every view, every inspector, any size: drawn, and a picture of the state alone") {
  for (const auto& [w, h] : {std::pair{1280.0f, 720.0f}, {200.0f, 150.0f}, {1920.0f, 400.0f}})
    for (const auto& view : views())
      for (const auto& inspector : inspectors())
        for (int level = 0; level < kStageLevels; ++level) {
          width = w;
          height = h;
          state.view = view.which;
          state.inspector = inspector.which;
          state.stage_level = level;
          state.looks.projector = level == 2;
          state.timeline = level == 1 ? TimeWindow{0.4, 0.5} : TimeWindow{};
          state.playback.t = results.duration / 2;
          const AppState before = state;
          frame();
          frame();
          CAPTURE(inspector.key);
          CHECK(state == before);
        }
}

TEST_CASE_FIXTURE(Desk, "tabs and keys lead to the same place") {
  for (std::size_t n = 0; n < inspectors().size(); ++n) {
    REQUIRE(hover("top", inspectors()[n].key));
    click();
    CHECK(state.inspector == inspectors()[n].which);
    AppState by_key = apply({Command::show_inspector, static_cast<int>(n)}, AppState{}, results);
    CHECK(by_key.inspector == state.inspector);
  }
  REQUIRE(hover("top", views()[1].key));
  click();
  CHECK(state.view == views()[1].which);
}

namespace {

bool has_tip() {
  const ImGuiWindow* tip = ImGui::FindWindowByName("##Tooltip_00");
  return tip && tip->Active && !tip->Hidden;
}

int vertices_of(const char* window_name) { return ImGui::FindWindowByName(window_name)->DrawList->VtxBuffer.Size; }

}  // namespace

TEST_CASE_FIXTURE(Desk,
                  "maps say what a tile is under the mouse, those on chip too, but not through the help above them") {
  for (const char* stage : {"stage 0", "stage 1"}) {  // three_pass stores S, flash_v2 does not
    CAPTURE(stage);
    state.show_help = false;
    frame();
    const ImGuiWindow* window = ImGui::FindWindowByName(stage);
    REQUIRE(window);
    int tips = 0;
    for (float x = window->Pos.x + 20; x < window->Pos.x + window->Size.x; x += 20) {
      ImGui::GetIO().MousePos = {x, window->Pos.y + 110};
      state.show_help = false;
      for (int n = 0; n < 3; ++n) frame();
      tips += has_tip();
      state.show_help = true;
      for (int n = 0; n < 3; ++n) frame();
      CHECK_FALSE(has_tip());
    }
    CHECK(tips >= 4);  // S is wider than one step
  }
}

TEST_CASE_FIXTURE(Desk, "a picture of settings that are no longer chosen says so") {
  frame();
  frame();
  const int stage = vertices_of("stage 0"), numbers = vertices_of("comparison");
  state.settings.problem.seqlen_q = state.settings.problem.seqlen_k = 64;
  frame();
  frame();
  CHECK(vertices_of("stage 0") > stage);
  CHECK(vertices_of("comparison") > numbers);
}

TEST_CASE_FIXTURE(Desk, "no line of the controls is cut, whichever they are, and none of the occupancies") {
  for (Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& left : algorithms(pass))
      for (const Algorithm& right : algorithms(pass))
        for (const char* pattern : {"", "local", "random"}) {
          state.settings.problem.pass = pass;
          state.settings.algorithms = {left.name, right.name};
          set_block_mask(state.settings.problem, {pattern, 25, 0, 64});
          frame();
          frame();
          CAPTURE(left.name);
          CAPTURE(right.name);
          CAPTURE(pattern);
          CHECK(ImGui::FindWindowByName("controls")->ScrollMax.y == 0);
        }
  state.settings = results.settings;
  state.inspector = Inspector::occupancy;
  for (bool projector : {false, true}) {
    state.looks.projector = projector;
    frame();
    frame();
    CHECK(ImGui::FindWindowByName("occupancy")->ScrollMax.y == 0);
  }
}

TEST_CASE_FIXTURE(Desk, "a list shows every algorithm at once, and Esc closes it") {
  frame();
  REQUIRE(hover("controls", "##left algorithm"));
  click();
  frame();
  REQUIRE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel));
  const ImGuiWindow* list = ImGui::GetCurrentContext()->OpenPopupStack.back().Window;
  REQUIRE(list);
  frame();
  CHECK(list->ScrollMax.y == 0);
  ImGui::GetIO().KeysDown[kEscape] = true;
  frame();
  ImGui::GetIO().KeysDown[kEscape] = false;
  frame();
  CHECK_FALSE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel));
}
