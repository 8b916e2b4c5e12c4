#include "viz/core/cta_view.h"

#include <algorithm>
#include <utility>

#include "viz/core/scene.h"
#include "viz/core/window_words.h"

namespace flashscope::viz {
namespace {

/// What a CTA holds at time t, found by following its operations from its start.
class CtaFollower {
 public:
  /// `keeps_most`: remembers the tiles of the moment at which they were most.
  CtaFollower(const StageTrace& trace, const OpSpan& now, Picoseconds t, bool keeps_most = false)
      : m_trace(trace), m_now(&now) {
    const auto [first, last] = trace.cta_of(now);
    for (const OpSpan* span = first; span != last; ++span) {
      const Op op = span->op.op;
      m_view.acc_total += op == Op::weighted_sum;
      m_view.has_rows = m_view.has_rows || op == Op::online_softmax || op == Op::softmax;
    }
    m_view.has_acc = m_view.acc_total > 0;
    m_view.has_smem = trace.schedule().kernels()[static_cast<std::size_t>(now.kernel)].resources.smem_bytes > 0;
    m_weights_in_registers =
        trace.schedule().kernels()[static_cast<std::size_t>(now.kernel)].matrix_unit != MatrixUnit::fma;
    for (const OpSpan* span = first; span != last && span->begin <= t; ++span) {
      if (keeps_most) remember_most(*span, t);
      follow(*span, t);
    }
    m_view.slot = now.slot;
    m_view.cta = now.cta;
    m_view.head = trace.head_of(now);
    m_view.i = now.op.i;
    m_view.j = now.op.j;
    m_view.op = now.op.op;
    m_view.reason = now.reason;
    m_view.progress = share_of(now, t);
    m_view.doing = what_happens(trace, now);
  }
  CtaView take() { return std::move(m_view); }
  CtaView take_fullest() {
    m_view.tiles = std::move(m_most);
    return take();
  }

 private:
  /// A tile that is stored is there for as long as that takes: looked at while it does, and taken back.
  void remember_most(const OpSpan& span, Picoseconds t) {
    if (span.op.op == Op::store || &span == m_now) {
      const CtaView before = m_view;
      const OpSpan* now = std::exchange(m_now, &span);
      follow(span, t);
      if (m_view.tiles.size() > m_most.size()) m_most = m_view.tiles;
      m_now = now;
      m_view = before;
    } else if (m_view.tiles.size() > m_most.size()) {
      m_most = m_view.tiles;
    }
  }

  void follow(const OpSpan& span, Picoseconds t) {
    const bool current = &span == m_now;
    const double share = share_of(span, t);
    const TileOp& op = span.op;
    switch (op.op) {
      case Op::load: hold({op.tensor, tile_name(m_trace.grid_of(op.tensor), op), share, current, false, false}); break;
      case Op::store:
        if (HeldTile* tile = held(op.tensor)) {
          tile->in_use = current;
          tile->spent = !current;
        } else if (current) {
          hold({op.tensor, tile_name(m_trace.grid_of(op.tensor), op), 1, true, false, true});
        }
        if (!current && is_statistic(op.tensor)) drop(op.tensor);
        break;
      case Op::scores:
        use({Tensor::Q, Tensor::K, Tensor::Q_fp8, Tensor::K_fp8}, current);
        drop(Tensor::P);
        hold({Tensor::S, score_tile_name("S", op), share, current, false, true});
        if (!current) {
          spend(Tensor::K);
          spend(Tensor::K_fp8);
        }
        break;
      case Op::mask: use({Tensor::S}, current); break;
      case Op::softmax:
      case Op::online_softmax:
        use({Tensor::S}, current);
        m_view.rows_progress = current ? share : 0;
        if (!current) {
          ++m_view.rows_updates;
          if (HeldTile* s = held(Tensor::S)) {  // the numerators take the place of the scores
            s->tensor = Tensor::P;
            s->name[0] = 'P';
            if (op.op == Op::online_softmax) s->in_registers = m_weights_in_registers;
          }
        }
        break;
      case Op::weighted_sum:
        use({Tensor::P, Tensor::V, Tensor::V_fp8}, current);
        m_view.acc_done += share;
        if (!current) {
          spend(Tensor::P);
          spend(Tensor::V);
          spend(Tensor::V_fp8);
        }
        break;
      case Op::normalize:
        if (!current) hold({Tensor::O, "O[" + std::to_string(op.i) + "]", 1, false, false, true});
        break;
      case Op::clear_state:
      case Op::undo_normalize:
      case Op::log_sum_exp:
      case Op::barrier:
      case Op::wait:
      case Op::row_dot: break;
      case Op::clear_gradient: hold_gradient(op, current); break;
      case Op::probabilities:
        use({Tensor::S}, current);
        if (!current) rename(Tensor::S, Tensor::P, score_tile_name("P", op));
        if (HeldTile* p = held(Tensor::P); p && !current) p->in_registers = m_weights_in_registers;
        break;
      case Op::d_probabilities:
        use({Tensor::dO, Tensor::V}, current);
        drop(Tensor::dS);
        hold({Tensor::dP, score_tile_name("dP", op), share, current, false, true});
        break;
      case Op::d_scores:
        use({Tensor::P, Tensor::dP}, current);
        if (!current) rename(Tensor::dP, Tensor::dS, score_tile_name("dS", op));
        if (HeldTile* d_s = held(Tensor::dS); d_s && !current) d_s->in_registers = false;  // on the way to dQ and dK
        break;
      case Op::gradient_sum:
        hold_gradient(op, current);
        if (op.tensor == Tensor::dV) use({Tensor::P, Tensor::dO}, current);
        if (op.tensor == Tensor::dK) use({Tensor::dS, Tensor::Q}, current);
        if (op.tensor == Tensor::dQ) use({Tensor::dS, Tensor::K}, current);
        break;
      case Op::quantize:
        use({Tensor::Q, Tensor::K, Tensor::V}, current);
        hold({op.tensor, tile_name(m_trace.grid_of(op.tensor), op), share, current, false, true});
        break;
      case Op::combine: use({Tensor::O_split, Tensor::LSE_split}, current); break;
    }
  }

  HeldTile* held(Tensor tensor) {
    for (HeldTile& tile : m_view.tiles)
      if (tile.tensor == tensor) return &tile;
    return nullptr;
  }
  void hold(const HeldTile& tile) {
    if (HeldTile* place = held(tile.tensor))
      *place = tile;
    else
      m_view.tiles.push_back(tile);
  }
  /// A gradient grows in registers until it is stored.
  void hold_gradient(const TileOp& op, bool current) {
    const int tile = is_by_key(op.tensor) ? op.j : op.i;
    hold({op.tensor, name_on_stage(op.tensor) + "[" + std::to_string(tile) + "]", 1, current, false, true});
  }
  void rename(Tensor from, Tensor to, const std::string& name) {
    drop(to);
    if (HeldTile* tile = held(from)) {
      tile->tensor = to;
      tile->name = name;
    }
  }
  void drop(Tensor tensor) {
    auto& tiles = m_view.tiles;
    tiles.erase(std::remove_if(tiles.begin(), tiles.end(), [&](const HeldTile& t) { return t.tensor == tensor; }),
                tiles.end());
  }
  void use(std::initializer_list<Tensor> tensors, bool current) {
    for (Tensor tensor : tensors)
      if (HeldTile* tile = held(tensor)) {
        tile->in_use = current;
        tile->spent = tile->spent && !current;  // flash_v1 comes back to its K and V
      }
  }
  void spend(Tensor tensor) {
    if (HeldTile* tile = held(tensor)) tile->spent = true;
  }

  const StageTrace& m_trace;
  const OpSpan* m_now;  // under way
  std::vector<HeldTile> m_most;
  /// Products leave their results in registers. On FMA units P then goes through shared memory, where every thread finds
  /// the weights of its rows; tensor cores take it from the registers that it is in.
  bool m_weights_in_registers = false;
  CtaView m_view;
};

}  // namespace

CtaView follow_cta(const StageTrace& trace, const OpSpan& now, Picoseconds t) {
  return CtaFollower(trace, now, t).take();
}

CtaView fullest_moment(const StageTrace& trace, const OpSpan& last) {
  return CtaFollower(trace, last, last.end, true).take_fullest();
}

}  // namespace flashscope::viz
