// Which of a fixed number of places goes on first: a tournament, so that a place that moves is compared with the
// winners of the other halves only.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/trace/trace.h"

namespace flashscope {

/// When something goes on. Ties go to the lower `order`: the order is total, so runs repeat exactly.
struct Turn {
  Picoseconds at = std::numeric_limits<Picoseconds>::max();  // never
  std::int64_t order = 0;
  bool operator<(const Turn& other) const { return at != other.at ? at < other.at : order < other.order; }
};
constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();

class Earliest {
 public:
  explicit Earliest(int places = 0) {
    while (m_leaves < places) m_leaves *= 2;
    m_turns.assign(static_cast<std::size_t>(2 * m_leaves), Turn{});
    m_place.assign(static_cast<std::size_t>(2 * m_leaves), 0);
    for (int p = 0; p < m_leaves; ++p) m_place[static_cast<std::size_t>(m_leaves + p)] = p;
  }

  void set(int place, Turn turn) {
    std::size_t node = static_cast<std::size_t>(m_leaves + place);
    m_turns[node] = turn;
    for (; node > 1; node /= 2) {
      const std::size_t winner = m_turns[node ^ 1] < m_turns[node] ? node ^ 1 : node;
      m_turns[node / 2] = m_turns[winner];
      m_place[node / 2] = m_place[winner];
    }
  }
  int place() const { return m_place[1]; }
  Turn turn() const { return m_turns[1]; }

 private:
  int m_leaves = 1;
  std::vector<Turn> m_turns;  // of each node its winner's; the root is 1
  std::vector<int> m_place;
};

}  // namespace flashscope
