#include "viz/app/workspace.h"

#include <algorithm>
#include <cmath>

#include "viz/core/text.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

/// What the stages draw of the problem, in words.
std::string stage_caption(const Results& results) {
  const AttentionProblem &whole = results.settings.problem, &drawn = results.stage_problem;
  std::string text = "Stage: ";
  if (drawn.num_heads() < whole.num_heads())
    text += grouped(drawn.num_heads()) + " of " + grouped(whole.num_heads()) + " heads, ";
  else
    text += grouped(drawn.num_heads()) + (drawn.num_heads() == 1 ? " head, " : " heads, ");
  if (drawn.seqlen_q < whole.seqlen_q)
    text += "the first " + grouped(drawn.seqlen_q) + " of " + grouped(whole.seqlen_q) + " rows";
  else
    text += drawn.seqlen_q == 1 ? "one row" : "all " + grouped(drawn.seqlen_q) + " rows";
  text += ". Tiles " + std::to_string(results.settings.tile.br) + " × " + std::to_string(results.settings.tile.bc) +
          ", one clock for both.";
  if (results.stage[0])
    text += " SM 0–" + std::to_string(kSmsInView - 1) + " of " +
            grouped(static_cast<std::int64_t>(results.stage[0]->machine().num_sms.value)) + " in view.";
  return text;
}

}  // namespace

FrameResult draw_workspace(const Ui& ui, const Rect& window, const AppState& state, const Session& session,
                           const Results& results, const std::string& notice) {
  FrameResult result;
  result.state = state;
  if (window.empty()) return result;

  // Whole pixels, so that neighbours meet.
  const auto whole = [](float length) { return std::floor(length); };
  const float gap = std::max(1.0f, whole(ui.px(6)));
  const float bottom_h = whole(std::min(ui.px(134), window.h * 0.3f));
  const float top_h = window.h - bottom_h - gap;
  const float left_w = whole(ui.px(190)), right_w = whole(ui.px(300));
  const float caption_h = whole(ui.px(22));
  const float center_x = window.x + left_w + gap;
  const float center_w = window.w - left_w - right_w - 2 * gap;
  const float stage_w = whole((center_w - gap) / 2);

  ImGui::GetBackgroundDrawList()->AddRectFilled({window.x, window.y}, {window.right(), window.bottom()},
                                                ui.colors->window);
  controls_panel(ui, {window.x, window.y, left_w, top_h}, result.state, session.machines());

  const std::string caption = notice.empty() ? stage_caption(results) : notice;
  draw_text(ui, ImGui::GetBackgroundDrawList(), ui.fonts.small, center_x + ui.px(4), window.y + ui.px(4),
            center_w - ui.px(8), notice.empty() ? ui.colors->text_dim : ui.colors->warning, caption);
  static const char* names[] = {"stage 0", "stage 1"};
  for (std::size_t which = 0; which < 2; ++which) {
    const Rect area = {center_x + static_cast<float>(which) * (stage_w + gap), window.y + caption_h, stage_w,
                       top_h - caption_h};
    const auto& stage = results.stage[which];
    if (stage)
      stage_panel(ui, area, names[which], *stage, make_scene(*stage, state.playback.t, kSmsInView));
    else
      stage_message(ui, area, names[which], state.settings.algorithms[which],
                    results.errors[which].empty() ? "computing …" : results.errors[which]);
  }

  std::vector<Comparison> comparisons;
  for (std::size_t which = 0; which < 2; ++which)
    if (results.whole[which])
      comparisons.push_back(
          compare(results.settings, results.settings.algorithms[which], *results.whole[which], session.recordings()));
  const Request request =
      comparison_panel(ui, {window.right() - right_w, window.y, right_w, top_h}, results, comparisons);
  result.confirm = request == Request::confirm;
  result.cancel = request == Request::cancel;

  timeline_panel(ui, {window.x, window.y + top_h + gap, window.w, bottom_h}, result.state, results);
  help_panel(ui, window, result.state);
  return result;
}

}  // namespace flashscope::viz
