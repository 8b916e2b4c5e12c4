// Sums in global memory to which CTAs add one after the other (flash_v3 backward, in order): who has added to a query
// tile last, and who waits for that. The CTA of key tile j adds after that of j + 1.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/trace/trace.h"

namespace flashscope {

/// `Waiter`: a CTA that has written its part and waits for its turn.
template <class Waiter>
class AddingOrder {
 public:
  void start(std::int64_t tiles, int key_tiles) {
    m_key_tiles = key_tiles;
    m_last.assign(static_cast<std::size_t>(tiles), {});
    m_waiting.clear();
  }

  /// When the CTA of key tile `j` has let the next one add to `tile`; kUnknown: it has not come to that.
  static constexpr Picoseconds kUnknown = -1;
  Picoseconds passed_on(std::int64_t tile, int j) const {
    const Last& last = m_last[static_cast<std::size_t>(tile)];
    return last.j == j ? last.at : kUnknown;
  }
  void wait(std::int64_t tile, int j, Waiter* waiter) { m_waiting[tile * m_key_tiles + j] = waiter; }

  /// The CTA of key tile `j` does so. Returns who waited for that, if anybody did.
  Waiter* pass_on(std::int64_t tile, int j, Picoseconds at) {
    m_last[static_cast<std::size_t>(tile)] = {j, at};
    const auto found = m_waiting.find(tile * m_key_tiles + j);
    if (found == m_waiting.end()) return nullptr;
    Waiter* const waiter = found->second;
    m_waiting.erase(found);
    return waiter;
  }

 private:
  struct Last {
    int j = -1;
    Picoseconds at = 0;
  };
  int m_key_tiles = 1;
  std::vector<Last> m_last;                             // by tile
  std::unordered_map<std::int64_t, Waiter*> m_waiting;  // by tile and by the key tile that they wait for
};

}  // namespace flashscope
