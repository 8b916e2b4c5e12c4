// The Learn panel driven without OpenGL: every step of every shipped lesson, keys, clicks, typed answers.
#include <doctest/doctest.h>
#include <imgui.h>

#include <algorithm>

#include "sim/error.h"
#include "support.h"
#include "viz/app/arguments.h"
#include "viz/app/learn_view.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/lesson_follow.h"
#include "viz/core/lesson_show.h"
#include "viz/core/roofline.h"
#include "viz/core/scene.h"
#include "viz/core/state_token.h"
#include "viz/io/json_numbers.h"
#include "viz/io/toml.h"
#include "viz/panels/lesson.h"
#include "viz/panels/panels.h"

using namespace flashscope;
using namespace flashscope::viz;

namespace {

/// Documents whose every field is there, so that a panel is tested and not the simulator.
LessonEngine quick_engine() {
  return [](const LessonRun& run, const LessonLibrary&, const StillWanted&) {
    RunFacts facts;
    facts.document = std::make_shared<const Json>(Json{{"n", 16}, {"name", run.name}});
    return facts;
  };
}

const char* kLesson =
    "+++\nid = \"t\"\nnumber = 1\ntitle = \"T\"\nsummary = \"S\"\n+++\n```run r\n```\n"
    "## One\n\nA [[tile]] of [[K]], {{ r.n }} *of* **them**, `code`, [link](https://example.org).\n\n- item\n\n1. "
    "one\n\n> quote\n\n"
    "| a | b |\n|---|---|\n| 1 | a long cell that must be broken into several lines to fit into the panel "
    "|\n\n```text\ncode\n```\n\n"
    "```ask\nkind = \"number\"\nid = \"n\"\nquestion = \"How many?\"\nanswer = \"r.n\"\nhint = \"sixteen\"\nreason = "
    "\"so\"\n```\n"
    "## Two\n\n```ask\nkind = \"choice\"\nid = \"c\"\nquestion = \"?\"\nright = \"this is right\"\nwrong = [[\"this is "
    "wrong\", \"really\"]]\nreason = \"so\"\n```\n\n"
    "```ask\nkind = \"order\"\nid = \"o\"\nquestion = \"?\"\nitems = [\"a\", \"b\", \"c\"]\nreason = \"so\"\n```\n";

constexpr int kEnter = 1, kEscape = 2;  // places in KeysDown

/// Glyphs of the last frame that stand partly below what may be drawn to: a label that is cut.
int cut_glyphs() {
  int cut = 0;
  const ImDrawData* data = ImGui::GetDrawData();
  for (int n = 0; n < data->CmdListsCount; ++n) {
    const ImDrawList* list = data->CmdLists[n];
    for (const ImDrawCmd& command : list->CmdBuffer)
      for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
        const auto vertex = [&](unsigned k) -> const ImDrawVert& {
          return list->VtxBuffer[static_cast<int>(command.VtxOffset +
                                                  list->IdxBuffer[static_cast<int>(command.IdxOffset + i + k)])];
        };
        const ImDrawVert &a = vertex(0), &b = vertex(1), &c = vertex(2);
        const bool is_glyph = a.uv.y != b.uv.y || a.uv.y != c.uv.y;
        const float top = std::min({a.pos.y, b.pos.y, c.pos.y}), bottom = std::max({a.pos.y, b.pos.y, c.pos.y});
        cut += is_glyph && top < command.ClipRect.w && bottom > command.ClipRect.w + 0.5f;
      }
  }
  return cut;
}

struct Desk {
  const LessonLibrary shipped = LessonLibrary::shipped();
  LessonBook book;
  LearnState state;
  Ui ui;
  float width = 520, height = 700;

  Desk() {
    ImGui::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.KeyMap[ImGuiKey_Enter] = kEnter;
    io.KeyMap[ImGuiKey_Escape] = kEscape;
    use_scale(1);
    io.MousePos = {-1, -1};
    auto list = std::make_shared<LessonList>();
    list->lessons.push_back(parse_lesson(kLesson, "t.md"));
    book.open = std::make_shared<const OpenLesson>(open_lesson(list->lessons[0], shipped, quick_engine()));
    book.list = list;
    state = go_to_lesson(state, &list->lessons[0]);
  }
  ~Desk() { ImGui::DestroyContext(); }

  void use_scale(float scale) {
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas.Clear();
    ui.scale = scale;
    ui.fonts = load_fonts(scale);
    unsigned char* pixels = nullptr;
    int w = 0, h = 0;
    atlas.GetTexDataAsRGBA32(&pixels, &w, &h);
  }
  void press(int key) {
    ImGui::GetIO().KeysDown[key] = true;
    frame();
    ImGui::GetIO().KeysDown[key] = false;
    frame();
    frame();
  }
  void type(const char* text) {
    ImGui::GetIO().AddInputCharactersUTF8(text);
    frame();
    frame();
  }

  void frame() {
    ImGuiIO& io = ImGui::GetIO();
    io.DisplaySize = {width, height};
    io.DeltaTime = 1.0f / 60;
    ui.colors = &palette(Theme::light);
    apply_style(ui);
    ImGui::NewFrame();
    if (width >= 1 && height >= 1) lesson_panel(ui, {0, 0, width, height}, state, book, "");
    ImGui::Render();
  }
  void click(float x, float y) {
    ImGuiIO& io = ImGui::GetIO();
    io.MousePos = {x, y};
    frame();
    io.MouseDown[0] = true;
    frame();
    io.MouseDown[0] = false;
    frame();
    io.MousePos = {-1, -1};
    frame();
  }
  /// The panel of a show that has no stage.
  void draw_inspector(const LessonShow& show) {
    using Panel = LessonShow::Panel;
    const Rect area = {0, 0, width, height};
    AppState app;
    ImGui::NewFrame();
    switch (show.panel) {
      case Panel::softmax:
        app.softmax = softmax_of(*book.open, show);
        softmax_panel(ui, area, app, softmax_steps(app.softmax));
        break;
      case Panel::occupancy:
        occupancy_panel(ui, area, load_machine("nvidia-h200"), occupancy_of(*book.open, show));
        break;
      case Panel::memory: {
        const Settings settings = stage_settings(*book.open, show);
        memory_panel(ui, area, memory_curve(settings, {load_machine(settings.gpu)}), settings);
        break;
      }
      case Panel::roofline: {
        const Settings settings = stage_settings(*book.open, show);
        roofline_panel(ui, area, roofline_figure(settings, load_machine(settings.gpu), {}, {}));
        break;
      }
      case Panel::sweep: {
        const SweepRequest request = {stage_settings(*book.open, show), sweep_of(*book.open, show).over};
        const std::vector<Machine> machines = {load_machine(request.settings.gpu)};  // the job refers to them
        const std::vector<Recording> none;
        const auto job = make_sweep(request, machines, none);
        while (job->step([] { return true; })) {
        }
        sweep_panel(ui, area, app, sweep_figure(job->result(), sweep_of(*book.open, show).show, {}), 1);
        break;
      }
      case Panel::stage:
      case Panel::bytes: break;
    }
    ImGui::Render();
    CHECK(ImGui::GetDrawData()->TotalVtxCount > 300);
  }
  /// Clicks down the panel, at x, until `done` holds.
  template <class Done>
  bool click_until(float x, Done done) {
    for (float y = 60; y < height - 40; y += 6) {
      click(x, y);
      if (done()) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Desk, "every size draws, also none at all, in both types" * doctest::skip(!can_read_toml())) {
  for (const bool lecturer : {false, true}) {
    state.lecturer = lecturer;
    for (state.step = 0; state.step < 2; ++state.step)
      for (const auto& [w, h] :
           {std::pair{520.0f, 700.0f}, {120.0f, 80.0f}, {1.0f, 1.0f}, {0.0f, 0.0f}, {1200.0f, 900.0f}}) {
        width = w;
        height = h;
        for (int n = 0; n < 3; ++n) frame();
      }
  }
  CHECK(ImGui::GetDrawData()->TotalVtxCount > 500);
}

TEST_CASE_FIXTURE(Desk, "a click chooses an option, and the right one closes the question" *
                            doctest::skip(!can_read_toml())) {
  state.step = 1;
  frame();
  frame();
  REQUIRE(click_until(60, [&] { return state.asks["c"].tries > 0; }));
  REQUIRE(click_until(60, [&] { return state.asks["c"].right; }));
  CHECK(state.progress["t"].answers["c"].right);
}

TEST_CASE_FIXTURE(Desk, "a wrong answer keeps the field it is typed in, a right one gives it back" *
                            doctest::skip(!can_read_toml())) {
  frame();
  frame();
  REQUIRE(click_until(60, [&] { return ImGui::GetIO().WantTextInput; }));
  type("3");
  press(kEnter);
  CHECK(state.asks["n"].tries == 1);
  CHECK(ImGui::GetIO().WantTextInput);
  type("x");  // takes the place of what was wrong
  CHECK(state.asks["n"].typed == "x");
  press(kEnter);  // not understood: no try, and still in the field
  CHECK(state.asks["n"].tries == 1);
  CHECK(ImGui::GetIO().WantTextInput);
  type("16");
  press(kEnter);
  CHECK(state.asks["n"].right);
  CHECK(state.asks["n"].tries == 2);
  CHECK_FALSE(ImGui::GetIO().WantTextInput);
}

TEST_CASE_FIXTURE(Desk, "Escape leaves the field" * doctest::skip(!can_read_toml())) {
  frame();
  frame();
  REQUIRE(click_until(60, [&] { return ImGui::GetIO().WantTextInput; }));
  type("3");
  press(kEscape);
  CHECK_FALSE(ImGui::GetIO().WantTextInput);
  CHECK(state.asks["n"].tries == 0);
}

TEST_CASE_FIXTURE(Desk, "there is no way back from the first step" * doctest::skip(!can_read_toml())) {
  frame();
  frame();
  const LearnState before = state;
  click(width - 130, height - 18);
  CHECK(state == before);
}

TEST_CASE_FIXTURE(Desk, "the table beside a stage ends in its panel, in large type too, and says its source once" *
                            doctest::skip(!can_read_toml())) {
  use_scale(1.1875f);  // 1280 × 720, projector
  ui.colors = &palette(Theme::light);
  apply_style(ui);
  Comparison comparison{"three_pass", "recorded on NVIDIA H200, 2026-11-30", true, {}};
  for (int n = 0; n < 7; ++n)
    comparison.rows.push_back({"SM read", ComparisonRow::Kind::bytes, kernels::Measured<double>::of(1e9),
                               kernels::Measured<double>::of(1e9), ""});
  for (const std::size_t sides : {std::size_t{1}, std::size_t{2}})
    for (const float h : {510.0f, 760.0f, 300.0f}) {
      const std::vector<Comparison> list(sides, comparison);
      ImGuiIO& io = ImGui::GetIO();
      io.DisplaySize = {400, 800};
      io.DeltaTime = 1.0f / 60;
      bool pressed = false;
      for (float y = 4; y < h && !pressed; y += 8)
        for (const bool down : {false, true, false}) {
          io.MousePos = {60, y};
          io.MouseWheel = -100;  // to the end, where it scrolls
          io.MouseDown[0] = down;
          ImGui::NewFrame();
          pressed = pressed || comparison_panel(ui, {0, 0, 356, h}, {}, list) == Request::measure;
          ImGui::Render();
        }
      CAPTURE(sides);
      CAPTURE(h);
      CHECK(pressed);
      if (h > 500) CHECK(cut_glyphs() == 0);
    }
}

TEST_CASE_FIXTURE(Desk, "no label of a stage is cut at its end, at projector size" * doctest::skip(!can_read_toml())) {
  const LessonEngine counts = [engine = make_lesson_engine()](LessonRun run, const LessonLibrary& library,
                                                              const StillWanted& wanted) {
    run.timed = false;
    return engine(run, library, wanted);
  };
  use_scale(1.1875f);
  ImGui::GetIO().DisplaySize = {1280, 720};
  ImGui::GetIO().DeltaTime = 1.0f / 60;
  ui.colors = &palette(Theme::light);
  apply_style(ui);
  for (const Lesson& lesson : read_lessons(shipped).lessons) {
    const OpenLesson open = open_lesson(lesson, shipped, counts);
    for (const LessonShow& show : lesson.shows) {
      if (!show.has_stage()) continue;
      const Settings settings = stage_settings(open, show);
      for (std::size_t n = 0; n < show.runs.size(); ++n) {
        const auto trace = trace_stage(settings.algorithms[n], stage_problem(settings, kMaxStageOps), settings.tile,
                                       load_machine(settings.gpu), settings.start);
        for (int part = 0; part < 8; ++part) {
          const Picoseconds t = trace->duration() * part / 7;
          for (const float w : {361.0f, 731.0f}) {
            ImGui::NewFrame();
            stage_panel(ui, {0, 0, w, 510}, "stage 0", *trace, make_scene(*trace, t, 2), trace->schedule().tensors(),
                        1);
            ImGui::Render();
            CAPTURE(lesson.file);
            CAPTURE(show.line);
            CAPTURE(settings.algorithms[n]);
            CAPTURE(part);
            CAPTURE(w);
            CHECK(cut_glyphs() == 0);
          }
        }
      }
    }
  }
}

TEST_CASE_FIXTURE(Desk, "arrows move the items of an order" * doctest::skip(!can_read_toml())) {
  state.step = 1;
  frame();
  frame();
  const std::vector<std::string> before = book.open->questions[2].items;
  REQUIRE(click_until(26, [&] { return !state.asks["o"].order.empty() && state.asks["o"].order != before; }));
}

TEST_CASE_FIXTURE(Desk, "Next and the list of lessons at the foot" * doctest::skip(!can_read_toml())) {
  frame();
  frame();
  click(width - 40, height - 18);
  CHECK(state.step == 1);
  click(width - 130, height - 18);
  CHECK(state.step == 0);
  click(36, height - 18);
  CHECK(state.lesson == "");
  frame();
  REQUIRE(click_until(100, [&] { return state.lesson == "t"; }));
}

TEST_CASE_FIXTURE(Desk, "a link carries lesson, step and answers, and takes no progress" *
                            doctest::skip(!can_read_toml())) {
  state.asks["n"].typed = "1.5 ~ KiB";
  state = submit(state, *book.open, 0);
  state.asks["n"].typed = "16";
  state = submit(state, *book.open, 0);
  state = go_to_step(state, book.list->lessons[0], 1);
  state = move_item(state, *book.open, 2, 0, 1);
  state = show_hint(state, *book.open, 0);
  AppState sent;
  sent.view = View::learn;
  sent.learn = state;
  sent.learn.followed = "t/0";

  AppState received;
  received.learn.progress["other"].done = true;
  received = state_of_token(token_of(sent), received);
  CHECK(received.learn.progress.at("other").done);
  CHECK(received.learn.progress.count("t") == 0);
  CHECK(received.learn.asks == sent.learn.asks);
  CHECK(received.learn.step == 1);
  CHECK(received.learn.followed == "t/0");
  CHECK(token_of(received) == token_of(sent));
  CHECK_THROWS_AS(state_of_token("fs1,lesson=t,answers=n~1"), Error);
}

TEST_CASE("--step counts from 1, of --lesson and of a lesson that --state names" * doctest::skip(!can_read_toml())) {
  const LessonLibrary library = LessonLibrary::shipped();
  const auto begun = [&](std::vector<const char*> words) {
    words.insert(words.begin(), "flashscope-window");
    const Arguments arguments = parse_arguments(static_cast<int>(words.size()), words.data());
    return begin_learning(arguments.state.learn, library, arguments.lesson, arguments.step).step;
  };
  CHECK(begun({"--lesson", "tiles", "--step", "3"}) == 2);
  CHECK(begun({"--state", "fs1,lesson=tiles", "--step", "3"}) == 2);
  CHECK(begun({"--state", "fs1,lesson=tiles,step=1"}) == 1);
}

TEST_CASE_FIXTURE(Desk, "every step and every show of every shipped lesson draws" * doctest::skip(!can_read_toml())) {
  const LessonEngine counts = [engine = make_lesson_engine()](LessonRun run, const LessonLibrary& library,
                                                              const StillWanted& wanted) {
    run.timed = false;  // the stage times its own small problem
    return engine(run, library, wanted);
  };
  auto list = std::make_shared<const LessonList>(read_lessons(shipped));
  book.list = list;
  for (const Lesson& lesson : list->lessons) {
    CAPTURE(lesson.file);
    book.open = std::make_shared<const OpenLesson>(open_lesson(lesson, shipped, counts));
    for (const bool lecturer : {false, true}) {
      state = {};
      state.lecturer = lecturer;
      state = go_to_lesson(state, &lesson);
      for (std::size_t step = 0; step < lesson.steps.size(); ++step) {
        state = go_to_step(state, lesson, static_cast<int>(step));
        frame();
        frame();
        CHECK(ImGui::GetDrawData()->TotalVtxCount > 300);
      }
    }
    for (const LessonShow& show : lesson.shows) {
      CAPTURE(show.line);
      if (!show.has_stage()) {
        draw_inspector(show);
        continue;
      }
      const Settings settings = stage_settings(*book.open, show);
      CHECK(clamp(settings) == settings);
      const AttentionProblem problem = stage_problem(settings, kMaxStageOps);
      const Machine machine = load_machine(settings.gpu);
      StageTraces traces;
      for (std::size_t n = 0; n < show.runs.size(); ++n)
        traces.push_back(trace_stage(settings.algorithms[n], problem, settings.tile, machine, settings.start));
      const Picoseconds t = moment_of(lesson, show, traces);
      for (const auto& trace : traces) {
        ImGui::NewFrame();
        stage_panel(ui, {0, 0, width, height}, "stage 0", *trace, make_scene(*trace, t, 2),
                    trace->schedule().tensors(), 1);
        ImGui::Render();
        CHECK(ImGui::GetDrawData()->TotalVtxCount > 300);
      }
    }
  }
}

TEST_CASE("a show says how close the stage is and how much of the run the timeline has; then both are the learner's") {
  LessonShow show;
  show.view = LessonShow::View::gpu;
  show.tall_timeline = true;
  show.zoom = 4;
  AppState state;
  state.playback.t = 500;
  Results results;
  results.duration = 1000;
  FollowedShow followed;
  followed.show = &show;
  followed.taken = followed.reached = true;
  look_as_shown(state, {}, followed, results);
  CHECK(state.stage_level == kWholeGpu);
  CHECK(state.tall_timeline);
  CHECK(state.timeline.begin == doctest::Approx(0.375));
  CHECK(state.timeline.end == doctest::Approx(0.625));
  state.stage_level = 0;
  state.timeline = {};
  followed.taken = followed.reached = false;
  look_as_shown(state, {}, followed, results);
  CHECK(state.stage_level == 0);
  CHECK(state.timeline.begin == 0);
  show = {};  // the next step's show has none of it
  followed.taken = true;
  look_as_shown(state, {}, followed, results);
  CHECK(state.stage_level == 1);
  CHECK_FALSE(state.tall_timeline);
}

TEST_CASE("a lesson's show moves the stage and the clock, once, and again when asked" *
          doctest::skip(!can_read_toml())) {
  LessonBook book;
  auto list = std::make_shared<LessonList>();
  list->lessons.push_back(parse_lesson(
      "+++\nid = \"t\"\nnumber = 1\ntitle = \"T\"\nsummary = \"S\"\n+++\n```run r\n```\n## One\ntext\n## Two\n"
      "```show\nruns = [\"r\"]\noperation = \"load K\"\nj = 2\nmoment = \"begin\"\n```\n## Three\ntext\n",
      "t.md"));
  const Machine machine = viz::testing::small_machine();
  const LessonEngine engine = [&](const LessonRun&, const LessonLibrary&, const StillWanted&) {
    RunFacts facts;
    Settings settings;
    settings.gpu = machine.name;
    settings.problem = viz::testing::small_problem();
    settings.tile = {16, 16, 1};
    settings.algorithms = {"flash_v2", "flash_v2"};
    facts.settings = settings;
    return facts;
  };
  book.open = std::make_shared<const OpenLesson>(open_lesson(list->lessons[0], LessonLibrary::shipped(), engine));
  book.list = list;
  Session session({machine}, {});
  Settings settings;
  Playback playback;
  SoftmaxChoice softmax;
  LearnState learn;
  learn = go_to_lesson(learn, &list->lessons[0]);
  const auto turn = [&] {
    session.request(settings);
    return follow_lesson(learn, book.open.get(), settings, playback, softmax, session.wait());
  };
  CHECK(turn().show == nullptr);  // the first step has none: the stage stays as it was
  learn = go_to_step(learn, list->lessons[0], 1);
  REQUIRE(turn().show != nullptr);
  CHECK(settings.problem.seqlen_q == 96);
  CHECK(turn().fault == "");
  CHECK_FALSE(learn.seeking);
  const Picoseconds there = playback.t;
  CHECK(there > 0);
  playback.t = 0;  // the learner scrubs
  turn();
  CHECK(playback.t == 0);
  learn = go_to_step(learn, list->lessons[0], 2);  // a step without a show keeps the last one
  turn();
  CHECK(playback.t == 0);
  learn.followed.clear();  // "Show me"
  turn();
  turn();
  CHECK(playback.t == there);
}
