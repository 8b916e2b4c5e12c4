#include "viz/core/scene.h"

#include <algorithm>

#include "viz/core/window_words.h"

namespace flashscope::viz {
namespace {

/// The last touch that began by t; nullptr before the first.
const Touch* last_touch(const TouchIndex& index, int cell, Picoseconds t) {
  const Touch* next = std::upper_bound(index.begin(cell), index.end(cell), t,
                                       [](Picoseconds time, const Touch& touch) { return time < touch.begin; });
  return next == index.begin(cell) ? nullptr : next - 1;
}

TileState state_of(const TouchIndex& index, int cell, Picoseconds t) {
  if (index.begin(cell) == index.end(cell)) return TileState::skipped;
  const Touch* last = last_touch(index, cell, t);
  if (!last) return TileState::untouched;
  // A short touch may have ended while a longer one, begun before it, goes on.
  constexpr int kOverlapping = 32;
  bool written = false;
  for (const Touch* touch = last; touch >= index.begin(cell) && last - touch < kOverlapping; --touch) {
    if (touch->end > t) return touch->store ? TileState::writing : TileState::reading;
    written = written || touch->store;
  }
  return written ? TileState::written : TileState::read;
}

TileMap map_of(const StageTrace& trace, std::size_t g, int head, Picoseconds t) {
  const TileGrid& grid = trace.grids()[g];
  const TouchIndex& touches = trace.touches(g);
  const int down = grid.down * grid.parts;  // of a split's tensor, all splits, one below the other
  TileMap map{grid.tensor, down, grid.across, {}, grid.lump};
  map.cells.reserve(static_cast<std::size_t>(down) * grid.across);
  for (int row = 0; row < down; ++row)
    for (int col = 0; col < grid.across; ++col) {
      const int cell = grid.cell(head, row, col);
      TileCell view;
      view.state = state_of(touches, cell, t);
      const Touch* held = last_touch(trace.residency(g), cell, t);
      view.in_l2 = held && t < held->end;
      if (view.in_l2)
        for (const Touch* touch = last_touch(touches, cell, t); touch && touch >= touches.begin(cell); --touch) {
          if (touch->end < held->begin) break;
          view.dirty = view.dirty || (touch->store && touch->end <= t);
        }
      // A tile may be read again long after it was written: that does not make it unwritten.
      if (view.state == TileState::read && trace.is_written(g)) view.state = TileState::written;
      map.cells.push_back(view);
    }
  return map;
}

TileMap score_visits_of(const StageTrace& trace, int head, Picoseconds t) {
  const TileGrid& grid = trace.score_grid();
  TileMap map{Tensor::S, grid.down, grid.across, {}, grid.lump};
  map.cells.reserve(static_cast<std::size_t>(grid.down) * grid.across);
  for (int row = 0; row < grid.down; ++row)
    for (int col = 0; col < grid.across; ++col)
      map.cells.push_back({state_of(trace.score_visits(), grid.cell(head, row, col), t), false, false});
  return map;
}

std::string doing(const StageTrace& trace, const OpSpan& span) {
  const TileOp& op = span.op;
  switch (op.op) {
    case Op::load:
      return (op.starts ? "start loading " : "load ") + tile_name(trace.grid_of(op.tensor), op) +
             (span.hbm_bytes > 0 ? " from HBM" : " from L2");
    case Op::store: return "store " + tile_name(trace.grid_of(op.tensor), op);
    case Op::clear_state: return "acc = 0, m = -∞, l = 0";
    case Op::scores: return score_tile_name("S", op) + " = Q·Kᵀ";
    case Op::mask: return "mask " + score_tile_name("S", op);
    case Op::softmax: return "P = softmax(S)";
    case Op::online_softmax: return "new m, l; rescale acc";
    case Op::weighted_sum: return "acc += P·V[" + std::to_string(op.j) + "]";
    case Op::undo_normalize: return "acc = l · O";
    case Op::normalize: return "O = acc / l";
    case Op::log_sum_exp: return "LSE = m + log l";
    case Op::clear_gradient: return name_on_stage(op.tensor) + " = 0";
    case Op::row_dot: return op.tensor == Tensor::P ? "D = rowsum(dP ∘ P)" : "D = rowsum(dO ∘ O)";
    case Op::probabilities: return score_tile_name("P", op) + " = exp(S − LSE)";
    case Op::d_probabilities: return score_tile_name("dP", op) + " = dO·Vᵀ";
    case Op::d_scores: return score_tile_name("dS", op) + " = P ∘ (dP − D)";
    case Op::gradient_sum:
      return op.tensor == Tensor::dV ? "dV += Pᵀ·dO" : op.tensor == Tensor::dK ? "dK += dSᵀ·Q" : "dQ += dS·K";
    case Op::quantize: {
      const bool is_query = op.tensor == Tensor::Q_fp8, is_value = op.tensor == Tensor::V_fp8;
      const std::string tile = "[" + std::to_string(is_query ? op.i : op.j) + "]";
      return (is_query ? "rotate Q" : is_value ? "round V" : "rotate K") + tile + (is_value ? " to e4m3" : ", to e4m3");
    }
    case Op::combine: return "m, l, acc = O and LSE of all splits, weighted";
    case Op::barrier: return span.reason == Reason::launch ? "CTA starts" : "barrier";
    case Op::wait: return "wait for what was started";
  }
  return "";
}

/// The head of the CTA that is drawn first, so that maps and SMs in view speak of the same: that of the lowest slot at
/// work among `num_sms` SMs. Where none of them works, of the CTA that ended there last; the first head when all is
/// done.
int followed_head(const StageTrace& trace, Picoseconds t, int num_sms) {
  if (t >= trace.duration()) return 0;
  const OpSpan* ended = nullptr;
  for (const SlotTrack& track : trace.tracks()) {  // by SM, then by slot
    if (track.sm >= num_sms) break;
    const OpSpan* span = trace.last_begun(track, t);
    if (span && span->end > t) return trace.head_of(*span);
    if (span && (!ended || span->end > ended->end)) ended = span;
  }
  return ended ? trace.head_of(*ended) : 0;
}

/// The head of `grid` that a map for query head `head` begins with.
int map_head(const AttentionProblem& problem, const TileGrid& grid, int head) {
  if (!is_by_key(grid.tensor)) return head * grid.parts;
  if (grid.tensor == Tensor::block_table) return head / problem.heads;  // one a batch entry
  return head / problem.heads * problem.kv_heads + kv_head_of(head % problem.heads, problem.heads, problem.kv_heads);
}

TileInFlight in_flight(const StageTrace& trace, const OpSpan& span, int drawn_head, Picoseconds t) {
  const TileGrid& grid = trace.grid_of(span.op.tensor);
  TileInFlight tile;
  tile.tensor = span.op.tensor;
  const int first = map_head(trace.schedule().problem(), grid, drawn_head);  // of the heads that the map shows
  tile.row = span.op.row / grid.cell_rows() + std::max(0, span.op.head - first) * grid.down;
  tile.col = span.op.col / grid.cell_cols();
  tile.drawn_head = span.op.head < first + grid.parts && first < span.op.head + span.op.heads;
  tile.sm = span.sm;
  tile.slot = span.slot;
  tile.store = span.op.op == Op::store;
  tile.from_hbm = span.hbm_bytes > 0;
  tile.progress = share_of(span, t);
  return tile;
}

GridProgress grid_progress(const StageTrace& trace, int kernel, Picoseconds t) {
  const auto k = static_cast<std::size_t>(kernel);
  GridProgress grid;
  grid.ctas = trace.schedule().kernels()[k].ctas();
  const std::vector<Picoseconds>& ends = trace.cta_ends(kernel);
  grid.done = std::upper_bound(ends.begin(), ends.end(), t) - ends.begin();
  const auto at_once =
      static_cast<std::int64_t>(trace.machine().num_sms.value) * trace.prediction().kernels[k].ctas_per_sm;
  if (at_once <= 0) return grid;
  grid.waves = static_cast<int>((grid.ctas + at_once - 1) / at_once);
  grid.wave = std::min(grid.waves, static_cast<int>(grid.done / at_once) + 1);
  return grid;
}

/// Bytes per picosecond are TB/s; a machine states GB/s.
double gb_per_s(double bytes, const OpSpan& span) {
  return 1e3 * bytes / static_cast<double>(span.there() - span.begin);
}

}  // namespace

std::string what_happens(const StageTrace& trace, const OpSpan& span) { return doing(trace, span); }

std::string score_tile_name(const char* letter, const TileOp& op) {
  return std::string(letter) + "[" + std::to_string(op.i) + "," + std::to_string(op.j) + "]";
}

std::string tile_name(const TileGrid& grid, const TileOp& op) {
  std::string name = name_on_stage(op.tensor) + "[" + std::to_string(op.row / grid.tile_rows);
  if (is_score_shaped(op.tensor))
    name += op.cols > grid.tile_cols ? std::string(",:") : "," + std::to_string(op.col / grid.tile_cols);
  return name + "]";
}

Scene make_scene(const StageTrace& trace, Picoseconds t, int num_sms) {
  Scene scene;
  scene.t = t = std::clamp<Picoseconds>(t, 0, trace.duration());
  scene.finished = t >= trace.duration();
  const auto& kernels = trace.prediction().kernels;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].begin <= t && t < kernels[k].end) scene.kernel = static_cast<int>(k);

  scene.head = followed_head(trace, t, num_sms);
  const AttentionProblem& problem = trace.schedule().problem();
  for (std::size_t g = 0; g < trace.grids().size(); ++g)
    scene.maps.push_back(map_of(trace, g, map_head(problem, trace.grids()[g], scene.head), t));
  if (trace.scores_stay_on_chip()) scene.score_visits = score_visits_of(trace, scene.head, t);

  const auto num_slots = static_cast<std::size_t>(trace.machine().num_sms.value);
  if (scene.kernel >= 0) {
    scene.slots_per_sm = kernels[static_cast<std::size_t>(scene.kernel)].ctas_per_sm;
    scene.grid = grid_progress(trace, scene.kernel, t);
  }
  scene.slots.resize(num_slots * static_cast<std::size_t>(scene.slots_per_sm));
  for (int sm = 0; sm < num_sms; ++sm) scene.sms.push_back({sm, 0, {}});
  const Machine& machine = trace.machine();
  const double port = machine.l2_bytes_per_clk_per_sm.value * machine.sm_clock_mhz.value / 1e3;  // GB/s
  double hbm_rate = 0, l2_rate = 0;
  int last_busy = -1;
  for (const SlotTrack& track : trace.tracks()) {
    const OpSpan* span = trace.span_at(track, t);
    if (!span) continue;
    if (track.sm != last_busy) ++scene.busy_sms;
    last_busy = track.sm;
    const std::size_t slot =
        static_cast<std::size_t>(track.sm) * scene.slots_per_sm + static_cast<std::size_t>(track.slot);
    if (track.slot < scene.slots_per_sm && slot < scene.slots.size())
      scene.slots[slot] = {true, span->reason, span->op.op, span->op.tensor};
    for (const OpSpan* moving : trace.moving_at(*span, t)) {
      const Moved& moved = trace.moved_by(*moving);
      l2_rate += gb_per_s(static_cast<double>(moving->op.bytes), *moving);
      hbm_rate += gb_per_s(static_cast<double>(moved.hbm_read + moved.hbm_write), *moving);
      if (track.sm >= num_sms) continue;
      scene.in_flight.push_back(in_flight(trace, *moving, scene.head, t));
      scene.sms[static_cast<std::size_t>(track.sm)].port_share +=
          gb_per_s(static_cast<double>(moving->op.sectors * kSectorBytes), *moving) / port;
    }
    if (track.sm < num_sms) scene.sms[static_cast<std::size_t>(track.sm)].ctas.push_back(follow_cta(trace, *span, t));
  }
  for (SmView& sm : scene.sms) sm.port_share = std::min(1.0, sm.port_share);
  scene.hbm = {machine.hbm_read_gb_per_s.value, std::min(1.0, hbm_rate / machine.hbm_read_gb_per_s.value)};
  scene.l2 = {machine.l2_gb_per_s.value, std::min(1.0, l2_rate / machine.l2_gb_per_s.value)};
  scene.moved = trace.moved_until(t);
  return scene;
}

}  // namespace flashscope::viz
