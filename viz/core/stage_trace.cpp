#include "viz/core/stage_trace.h"

#include <algorithm>
#include <list>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/engine/blocks.h"
#include "sim/engine/l2.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::viz {
namespace {

bool moves(const TileOp& op) { return op.op == Op::load || op.op == Op::store; }

/// Calls f(cell) for every tile that the region of a load or store touches.
template <class F>
void for_each_cell(const TileGrid& grid, const TileOp& op, F f) {
  if (op.rows == 0 || op.cols == 0) return;
  for (int head = op.head; head < op.head + op.heads; ++head)
    for (int r = op.row / grid.cell_rows(); r <= (op.row + op.rows - 1) / grid.cell_rows(); ++r)
      for (int c = op.col / grid.cell_cols(); c <= (op.col + op.cols - 1) / grid.cell_cols(); ++c)
        f(grid.cell(head, r, c));
}

}  // namespace

Moved& Moved::operator+=(const Moved& other) {
  sm_read += other.sm_read;
  sm_write += other.sm_write;
  hbm_read += other.hbm_read;
  hbm_write += other.hbm_write;
  sector_read += other.sector_read;
  sector_write += other.sector_write;
  dirty += other.dirty;
  return *this;
}

TouchIndex::TouchIndex(int cells, std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.cell != b.cell ? a.cell < b.cell : a.touch.begin < b.touch.begin;
  });
  m_first.assign(static_cast<std::size_t>(cells) + 1, 0);
  for (const Entry& entry : entries) ++m_first[static_cast<std::size_t>(entry.cell) + 1];
  std::partial_sum(m_first.begin(), m_first.end(), m_first.begin());
  m_touches.reserve(entries.size());
  for (const Entry& entry : entries) m_touches.push_back(entry.touch);
}

bool is_wait(Reason reason) {
  return reason == Reason::hbm || reason == Reason::l2 || reason == Reason::barrier || reason == Reason::launch ||
         reason == Reason::idle;
}

StageTrace::StageTrace(std::shared_ptr<const Schedule> schedule, const Machine& machine, Start start,
                       Prediction prediction, const std::vector<OpSpan>& spans, const std::vector<OpSpan>& before)
    : m_schedule(std::move(schedule)),
      m_machine(machine),
      m_prediction(std::move(prediction)),
      m_closed_form(m_schedule->closed_form()) {
  make_grids();
  replay_cache(before, spans, start);

  // Sort spans and what they moved together.
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const OpSpan &x = spans[a], &y = spans[b];
    return x.sm != y.sm ? x.sm < y.sm : x.slot != y.slot ? x.slot < y.slot : x.begin < y.begin;
  });
  std::vector<Moved> moved_by;
  m_spans.reserve(spans.size());
  moved_by.reserve(spans.size());
  for (std::size_t index : order) {
    if (m_tracks.empty() || m_tracks.back().sm != spans[index].sm || m_tracks.back().slot != spans[index].slot)
      m_tracks.push_back({spans[index].sm, spans[index].slot, m_spans.size(), m_spans.size()});
    m_spans.push_back(spans[index]);
    moved_by.push_back(m_moved_by[index]);
    m_tracks.back().last = m_spans.size();
  }
  m_moved_by = std::move(moved_by);
  m_begins.reserve(m_spans.size());
  for (const OpSpan& span : m_spans) m_begins.push_back(span.begin);

  index_touches();
  index_moved();
  index_flow();
  index_times();
  follow_fullest_ctas();
}

void StageTrace::make_grids() {
  const AttentionProblem& problem = m_schedule->problem();
  const TileShape& tile = m_schedule->tile();
  // One lump for all tensors, so that maps beside each other stay to scale.
  const int tiles = std::max(num_tiles(problem.seqlen_q, tile.br), num_tiles(problem.seqlen_k, tile.bc));
  const int lump = std::max(1, (tiles + kMapSide - 1) / kMapSide);
  for (Tensor tensor : m_schedule->tensors()) {
    const TensorShape shape = shape_of(tensor, problem, tile);
    TileGrid grid;
    grid.tensor = tensor;
    grid.tile_rows = is_scale(layout_of(tensor)) ? 1
                     : tensor == Tensor::block_table ? std::max(1, tile.bc / std::max(1, tile.page_size))
                     : is_by_key(tensor)             ? tile.bc
                                                     : tile.br;
    grid.tile_cols = is_score_shaped(tensor) ? tile.bc : std::max(1, shape.cols);
    grid.lump = lump;
    grid.down = num_tiles(shape.rows, grid.cell_rows());
    grid.across = num_tiles(shape.cols, grid.cell_cols());
    grid.heads = shape.heads;
    grid.parts = is_split(tensor) ? tile.splits : 1;
    m_grids.push_back(grid);
  }
  const auto& tensors = m_schedule->tensors();
  m_scores_on_chip = std::find(tensors.begin(), tensors.end(), Tensor::S) == tensors.end();
  m_score_grid = {Tensor::S,
                  tile.br,
                  tile.bc,
                  lump,
                  num_tiles(problem.seqlen_q, tile.br * lump),
                  num_tiles(problem.seqlen_k, tile.bc * lump),
                  problem.num_heads()};
}

/// The trace says how many bytes each load missed; which tiles L2 held meanwhile, and what it wrote back, follows from
/// running the engine's own cache over the same accesses in the same order.
void StageTrace::replay_cache(const std::vector<OpSpan>& before, const std::vector<OpSpan>& recorded, Start start) {
  L2Cache cache = l2_of(m_machine);
  const BlockMap blocks(*m_schedule);

  // What is resident, oldest first, with the time it came.
  struct Resident {
    std::size_t grid;
    int cell;
    std::int64_t block;
    Picoseconds since;
  };
  std::list<Resident> residents;
  std::vector<std::list<Resident>::iterator> where(static_cast<std::size_t>(blocks.size()), residents.end());
  std::vector<std::vector<TouchIndex::Entry>> residency(m_grids.size());

  const auto leave = [&](std::list<Resident>::iterator it, Picoseconds t) {
    residency[it->grid].push_back({it->cell, {std::min(it->since, t), t, false}});
    where[static_cast<std::size_t>(it->block)] = residents.end();
    return residents.erase(it);
  };
  // Tiles leave in the order of their last use; looking at the oldest few finds them as they go.
  const auto sweep = [&](Picoseconds t) {
    constexpr int kOldest = 8;
    auto it = residents.begin();
    for (int n = 0; n < kOldest && it != residents.end(); ++n)
      it = cache.holds(it->block) ? std::next(it) : leave(it, t);
  };

  const auto pass = [&](const std::vector<OpSpan>& spans) {
    m_moved_by.assign(spans.size(), {});
    int kernel = 0;
    std::int64_t dirty = 0;  // a warm run finds some: its first span brings them
    for (std::size_t n = 0; n < spans.size(); ++n) {
      const OpSpan& span = spans[n];
      if (span.kernel != kernel) {
        kernel = span.kernel;
        if (start == Start::cold_each_kernel) {
          cache.clear();
          while (!residents.empty()) leave(residents.begin(), span.begin);
        }
      }
      if (!moves(span.op)) continue;
      Moved& moved = m_moved_by[n];
      const BlockMap::Region region = blocks.region_of(span.op);
      const int partition = l2_partition_of(span.sm, m_machine);
      const std::int64_t fill_bytes = span.op.fill_bytes / std::max(1, region.size());
      region.for_each(0, [&](std::int64_t block) {
        const std::int64_t bytes = blocks.bytes_of(span.op.tensor, block);
        moved.hbm_read += span.op.op == Op::load ? cache.read(block, bytes, partition).miss_bytes
                                                 : cache.write(block, bytes, partition, fill_bytes).miss_bytes;
        for (const L2Cache::Eviction& eviction : cache.evictions()) moved.hbm_write += eviction.bytes;
      });
      (span.op.op == Op::load ? moved.sm_read : moved.sm_write) = span.op.bytes;
      (span.op.op == Op::load ? moved.sector_read : moved.sector_write) = span.op.sectors * kSectorBytes;
      moved.dirty = cache.dirty_bytes() - dirty;
      dirty += moved.dirty;
      const auto grid =
          std::find_if(m_grids.begin(), m_grids.end(), [&](const TileGrid& g) { return g.tensor == span.op.tensor; });
      // Bytes from HBM arrive with the load; what an SM writes has its place from the start.
      const Picoseconds arrives = moved.hbm_read > 0 ? span.there() : span.begin;
      for_each_cell(*grid, span.op, [&](int cell) {
        // A cell may be several blocks: its first stands for it.
        TileOp corner = span.op;
        corner.head = cell / grid->across / grid->down;
        corner.heads = 1;
        corner.row = cell / grid->across % grid->down * grid->cell_rows();
        corner.col = cell % grid->across * grid->cell_cols();
        if (grid->lump > 1) {  // of a square of tiles: the first that is touched
          corner.row = std::max(corner.row, span.op.row);
          corner.col = std::max(corner.col, span.op.col);
        }
        corner.rows = corner.cols = 1;
        const std::int64_t block = blocks.region_of(corner).first;
        auto& slot = where[static_cast<std::size_t>(block)];
        if (slot == residents.end())
          slot = residents.insert(residents.end(),
                                  {static_cast<std::size_t>(grid - m_grids.begin()), cell, block, arrives});
        else
          residents.splice(residents.end(), residents, slot);
      });
      sweep(span.begin);
    }
  };
  if (!before.empty()) {
    pass(before);
    for (Resident& resident : residents) resident.since = 0;  // held from the start
    for (auto& entries : residency) entries.clear();
  }
  pass(recorded);
  while (!residents.empty()) leave(residents.begin(), m_prediction.time + 1);
  for (std::size_t g = 0; g < m_grids.size(); ++g)
    m_residency.emplace_back(m_grids[g].cells(), std::move(residency[g]));
}

void StageTrace::index_touches() {
  std::vector<std::vector<TouchIndex::Entry>> touches(m_grids.size());
  m_written.assign(m_grids.size(), false);
  std::vector<TouchIndex::Entry> visits;
  Picoseconds scores_began = 0;
  bool scored = false;  // a backward pass with stored P computes no scores
  for (const OpSpan& span : m_spans) {
    if (moves(span.op)) {
      for (std::size_t g = 0; g < m_grids.size(); ++g)
        if (m_grids[g].tensor == span.op.tensor) {
          if (span.op.op == Op::store) m_written[g] = true;
          for_each_cell(m_grids[g], span.op, [&](int cell) {
            touches[g].push_back({cell, {span.begin, span.there(), span.op.op == Op::store}});
          });
        }
    } else if (m_scores_on_chip && span.op.op == Op::scores) {
      scores_began = span.begin;
      scored = true;
    } else if (scored && (span.op.op == Op::weighted_sum || span.op.op == Op::gradient_sum)) {
      for (int head = span.op.head; head < span.op.head + span.op.heads; ++head)
        visits.push_back({m_score_grid.cell(head, span.op.i / m_score_grid.lump, span.op.j / m_score_grid.lump),
                          {scores_began, span.end, false}});
    }
  }
  for (std::size_t g = 0; g < m_grids.size(); ++g) m_touches.emplace_back(m_grids[g].cells(), std::move(touches[g]));
  m_scores_on_chip = m_scores_on_chip && scored;
  m_score_visits = TouchIndex(m_score_grid.cells(), std::move(visits));
}

void StageTrace::index_moved() {
  std::vector<std::pair<Picoseconds, std::size_t>> ends;
  for (std::size_t n = 0; n < m_spans.size(); ++n)
    if (moves(m_spans[n].op)) ends.emplace_back(m_spans[n].there(), n);
  std::sort(ends.begin(), ends.end());
  Moved sum;
  for (const auto& [end, n] : ends) {
    sum += m_moved_by[n];
    m_ends.push_back(end);
    m_moved.push_back(sum);
  }
  const SmTraffic& sm = m_prediction.count.sm;
  const Moved counted = {sm.read,        sm.write,        m_prediction.hbm.read,       m_prediction.hbm.write,
                         sm.sector_read, sm.sector_write, m_prediction.hbm_dirty_bytes};
  if (!(sum == counted)) {
    const auto text = [](const Moved& m) {
      return std::to_string(m.sm_read) + ", " + std::to_string(m.sm_write) + ", " + std::to_string(m.hbm_read) + ", " +
             std::to_string(m.hbm_write) + "; sectors read, written " + std::to_string(m.sector_read) + ", " +
             std::to_string(m.sector_write) + "; left in L2 " + std::to_string(m.dirty);
    };
    throw Error(ErrorKind::internal,
                "the stage's trace does not add up to its prediction (SM read, SM write, HBM read, HBM write): " +
                    text(sum) + " instead of " + text(counted));
  }
}

void StageTrace::index_flow() {
  struct Change {
    double at, hbm, l2;  // bytes a picosecond, from then on
  };
  std::vector<Change> changes;
  for (std::size_t n = 0; n < m_spans.size(); ++n) {
    const OpSpan& span = m_spans[n];
    const auto from = static_cast<double>(span.begin), to = static_cast<double>(span.there());
    if (!moves(span.op) || to <= from) continue;
    const double hbm = static_cast<double>(m_moved_by[n].hbm_read + m_moved_by[n].hbm_write) / (to - from);
    const double l2 = static_cast<double>(span.op.bytes) / (to - from);
    changes.push_back({from, hbm, l2});
    changes.push_back({to, -hbm, -l2});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  double hbm_rate = 0, l2_rate = 0;
  m_flow = {{0}, {0}, {0}};
  for (const Change& change : changes) {
    const double passed = change.at - m_flow.at.back();
    if (passed > 0) {
      m_flow.hbm.push_back(m_flow.hbm.back() + hbm_rate * passed);
      m_flow.l2.push_back(m_flow.l2.back() + l2_rate * passed);
      m_flow.at.push_back(change.at);
    }
    hbm_rate += change.hbm;
    l2_rate += change.l2;
  }
}

void StageTrace::index_times() {
  m_cta_ends.resize(m_schedule->kernels().size());
  for (const SlotTrack& track : m_tracks) {
    for (std::size_t n = track.first; n < track.last; ++n) {
      const OpSpan& span = m_spans[n];
      const bool last = n + 1 == track.last || m_spans[n + 1].kernel != span.kernel || m_spans[n + 1].cta != span.cta;
      if (last) m_cta_ends[static_cast<std::size_t>(span.kernel)].push_back(span.end);
    }
    if (track.sm != 0) continue;
    for (std::size_t n = track.first; n < track.last; ++n) {
      m_boundaries.push_back(m_spans[n].begin);
      m_boundaries.push_back(m_spans[n].end);
      const bool waited = n > track.first && is_wait(m_spans[n - 1].reason) && m_spans[n - 1].end == m_spans[n].begin;
      if (track.slot == 0 && is_wait(m_spans[n].reason) && !waited) m_stalls.push_back(m_spans[n].begin);
      const auto tile = [&](const OpSpan& span) { return std::tuple(span.kernel, span.cta, span.op.i, span.op.j); };
      if (track.slot == 0 && (n == track.first || tile(m_spans[n]) != tile(m_spans[n - 1])))
        m_tiles.push_back(m_spans[n].begin);
    }
  }
  for (auto& ends : m_cta_ends) std::sort(ends.begin(), ends.end());
  std::sort(m_boundaries.begin(), m_boundaries.end());
  m_boundaries.erase(std::unique(m_boundaries.begin(), m_boundaries.end()), m_boundaries.end());
  m_tiles.erase(std::unique(m_tiles.begin(), m_tiles.end()), m_tiles.end());
  for (const KernelPrediction& kernel : m_prediction.kernels) m_kernel_begins.push_back(kernel.begin);
}

void StageTrace::follow_fullest_ctas() {
  for (std::size_t kernel = 0; kernel < m_prediction.kernels.size(); ++kernel) {
    const auto first = std::find_if(m_spans.begin(), m_spans.end(),
                                    [&](const OpSpan& span) { return span.kernel == static_cast<int>(kernel); });
    if (first == m_spans.end()) continue;
    const OpSpan& last = cta_of(*first).second[-1];
    m_fullest_ctas.push_back(fullest_moment(*this, last));
  }
}

const TileGrid& StageTrace::grid_of(Tensor tensor) const {
  return *std::find_if(m_grids.begin(), m_grids.end(), [&](const TileGrid& grid) { return grid.tensor == tensor; });
}

const OpSpan* StageTrace::last_begun(const SlotTrack& track, Picoseconds t) const {
  const auto first = m_begins.begin() + static_cast<std::ptrdiff_t>(track.first);
  const auto last = m_begins.begin() + static_cast<std::ptrdiff_t>(track.last);
  // Spans of no length share their begin with the one after them: the last that began is the one.
  const auto next = std::upper_bound(first, last, t);
  return next == first ? nullptr : &m_spans[static_cast<std::size_t>(next - m_begins.begin()) - 1];
}

const OpSpan* StageTrace::span_at(const SlotTrack& track, Picoseconds t) const {
  const OpSpan* span = last_begun(track, t);
  return span && span->end > t ? span : nullptr;
}

std::pair<const OpSpan*, const OpSpan*> StageTrace::cta_of(const OpSpan& span) const {
  const auto same = [&](const OpSpan& other) {
    return other.sm == span.sm && other.slot == span.slot && other.kernel == span.kernel && other.cta == span.cta;
  };
  const OpSpan *first = &span, *last = &span + 1;
  while (first != m_spans.data() && same(first[-1])) --first;
  while (last != m_spans.data() + m_spans.size() && same(*last)) ++last;
  return {first, last};
}

std::vector<const OpSpan*> StageTrace::moving_at(const OpSpan& now, Picoseconds t) const {
  std::vector<const OpSpan*> moving;
  if (moves(now.op)) moving.push_back(&now);
  for (const OpSpan* span = &now; span != m_spans.data();) {
    --span;
    const bool of_cta =
        span->cta == now.cta && span->kernel == now.kernel && span->sm == now.sm && span->slot == now.slot;
    if (!of_cta || (span->op.op == Op::load && span->there() <= t)) break;  // they arrive in order
    if (span->op.starts) moving.push_back(span);
  }
  return moving;
}

int StageTrace::head_of(const OpSpan& span) const {
  return m_schedule->first_head(span.kernel, span.cta);
}

Moved StageTrace::moved_until(Picoseconds t) const {
  const auto ended = std::upper_bound(m_ends.begin(), m_ends.end(), t) - m_ends.begin();
  Moved moved = ended == 0 ? Moved{} : m_moved[static_cast<std::size_t>(ended) - 1];
  for (const SlotTrack& track : m_tracks) {
    const OpSpan* span = span_at(track, t);
    if (!span) continue;
    for (const OpSpan* moving : moving_at(*span, t)) {
      const double share =
          static_cast<double>(t - moving->begin) / static_cast<double>(moving->there() - moving->begin);
      const Moved& whole = moved_by(*moving);
      const auto part = [&](std::int64_t bytes) { return static_cast<std::int64_t>(share * static_cast<double>(bytes)); };
      moved += {part(whole.sm_read),     part(whole.sm_write),     part(whole.hbm_read), part(whole.hbm_write),
                part(whole.sector_read), part(whole.sector_write), part(whole.dirty)};
    }
  }
  return moved;
}

std::shared_ptr<const StageTrace> trace_stage(const std::string& algorithm, const AttentionProblem& problem,
                                              TileShape tile, const Machine& machine, Start start,
                                              const std::function<bool(double)>& progress) {
  std::shared_ptr<const Schedule> schedule = make_schedule(algorithm, problem, tile);
  constexpr std::int64_t kAll = std::int64_t{1} << 40;
  const int num_sms = static_cast<int>(machine.num_sms.value);
  RunOptions options;
  options.progress = progress;
  options.op_budget = kAll;  // every CTA, none continued from others
  // A warm run starts from what a cold one leaves.
  TraceRecorder before(num_sms, kAll), recorder(num_sms, kAll);
  if (start == Start::warm) {
    options.trace = &before;
    simulate(*schedule, machine, options);
  }
  options.start = start;
  options.trace = &recorder;
  Prediction prediction = simulate(*schedule, machine, options);
  return std::make_shared<const StageTrace>(std::move(schedule), machine, start, std::move(prediction),
                                            recorder.spans(), before.spans());
}

}  // namespace flashscope::viz
