// Sums in global memory to which CTAs add one after the other (flash_v3 backward, in order): who has added to a query
// tile last, and who waits for that. The CTA of key tile j adds after that of j + 1.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/engine/earliest.h"
#include "sim/trace/trace.h"

namespace flashscope {

/// A part of a sum that a CTA has put into shared memory, for TMA to add.
struct Part {
  std::int64_t first_tile = 0, end_tile = 0;  // query tiles, of all heads
  int key_tile = 0, tiles = 1;
  Picoseconds written = 0;  // in shared memory
  Picoseconds moved = 0;    // at the earliest, over port and links
  Picoseconds port = 0;     // on the way to L2
};

/// Of a CTA that adds: its part, for which there is one place in shared memory.
struct Adder {
  std::size_t slot = 0;  // of all SMs'
  Part part;
  bool waits = false;                // the part, for its turn
  Picoseconds gone = 0;              // when the last part has left its place
  Picoseconds waits_since = kNever;  // the CTA, for either

  /// `now`, or when the place can take the next part; kNever: its turn has not come, AddingOrder::add() will say.
  Picoseconds until_gone(Picoseconds now);
};

class AddingOrder {
 public:
  /// `trip`: to the far half of L2 and back.
  void start(std::int64_t tiles, int key_tiles, Picoseconds trip);

  /// The adder's part is added when its turn comes: at once if it is the first to its tiles, else behind that of the
  /// next key tile. Returns those whose parts, having waited, were added behind it.
  const std::vector<Adder*>& add(Adder& adder, bool is_first);

 private:
  static constexpr Picoseconds kUnknown = -1;
  struct Last {
    int j = -1;
    Picoseconds at = 0;
  };

  Picoseconds passed_on(std::int64_t tile, int j) const;
  Adder* pass_on(std::int64_t tile, int j, Picoseconds at);
  Picoseconds take_turn(Adder& adder, Picoseconds turn) const;

  int m_key_tiles = 1;
  Picoseconds m_trip = 0;
  std::vector<Last> m_last;                            // by tile
  std::unordered_map<std::int64_t, Adder*> m_waiting;  // by tile and by the key tile that they wait for
  std::vector<Adder*> m_served;
};

}  // namespace flashscope
