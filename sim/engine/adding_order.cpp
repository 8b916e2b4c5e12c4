#include "sim/engine/adding_order.h"

#include <algorithm>

namespace flashscope {

Picoseconds Adder::until_gone(Picoseconds now) {
  if (!waits && gone <= now) return now;
  waits_since = std::min(waits_since, now);
  return waits ? kNever : gone;
}

void AddingOrder::start(std::int64_t tiles, int key_tiles, Picoseconds trip) {
  m_key_tiles = key_tiles;
  m_trip = trip;
  m_last.assign(static_cast<std::size_t>(tiles), {});
  m_waiting.clear();
}

/// When the CTA of key tile `j` has let the next one add to `tile`; kUnknown: it has not come to that.
Picoseconds AddingOrder::passed_on(std::int64_t tile, int j) const {
  const Last& last = m_last[static_cast<std::size_t>(tile)];
  return last.j == j ? last.at : kUnknown;
}

/// The CTA of key tile `j` does so. Returns who waited for that, if anybody did.
Adder* AddingOrder::pass_on(std::int64_t tile, int j, Picoseconds at) {
  m_last[static_cast<std::size_t>(tile)] = {j, at};
  const auto found = m_waiting.find(tile * m_key_tiles + j);
  if (found == m_waiting.end()) return nullptr;
  Adder* const waiter = found->second;
  m_waiting.erase(found);
  return waiter;
}

/// A round trip to ask whose turn it is; what is added, and the trip back that says so; a fence; and another before the
/// next turn is announced, which then arrives in L2: each fence is taken to be a round trip. Returns when that is.
Picoseconds AddingOrder::take_turn(Adder& adder, Picoseconds turn) const {
  const Part& part = adder.part;
  const Picoseconds trip = m_trip * part.tiles;
  const Picoseconds added = std::max(std::max(part.written, turn) + trip + part.port, part.moved) + trip;
  adder.gone = added + 2 * trip;
  return adder.gone + trip / 2;
}

const std::vector<Adder*>& AddingOrder::add(Adder& adder, bool is_first) {
  m_served.clear();
  const std::int64_t last = adder.part.end_tile - 1;
  const int before = adder.part.key_tile + 1;
  Picoseconds turn = is_first ? 0 : passed_on(last, before);
  adder.waits = turn == kUnknown;
  if (adder.waits) m_waiting[last * m_key_tiles + before] = &adder;
  // The next CTA may have waited for that, and the next but one for it.
  for (Adder* mine = adder.waits ? nullptr : &adder; mine;) {
    const Part& part = mine->part;
    turn = take_turn(*mine, turn);
    if (mine->waits) m_served.push_back(mine);
    mine->waits = false;
    Adder* waiter = nullptr;
    for (std::int64_t tile = part.first_tile; tile < part.end_tile; ++tile)
      if (Adder* const found = pass_on(tile, part.key_tile, turn)) waiter = found;
    mine = waiter;
  }
  return m_served;
}

}  // namespace flashscope
