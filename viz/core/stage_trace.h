// One algorithm's timed run of the stage problem, indexed so that any instant is found quickly. Never changes after its
// construction; scenes are made from it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"
#include "sim/trace/trace.h"
#include "viz/core/cta_view.h"

namespace flashscope::viz {

/// queries × keys, in tiles of Br × Bc.
constexpr bool is_score_shaped(Tensor tensor) { return layout_of(tensor) == Layout::scores; }
/// Rows are keys, in tiles of Bc rows, or key tiles.
constexpr bool is_by_key(Tensor tensor) { return is_of_keys(layout_of(tensor)); }
/// One number a row, a tile or a page.
constexpr bool is_statistic(Tensor tensor) {
  const Layout layout = layout_of(tensor);
  return layout == Layout::statistic || layout == Layout::page || is_scale(layout);
}

/// Cells a side that a map has at most: more than a stage has pixels for. Beyond, a cell is a square of tiles and shows
/// what happened to any of them last, so that a frame costs the same however many tiles there are.
inline constexpr int kMapSide = 256;

/// A tensor cut into the schedule's tiles. Cells are numbered head by head, row-major.
struct TileGrid {
  Tensor tensor = Tensor::Q;
  int tile_rows = 1, tile_cols = 1;  // elements of a whole tile
  int lump = 1;                      // tiles a side of a cell
  int down = 0, across = 0;          // cells of one head
  int heads = 0;
  int parts = 1;  // split_kv: neighbouring heads of this tensor that belong to one query head, one a split
  int cell_rows() const { return tile_rows * lump; }
  int cell_cols() const { return tile_cols * lump; }
  int cell(int head, int row, int col) const { return (head * down + row) * across + col; }
  int cells() const { return heads * down * across; }
};

/// A span of time in which a tile was moved or worked on.
struct Touch {
  Picoseconds begin = 0, end = 0;
  bool store = false;
};

/// How much of the span has passed at t; of a load that was started: of its way.
inline double share_of(const OpSpan& span, Picoseconds t) {
  const Picoseconds there = span.there();
  return t >= there ? 1 : static_cast<double>(t - span.begin) / static_cast<double>(there - span.begin);
}

/// Touches of every cell of a grid, each cell's in order of their begin.
class TouchIndex {
 public:
  struct Entry {
    int cell;
    Touch touch;
  };
  TouchIndex() = default;
  TouchIndex(int cells, std::vector<Entry> entries);
  const Touch* begin(int cell) const { return m_touches.data() + m_first[static_cast<std::size_t>(cell)]; }
  const Touch* end(int cell) const { return m_touches.data() + m_first[static_cast<std::size_t>(cell) + 1]; }

 private:
  std::vector<Touch> m_touches;
  std::vector<std::size_t> m_first;
};

/// Bytes moved, as running counters show them.
struct Moved {
  std::int64_t sm_read = 0, sm_write = 0, hbm_read = 0, hbm_write = 0;
  std::int64_t sector_read = 0, sector_write = 0;  // at the SMs, in whole 32-byte sectors: what hardware counts
  std::int64_t dirty = 0;                          // in L2, written and not yet in HBM
  bool operator==(const Moved&) const = default;
  Moved& operator+=(const Moved& other);
};

/// Bytes that loads and stores have moved by a time, all SMs together: `hbm` and `l2` at the times `at`, and along a
/// straight line between two of them. Sorted; begins and ends at 0 bytes moved and all.
struct Flow {
  std::vector<double> at, hbm, l2;
};

/// Spans of one slot of one SM: [first, last) of StageTrace::spans(), in order of time.
struct SlotTrack {
  int sm = 0, slot = 0;
  std::size_t first = 0, last = 0;
};

class StageTrace {
 public:
  /// `spans` are those of the whole run, in the order in which the engine recorded them; `before`: those of the run
  /// whose L2 a warm start finds. Throws Error(internal) when they do not add up to the prediction.
  StageTrace(std::shared_ptr<const Schedule> schedule, const Machine& machine, Start start, Prediction prediction,
             const std::vector<OpSpan>& spans, const std::vector<OpSpan>& before = {});

  const Schedule& schedule() const { return *m_schedule; }
  const Machine& machine() const { return m_machine; }
  const Prediction& prediction() const { return m_prediction; }
  const ClosedForm& closed_form() const { return m_closed_form; }
  Picoseconds duration() const { return m_prediction.time; }

  /// Sorted by SM, slot and begin.
  const std::vector<OpSpan>& spans() const { return m_spans; }
  const std::vector<SlotTrack>& tracks() const { return m_tracks; }
  /// The last span of the track that began by t, ended or not; nullptr before the first.
  const OpSpan* last_begun(const SlotTrack& track, Picoseconds t) const;
  /// The span of the track that contains t; nullptr between spans.
  const OpSpan* span_at(const SlotTrack& track, Picoseconds t) const;
  /// All spans of the CTA that `span` belongs to, as a range of spans().
  std::pair<const OpSpan*, const OpSpan*> cta_of(const OpSpan& span) const;
  /// The first query head that the span's CTA works for.
  int head_of(const OpSpan& span) const;
  /// What moves at time t for the CTA that does `now`: that, if it is a move, and loads that it started earlier.
  std::vector<const OpSpan*> moving_at(const OpSpan& now, Picoseconds t) const;

  /// The first CTA of each kernel when it holds most; no other holds more. What boxes for CTAs must have room for.
  const std::vector<CtaView>& fullest_ctas() const { return m_fullest_ctas; }

  /// Tensors in global memory, in the schedule's order.
  const std::vector<TileGrid>& grids() const { return m_grids; }
  const TileGrid& grid_of(Tensor tensor) const;
  const TouchIndex& touches(std::size_t grid) const { return m_touches[grid]; }
  /// True for a tensor that the run writes: reading a tile of it again does not make it unwritten.
  bool is_written(std::size_t grid) const { return m_written[grid]; }
  /// When L2 held a cell whole: from begin to end.
  const TouchIndex& residency(std::size_t grid) const { return m_residency[grid]; }
  /// Score tiles (i, j) as they are worked on, where the schedule does not keep S in global memory.
  bool scores_stay_on_chip() const { return m_scores_on_chip; }
  const TileGrid& score_grid() const { return m_score_grid; }
  const TouchIndex& score_visits() const { return m_score_visits; }

  /// Bytes moved by all spans that have ended by t; what is under way is counted in proportion.
  Moved moved_until(Picoseconds t) const;
  const Flow& flow() const { return m_flow; }
  Moved moved_in_all() const { return m_moved.empty() ? Moved{} : m_moved.back(); }
  /// Bytes that the span writes to HBM because L2 had to make room.
  const Moved& moved_by(const OpSpan& span) const {
    return m_moved_by[static_cast<std::size_t>(&span - m_spans.data())];
  }

  /// Sorted times at which a span of SM 0 begins or ends: what stepping visits.
  const std::vector<Picoseconds>& boundaries() const { return m_boundaries; }
  /// Sorted times at which SM 0, slot 0, begins to wait for memory, a barrier or its start.
  const std::vector<Picoseconds>& stalls() const { return m_stalls; }
  /// Sorted times at which SM 0, slot 0, turns to another tile (i, j) or another CTA.
  const std::vector<Picoseconds>& tiles() const { return m_tiles; }
  /// Sorted times at which the CTAs of a kernel end.
  const std::vector<Picoseconds>& cta_ends(int kernel) const { return m_cta_ends[static_cast<std::size_t>(kernel)]; }
  /// Sorted times at which a kernel begins.
  const std::vector<Picoseconds>& kernel_begins() const { return m_kernel_begins; }

 private:
  void make_grids();
  void replay_cache(const std::vector<OpSpan>& before, const std::vector<OpSpan>& recorded, Start start);
  void index_touches();
  void index_moved();
  void index_flow();
  void index_times();
  void follow_fullest_ctas();

  std::shared_ptr<const Schedule> m_schedule;
  Machine m_machine;
  Prediction m_prediction;
  ClosedForm m_closed_form;
  std::vector<OpSpan> m_spans;
  std::vector<Picoseconds>
      m_begins;  // of m_spans: a frame looks for its time in every track, and these lie close together
  std::vector<Moved> m_moved_by;
  std::vector<SlotTrack> m_tracks;
  std::vector<TileGrid> m_grids;
  std::vector<TouchIndex> m_touches, m_residency;
  std::vector<bool> m_written;
  bool m_scores_on_chip = false;
  TileGrid m_score_grid;
  TouchIndex m_score_visits;
  std::vector<Picoseconds> m_ends;  // of spans that move bytes, sorted
  std::vector<Moved> m_moved;       // sums of the first n of them
  Flow m_flow;
  std::vector<Picoseconds> m_boundaries, m_stalls, m_tiles, m_kernel_begins;
  std::vector<std::vector<Picoseconds>> m_cta_ends;  // by kernel
  std::vector<CtaView> m_fullest_ctas;
};

/// True for a reason that means waiting instead of working.
bool is_wait(Reason reason);

/// Runs the algorithm on the stage problem with every span recorded. `progress` as in RunOptions.
std::shared_ptr<const StageTrace> trace_stage(const std::string& algorithm, const AttentionProblem& problem,
                                              TileShape tile, const Machine& machine, Start start,
                                              const std::function<bool(double)>& progress = {});

}  // namespace flashscope::viz
