#include "viz/render/label_places.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {
namespace {

bool touch(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

/// Places beside its line, the preferred ones first: at the left above and below, then further to the right; of a
/// vertical line at its foot, then further up.
std::vector<Rect> candidates(const GuideLabel& label, const LabelGround& ground) {
  const Rect& plot = ground.plot;
  const float w = label.width, h = ground.height, step = std::max(1.0f, h / 2);
  std::vector<Rect> places;
  const auto add = [&](float x, float y) {
    if (x >= plot.x && x + w <= plot.right() && y >= plot.y && y + h <= plot.bottom()) places.push_back({x, y, w, h});
  };
  if (label.vertical) {
    for (float y = plot.bottom() - h - ground.gap; y >= plot.y; y -= step) {
      add(label.at + 2 * ground.gap, y);
      add(label.at - 2 * ground.gap - w, y);
    }
    return places;
  }
  for (float x = plot.x + 3 * ground.gap; x + w <= plot.right(); x += step) {
    add(x, label.at - h - ground.gap / 2);
    add(x, label.at + ground.gap / 2);
  }
  return places;
}

}  // namespace

bool crosses(const Rect& r, ImVec2 a, ImVec2 b) {
  // What of the segment lies within the rectangle's sides, one pair after the other (Liang and Barsky).
  float from = 0, to = 1;
  const auto within = [&](float start, float length, float lo, float hi) {
    if (length == 0) return start > lo && start < hi;
    const float p = (lo - start) / length, q = (hi - start) / length;
    from = std::max(from, std::min(p, q));
    to = std::min(to, std::max(p, q));
    return from < to;
  };
  return within(a.x, b.x - a.x, r.x, r.right()) && within(a.y, b.y - a.y, r.y, r.bottom());
}

Rect place_beside(const std::vector<ImVec2>& curve, const Rect& wanted, const LabelGround& ground) {
  const Rect& plot = ground.plot;
  const auto is_clear = [&](const Rect& r) {
    if (r.x < plot.x || r.y < plot.y || r.right() > plot.right() || r.bottom() > plot.bottom()) return false;
    for (const auto* list : {&ground.taken, &ground.dots})
      if (std::any_of(list->begin(), list->end(), [&](const Rect& t) { return touch(r, t); })) return false;
    for (const auto& line : ground.curves)
      for (std::size_t n = 1; n < line.size(); ++n)
        if (crosses(r, line[n - 1], line[n])) return false;
    return true;
  };
  if (is_clear(wanted)) return wanted;
  const float step = std::max(2.0f, wanted.h / 3), reach = std::max(plot.w, plot.h);
  for (float away = ground.gap; away < reach; away += step)
    for (std::size_t n = curve.size(); n-- > 1;) {
      const ImVec2 from = curve[n], to = curve[n - 1];
      const float length = std::hypot(to.x - from.x, to.y - from.y);
      for (float along = 0; along < length; along += step) {
        const float x = from.x + (to.x - from.x) * along / length, y = from.y + (to.y - from.y) * along / length;
        // Below and above at the right and at the left: the corner next to the curve.
        for (const Rect& r : {Rect{x + away, y + away, wanted.w, wanted.h},
                              Rect{x - away - wanted.w, y - away - wanted.h, wanted.w, wanted.h},
                              Rect{x - away - wanted.w, y + away, wanted.w, wanted.h},
                              Rect{x + away, y - away - wanted.h, wanted.w, wanted.h}})
          if (is_clear(r)) return r;
      }
    }
  return wanted;
}

std::vector<std::optional<Rect>> label_places(const std::vector<GuideLabel>& labels, const LabelGround& ground) {
  const Rect& plot = ground.plot;
  std::vector<std::optional<Rect>> places;
  std::vector<Rect> taken = ground.taken;
  const auto is_free = [&](const GuideLabel& own, const Rect& r) {
    return std::none_of(taken.begin(), taken.end(), [&](const Rect& t) { return touch(r, t); }) &&
           std::none_of(labels.begin(), labels.end(), [&](const GuideLabel& other) {
             return &other != &own && !other.vertical && crosses(r, {plot.x, other.at}, {plot.right(), other.at});
           });
  };
  const auto is_clear = [&](const GuideLabel& own, const Rect& r) {
    for (const GuideLabel& other : labels)
      if (&other != &own && other.vertical && crosses(r, {other.at, plot.y}, {other.at, plot.bottom()})) return false;
    for (const auto& curve : ground.curves)
      for (std::size_t n = 1; n < curve.size(); ++n)
        if (crosses(r, curve[n - 1], curve[n])) return false;
    return true;
  };
  for (const GuideLabel& label : labels) {
    std::optional<Rect> chosen;
    if (std::isfinite(label.at) && label.width > 0)
      for (const Rect& r : candidates(label, ground)) {
        if (!is_free(label, r)) continue;
        if (!chosen) chosen = r;
        if (!is_clear(label, r)) continue;
        chosen = r;
        break;
      }
    if (chosen) taken.push_back(*chosen);
    places.push_back(chosen);
  }
  return places;
}

}  // namespace flashscope::viz
