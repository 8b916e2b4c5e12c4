#include <algorithm>
#include <array>
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

/// Two controls side by side: the first takes `share` of the line, the other the rest of it.
void in_two_columns(const Ui& ui, const std::function<void()>& left, const std::function<void()>& right,
                    float share = 0.5f) {
  const ImVec2 at = ImGui::GetCursorPos();
  float below = at.y;  // of the taller: the right one may be empty
  const float both = ImGui::GetContentRegionAvail().x - ui.px(8), first = std::floor(both * share);
  for (const auto* column : {&left, &right}) {
    ImGui::SetCursorPos({at.x + (column == &right ? first + ui.px(8) : 0), at.y});
    ImGui::BeginGroup();
    ImGui::PushItemWidth(column == &right ? both - first : first);
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

/// Where a value stands in its range, as a line at the foot of its slider: a grip would lie over the digits.
void draw_place(const Ui& ui, int value, IntRange range, bool logarithmic) {
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  const auto along = [&](int v) {
    return logarithmic && range.lo > 0 ? std::log(static_cast<double>(v)) : static_cast<double>(v);
  };
  const double length = along(range.hi) - along(range.lo);
  const double place = length > 0 ? (along(value) - along(range.lo)) / length : 0;
  const float w = std::max(ui.px(3), (to.x - from.x) * static_cast<float>(std::clamp(place, 0.0, 1.0)));
  const float h = ui.px(ImGui::IsItemActive() ? 3 : 2);
  fill(ImGui::GetWindowDrawList(), {from.x, to.y - h, w, h}, ui.colors->text_dim, ui.px(1));
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
  draw_place(ui, value, range, logarithmic);
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
  if (ImGui::BeginCombo((std::string("##") + name).c_str(), current.c_str(), ImGuiComboFlags_HeightLarge)) {
    if (ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape))) ImGui::CloseCurrentPopup();
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
void sequences(const Ui& ui, AttentionProblem& p) {
  const int before = packed_sequences(p);
  int packed = before;
  number(ui, "sequences", packed, kSequencesRange, 1, true, true, packed == 1 ? "none" : "%d");
  if (packed != before) pack_sequences(p, packed);
}

/// A line of the panel: one control or two, below their names. Lines come as a list, so that their number is known
/// before the first is drawn.
using Rows = std::vector<std::function<void()>>;

/// Causal, a window of keys around the diagonal, and blocks: what is kept is kept by all three.
void add_mask(const Ui& ui, Rows& rows, AttentionProblem& p) {
  const BlockMaskChoice blocks = block_mask_choice(p);
  rows.push_back([&ui, &p, blocks] {
    const bool from_file = p.block_mask && blocks.pattern.empty();
    std::vector<std::string> patterns = {"none"};
    patterns.insert(patterns.end(), block_mask_patterns().begin(), block_mask_patterns().end());
    std::string pattern = from_file ? p.block_mask.mask->name : blocks.pattern.empty() ? "none" : blocks.pattern;
    in_two_columns(
        ui,
        [&] {
          label(ui, "mask");
          ImGui::Checkbox("causal", &p.causal);
        },
        [&] {
          if (!choice(ui, "block mask", pattern, patterns, true)) return;
          BlockMaskChoice chosen = blocks;
          chosen.pattern = pattern == "none" ? "" : pattern;
          set_block_mask(p, chosen);
        },
        0.43f);
  });
  rows.push_back([&ui, &p] {
    const int keys = std::min(p.seqlen_k, kWindowRange.hi);
    // A right end under a causal mask is the diagonal, whatever it says.
    int right = p.causal ? 0 : p.window_right;
    in_two_columns(
        ui,
        [&] {
          number(ui, "window left", p.window_left, {-1, keys}, 16, false, true, p.window_left < 0 ? "all" : "%d");
        },
        [&] {
          number(ui, "right", right, {-1, keys}, 16, false, true, right < 0 ? "all" : "%d");
        });
    if (!p.causal) p.window_right = right;
  });
  if (blocks.pattern.empty()) return;
  const auto change = [&p, blocks](const std::function<void(BlockMaskChoice&)>& control) {
    BlockMaskChoice changed = blocks;
    control(changed);
    if (changed != blocks) set_block_mask(p, changed);
  };
  rows.push_back([&ui, change] {
    in_two_columns(
        ui,
        [&] {
          change([&](BlockMaskChoice& c) { number(ui, "density", c.percent, kDensityRange, 1, false, true, "%d %%"); });
        },
        [&] {
          change([&](BlockMaskChoice& c) { number(ui, "rows of a block", c.block, kBlockRange, 16, true, true); });
        });
  });
  if (blocks.pattern == "random")
    rows.push_back(
        [&ui, change] { change([&](BlockMaskChoice& c) { number(ui, "seed", c.seed, kSeedRange, 1, false); }); });
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

/// The tile each kernel is built with, to be taken by a press, where both do not run in theirs already: one tile serves
/// both sides, and a recording has each algorithm in its own.
void add_own_tiles(const Ui& ui, Rows& rows, Settings& s) {
  std::array<TileShape, 2> own;
  bool as_set = true;
  for (std::size_t side = 0; side < 2; ++side) {
    own[side] = algorithm_named(s.algorithms[side], s.problem.pass).default_tile(s.problem);
    as_set = as_set && own[side].br == s.tile.br && own[side].bc == s.tile.bc;
  }
  if (as_set) return;
  rows.push_back([&ui, &s, own] {
    const auto take = [&](std::size_t side) {
      const char* name = side == 0 ? "left's own tile" : "right's";
      label(ui, name);
      const bool on = own[side].br == s.tile.br && own[side].bc == s.tile.bc;
      if (on) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(ui.colors->text_dim, 0.45));
      const std::string text =
          std::to_string(own[side].br) + " × " + std::to_string(own[side].bc) + "###" + std::string(name);
      if (ImGui::Button(text.c_str(), {ImGui::CalcItemWidth(), 0})) {
        s.tile.br = own[side].br;
        s.tile.bc = own[side].bc;
        s.tile.stages = own[side].stages;
      }
      if (on) ImGui::PopStyleColor();
      if (ImGui::IsItemHovered())
        ImGui::SetTooltip("Br × Bc that the kernel of %s is built with; both sides run in the tile that is set",
                          s.algorithms[side].c_str());
    };
    in_two_columns(
        ui, [&] { take(0); }, [&] { take(1); });
  });
}

/// What needs more memory than the GPU has: it is simulated all the same, so it has to be said.
std::string too_large_for(const Machine& machine, const Settings& s) {
  std::string text;
  for (std::size_t side = 0; side < 2; ++side) {
    if (side == 1 && s.algorithms[1] == s.algorithms[0]) break;
    try {
      const auto bytes = make_schedule(s.algorithms[side], s.problem, s.tile)->peak_memory_bytes();
      if (static_cast<double>(bytes) > machine.hbm_bytes.value)
        text += (text.empty() ? "" : "\n") + s.algorithms[side] +
                " does not fit: " + size_text(static_cast<double>(bytes)) + " of " + size_text(machine.hbm_bytes.value);
    } catch (const Error&) {  // its stage says why there is none
    }
  }
  return text;
}

/// As roomy as the panel's height allows: with many lines they stand closer, so that none is cut.
void draw_rows(const Ui& ui, const Rect& area, const Rows& rows) {
  const auto n = static_cast<float>(rows.size());
  const float tight =
      ui.fonts.small->FontSize + ui.fonts.body->FontSize + ui.px(4);  // with the paddings below at their least
  const float loose = std::clamp(((area.h - ui.px(18)) / n - tight) / ui.px(10), 0.0f, 1.0f);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {ui.px(6), ui.px(1 + 3 * loose)});
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {ui.px(6), ui.px(1 + 2 * loose)});
  ImGui::PushStyleColor(ImGuiCol_SliderGrab, 0);  // draw_place() has its place
  ImGui::PushStyleColor(ImGuiCol_SliderGrabActive, 0);
  for (const auto& row : rows) row();
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar(2);
}

}  // namespace

void controls_panel(const Ui& ui, const Rect& area, AppState& state, const std::vector<Machine>& machines) {
  begin_scrolling_panel(ui, "controls", area);
  Settings& s = state.settings;
  AttentionProblem& p = s.problem;
  Rows rows;

  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms(p.pass)) names.push_back(algorithm.name);
  rows.push_back([&] {
    if (choice(ui, "left algorithm", s.algorithms[0], names)) fit_tile(s, 0, machines);
  });
  rows.push_back([&] {
    if (choice(ui, "right algorithm", s.algorithms[1], names)) fit_tile(s, 1, machines);
  });
  // One length for queries and keys; a problem given with two keeps them until this is moved.
  rows.push_back([&] {
    int seqlen = std::max(p.seqlen_q, p.seqlen_k);
    const int before = seqlen;
    number(ui, "seqlen N", seqlen, kSeqlenRange, 64, true);
    if (seqlen != before) p.seqlen_q = p.seqlen_k = seqlen;
  });
  const auto chosen = std::find_if(machines.begin(), machines.end(), [&](const Machine& m) { return m.name == s.gpu; });
  if (const std::string told = chosen != machines.end() ? too_large_for(*chosen, s) : ""; !told.empty())
    rows.push_back([&ui, told] {
      ImGui::PushFont(ui.fonts.small);
      ImGui::PushStyleColor(ImGuiCol_Text, ui.colors->warning);
      ImGui::TextWrapped("%s", told.c_str());
      ImGui::PopStyleColor();
      ImGui::PopFont();
    });
  rows.push_back([&] {
    in_two_columns(
        ui, [&] { number(ui, "head dim d", p.head_dim, kHeadDimRange, 8, false, true); },
        [&] {  // a batch of equal sequences, or one row of sequences of various lengths: below
          number(ui, "batch", p.batch, p.cu_seqlens_q.empty() ? kBatchRange : IntRange{1, 1}, 1, true, true);
        });
  });
  rows.push_back([&] {
    in_two_columns(
        ui, [&] { number(ui, "tile rows Br", s.tile.br, kTileRange, 8, false, true); },
        [&] { number(ui, "keys Bc", s.tile.bc, kTileRange, 8, false, true); });
  });
  add_own_tiles(ui, rows, s);
  rows.push_back([&] {
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
  });
  // Decode: few rows over a long cache, which is why these two belong together.
  if (s.algorithms[0] == "split_kv" || s.algorithms[1] == "split_kv")
    rows.push_back([&] {
      in_two_columns(
          ui, [&] { number(ui, "splits", s.tile.splits, kSplitsRange, 1, true, true); },
          [&] {
            number(ui, "query rows", p.seqlen_q, {1, p.seqlen_k}, 1, true, true);
          });
    });
  const bool ring = has_ring(s.algorithms[0], p) || has_ring(s.algorithms[1], p);

  rows.push_back([&] {
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
        },
        0.59f);
  });
  add_mask(ui, rows, p);
  rows.push_back([&] {
    in_two_columns(
        ui, [&] { sequences(ui, p); },
        [&] { number(ui, "stage N up to", s.stage_seqlen, kStageSeqlenRange, 64, true, true); });
  });

  std::vector<std::string> gpus;
  for (const Machine& machine : machines) gpus.push_back(machine.name);
  rows.push_back([&] { choice(ui, "GPU", s.gpu, gpus); });
  rows.push_back([&] {
    const auto l2 = [&] {
      std::string start = name_of(s.start);
      const std::vector<std::string> starts = {name_of(Start::cold), name_of(Start::warm),
                                               name_of(Start::cold_each_kernel)};
      if (choice(ui, "L2 at start", start, starts, ring)) s.start = start_from_name(start);
    };
    if (ring)
      in_two_columns(ui, l2, [&] { number(ui, "K/V stages", s.tile.stages, kStagesRange, 1, false, true); });
    else
      l2();
  });
  draw_rows(ui, area, rows);

  s = clamp(s);
  end_panel();
}

}  // namespace flashscope::viz
