// A CTA: its operation, the tiles it holds in SMEM and in registers, its running sums.
#include <algorithm>
#include <utility>

#include "viz/core/span_names.h"
#include "viz/panels/stage_parts.h"

namespace flashscope::viz {
namespace {

class CtaDrawing : StagePart {
 public:
  explicit CtaDrawing(const StageView& view) : StagePart(view) {}

  /// How close together what a CTA holds is drawn.
  struct Closeness {
    float tile_h, gap;         // of tiles, and between their lines
    bool gauges_in_one_line;   // acc beside m and l
    bool under_label = false;  // lines after the first begin under "SMEM" and "regs", and are longer
    bool short_names = false;  // "dO" for "dO[10]"
  };

  /// Gauges that share a line have no room for their numbers, and come last.
  float one_cta(float x, float y, float w, const CtaView& cta, float bottom, float end) {
    operation(x, y, w, cta);
    y += px(23);
    // Tiles of two lines never touch: a frame around one in use would be that of its neighbour, too.
    const Closeness roomy = {px(22), px(4), false}, closer = {px(21), px(2), false}, close = {px(18), px(2), false},
                    closest = {px(16), px(2), false}, stacked = {px(16), px(2), false, true},
                    shared = {px(16), px(2), true}, dense = {px(15), px(2), true, true},
                    brief = {px(16), px(2), true, false, true};
    const std::pair<Closeness, float> choices[] = {
        {roomy, bottom}, {closer, bottom}, {close, bottom}, {closest, bottom}, {close, end},    {closest, end},
        {stacked, end},  {shared, end},    {dense, end},    {brief, end},      {densest(), end}};
    const auto* choice = std::begin(choices);
    while (choice + 1 != std::end(choices) && y + height_of(cta, w, choice->first) > choice->second) ++choice;
    return registers(x, held_tiles(x, y, w, cta, choice->first), w, cta, choice->first);
  }

  float height_of(const CtaView& cta, float w, const Closeness& close) const {
    const float line = close.tile_h + close.gap;
    const int gauges = close.gauges_in_one_line ? (cta.has_acc || cta.has_rows) : cta.has_acc + cta.has_rows;
    const int in_smem = std::max(1, lines_of(cta, false, w, close)), in_registers = lines_of(cta, true, w, close);
    return line * static_cast<float>(in_smem + in_registers) + px(17) * static_cast<float>(gauges);
  }

  float roomy_height(float w, const CtaView& cta) const { return px(23) + height_of(cta, w, {px(22), px(4), false}); }
  float least_height(float w, const CtaView& cta) const { return px(23) + height_of(cta, w, densest()); }

 private:
  Closeness densest() const { return {px(15), px(2), true, true, true}; }

  static std::string name_of_tile(const HeldTile& tile, const Closeness& close) {
    return close.short_names ? tile.name.substr(0, tile.name.find('[')) : tile.name;
  }
  float width_of(const HeldTile& tile, const Closeness& close) const {
    return std::max(px(28), text_width(m_ui.fonts.small, name_of_tile(tile, close)) + px(8));
  }

  /// Lines that the tiles in SMEM, or those in registers, take.
  int lines_of(const CtaView& cta, bool in_registers, float w, const Closeness& close) const {
    int lines = 0;
    float room = 0;
    for (const HeldTile& tile : cta.tiles) {
      if (tile.in_registers != in_registers) continue;
      if (lines == 0 || width_of(tile, close) > room) {
        room = w - (lines > 0 && close.under_label ? 0 : px(44));
        ++lines;
      }
      room -= width_of(tile, close) + px(4);
    }
    return lines;
  }

  void operation(float x, float y, float w, const CtaView& cta) {
    const Color color = m_c.of(cta.reason);
    fill(m_list, {x, y + px(4), px(9), px(9)}, color, px(1));
    std::vector<std::string> words = span_names(cta.doing);
    words.push_back(words.back().substr(0, words.back().find_first_of(";,", words.back().find(']') + 1)));
    const auto fitting = std::find_if(words.begin(), words.end() - 1, [&](const std::string& longer) {
      return text_width(m_ui.fonts.small, longer) <= w - px(14);
    });
    text(m_ui.fonts.small, x + px(14), y, w - px(14), m_c.text, *fitting);
    const Rect bar = {x, y + px(17), w, px(2)};
    fill(m_list, bar, m_c.grip);
    fill(m_list, {bar.x, bar.y, bar.w * static_cast<float>(cta.progress), bar.h}, color);
  }

  /// The tiles in SMEM, or those in registers, in as many lines as they take; returns the y below them.
  float tiles_in_lines(float x, float y, float w, const CtaView& cta, bool in_registers, const Closeness& close) {
    float left = x + px(44), at = left;
    for (const HeldTile& tile : cta.tiles) {
      if (tile.in_registers != in_registers) continue;
      const float tile_w = width_of(tile, close);
      if (at > left && at + tile_w > x + w) {
        if (close.under_label) left = x;
        at = left;
        y += close.tile_h + close.gap;
      }
      held_tile({at, y - px(2), tile_w, close.tile_h}, tile, name_of_tile(tile, close));
      at += tile_w + px(4);
    }
    return y + close.tile_h + close.gap;
  }

  float held_tiles(float x, float y, float w, const CtaView& cta, const Closeness& close) {
    text(m_ui.fonts.small, x, y, w, cta.has_smem ? m_c.of(Reason::smem) : m_c.text_dim,
         cta.has_smem ? "SMEM" : "reads");
    return tiles_in_lines(x, y, w, cta, false, close);
  }

  void held_tile(const Rect& r, const HeldTile& tile, const std::string& words) {
    const Color color = m_c.of(tile.tensor);
    const Color faint = mixed(color, m_c.box, tile.spent ? 0.12 : 0.25);
    fill(m_list, r, faint, px(2));
    if (!tile.spent) fill(m_list, {r.x, r.y, r.w * static_cast<float>(tile.filled), r.h}, color, px(2));
    outline(m_list, r, tile.in_use ? m_c.accent : color, px(2), tile.in_use ? px(2) : 1);
    // The name stands half on the colour and half beside it while the tile fills: each half in the ink that is read
    // there.
    const float edge = tile.spent ? r.x : r.x + r.w * static_cast<float>(tile.filled);
    const auto name = [&](float from, float to, Color ink) {
      if (to <= from) return;
      m_list->PushClipRect({from, 0}, {to, 1e6f}, true);
      text(m_ui.fonts.small, r.x, r.y + (r.h - px(16)) / 2, r.w, ink, words, Align::center);
      m_list->PopClipRect();
    };
    name(r.x, edge, m_c.ink_on(color));
    name(edge, r.right(), tile.spent ? m_c.text_dim : m_c.text);
  }

  float registers(float x, float y, float w, const CtaView& cta, const Closeness& close) {
    const bool has_tiles = lines_of(cta, true, w, close) > 0;
    if (!cta.has_acc && !cta.has_rows && !has_tiles) return y;
    text(m_ui.fonts.small, x, y, w, m_c.text_dim, "regs");
    if (has_tiles) y = tiles_in_lines(x, y, w, cta, true, close);
    const float left = x + px(44), bar = px(13), step = px(17), gap = px(4);
    const bool beside = close.gauges_in_one_line && cta.has_acc && cta.has_rows;
    const float full = w - px(44), half = (full - gap) / 2;
    if (cta.has_acc) {
      const std::string done =
          "acc " + std::to_string(static_cast<int>(cta.acc_done)) + "/" + std::to_string(cta.acc_total);
      gauge({left, y, beside ? half : full, bar}, cta.acc_done / std::max(1, cta.acc_total), m_c.of(Tensor::O),
            {done, "acc", ""});
      if (!beside) y += step;
    }
    if (cta.has_rows) {
      const bool updating = cta.rows_progress > 0;
      const double share = updating ? cta.rows_progress : cta.rows_updates > 0 ? 1 : 0;
      const std::string updates = std::to_string(cta.rows_updates + updating);
      gauge({beside ? left + half + gap : left, y, beside ? half : full, bar}, share, m_c.of(Tensor::LSE),
            {"m, l update " + updates, "m, l " + updates, "m, l", ""});
    }
    return beside || cta.has_rows ? y + step : y;
  }

  /// The first of the labels that fits, else the last: the fill says how far it is.
  void gauge(const Rect& r, double share, Color color, const std::vector<std::string>& labels) {
    fill(m_list, r, m_c.grip, px(2));
    fill(m_list, {r.x, r.y, r.w * static_cast<float>(std::clamp(share, 0.0, 1.0)), r.h}, mixed(color, m_c.box, 0.45),
         px(2));
    const auto fitting = std::find_if(labels.begin(), labels.end(), [&](const std::string& label) {
      return text_width(m_ui.fonts.small, label) <= r.w - px(8);
    });
    text(m_ui.fonts.small, r.x + px(5), r.y - px(1), r.w - px(8), m_c.text,
         fitting == labels.end() ? labels.back() : *fitting);
  }
};

}  // namespace

float draw_stage_cta(const StageView& view, float x, float y, float w, const CtaView& cta, float bottom, float end) {
  return CtaDrawing(view).one_cta(x, y, w, cta, bottom, end);
}

float stage_cta_height(const StageView& view, float w, const CtaView& cta, bool roomy) {
  const CtaDrawing drawing(view);
  return roomy ? drawing.roomy_height(w, cta) : drawing.least_height(w, cta);
}

}  // namespace flashscope::viz
