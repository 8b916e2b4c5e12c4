// Undo of parameter changes. A drag of a slider is one change.
#pragma once
#include <vector>

#include "viz/core/settings.h"

namespace flashscope::viz {

class History {
 public:
  /// Tells that the settings went from `before` to `now`. `holding`: a control is being dragged, so that the next
  /// change belongs to the same.
  void record(const Settings& before, const Settings& now, bool holding) {
    if (before == now) {
      if (!holding) m_in_drag = false;
      return;
    }
    if (!m_in_drag) m_past.push_back(before);
    if (m_past.size() > kMost) m_past.erase(m_past.begin());
    m_future.clear();
    m_in_drag = holding;
  }
  bool can_undo() const { return !m_past.empty(); }
  bool can_redo() const { return !m_future.empty(); }
  /// The settings before the last change; `now` where there is none.
  Settings undo(const Settings& now) { return move(m_past, m_future, now); }
  Settings redo(const Settings& now) { return move(m_future, m_past, now); }

 private:
  static constexpr std::size_t kMost = 200;
  Settings move(std::vector<Settings>& from, std::vector<Settings>& to, const Settings& now) {
    m_in_drag = false;
    if (from.empty()) return now;
    to.push_back(now);
    Settings settings = from.back();
    from.pop_back();
    return settings;
  }
  std::vector<Settings> m_past, m_future;
  bool m_in_drag = false;
};

}  // namespace flashscope::viz
