// flash_v1 backward: K and V outside, Q inside (FlashAttention, arXiv 2205.14135, Algorithm 4).
//
// One CTA owns a whole KV head. It keeps dK and dV of its key tile on chip while every query tile comes in with its dQ,
// which goes back a little fuller: dQ is rewritten in the storage dtype once per key tile. Two things differ from the
// paper: the forward pass has left LSE instead of l and m, and query heads that share a KV head run one after the other.
#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/fma_backward.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class FlashV1Backward final : public Schedule {
 public:
  FlashV1Backward(const AttentionProblem& p, TileShape tile) : Schedule("flash_v1", p, tile) {
    m_tensors = {Tensor::Q,  Tensor::K,  Tensor::V,  Tensor::O, Tensor::LSE,
                 Tensor::dO, Tensor::dQ, Tensor::dK, Tensor::dV};
    // Q, dO, and one place for O (until D is known) and dQ; K and V. dK and dV are in registers.
    const std::int64_t smem = flash_v1_backward_smem(tile.br, tile.bc, fma_width(p.head_dim)).bytes();
    m_kernels = {{"flash_v1_backward",
                  1,
                  p.num_kv_heads(),
                  {kFmaThreads, smem, kFlashV1BackwardRegisters},
                  fma_thread_tile(tile.br, tile.bc),
                  kFlashV1BackwardCode}};
  }

  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
    const KeyOuterWalk walk = key_outer_walk(p, tile());
    const std::int64_t kv_read = 2 * walk.keys * row_bytes * p.num_kv_heads();
    const std::int64_t kv_write = 2 * p.seqlen_k * row_bytes * p.num_kv_heads();
    const std::int64_t rounds_read = walk.visits * (4 * row_bytes + 4) * p.num_heads();  // Q, O, dO, dQ; LSE
    const std::int64_t rounds_write = walk.visits * row_bytes * p.num_heads();           // dQ
    const std::int64_t initial_write = p.seqlen_q * row_bytes * p.num_heads();           // dQ = 0
    return {kv_read + rounds_read, kv_write + rounds_write + initial_write, algorithm_4_bytes(p, tile())};
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (op.op != Op::gradient_sum || op.tensor == Tensor::dQ) return Schedule::warp_work(kernel, op);
    const ThreadTile gradient = fma_thread_tile(tile().bc, fma_width(problem().head_dim));
    return product_down_work(gradient.rows, gradient.cols, tile().br);
  }

 protected:
  void cta(int, std::int64_t, CtaProgram& cta) const override {
    const SparseMask by_key = transposed(problem().mask());
    const int tr = num_tiles(problem().seqlen_q, tile().br);
    const int tc = num_tiles(problem().seqlen_k, tile().bc);

    cta.for_each_head_of_group([&] {
      cta.for_each_query_tile({0, tr}, {0, problem().seqlen_q / tile().br}, [&](int i) {
        cta.clear_gradient(Tensor::dQ, i, 0);
        cta.store(Tensor::dQ, i, 0);
      });
    });
    cta.barrier(0, 0);
    const Range none_alike = {tc, tc};
    cta.for_each_key_tile({0, tc}, none_alike, [&](int j) {
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
          cta.load(Tensor::O, i, j);
          cta.load(Tensor::LSE, i, j);
          cta.barrier(i, j);
          cta.row_dot(i);
          cta.scores(i, j);
          cta.mask(i, j);
          cta.probabilities(i, j);
          cta.barrier(i, j);  // P is in shared memory, and O has been read: its place takes dQ
          cta.load(Tensor::dQ, i, j);
          cta.gradient_sum(Tensor::dV, i, j);
          cta.d_probabilities(i, j);
          cta.d_scores(i, j);
          cta.barrier(i, j);  // P has been read: its place takes dS
          cta.barrier(i, j);
          cta.gradient_sum(Tensor::dK, i, j);
          cta.gradient_sum(Tensor::dQ, i, j);
          cta.barrier(i, j);
          cta.store(Tensor::dQ, i, j);
          cta.barrier(i, j);  // dQ has left
        });
      });
      cta.barrier(0, j);  // K and V have been read: their places take dK and dV
      cta.barrier(0, j);
      cta.store(Tensor::dK, 0, j);
      cta.store(Tensor::dV, 0, j);
      cta.barrier(0, j);
    });
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v1_backward(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV1Backward>(problem, tile);
}

}  // namespace flashscope
