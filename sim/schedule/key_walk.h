// The key tiles of a query tile one after the other, for schedules that start to load a tile before its turn comes.
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

class KeyWalk {
 public:
  KeyWalk(const Schedule& schedule, int i)
      : m_schedule(schedule),
        m_i(i),
        m_tiles(visited_tiles(schedule.problem().mask(), schedule.tile().br, schedule.tile().bc, i)) {}

  /// From the first visited tile to the last; a sparse mask leaves some out.
  Range tiles() const { return m_tiles; }
  bool visits(int j) const { return is_visited(m_schedule.problem(), m_schedule.tile(), m_i, j); }
  /// The tile visited first, and the one after j; -1: none.
  int first() const { return from(backward() ? m_tiles.end - 1 : m_tiles.begin); }
  int next(int j) const { return from(backward() ? j - 1 : j + 1); }

  struct Ahead {
    int j = -1;     // the tile that is `steps` visits after another; -1: none
    int tiles = 0;  // visits from there to it, or to the last
  };
  Ahead ahead(int j, int steps) const {
    Ahead at{j, 0};
    for (int n = 0; n < steps && at.j >= 0; ++n) {
      at.j = next(at.j);
      if (at.j >= 0) ++at.tiles;
    }
    return at;
  }

  /// Tiles that are alike where each also starts what comes `steps` after it: of the whole tiles all but those walked
  /// last.
  Range like(int steps = 1) const {
    const TileShape& tile = m_schedule.tile();
    const Range whole = whole_tiles(m_schedule.problem().mask(), tile.br, tile.bc, m_i);
    if (whole.end - whole.begin <= steps) return {whole.end, whole.end};
    return backward() ? Range{whole.begin + steps, whole.end} : Range{whole.begin, whole.end - steps};
  }

 private:
  bool backward() const { return m_schedule.tile().backward_keys; }
  int from(int j) const {
    for (; m_tiles.begin <= j && j < m_tiles.end; j += backward() ? -1 : 1)
      if (visits(j)) return j;
    return -1;
  }

  const Schedule& m_schedule;
  int m_i;
  Range m_tiles;
};

}  // namespace flashscope
