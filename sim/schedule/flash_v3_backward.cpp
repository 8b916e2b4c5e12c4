// flash_v3 backward, for Hopper: K and V outside, and dQ too comes from the S and dP that give dK and dV: five products a
// tile pair (FlashAttention-2, arXiv 2307.08691, section 3.2; on wgmma and TMA as in FlashAttention-3, arXiv 2407.08608).
//
// dQ of a query tile is then a sum over the CTAs of all key tiles: each adds its part to dQ_sum in global memory, which a
// kernel before sets to zero while it computes D, and a kernel after rounds to dQ. A part is written as float32 for every
// tile pair; what is saved is a second kernel's S, dP and its reads of Q, K, V and dO.
//
// Unless the order may be any, the CTA of key tile j adds to a query tile after that of j + 1. CTAs then start with the last
// key tile, so that none waits for one that starts later.
#include <algorithm>
#include <deque>
#include <numeric>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/hopper_backward.h"
#include "sim/schedule/mma_work.h"

namespace flashscope {
namespace {

class FlashV3Backward final : public Schedule {
 public:
  enum Kernel { kRowDot, kGradients, kRound };

  FlashV3Backward(const AttentionProblem& p, TileShape tile) : Schedule("flash_v3", p, tile) {
    m_tensors = {Tensor::Q,  Tensor::K,  Tensor::V,  Tensor::O, Tensor::LSE,   Tensor::dO,
                 Tensor::dQ, Tensor::dK, Tensor::dV, Tensor::D, Tensor::dQ_sum};
    const int width = hopper_width(p.head_dim), tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    KernelLaunch row_dot{"flash_v3_backward_row_dot",
                         tr,
                         p.num_heads(),
                         {std::max(kWarpgroupThreads, hopper_row_dot_threads(tile.br)),
                          hopper_row_dot_smem_bytes(tile.br, width), kHopperRowDotRegisters},
                         {},
                         kHopperRowDotCode,
                         MatrixUnit::wgmma};
    KernelLaunch gradients{"flash_v3_backward",
                           tc,
                           p.num_kv_heads(),
                           {kHopperBackwardThreads, hopper_backward_smem(tile.br, tile.bc, width, tile.stages).bytes,
                            flash_v3_registers(kHopperBackwardConsumers * kWarpgroupRows)},
                           {},
                           kHopperBackwardCode,
                           MatrixUnit::wgmma};
    gradients.loading_threads = kWarpgroupThreads;
    KernelLaunch round{"flash_v3_backward_round",
                       tr,
                       p.num_heads(),
                       {kHopperRoundThreads, 0, kHopperRoundRegisters},
                       {},
                       kHopperRoundCode};
    m_kernels = {row_dot, gradients, round};
  }

  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype), sum_row = std::int64_t{p.head_dim} * 4;
    const std::int64_t queries = std::int64_t{p.seqlen_q} * p.num_heads(), keys = std::int64_t{p.seqlen_k} * p.num_kv_heads();
    const KeyOuterWalk walk = key_outer_walk(p, tile());
    const std::int64_t visits = walk.visits * p.num_heads();
    const std::int64_t read = queries * (2 * row_bytes + sum_row) + 2 * walk.keys * row_bytes * p.num_kv_heads() +
                              visits * (2 * row_bytes + 8);
    const std::int64_t written = queries * (4 + sum_row + row_bytes) + visits * sum_row + 2 * keys * row_bytes;
    return {read, written, algorithm_4_bytes(p, tile())};
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (kernel != kRound) return wgmma_backward_work(*this, op);
    // Four vectors of float32 at a time, each to half a vector of the dtype.
    constexpr int kAtOnce = 4 * kVectorBytes / 4 * kHopperRoundThreads;  // elements
    const int batches = (op.rows * op.cols + kAtOnce - 1) / kAtOnce;
    if (op.op == Op::load) return WarpWork().then({.instructions = 14, .clocks = 32, .alu = 8, .waits = 1}, batches);
    if (op.op == Op::store) return WarpWork().then({.instructions = 32, .clocks = 60, .fma = 16, .alu = 12}, batches);
    return {};
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    const int n = static_cast<int>(inner), tc = num_tiles(problem().seqlen_k, tile().bc);
    switch (kernel) {
      case kRowDot: return row_dot(n, cta);
      case kGradients: return gradients(tile().any_order ? n : tc - 1 - n, cta);
      case kRound: return round(n, cta);
    }
  }

 private:
  static void row_dot(int i, CtaProgram& cta) {
    cta.start(Tensor::O, i, 0, Access::box);
    cta.start(Tensor::dO, i, 0, Access::box);
    cta.clear_gradient(Tensor::dQ, i, 0);
    cta.store(Tensor::dQ_sum, i, 0);
    cta.wait(i, 0);
    cta.row_dot(i);
    cta.store(Tensor::D, i, 0, Access::by_eight_rows);
  }

  /// dK and dV of key tile j stay in registers while query tiles come by, head after head of the group.
  void gradients(int j, CtaProgram& cta) const {
    const SparseMask by_key = transposed(problem().mask());
    const Range visited = visited_tiles(by_key, tile().bc, tile().br, j);
    const Range whole = whole_tiles(by_key, tile().bc, tile().br, j);
    const int slots_ahead = tile().stages - 1;
    // Alike: those that start a whole tile. The last row tile may be cut short.
    const int full = problem().seqlen_q / tile().br;
    Range alike = {whole.begin, std::min({whole.end, visited.end - slots_ahead, full - slots_ahead})};
    if (alike.begin >= alike.end) alike = {visited.end, visited.end};

    if (is_key_tile_seen(problem(), tile(), j)) {
      cta.start(Tensor::K, 0, j, Access::box);
      cta.start(Tensor::V, 0, j, Access::box);
    }
    cta.clear_gradient(Tensor::dK, 0, j);
    cta.clear_gradient(Tensor::dV, 0, j);
    cta.for_each_head_of_group([&] {
      std::deque<int> under_way;  // loads of each tile that was started
      const auto start = [&](int i) {
        under_way.push_back(cta.start(Tensor::Q, i, j, Access::box) + cta.start(Tensor::LSE, i, j) +
                            cta.start(Tensor::dO, i, j, Access::box) + cta.start(Tensor::D, i, j));
      };
      /// The first that is visited from i on, or none.
      const auto seek = [&](int i) {
        while (i < visited.end && !is_visited(problem(), tile(), i, j)) ++i;
        return i;
      };
      int next = seek(visited.begin);  // to be started
      const auto start_next = [&] {
        if (next >= visited.end) return;
        start(next);
        next = seek(next + 1);
      };
      for (int n = 0; n < slots_ahead; ++n) start_next();
      cta.for_each_query_tile(visited, alike, [&](int i) {
        if (!is_visited(problem(), tile(), i, j)) return;
        // In a run of like tiles one is walked for all: what it starts follows from where it stands.
        next = i;
        for (int n = 0; n < slots_ahead && next < visited.end; ++n) next = seek(next + 1);
        start_next();  // the slot of the tile before has been read
        under_way.pop_front();
        cta.wait(i, j, std::accumulate(under_way.begin(), under_way.end(), 0));
        cta.scores(i, j);
        cta.mask(i, j);
        cta.probabilities(i, j);
        cta.d_probabilities(i, j);
        cta.d_scores(i, j);
        cta.gradient_sum(Tensor::dV, i, j);
        cta.barrier(i, j);  // dS of all keys is in shared memory
        cta.clear_gradient(Tensor::dQ, i, j);
        cta.gradient_sum(Tensor::dQ, i, j);
        cta.gradient_sum(Tensor::dK, i, j);
        cta.add(Tensor::dQ_sum, i, j);
      });
    });
    cta.store(Tensor::dK, 0, j, Access::eight_rows);
    cta.store(Tensor::dV, 0, j, Access::eight_rows);
  }

  static void round(int i, CtaProgram& cta) {
    cta.load(Tensor::dQ_sum, i, 0);
    cta.store(Tensor::dQ, i, 0, Access::copy_by_8_bytes);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v3_backward(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV3Backward>(problem, tile);
}

}  // namespace flashscope
