#include "viz/core/link_use.h"

#include <algorithm>

namespace flashscope::viz {

/// Spans before the first one shown in which a load may have started that is still under way.
/// Eight stages of six operations a tile, and a few more.
constexpr std::size_t kStartedBefore = 64;

LinkUse link_use(const StageTrace& trace, double begin, double end, int columns) {
  LinkUse use;
  use.hbm.assign(static_cast<std::size_t>(std::max(0, columns)), 0);
  use.l2 = use.hbm;
  if (columns <= 0 || !(end > begin)) return use;
  const double width = (end - begin) / columns;
  std::vector<double> hbm(use.hbm.size()), l2(use.hbm.size());
  const std::vector<OpSpan>& spans = trace.spans();
  for (const SlotTrack& track : trace.tracks()) {
    const OpSpan* first = trace.last_begun(track, static_cast<Picoseconds>(begin));
    std::size_t n = first ? static_cast<std::size_t>(first - spans.data()) : track.first;
    n -= std::min(n - track.first, kStartedBefore);
    for (; n < track.last; ++n) {
      const OpSpan& span = spans[n];
      const auto from = static_cast<double>(span.begin), to = static_cast<double>(span.there());
      if (from >= end) break;
      if ((span.op.op != Op::load && span.op.op != Op::store) || to <= begin || to <= from) continue;
      const Moved& moved = trace.moved_by(span);
      const double hbm_rate = static_cast<double>(moved.hbm_read + moved.hbm_write) / (to - from);
      const double l2_rate = static_cast<double>(span.op.bytes) / (to - from);
      const int last = std::min(columns - 1, static_cast<int>((to - begin) / width));
      for (int column = std::max(0, static_cast<int>((from - begin) / width)); column <= last; ++column) {
        const double left = begin + column * width;
        const double overlap = std::min(to, left + width) - std::max(from, left);
        if (overlap <= 0) continue;
        hbm[static_cast<std::size_t>(column)] += hbm_rate * overlap;
        l2[static_cast<std::size_t>(column)] += l2_rate * overlap;
      }
    }
  }
  // A byte a picosecond is a TB/s; machines state GB/s.
  const Machine& machine = trace.machine();
  const double hbm_most = machine.hbm_read_gb_per_s.value * width / 1e3,
               l2_most = machine.l2_gb_per_s.value * width / 1e3;
  for (std::size_t n = 0; n < hbm.size(); ++n) {
    use.hbm[n] = static_cast<float>(std::min(1.0, hbm[n] / hbm_most));
    use.l2[n] = static_cast<float>(std::min(1.0, l2[n] / l2_most));
  }
  return use;
}

}  // namespace flashscope::viz
