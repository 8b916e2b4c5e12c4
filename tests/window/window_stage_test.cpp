// What stages say and where they put it, for every algorithm, pass and size: names that say what is counted, a map of
// every matrix, nothing cut or beyond its box.
#include <doctest/doctest.h>
#include <imgui.h>

#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/core/byte_table.h"
#include "viz/core/stage_caption.h"
#include "viz/core/stage_counters.h"
#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/map_layout.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

struct Stage {
  std::string name;
  std::shared_ptr<const StageTrace> trace;
};

/// Every algorithm of both passes; 16 tiles a side, as the stage of the default problem has them.
const std::vector<Stage>& stages() {
  static const std::vector<Stage> list = [] {
    std::vector<Stage> made;
    for (Pass pass : {Pass::forward, Pass::backward})
      for (const Algorithm& algorithm : algorithms(pass)) {
        AttentionProblem problem = small_problem(512, 1, true);
        problem.head_dim = 64;
        problem.pass = pass;
        TileShape tile = algorithm.default_tile(problem);
        tile.br = tile.bc = 64;
        if (algorithm.name == std::string("split_kv")) tile.splits = 4;
        made.push_back({algorithm.name + std::string(pass == Pass::backward ? " backward" : ""),
                        trace_stage(algorithm.name, problem, tile, small_machine(), Start::cold)});
      }
    return made;
  }();
  return list;
}

/// The tensors of both, as the workspace orders them.
std::vector<Tensor> order_of(const StageTrace& a, const StageTrace& b) {
  std::vector<Tensor> order;
  for (int t = 0; t < kNumTensors; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    for (const StageTrace* trace : {&a, &b}) {
      const auto& own = trace->schedule().tensors();
      const bool is_place = trace->scores_stay_on_chip() && (tensor == Tensor::S || tensor == Tensor::P);
      if (!is_place && std::find(own.begin(), own.end(), tensor) == own.end()) continue;
      order.push_back(tensor);
      break;
    }
  }
  return order;
}

/// ImGui without graphics behind it.
struct Pens {
  Ui ui;
  std::vector<std::string> misfits;
  Pens() {
    ImGui::CreateContext();
    ImGui::GetIO().IniFilename = nullptr;
    ui.fonts = load_fonts(1);
    unsigned char* pixels = nullptr;
    int w = 0, h = 0;
    ImGui::GetIO().Fonts->GetTexDataAsRGBA32(&pixels, &w, &h);
    ui.colors = &palette(Theme::light);
    ui.misfits = &misfits;
    apply_style(ui);
  }
  ~Pens() { ImGui::DestroyContext(); }

  void draw(const StageTrace& trace, const std::vector<Tensor>& order, float w, float h, int level, Picoseconds t) {
    ImGui::GetIO().DisplaySize = {w, h};
    ImGui::NewFrame();
    stage_panel(ui, {0, 0, w, h}, "stage", trace, make_scene(trace, t, sms_at_level(level)), order, level);
    ImGui::Render();
  }
};

}  // namespace

TEST_CASE("a stage's counters are the bytes that Numbers names alike, and claim the formula only where it holds") {
  for (const Stage& stage : stages()) {
    CAPTURE(stage.name);
    const StageTrace& trace = *stage.trace;
    const std::vector<StageCounter> list = stage_counters(trace, make_scene(trace, trace.duration(), 2));
    REQUIRE(list.size() == 4);
    const Prediction& p = trace.prediction();
    const auto says = [](const StageCounter& counter, std::int64_t bytes) {
      const auto whole = static_cast<double>(bytes);
      return counter.texts.front().find(counter_digits(whole, whole) + counter_unit(whole)) == 0;
    };
    CHECK(list[0].name == "SM read");
    CHECK(says(list[0], p.count.sm.sector_read));
    CHECK(says(list[1], p.count.sm.sector_write));
    CHECK(list[0].checked == (p.count.sm.sector_read == trace.closed_form().sm_read_bytes));
    CHECK((list[0].texts.front().find("× formula") != std::string::npos) == !list[0].checked);
    CHECK(says(list[2], p.hbm.read));
    if (p.hbm_dirty_bytes > 0) CHECK(list[3].texts.front().find("still in L2") != std::string::npos);
    CHECK(list[3].share + list[3].share_in_l2 == doctest::Approx(p.hbm.write + p.hbm_dirty_bytes > 0 ? 1 : 0));
  }
}

TEST_CASE("three_pass_naive asks for more sectors than its formula counts elements: the stage says how many times") {
  const auto found =
      std::find_if(stages().begin(), stages().end(), [](const Stage& s) { return s.name == "three_pass_naive"; });
  REQUIRE(found != stages().end());
  const StageTrace& trace = *found->trace;
  const auto list = stage_counters(trace, make_scene(trace, trace.duration(), 2));
  CHECK_FALSE(list[0].checked);
  MESSAGE(list[0].texts.front());
}

TEST_CASE("what is written is in L2 or in HBM at any time") {
  for (const Stage& stage : stages()) {
    CAPTURE(stage.name);
    const StageTrace& trace = *stage.trace;
    CHECK(trace.moved_in_all().dirty == trace.prediction().hbm_dirty_bytes);
    for (int step = 0; step <= 20; ++step) {
      const Moved now = make_scene(trace, trace.duration() * step / 20, 2).moved;
      CHECK(now.dirty >= 0);
      CHECK(now.hbm_write + now.dirty <= now.sector_write + 64);  // of each tile under way a part is rounded
    }
  }
}

TEST_CASE_FIXTURE(
    Pens, "every matrix of every algorithm has a map with cells that are seen, inside the box, under its name") {
  for (const Stage& one : stages())
    for (const Stage& other : stages()) {
      if (one.trace->schedule().problem().pass != other.trace->schedule().problem().pass) continue;
      const std::vector<Tensor> order = order_of(*one.trace, *other.trace);
      for (float w : {280.0f, 376.0f, 620.0f, 900.0f}) {
        CAPTURE(one.name);
        CAPTURE(other.name);
        CAPTURE(w);
        const MapLayout layout = map_layout(ui, *one.trace, order, 10, w, 200);
        CHECK(layout.height >= 20);
        for (const TileGrid& grid : one.trace->grids()) {
          const std::string tensor = name_of(grid.tensor);
          CAPTURE(tensor);
          const MapColumn* column = layout.find(grid.tensor);
          REQUIRE(column);
          CHECK(column->w >= 1);
        }
        if (one.trace->scores_stay_on_chip()) CHECK(layout.find(Tensor::S));
        float right = 0;
        for (const MapColumn& column : layout.columns) {
          const std::string tensor = name_of(column.tensor);
          CAPTURE(tensor);
          CHECK(column.x >= 9);
          CHECK(column.x + column.w <= 10 + w + 1);
          if (column.label.empty()) continue;
          CHECK(column.label_w >= text_width(ui.fonts.small, column.label));
          CHECK(column.label_x >= right - 0.5f);  // no name reaches into another
          right = column.label_x + column.label_w;
          CHECK(column.label_x + (column.label_w + text_width(ui.fonts.small, column.label)) / 2 <= 10 + w + 9);
        }
      }
    }
}

TEST_CASE_FIXTURE(Pens, "nothing on a stage is cut or runs over its box, whatever the algorithm, level and size") {
  for (const Stage& stage : stages()) {
    const StageTrace& trace = *stage.trace;
    const std::vector<Tensor> order = order_of(trace, trace);
    for (const auto& [w, h] : {std::pair{388.0f, 505.0f}, {620.0f, 700.0f}, {560.0f, 540.0f}})
      for (int level = 0; level < kStageLevels; ++level)
        for (int step = 0; step <= 8; ++step) {
          misfits.clear();
          draw(trace, order, w, h, level, trace.duration() * step / 8);
          std::vector<std::string> names;
          for (const std::string& cut : misfits)  // a sentence may end early: "m, l, acc = O and LSE of all splits, …"
            if (cut.size() < 24) names.push_back(cut);
          CAPTURE(stage.name);
          CAPTURE(w);
          CAPTURE(level);
          CAPTURE(step);
          CAPTURE((names.empty() ? "" : names.front()));
          CHECK(names.empty());
        }
  }
}

TEST_CASE("a caption says of rows and of keys what part is drawn") {
  Results results;
  results.settings.problem = small_problem(16384, 32);
  results.settings.problem.seqlen_q = 1;
  results.stage_problem = results.settings.problem;
  results.stage_problem.seqlen_k = 1024;
  CHECK(stage_caption(results, kWholeGpu).find("32 heads, one row, the first 1,024 of 16,384 keys.") !=
        std::string::npos);
  CHECK(problem_caption(results).find("the first 1,024 of 16,384 keys") != std::string::npos);
  results.settings.problem = results.stage_problem = small_problem(8192, 32);
  results.stage_problem.seqlen_q = results.stage_problem.seqlen_k = 1024;
  results.stage_problem.heads = 2;
  CHECK(stage_caption(results, kWholeGpu).find("2 of 32 heads, the first 1,024 of 8,192 rows and keys.") !=
        std::string::npos);
  results.stage_problem = results.settings.problem;
  CHECK(stage_caption(results, kWholeGpu).find("32 heads, all 8,192 rows.") != std::string::npos);
  CHECK(problem_caption(results).find("drawn") == std::string::npos);
}

TEST_CASE("maps are of the head that the first SM in view works for") {
  for (const Stage& stage : stages())
    for (int level : {0, 1})
      for (int step = 1; step < 10; ++step) {
        CAPTURE(stage.name);
        const Scene scene = make_scene(*stage.trace, stage.trace->duration() * step / 10, sms_at_level(level));
        for (const SmView& sm : scene.sms)
          if (!sm.ctas.empty()) {
            CHECK(scene.head == sm.ctas.front().head);
            break;
          }
      }
}

TEST_CASE("what groups of tensors leave in L2 adds up to what the run leaves") {
  for (const Stage& stage : stages()) {
    CAPTURE(stage.name);
    std::int64_t left = 0;
    bool known = true;
    for (const TensorGroup& group : tensor_groups()) {
      const GroupTraffic traffic = explain(group, stage.trace->schedule(), stage.trace->prediction());
      left += traffic.left_in_l2;
      known = known && traffic.left_is_known;
    }
    if (known) CHECK(std::abs(left - stage.trace->prediction().hbm_dirty_bytes) <= left / 50);
  }
}
