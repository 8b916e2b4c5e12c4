// The picture of one instant: what is where, as plain values. A scene is a function of (trace, t) and nothing else, so
// playing, scrubbing and stepping back show the same thing.
#pragma once
#include <string>
#include <vector>

#include "viz/core/stage_trace.h"

namespace flashscope::viz {

enum class TileState : std::uint8_t {
  untouched,
  reading,  // on its way to an SM
  read,     // an SM has had it
  writing,  // on its way from an SM
  written,
  skipped,  // never used in the whole run: the mask leaves nothing of it
};

struct TileCell {
  TileState state = TileState::untouched;
  bool in_l2 = false;
  bool dirty = false;  // written, and not yet in HBM
  bool operator==(const TileCell&) const = default;
};

/// One head of one tensor, row-major.
struct TileMap {
  Tensor tensor = Tensor::Q;
  int down = 0, across = 0;
  std::vector<TileCell> cells;
  int lump = 1;  // tiles a side of a cell
  const TileCell& at(int row, int col) const { return cells[static_cast<std::size_t>(row) * across + col]; }
  bool operator==(const TileMap&) const = default;
};

/// One CTA slot of any SM: what the whole-GPU view shows of it.
struct SlotCell {
  bool busy = false;
  Reason reason = Reason::idle;
  Op op = Op::barrier;
  Tensor tensor = Tensor::Q;  // of a load or store
  bool operator==(const SlotCell&) const = default;
};

/// CTAs of the kernel that runs, and the waves in which they come.
struct GridProgress {
  std::int64_t done = 0, ctas = 0;
  int wave = 0, waves = 0;  // wave: from 1; 0 between kernels
  bool operator==(const GridProgress&) const = default;
};

struct SmView {
  int sm = 0;
  double port_share = 0;      // of the bandwidth between it and L2, now; at most 1
  std::vector<CtaView> ctas;  // by slot
  bool operator==(const SmView&) const = default;
};

/// A tile on a link, for the SMs in view.
struct TileInFlight {
  Tensor tensor = Tensor::Q;
  int row = 0, col = 0;     // the first cell of the region, in its map
  bool drawn_head = false;  // it belongs to the head whose maps are drawn
  int sm = 0, slot = 0;
  bool store = false;
  bool from_hbm = false;  // load: at least a part was not in L2
  double progress = 0;
  bool operator==(const TileInFlight&) const = default;
};

/// All traffic of a link, not only that of the SMs in view.
struct LinkView {
  double gb_per_s = 0;    // what the machine offers
  double used_share = 0;  // of it, now; at most 1
  bool operator==(const LinkView&) const = default;
};

struct Scene {
  Picoseconds t = 0;
  bool finished = false;
  int kernel = -1;  // running now; -1 between kernels and at the end
  int head = 0;     // whose maps are drawn: that of the first CTA of the first SM in view
  std::vector<TileMap> maps;
  TileMap score_visits;  // S tiles on chip, when the schedule keeps none in global memory; else empty
  std::vector<SmView> sms;
  int slots_per_sm = 0;         // of the kernel that runs
  std::vector<SlotCell> slots;  // of every SM: slots_per_sm each
  GridProgress grid;
  std::vector<TileInFlight> in_flight;
  int busy_sms = 0;
  LinkView hbm, l2;
  Moved moved;
  bool operator==(const Scene&) const = default;
};

/// `num_sms`: SMs in view, from SM 0. t before the start or after the end shows the start or the end. Where those in
/// view have nothing to do, the maps are of the head of the CTA that ended there last.
Scene make_scene(const StageTrace& trace, Picoseconds t, int num_sms);

/// "load K[3] from HBM", "S[2,5] = Q·Kᵀ"
std::string what_happens(const StageTrace& trace, const OpSpan& span);

/// "K[3]", "S[2,5]", "P[2,:]" for the region of a load or store.
std::string tile_name(const TileGrid& grid, const TileOp& op);
/// "S[2,5]" of the tile (i, j) of the scores, or of another letter.
std::string score_tile_name(const char* letter, const TileOp& op);

}  // namespace flashscope::viz
