#include "viz/render/plot.h"

#include <algorithm>
#include <cmath>

#include "viz/render/label_places.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {
namespace {

constexpr std::size_t kPointsOfOnePolyline = 4000;
constexpr std::size_t kCrowd = 60;  // points of a series
constexpr float kReach = 12;  // units from a point at which the mouse is on it

class FigureDrawing {
 public:
  FigureDrawing(const Ui& ui, ImDrawList* list, const Rect& area, const Figure& figure)
      : m_ui(ui), m_c(*ui.colors), m_list(list), m_area(area), m_figure(figure) {
    m_x = fitted(figure.x, figure, false);
    m_y = fitted(figure.y, figure, true);
  }

  FigureHit draw() {
    float y = m_area.y;
    if (!m_figure.title.empty()) {
      text(m_ui.fonts.bold, m_area.x, y, m_area.w, m_c.text, m_figure.title);
      y += px(22);
    }
    y = legend(y);
    if (is_empty()) {  // axes would claim a range that nobody chose
      text(m_ui.fonts.body, m_area.x, y + px(6), m_area.w, m_c.text_dim,
           m_figure.note.empty() ? "Nothing to show yet." : m_figure.note);
      return {};
    }
    const float note_w = text_width(m_ui.fonts.small, m_figure.note);
    const int note_lines = m_figure.note.empty() ? 0
                           : note_w <= m_area.w  ? 1
                                                 : static_cast<int>(1.1f * note_w / m_area.w) + 1;
    const float note_h = px(16) * static_cast<float>(note_lines) + (note_lines > 0 ? px(2) : 0);
    const int rows = std::max(2, static_cast<int>((m_area.bottom() - y) / px(44)));
    const std::vector<double> marks = ticks(m_y, rows);
    float widest = px(20);
    for (double mark : marks) widest = std::max(widest, text_width(m_ui.fonts.small, tick_text(m_y, mark)));
    const float left = widest + px(12), bottom = px(38) + note_h;
    m_plot = {m_area.x + left, y + px(20), m_area.w - left - px(12), m_area.bottom() - y - bottom - px(20)};
    if (m_plot.w < px(30) || m_plot.h < px(30)) return {};
    text(m_ui.fonts.small, m_area.x, y, m_area.w, m_c.text_dim, m_figure.y.label);
    if (note_h > 0)
      draw_paragraph(m_ui, m_list, m_ui.fonts.small, m_area.x, m_area.bottom() - note_h + px(2), m_area.w, m_c.text_dim,
                     m_figure.note);
    axes(marks);
    const ImVec2 from = {m_plot.x, m_plot.y}, to = {m_plot.right(), m_plot.bottom()};
    m_list->PushClipRect({from.x - px(7), from.y - px(7)}, {to.x + px(7), to.y + px(7)}, true);
    for (const Guide& guide : m_figure.guides) guide_line(guide);
    for (const Series& series : m_figure.series)
      if (series.form == Series::Form::line) polyline(series);
    for (const Series& series : m_figure.series)
      if (series.form != Series::Form::line)
        for (const FigurePoint& point : series.points)  // a crowd is drawn smaller, to be told apart
          mark(series, at(point), series.points.size() > kCrowd ? 0.6f : 1);
    m_list->PopClipRect();
    guide_labels();
    return hover();
  }

 private:
  float px(float units) const { return m_ui.px(units); }
  float text(ImFont* font, float x, float y, float w, Color color, const std::string& s, Align align = Align::left) {
    return draw_text(m_ui, m_list, font, x, y, w, color, s, align);
  }
  ImVec2 at(const FigurePoint& point) const { return {x_of(point.x), y_of(point.y)}; }
  float x_of(double value) const { return m_plot.x + m_plot.w * static_cast<float>(place_on(m_x, value)); }
  float y_of(double value) const { return m_plot.bottom() - m_plot.h * static_cast<float>(place_on(m_y, value)); }
  static bool drawable(const ImVec2& p) { return std::isfinite(p.x) && std::isfinite(p.y) && std::fabs(p.y) < 1e6f; }

  bool is_empty() const {
    return std::all_of(m_figure.series.begin(), m_figure.series.end(),
                       [](const Series& series) { return series.points.empty(); });
  }

  /// Limits carry their name at their end.
  static bool is_labelled(const Series& series) {
    return series.form == Series::Form::line && (series.role == Role::limit || series.role == Role::note);
  }

  /// Names of the series in as many lines as they need; returns the y below.
  float legend(float y) {
    float x = m_area.x;
    bool any = false;
    for (const Series& series : m_figure.series) {
      if (series.name.empty() || series.points.empty() || is_labelled(series)) continue;
      const bool named_by_dots =
          series.form == Series::Form::line &&
          std::any_of(m_figure.series.begin(), m_figure.series.end(), [&](const Series& other) {
            return other.form == Series::Form::predicted_dots && other.name == series.name && !other.points.empty();
          });
      if (named_by_dots) continue;
      const float w = text_width(m_ui.fonts.small, series.name) + px(34);
      if (x > m_area.x && x + w > m_area.right()) {
        x = m_area.x;
        y += px(17);
      }
      if (series.form == Series::Form::line)
        m_list->AddLine({x, y + px(8)}, {x + px(16), y + px(8)}, m_c.of(series.role), px(2));
      else
        mark(series, {x + px(8), y + px(8)}, 1);
      text(m_ui.fonts.small, x + px(21), y, m_area.right() - x - px(21), m_c.text, series.name);
      x += w;
      any = true;
    }
    return any ? y + px(20) : y;
  }

  void axes(const std::vector<double>& marks) {
    for (double value : marks) {
      const float y = y_of(value);
      m_list->AddLine({m_plot.x, y}, {m_plot.right(), y}, mixed(m_c.line, m_c.panel, 0.6));
      text(m_ui.fonts.small, m_area.x, y - px(8), m_plot.x - m_area.x - px(7), m_c.text_dim, tick_text(m_y, value),
           Align::right);
    }
    float free_from = -1e9f;  // labels never touch
    for (double value : ticks(m_x, std::max(2, static_cast<int>(m_plot.w / px(52))))) {
      const float x = x_of(value);
      m_list->AddLine({x, m_plot.y}, {x, m_plot.bottom()}, mixed(m_c.line, m_c.panel, 0.6));
      const std::string label = tick_text(m_x, value);
      const float w = text_width(m_ui.fonts.small, label);
      if (x - w / 2 < free_from || x + w / 2 > m_area.right()) continue;
      text(m_ui.fonts.small, x - w / 2, m_plot.bottom() + px(3), w + 1, m_c.text_dim, label);
      free_from = x + w / 2 + px(6);
    }
    m_list->AddLine({m_plot.x, m_plot.bottom()}, {m_plot.right(), m_plot.bottom()}, m_c.text_dim);
    m_list->AddLine({m_plot.x, m_plot.y}, {m_plot.x, m_plot.bottom()}, m_c.text_dim);
    text(m_ui.fonts.small, m_plot.x, m_plot.bottom() + px(20), m_plot.w, m_c.text_dim, m_figure.x.label, Align::center);
  }

  void polyline(const Series& series) {
    std::vector<ImVec2> line;
    const auto flush = [&] {
      if (line.size() > 1)
        m_list->AddPolyline(line.data(), static_cast<int>(line.size()), m_c.of(series.role), 0, px(2));
      line.clear();
    };
    for (const FigurePoint& point : series.points) {
      const ImVec2 p = at(point);
      if (!drawable(p)) {
        flush();
        continue;
      }
      line.push_back(p);
      if (line.size() == kPointsOfOnePolyline) {
        flush();
        line.push_back(p);
      }
    }
    flush();
  }

  void mark(const Series& series, ImVec2 p, float grown) {
    if (!drawable(p)) return;
    const Color color = m_c.of(series.role);
    const bool open = series.form == Series::Form::measured_dots;
    const float r = px(open ? 6.5f : 4.5f) * grown;
    if (series.role == Role::left && open) m_list->AddCircle(p, r, color, 0, px(2));
    if (series.role == Role::left && !open) m_list->AddCircleFilled(p, r, color);
    if (series.role != Role::left && open) m_list->AddRect({p.x - r, p.y - r}, {p.x + r, p.y + r}, color, 0, 0, px(2));
    if (series.role != Role::left && !open) m_list->AddRectFilled({p.x - r, p.y - r}, {p.x + r, p.y + r}, color);
  }

  void guide_line(const Guide& guide) {
    const float dash = px(5);
    if (guide.vertical) {
      const float x = x_of(guide.at);
      if (!std::isfinite(x) || x < m_plot.x - 1 || x > m_plot.right() + 1) return;
      for (float y = m_plot.y; y < m_plot.bottom(); y += 2 * dash)
        m_list->AddLine({x, y}, {x, std::min(y + dash, m_plot.bottom())}, m_c.accent);
    } else {
      const float y = y_of(guide.at);
      if (!std::isfinite(y) || y < m_plot.y - 1 || y > m_plot.bottom() + 1) return;
      for (float x = m_plot.x; x < m_plot.right(); x += 2 * dash)
        m_list->AddLine({x, y}, {std::min(x + dash, m_plot.right()), y}, m_c.warning);
    }
  }

  std::vector<ImVec2> drawn(const Series& series) const {
    std::vector<ImVec2> places;
    for (const FigurePoint& point : series.points)
      if (const ImVec2 p = at(point); drawable(p)) places.push_back(p);
    return places;
  }

  /// Each label where it covers nothing else, on a ground that keeps the grid out of the letters.
  void guide_labels() {
    LabelGround ground = {m_plot, px(15), px(2), {}, {}};
    const auto write = [&](const Rect& r, Color color, const std::string& label) {
      fill(m_list, {r.x - px(2), r.y, r.w + px(4), r.h}, with_alpha(m_c.panel, 0.8), px(2));
      text(m_ui.fonts.small, r.x, r.y, r.w + 1, color, label);
    };
    for (const Series& series : m_figure.series) {
      const float r = px(7);
      if (series.form == Series::Form::line && series.points.size() <= kCrowd)
        ground.curves.push_back(drawn(series));
      else if (series.form != Series::Form::line)
        for (const ImVec2& p : drawn(series)) ground.dots.push_back({p.x - r, p.y - r, 2 * r, 2 * r});
    }
    for (const Series& series : m_figure.series) {
      if (!is_labelled(series) || series.points.empty() || series.name.empty()) continue;
      const float w = text_width(m_ui.fonts.small, series.name), h = px(15);
      const ImVec2 end = at(series.points.back());
      const bool flat = series.points.size() > 1 && at(series.points[series.points.size() - 2]).y == end.y;
      const Rect wanted = {std::min(end.x, m_plot.right()) - w - px(4), flat ? end.y - h - px(2) : end.y + px(14), w,
                           h};
      if (!drawable(end)) continue;
      const Rect r = place_beside(drawn(series), wanted, ground);
      text(m_ui.fonts.small, r.x, r.y, w + 1, m_c.text_dim, series.name);
      ground.taken.push_back(r);
    }
    std::vector<GuideLabel> labels;
    for (const Guide& guide : m_figure.guides) {
      const float place = guide.vertical ? x_of(guide.at) : y_of(guide.at);
      const bool seen = guide.vertical ? place >= m_plot.x - 1 && place <= m_plot.right() + 1
                                       : place >= m_plot.y - 1 && place <= m_plot.bottom() + 1;
      labels.push_back(
          {guide.vertical, place, seen ? std::min(text_width(m_ui.fonts.small, guide.label), m_plot.w * 0.9f) : 0});
    }
    const std::vector<std::optional<Rect>> places = label_places(labels, ground);
    for (std::size_t n = 0; n < places.size(); ++n)
      if (places[n]) write(*places[n], m_figure.guides[n].vertical ? m_c.text : m_c.warning, m_figure.guides[n].label);
  }

  FigureHit hover() {
    FigureHit hit;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (!ImGui::IsWindowHovered() || mouse.x < m_plot.x - px(8) || mouse.x > m_plot.right() + px(8) ||
        mouse.y < m_plot.y - px(8) || mouse.y > m_plot.bottom() + px(8))
      return hit;
    float nearest = px(kReach);
    for (std::size_t s = 0; s < m_figure.series.size(); ++s) {
      if (m_figure.series[s].form == Series::Form::line) continue;
      for (std::size_t n = 0; n < m_figure.series[s].points.size(); ++n) {
        const ImVec2 p = at(m_figure.series[s].points[n]);
        const float distance = std::hypot(p.x - mouse.x, p.y - mouse.y);
        if (!(distance < nearest)) continue;
        nearest = distance;
        hit = {static_cast<int>(s), static_cast<int>(n)};
      }
    }
    if (hit.series < 0) return hit;
    const Series& series = m_figure.series[static_cast<std::size_t>(hit.series)];
    const FigurePoint& point = series.points[static_cast<std::size_t>(hit.point)];
    mark(series, at(point), 1.6f);
    ImGui::SetTooltip("%s\n%s: %s\n%s: %s%s%s", series.name.c_str(), m_figure.x.label.c_str(),
                      tick_text(m_x, point.x).c_str(), m_figure.y.label.c_str(), tick_text(m_y, point.y).c_str(),
                      point.label.empty() ? "" : "\n", point.label.c_str());
    return hit;
  }

  const Ui& m_ui;
  const Palette& m_c;
  ImDrawList* m_list;
  const Rect m_area;
  const Figure& m_figure;
  Axis m_x, m_y;
  Rect m_plot;
};

}  // namespace

FigureHit draw_figure(const Ui& ui, ImDrawList* list, const Rect& area, const Figure& figure) {
  return FigureDrawing(ui, list, area, figure).draw();
}

void draw_bar(const Ui& ui, ImDrawList* list, const Rect& area, double share, Color color, const std::string& text,
              double further) {
  const auto length = [&](double of) {
    return std::max(of > 0 ? 1.0f : 0.0f, area.w * static_cast<float>(std::clamp(of, 0.0, 1.0)));
  };
  const float w = length(share + further), solid = std::min(w, length(share));
  const Color pale = mixed(color, ui.colors->panel, 0.4);
  fill(list, area, mixed(ui.colors->grip, ui.colors->panel, 0.5), ui.px(2));
  fill(list, {area.x, area.y, w, area.h}, pale, ui.px(2));
  fill(list, {area.x, area.y, solid, area.h}, color, ui.px(2));
  const float needed = text_width(ui.fonts.small, text) + ui.px(10);
  const float y = area.y + (area.h - ui.px(16)) / 2;
  if (w + needed <= area.w)
    draw_text(ui, list, ui.fonts.small, area.x + w + ui.px(5), y, area.w - w - ui.px(5), ui.colors->text, text);
  else
    draw_text(ui, list, ui.fonts.small, area.x + ui.px(4), y, w - ui.px(9),
              ui.colors->ink_on(2 * solid > w ? color : pale), text, Align::right);
}

}  // namespace flashscope::viz
