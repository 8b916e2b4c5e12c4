#include "viz/cli/lesson_html_stage.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "viz/cli/format.h"
#include "viz/cli/html_text.h"
#include "viz/cli/lesson_html_color.h"
#include "viz/core/lesson_show.h"
#include "viz/core/scene.h"
#include "viz/core/session.h"
#include "viz/core/text.h"
#include "viz/core/window_words.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

using namespace viz;
using Cell = viz::TileState;  // sim's TileState is the online softmax of a tile

constexpr double kWidth = 660;

std::string text_svg(double x, double y, const std::string& text, const char* attributes = "") {
  return formatted("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>", x, y, attributes, html_escaped(text));
}

/// What a text of the page's 12-pixel letters takes at most.
double width_of(const std::string& text) { return 8.0 * static_cast<double>(text.size()); }

/// Tiles of one head in HBM: used ones in the tensor's colour, those under way in full, those that only L2 has pale,
/// the others grey.
std::string map_svg(const TileMap& map, double x, double y, double width, double height) {
  std::string svg;
  const double w = width / map.across, h = height / map.down;
  for (int row = 0; row < map.down; ++row)
    for (int col = 0; col < map.across;) {
      const TileCell& cell = map.at(row, col);
      int end = col + 1;
      while (end < map.across && map.at(row, end).state == cell.state && map.at(row, end).dirty == cell.dirty) ++end;
      const bool used = cell.state != Cell::untouched && cell.state != Cell::skipped;
      const bool now = cell.state == Cell::reading || cell.state == Cell::writing;
      svg += formatted(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var({})\" opacity=\"{}\"/>",
          x + col * w, y + row * h, (end - col) * w, h, used ? css_variable(map.tensor) : "--grip",
          cell.state == Cell::skipped ? "0.3"
          : now || !used              ? "1"
          : cell.dirty                ? "0.3"
                                      : "0.6");
      col = end;
    }
  svg += formatted(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"var(--line)\"/>", x, y,
      width, height);
  return svg;
}

/// The CTA that the lesson names, or else the first at work.
const CtaView* cta_of(const Scene& scene, int wanted) {
  const CtaView* first = nullptr;
  for (const SmView& sm : scene.sms)
    for (const CtaView& cta : sm.ctas) {
      if (cta.cta == wanted) return &cta;
      if (!first) first = &cta;
    }
  return first;
}

/// What the CTAs of SM 0 spend their time on, a row a slot, from `left` to `left + width`: one colour a reason.
std::string slots_svg(const StageTrace& trace, double left, double top, double width, double height,
                      Picoseconds duration, std::set<Reason>& seen) {
  std::vector<const SlotTrack*> slots;
  for (const SlotTrack& track : trace.tracks())
    if (track.sm == 0) slots.push_back(&track);
  const double h = height / static_cast<double>(std::max<std::size_t>(1, slots.size()));
  const double scale = width / static_cast<double>(std::max<Picoseconds>(1, duration));
  std::string svg;
  for (std::size_t row = 0; row < slots.size(); ++row)
    for (std::size_t n = slots[row]->first; n < slots[row]->last;) {
      const OpSpan& span = trace.spans()[n];
      Picoseconds end = span.end;
      while (++n < slots[row]->last && trace.spans()[n].reason == span.reason) end = trace.spans()[n].end;
      const double w = static_cast<double>(end - span.begin) * scale;
      if (w < 0.15) continue;  // narrower than any screen shows
      seen.insert(span.reason);
      svg += formatted("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"var({})\"/>",
                       left + static_cast<double>(span.begin) * scale, top + static_cast<double>(row) * h, w, h - 1,
                       css_variable(span.reason));
    }
  return svg;
}

/// Draws from the top down, each part as high as what is in it: a backward pass has more tensors than a line holds.
class Drawing {
 public:
  /// One algorithm at one instant.
  void stage(const StageTrace& trace, const Scene& scene, int cta_wanted) {
    line(trace.schedule().algorithm() + ", " + time_text(static_cast<double>(scene.t) / 1e6) + " of " +
             time_text(trace.prediction().time_us()),
         "style=\"font-weight:600\"");
    line("in HBM, one head", kDim);
    constexpr double kMap = 84, kLabel = 16;
    begin_row(kLabel + kMap + 8);
    for (const TileMap& map : scene.maps) tile_map(map, name_on_stage(map.tensor), kMap, kLabel);
    if (trace.scores_stay_on_chip()) tile_map(scene.score_visits, "S, on chip", kMap, kLabel);
    end_row();
    const CtaView* cta = cta_of(scene, cta_wanted);
    line(cta ? formatted("on chip, CTA {}: {}", cta->cta, cta->doing) : "on chip: no CTA at work", kDim);
    begin_row(28);
    for (const HeldTile& tile : cta ? cta->tiles : std::vector<HeldTile>()) {
      const double width = 16 + width_of(tile.name);
      const auto [x, y] = place(width, 8);
      m_svg += formatted(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"22\" rx=\"3\" fill=\"var({})\" opacity=\"{}\"/>",
          x, y, width, css_variable(tile.tensor), tile.spent ? "0.35" : "0.6");
      m_svg += text_svg(x + 8, y + 16, tile.name);
    }
    end_row();
    line(formatted("moved: {} to the SMs, {} from HBM, {} to HBM", size_text(static_cast<double>(scene.moved.sm_read)),
                   size_text(static_cast<double>(scene.moved.hbm_read)),
                   size_text(static_cast<double>(scene.moved.hbm_write))));
    m_y += 12;
  }

  /// Below the stages, on one clock.
  void timeline(const std::vector<std::shared_ptr<const StageTrace>>& traces, Picoseconds t) {
    Picoseconds duration = 1;
    for (const auto& trace : traces) duration = std::max(duration, trace->duration());
    const double label = 140, strip = kWidth - label - 12;
    std::set<Reason> seen;
    line("SM 0 over time", kDim);
    const double top = m_y;
    m_y += 4;
    for (const auto& trace : traces) {
      m_svg += text_svg(0, m_y + 18, trace->schedule().algorithm());
      m_svg += slots_svg(*trace, label, m_y, strip, 26, duration, seen);
      m_y += 32;
    }
    const double now = label + strip * static_cast<double>(t) / static_cast<double>(duration);
    m_svg += formatted("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"var(--text)\" stroke-width=\"2\"/>", now, top, m_y);
    m_y += 4;
    begin_row(18);
    for (Reason reason : seen) {
      const auto [x, y] = place(14 + width_of(name_of(reason)), 14);
      m_svg += formatted("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"var({})\"/>", x, y + 2,
                         css_variable(reason));
      m_svg += text_svg(x + 14, y + 11, name_of(reason), kDim);
    }
    end_row();
  }

  std::string svg() const {
    return formatted(
        "<svg width=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"the stage\">{}</svg>", kWidth,
        kWidth, m_y, m_svg);
  }

 private:
  static constexpr const char* kDim = "class=\"dim\"";

  void line(const std::string& text, const char* attributes = "") {
    m_svg += text_svg(0, m_y + 14, text, attributes);
    m_y += 20;
  }

  void tile_map(const TileMap& map, const std::string& name, double size, double label) {
    if (map.across == 0 || map.down == 0) return;
    const double width = map.across > 1 ? size : 24;
    const auto [x, y] = place(std::max(width, width_of(name)), 12);
    m_svg += text_svg(x, y + label - 5, name) + map_svg(map, x, y + label, width, size);
  }

  /// Pieces side by side in rows of this height, as many rows as they fill.
  void begin_row(double height) {
    m_row = height;
    m_x = 0;
  }
  std::pair<double, double> place(double width, double gap) {
    if (m_x > 0 && m_x + width > kWidth) {
      m_x = 0;
      m_y += m_row;
    }
    const double x = m_x;
    m_x += width + gap;
    return {x, m_y};
  }
  void end_row() {
    if (m_x > 0) m_y += m_row;
  }

  std::string m_svg;
  double m_y = 0;             // below what is drawn
  double m_x = 0, m_row = 0;  // right of the last piece of the row, and the row's height
};

}  // namespace

std::string stage_html(const OpenLesson& open, const LessonShow& show, const std::string& point) {
  const Settings settings = stage_settings(open, show);
  const Machine machine = load_machine(settings.gpu);
  const AttentionProblem problem = stage_problem(settings, kMaxStageOps);
  StageTraces traces;
  for (std::size_t n = 0; n < show.runs.size(); ++n)
    traces.push_back(trace_stage(settings.algorithms[n], problem, settings.tile, machine, settings.start));
  const Picoseconds t = moment_of(open.lesson, show, traces);
  Drawing drawing;
  for (const auto& trace : traces)
    drawing.stage(*trace, make_scene(*trace, t, static_cast<int>(machine.num_sms.value)), show.cta);
  drawing.timeline(traces, t);
  return "<figure>" + drawing.svg() + "<figcaption>The stage: " + html_escaped(describe(problem)) + ", on " +
         html_escaped(machine.title) + ". " + point + "</figcaption></figure>\n";
}

}  // namespace flashscope
