#include "viz/core/link_use.h"

#include <algorithm>

namespace flashscope::viz {

LinkUse link_use(const StageTrace& trace, double begin, double end, int columns) {
  LinkUse use;
  use.hbm.assign(static_cast<std::size_t>(std::max(0, columns)), 0);
  use.l2 = use.hbm;
  if (columns <= 0 || !(end > begin)) return use;
  const Flow& flow = trace.flow();
  const double width = (end - begin) / columns;
  // A byte a picosecond is a TB/s; machines state GB/s.
  const Machine& machine = trace.machine();
  const double hbm_most = machine.hbm_read_gb_per_s.value * width / 1e3,
               l2_most = machine.l2_gb_per_s.value * width / 1e3;
  auto next = static_cast<std::size_t>(std::upper_bound(flow.at.begin(), flow.at.end(), begin) - flow.at.begin());
  const auto moved_by = [&](const std::vector<double>& bytes, double t) {
    if (next == 0) return bytes.front();
    if (next == flow.at.size()) return bytes.back();
    const double share = (t - flow.at[next - 1]) / (flow.at[next] - flow.at[next - 1]);
    return bytes[next - 1] + share * (bytes[next] - bytes[next - 1]);
  };
  double hbm = moved_by(flow.hbm, begin), l2 = moved_by(flow.l2, begin);
  for (int column = 0; column < columns; ++column) {
    const double t = begin + (column + 1) * width;
    while (next < flow.at.size() && flow.at[next] <= t) ++next;
    const double hbm_then = moved_by(flow.hbm, t), l2_then = moved_by(flow.l2, t);
    use.hbm[static_cast<std::size_t>(column)] = static_cast<float>(std::clamp((hbm_then - hbm) / hbm_most, 0.0, 1.0));
    use.l2[static_cast<std::size_t>(column)] = static_cast<float>(std::clamp((l2_then - l2) / l2_most, 0.0, 1.0));
    hbm = hbm_then;
    l2 = l2_then;
  }
  return use;
}

UnitUse unit_use(const StageTrace& trace, int sm, double begin, double end, int columns) {
  UnitUse use;
  for (auto& shares : use) shares.assign(static_cast<std::size_t>(std::max(0, columns)), 0);
  if (columns <= 0 || !(end > begin)) return use;
  const double width = (end - begin) / columns;
  int slots = 0;
  for (const SlotTrack& track : trace.tracks()) slots += track.sm == sm;
  for (const SlotTrack& track : trace.tracks()) {
    if (track.sm != sm) continue;
    const OpSpan* first = trace.last_begun(track, static_cast<Picoseconds>(begin));
    for (std::size_t n = first ? static_cast<std::size_t>(first - trace.spans().data()) : track.first; n < track.last;
         ++n) {
      const OpSpan& span = trace.spans()[n];
      const auto from = static_cast<double>(span.begin), to = static_cast<double>(span.end);
      if (from >= end) break;
      if (to <= begin) continue;
      std::vector<float>& shares = use[static_cast<std::size_t>(span.reason)];
      const int last = std::min(columns - 1, static_cast<int>((to - begin) / width));
      for (int column = std::max(0, static_cast<int>((from - begin) / width)); column <= last; ++column) {
        const double left = begin + column * width;
        const double overlap = std::min(to, left + width) - std::max(from, left);
        if (overlap > 0) shares[static_cast<std::size_t>(column)] += static_cast<float>(overlap / (width * slots));
      }
    }
  }
  return use;
}

}  // namespace flashscope::viz
