// flash_v2 backward: two kernels, so that nothing is added up in global memory and every run gives the same bits.
//
// FlashAttention-2 (arXiv 2307.08691, section 3.2) gives each CTA a key tile and lets all of them add to dQ atomically, in
// whatever order they come. Here a second kernel, with Q outside, owns dQ: it runs S and dP once more (seven products
// instead of five) and saves the atomic traffic. D = rowsum(dO ∘ O) comes first, in a kernel of its own.
#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/flash_v2.h"
#include "sim/schedule/fma_backward.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class FlashV2Backward final : public Schedule {
 public:
  enum Kernel { kRowDot, kKeyGradients, kQueryGradient };

  FlashV2Backward(const AttentionProblem& p, TileShape tile) : Schedule("flash_v2", p, tile) {
    m_tensors = {Tensor::Q,  Tensor::K,  Tensor::V,  Tensor::O,  Tensor::LSE,
                 Tensor::dO, Tensor::dQ, Tensor::dK, Tensor::dV, Tensor::D};
    const int width = fma_width(p.head_dim), tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const auto resources = [](std::int64_t smem, int registers) { return CtaResources{kFmaThreads, smem, registers}; };
    const auto streaming_smem = [&](bool by_key) {
      return flash_v2_backward_smem(tile.br, tile.bc, width, by_key).bytes() + tile_walk_bytes(p.is_sparse());
    };
    const ThreadTile products = fma_thread_tile(tile.br, tile.bc);
    m_kernels = {
        {"flash_v2_backward_row_dot", tr, p.num_heads(),
         resources(row_dot_smem(tile.br, width).bytes(), kRowDotRegisters), fma_thread_tile(tile.br, width),
         kRowDotCode},
        {"flash_v2_backward_dk_dv", tc, p.num_kv_heads(), resources(streaming_smem(true), kKeyGradientsRegisters),
         products, kKeyGradientsCode},
        {"flash_v2_backward_dq", tr, p.num_heads(),
         resources(streaming_smem(false), query_gradient_registers(width, p.is_sparse())), products,
         kQueryGradientCode},
    };
  }

  ClosedForm closed_form() const override { return flash_v2_backward_closed_form(problem(), tile()); }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    const ThreadTile scores = fma_thread_tile(tile().br, tile().bc);
    if (op.op == Op::row_dot) return row_dot_work(op.rows, op.cols, kFmaThreads);
    if (op.op == Op::probabilities && kernel == kQueryGradient)  // P stays in registers
      return probabilities_work(scores.rows, scores.cols);
    WarpWork work = Schedule::warp_work(kernel, op);
    if (op.op != Op::store || layout_of(op.tensor) == Layout::statistic) return work;
    // A gradient is scaled and put into shared memory first.
    const int rows = op.tensor == Tensor::dQ ? tile().br : tile().bc;
    const ThreadTile gradient = fma_thread_tile(rows, fma_width(problem().head_dim));
    return arithmetic_work(gradient.rows * gradient.cols).then(stage_work(gradient.rows, gradient.cols)).then(work);
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    switch (kernel) {
      case kRowDot: return row_dot(static_cast<int>(inner), cta);
      case kKeyGradients: return key_gradients(static_cast<int>(inner), cta);
      case kQueryGradient: return query_gradient(static_cast<int>(inner), cta);
    }
  }

 private:
  static void row_dot(int i, CtaProgram& cta) {
    cta.load(Tensor::O, i, 0);
    cta.load(Tensor::dO, i, 0);
    cta.barrier(i, 0);
    cta.row_dot(i);
    cta.barrier(i, 0);  // D is in shared memory, in the order of the copy
    cta.store(Tensor::D, i, 0);
  }

  /// K and V outside: dK and dV of key tile j stay in registers while query tiles come by, head after head of the group.
  void key_gradients(int j, CtaProgram& cta) const {
    const SparseMask by_key = transposed(problem().mask());
    const Range visited = visited_tiles(by_key, tile().bc, tile().br, j);
    if (is_key_tile_seen(problem(), tile(), j)) {
      cta.load(Tensor::K, 0, j);
      cta.load(Tensor::V, 0, j);
    }
    cta.clear_gradient(Tensor::dK, 0, j);
    cta.clear_gradient(Tensor::dV, 0, j);
    cta.for_each_head_of_group([&] {
      cta.for_each_query_tile(visited, whole_tiles(by_key, tile().bc, tile().br, j), [&](int i) {
        if (!is_visited(problem(), tile(), i, j)) return;
        cta.load(Tensor::Q, i, j);
        cta.load(Tensor::dO, i, j);
        cta.load(Tensor::LSE, i, j);
        cta.load(Tensor::D, i, j);
        cta.barrier(i, j);
        recompute(i, j, cta);
        cta.barrier(i, j);  // P is in shared memory
        cta.gradient_sum(Tensor::dV, i, j);
        cta.d_probabilities(i, j);
        cta.d_scores(i, j);
        cta.barrier(i, j);  // P has been read: its place takes dS
        cta.barrier(i, j);
        cta.gradient_sum(Tensor::dK, i, j);
        cta.barrier(i, j);  // Q and dO have been read
      });
    });
    cta.barrier(0, j);  // dK and dV are in the places of K and V, in the order of the copy
    cta.store(Tensor::dK, 0, j);
    cta.store(Tensor::dV, 0, j);
  }

  /// Q outside, as in the forward pass: dQ of query tile i stays in registers while K and V stream by.
  void query_gradient(int i, CtaProgram& cta) const {
    const SparseMask mask = problem().mask();
    cta.load(Tensor::Q, i, 0);
    cta.load(Tensor::dO, i, 0);
    cta.load(Tensor::LSE, i, 0);
    cta.load(Tensor::D, i, 0);
    cta.clear_gradient(Tensor::dQ, i, 0);
    const Range visited = visited_tiles(mask, tile().br, tile().bc, i);
    cta.for_each_key_tile(visited, whole_tiles(mask, tile().br, tile().bc, i), [&](int j) {
      if (!is_visited(problem(), tile(), i, j)) return;
      cta.load(Tensor::K, i, j);
      cta.load(Tensor::V, i, j);
      cta.barrier(i, j);
      recompute(i, j, cta);
      cta.d_probabilities(i, j);
      cta.d_scores(i, j);
      cta.barrier(i, j);  // dS is in shared memory
      cta.gradient_sum(Tensor::dQ, i, j);
      cta.barrier(i, j);  // K and dS have been read
    });
    cta.barrier(i, 0);  // dQ is in the place of K, in the order of the copy
    cta.store(Tensor::dQ, i, 0);
  }

  static void recompute(int i, int j, CtaProgram& cta) {
    cta.scores(i, j);
    cta.mask(i, j);
    cta.probabilities(i, j);
  }
};

}  // namespace

ClosedForm flash_v2_backward_closed_form(const AttentionProblem& p, const TileShape& tile) {
  const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
  const std::int64_t q = row_bytes * p.seqlen_q * p.num_heads();     // Q, O, dO or dQ
  const std::int64_t k = row_bytes * p.seqlen_k * p.num_kv_heads();  // dK or dV
  const std::int64_t statistic = 4 * std::int64_t{p.seqlen_q} * p.num_heads();
  const KeyOuterWalk keys_outside = key_outer_walk(p, tile);
  const std::int64_t key_kernel_read = 2 * keys_outside.keys * row_bytes * p.num_kv_heads() +
                                       keys_outside.visits * (2 * row_bytes + 8) * p.num_heads();
  std::int64_t streamed = 0;  // keys past all query tiles of a head
  for (int i = 0; i < num_tiles(p.seqlen_q, tile.br); ++i) streamed += visited_keys(p, tile, i);
  const std::int64_t query_kernel_read = 2 * q + 2 * statistic + 2 * streamed * row_bytes * p.num_heads();
  const std::int64_t row_dot_read = 2 * q;
  return {row_dot_read + key_kernel_read + query_kernel_read, statistic + 2 * k + q, algorithm_4_bytes(p, tile)};
}

std::unique_ptr<Schedule> make_flash_v2_backward(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV2Backward>(problem, tile);
}

}  // namespace flashscope
