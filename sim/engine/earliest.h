// Which of a fixed number of places goes on first: a tournament, so that a place that moves is compared with the
// winners of the other halves only.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/trace/trace.h"

namespace flashscope {

inline constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();

/// When something goes on. Ties go to the lower `order`: the order is total, so runs repeat exactly.
struct Turn {
  Picoseconds at = kNever;
  std::int64_t order = 0;
  bool operator<(const Turn& other) const { return (at < other.at) | ((at == other.at) & (order < other.order)); }
};

class Earliest {
 public:
  explicit Earliest(int places = 0) {
    while (m_leaves < places) m_leaves *= 2;
    m_turns.assign(static_cast<std::size_t>(2 * m_leaves), Turn{});
  }

  void set(int place, Turn turn) {
    std::size_t node = static_cast<std::size_t>(m_leaves + place);
    m_turns[node] = turn;
    for (; node > 1; node /= 2) {
      const Turn& other = m_turns[node ^ 1];
      const bool first = other < turn;  // as likely as not: values are chosen, not ways
      turn.at = first ? other.at : turn.at;
      turn.order = first ? other.order : turn.order;
      m_turns[node / 2] = turn;
    }
  }
  Turn turn() const { return m_turns[1]; }
  /// Every place goes on so much later.
  void put_off(Picoseconds by) {
    for (Turn& turn : m_turns)
      if (turn.at != kNever) turn.at += by;
  }

 private:
  int m_leaves = 1;
  std::vector<Turn> m_turns;  // of each node its winner's; the root is 1, its halves 2 and 3, and so on
};

}  // namespace flashscope
