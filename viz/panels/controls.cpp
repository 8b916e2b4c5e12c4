#include <algorithm>
#include <cmath>
#include <functional>

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
  const float half = (ImGui::GetContentRegionAvail().x - ui.px(8)) / 2;
  for (const auto* column : {&left, &right}) {
    ImGui::SetCursorPos({at.x + (column == &right ? half + ui.px(8) : 0), at.y});
    ImGui::BeginGroup();
    ImGui::PushItemWidth(half);
    (*column)();
    ImGui::PopItemWidth();
    ImGui::EndGroup();
  }
}

/// A slider over `range`. Dragging moves in multiples of `snap`; a typed value (Ctrl+click) is taken as it is, clamped.
void number(const Ui& ui, const char* name, int& value, IntRange range, int snap, bool logarithmic, bool half = false) {
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
  ImGui::SliderInt(id.c_str(), &value, range.lo, range.hi, "%d", flags);
  if (half && ImGui::IsItemHovered()) ImGui::SetTooltip("%s: %d … %d; Ctrl+click to type", name, range.lo, range.hi);
  const bool dragging = ImGui::IsItemActive() && !ImGui::GetIO().WantTextInput;
  if (dragging && value != before && value > snap) value = (value + snap / 2) / snap * snap;
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

}  // namespace

void controls_panel(const Ui& ui, const Rect& area, AppState& state, const std::vector<Machine>& machines) {
  begin_scrolling_panel(ui, "controls", area);
  Settings& s = state.settings;
  AttentionProblem& p = s.problem;

  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms(p.pass)) names.push_back(algorithm.name);
  choice(ui, "left algorithm", s.algorithms[0], names);
  choice(ui, "right algorithm", s.algorithms[1], names);
  ImGui::Dummy({0, ui.px(2)});

  // One length for queries and keys; a problem given with two keeps them until this is moved.
  int seqlen = std::max(p.seqlen_q, p.seqlen_k);
  const int seqlen_before = seqlen;
  number(ui, "seqlen N", seqlen, kSeqlenRange, 64, true);
  if (seqlen != seqlen_before) p.seqlen_q = p.seqlen_k = seqlen;
  number(ui, "head dim d", p.head_dim, kHeadDimRange, 8, false);
  in_two_columns(
      ui, [&] { number(ui, "tile rows Br", s.tile.br, kTileRange, 8, false, true); },
      [&] { number(ui, "keys Bc", s.tile.bc, kTileRange, 8, false, true); });
  // Decode: few rows over a long cache, which is why these two belong together.
  if (s.algorithms[0] == "split_kv" || s.algorithms[1] == "split_kv")
    in_two_columns(
        ui, [&] { number(ui, "splits", s.tile.splits, kSplitsRange, 1, true, true); },
        [&] { number(ui, "query rows", p.seqlen_q, {1, p.seqlen_k}, 1, true, true); });
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
  number(ui, "batch", p.batch, kBatchRange, 1, true);

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
  ImGui::Checkbox("causal mask", &p.causal);
  std::vector<std::string> gpus;
  for (const Machine& machine : machines) gpus.push_back(machine.name);
  choice(ui, "GPU", s.gpu, gpus);
  std::string start = name_of(s.start);
  if (choice(ui, "L2 at the start", start,
             std::vector<std::string>{name_of(Start::cold), name_of(Start::warm), name_of(Start::cold_each_kernel)}))
    s.start = start_from_name(start);
  ImGui::Dummy({0, ui.px(2)});
  number(ui, "stage N up to", s.stage_seqlen, kStageSeqlenRange, 64, true);

  s = clamp(s);
  end_panel();
}

}  // namespace flashscope::viz
