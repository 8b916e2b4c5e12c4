#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/engine/engine.h"
#include "sim/engine/splits.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

void label(const Ui& ui, const char* name, const std::string& range = "") {
  ImGui::PushFont(ui.fonts.small);
  ImGui::TextUnformatted(name);
  if (!range.empty()) {
    ImGui::SameLine();
    const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(range.c_str()).x;
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room));
    ImGui::TextDisabled("%s", range.c_str());
  }
  ImGui::PopFont();
}

/// Two controls side by side: the first half of the line, then the rest of it.
void in_two_columns(const Ui& ui, const std::function<void()>& left, const std::function<void()>& right) {
  const ImVec2 at = ImGui::GetCursorPos();
  float below = at.y;  // of the taller: the right one may be empty
  const float half = (ImGui::GetContentRegionAvail().x - ui.px(8)) / 2;
  for (const auto* column : {&left, &right}) {
    ImGui::SetCursorPos({at.x + (column == &right ? half + ui.px(8) : 0), at.y});
    ImGui::BeginGroup();
    ImGui::PushItemWidth(half);
    (*column)();
    ImGui::PopItemWidth();
    ImGui::EndGroup();
    below = std::max(below, ImGui::GetCursorPosY());
  }
  ImGui::SetCursorPos({at.x, below});
}

/// Round numbers to drag through: multiples of `snap`, and on a logarithmic slider quarters of a power of two, so that
/// 16,384 can be met.
int snapped(int value, int snap, bool logarithmic) {
  if (logarithmic)
    while (snap > 1 && snap * 8 <= value) snap *= 2;
  return value > snap ? (value + snap / 2) / snap * snap : value;
}

/// A slider over `range`. Dragging goes through round numbers; a typed value (Ctrl+click) is taken as it is, clamped.
void number(const Ui& ui, const char* name, int& value, IntRange range, int snap, bool logarithmic, bool half = false,
            const char* format = "%d") {
  if (half) {
    label(ui, name);
  } else {
    label(ui, name, grouped(range.lo) + " … " + grouped(range.hi));
    ImGui::SetNextItemWidth(-1);
  }
  const std::string id = std::string("##") + name;
  const int before = value;
  const ImGuiSliderFlags flags =
      ImGuiSliderFlags_AlwaysClamp | (logarithmic ? ImGuiSliderFlags_Logarithmic : ImGuiSliderFlags_None);
  ImGui::SliderInt(id.c_str(), &value, range.lo, range.hi, format, flags);
  if (half && ImGui::IsItemHovered()) ImGui::SetTooltip("%s: %d … %d; Ctrl+click to type", name, range.lo, range.hi);
  const bool dragging = ImGui::IsItemActive() && !ImGui::GetIO().WantTextInput;
  if (dragging && value != before) value = snapped(value, snap, logarithmic);
  value = clamp_to(range, value);
}

template <class Names>
bool choice(const Ui& ui, const char* name, std::string& current, const Names& names, bool half = false) {
  label(ui, name);
  if (!half) ImGui::SetNextItemWidth(-1);
  bool changed = false;
  if (ImGui::BeginCombo((std::string("##") + name).c_str(), current.c_str())) {
    for (const std::string& option : names)
      if (ImGui::Selectable(option.c_str(), option == current)) {
        changed = option != current;
        current = option;
      }
    ImGui::EndCombo();
  }
  return changed;
}

/// Sequences of various lengths packed along the rows: a query sees the keys of its own.
void sequences(const Ui& ui, AttentionProblem& p, bool half) {
  const int before = packed_sequences(p);
  int packed = before;
  number(ui, half ? "sequences" : "packed sequences", packed, kSequencesRange, 1, true, half, packed == 1 ? "none" : "%d");
  if (packed != before) pack_sequences(p, packed);
}

/// Causal, a window of keys around the diagonal, and blocks: what is kept is kept by all three.
void mask(const Ui& ui, AttentionProblem& p) {
  ImGui::Checkbox("causal mask", &p.causal);
  const int keys = std::min(p.seqlen_k, kWindowRange.hi);
  // A right end under a causal mask is the diagonal, whatever it says.
  int right = p.causal ? 0 : p.window_right;
  in_two_columns(
      ui,
      [&] {
        number(ui, "window left", p.window_left, {-1, keys}, 16, false, true, p.window_left < 0 ? "all" : "%d");
      },
      [&] { number(ui, "right", right, {-1, keys}, 16, false, true, right < 0 ? "all" : "%d"); });
  if (!p.causal) p.window_right = right;

  BlockMaskChoice blocks = block_mask_choice(p);
  const BlockMaskChoice before = blocks;
  const bool from_file = p.block_mask && blocks.pattern.empty();
  std::vector<std::string> patterns = {"none"};
  patterns.insert(patterns.end(), block_mask_patterns().begin(), block_mask_patterns().end());
  std::string pattern = from_file ? p.block_mask.mask->name : blocks.pattern.empty() ? "none" : blocks.pattern;
  in_two_columns(
      ui,
      [&] {
        if (choice(ui, "block mask", pattern, patterns, true)) blocks.pattern = pattern == "none" ? "" : pattern;
      },
      [&] {
        if (blocks.pattern.empty())
          sequences(ui, p, true);
        else
          number(ui, "density", blocks.percent, kDensityRange, 1, false, true, "%d %%");
      });
  if (!blocks.pattern.empty())
    in_two_columns(
        ui, [&] { number(ui, "rows of a block", blocks.block, kBlockRange, 16, true, true); },
        [&] {
          if (blocks.pattern == "random") number(ui, "seed", blocks.seed, kSeedRange, 1, false, true);
        });
  if (!blocks.pattern.empty()) sequences(ui, p, false);
  if (blocks != before || (from_file && pattern == "none")) set_block_mask(p, blocks);
}

/// True for rungs that are built with a K/V ring.
bool has_ring(const std::string& algorithm, const AttentionProblem& problem) {
  return algorithm_named(algorithm, problem.pass).default_tile(problem).stages > 1;
}

/// After another algorithm was chosen: its own tile where it does not come in the one that is set, and as many splits as
/// run at once.
void fit_tile(Settings& s, std::size_t side, const std::vector<Machine>& machines) {
  const std::string& name = s.algorithms[side];
  const auto machine = std::find_if(machines.begin(), machines.end(), [&](const Machine& m) { return m.name == s.gpu; });
  try {
    if (name == "split_kv" && s.tile.splits == 1 && machine != machines.end())
      s.tile.splits = automatic_splits(s.problem, s.tile, *machine);
    const auto schedule = make_schedule(name, s.problem, s.tile);
    if (machine != machines.end())
      for (const KernelLaunch& launch : schedule->kernels())
        if (occupancy(launch.resources, *machine).ctas_per_sm < 1)
          throw Error(ErrorKind::unsupported, launch.name + " does not fit on an SM");
  } catch (const Error&) {
    const int splits = s.tile.splits;
    s.tile = algorithm_named(name, s.problem.pass).default_tile(s.problem);
    s.tile.splits = splits;
  }
}

}  // namespace

void controls_panel(const Ui& ui, const Rect& area, AppState& state, const std::vector<Machine>& machines) {
  begin_scrolling_panel(ui, "controls", area);
  Settings& s = state.settings;
  AttentionProblem& p = s.problem;

  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms(p.pass)) names.push_back(algorithm.name);
  if (choice(ui, "left algorithm", s.algorithms[0], names)) fit_tile(s, 0, machines);
  if (choice(ui, "right algorithm", s.algorithms[1], names)) fit_tile(s, 1, machines);
  ImGui::Dummy({0, ui.px(2)});

  // One length for queries and keys; a problem given with two keeps them until this is moved.
  int seqlen = std::max(p.seqlen_q, p.seqlen_k);
  const int seqlen_before = seqlen;
  number(ui, "seqlen N", seqlen, kSeqlenRange, 64, true);
  if (seqlen != seqlen_before) p.seqlen_q = p.seqlen_k = seqlen;
  in_two_columns(
      ui, [&] { number(ui, "head dim d", p.head_dim, kHeadDimRange, 8, false, true); },
      [&] {  // a batch of equal sequences, or one row of sequences of various lengths: below
        number(ui, "batch", p.batch, p.cu_seqlens_q.empty() ? kBatchRange : IntRange{1, 1}, 1, true, true);
      });
  in_two_columns(
      ui, [&] { number(ui, "tile rows Br", s.tile.br, kTileRange, 8, false, true); },
      [&] { number(ui, "keys Bc", s.tile.bc, kTileRange, 8, false, true); });
  in_two_columns(
      ui,
      [&] {
        const int before = p.heads;
        number(ui, "heads", p.heads, kHeadsRange, 1, true, true);
        if (p.heads != before) p.kv_heads = p.heads;
      },
      [&] {
        number(ui, "KV heads", p.kv_heads, {1, p.heads}, 1, true, true);
        while (p.heads % p.kv_heads != 0) --p.kv_heads;  // the next divisor below
      });
  // Decode: few rows over a long cache, which is why these two belong together.
  if (s.algorithms[0] == "split_kv" || s.algorithms[1] == "split_kv")
    in_two_columns(
        ui, [&] { number(ui, "splits", s.tile.splits, kSplitsRange, 1, true, true); },
        [&] { number(ui, "query rows", p.seqlen_q, {1, p.seqlen_k}, 1, true, true); });
  if (has_ring(s.algorithms[0], p) || has_ring(s.algorithms[1], p))
    number(ui, "stages of the K/V ring", s.tile.stages, kStagesRange, 1, false);

  std::string pass = name_of(p.pass), dtype = name_of(p.dtype);
  in_two_columns(
      ui,
      [&] {
        if (choice(ui, "pass", pass, std::vector<std::string>{name_of(Pass::forward), name_of(Pass::backward)}, true))
          p.pass = pass_from_name(pass);
      },
      [&] {
        if (choice(ui, "dtype", dtype, std::vector<std::string>{"fp32", "fp16", "bf16", "fp8"}, true))
          p.dtype = dtype_from_name(dtype);
      });
  mask(ui, p);

  std::vector<std::string> gpus;
  for (const Machine& machine : machines) gpus.push_back(machine.name);
  choice(ui, "GPU", s.gpu, gpus);
  std::string start = name_of(s.start);
  in_two_columns(
      ui,
      [&] {
        if (choice(ui, "L2 at start", start,
                   std::vector<std::string>{name_of(Start::cold), name_of(Start::warm),
                                            name_of(Start::cold_each_kernel)},
                   true))
          s.start = start_from_name(start);
      },
      [&] { number(ui, "stage N up to", s.stage_seqlen, kStageSeqlenRange, 64, true, true); });

  s = clamp(s);
  end_panel();
}

}  // namespace flashscope::viz
