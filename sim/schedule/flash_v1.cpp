// flash_v1: K and V outside, Q inside (FlashAttention, arXiv 2205.14135, Algorithm 1).
//
// One CTA owns a whole head and runs both loops. Each key tile is loaded once; for each of them every query tile comes
// in with its O, l, m and goes back: O is rewritten in the storage dtype once per key tile, which is what flash_v2
// saves.
#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class FlashV1 final : public Schedule {
 public:
  FlashV1(const AttentionProblem& p, TileShape tile) : Schedule("flash_v1", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::LSE, Tensor::M, Tensor::L};
    const int width = fma_width(p.head_dim);
    m_kernels = {{"flash_v1",
                  1,
                  p.num_heads(),
                  {kFmaThreads, flash_v1_smem(tile.br, tile.bc, width).bytes() + tile_walk_bytes(p.is_sparse()),
                   flash_v1_registers(width, p.dtype == DType::bf16, p.is_sparse())},
                  fma_thread_tile(tile.br, tile.bc),
                  kFlashV1Code}};
  }

  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
    const KeyOuterWalk walk = key_outer_walk(p, tile());
    const std::int64_t rounds_read = 2 * walk.keys * row_bytes + walk.visits * (2 * row_bytes + 8);
    const std::int64_t rounds_write = walk.visits * (row_bytes + 8);
    const std::int64_t initial_write = p.seqlen_q * (row_bytes + 8);
    const std::int64_t lse_read = 8 * std::int64_t{p.seqlen_q};
    const std::int64_t lse_write = 4 * std::int64_t{p.seqlen_q};
    return {(rounds_read + lse_read) * p.num_heads(), (rounds_write + initial_write + lse_write) * p.num_heads(),
            (rounds_read + rounds_write) * p.num_heads()};
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    const ThreadTile scores = fma_thread_tile(tile().br, tile().bc);
    if (op.op == Op::online_softmax)
      return online_softmax_by_row_work(scores.rows, scores.cols, fma_width(problem().head_dim) / kFmaThreadCols);
    // The statistics are in shared memory: a logarithm for each thread that has a row, and no sums.
    if (op.op == Op::log_sum_exp) return row_end_work(1);
    return Schedule::warp_work(kernel, op);
  }

 protected:
  void cta(int, std::int64_t, CtaProgram& cta) const override {
    const SparseMask by_key = transposed(problem().mask());
    const int tr = num_tiles(problem().seqlen_q, tile().br);
    const int tc = num_tiles(problem().seqlen_k, tile().bc);
    const Range whole_query_tiles = {0, problem().seqlen_q / tile().br};

    cta.for_each_query_tile({0, tr}, whole_query_tiles, [&](int i) {  // O = 0, l = 0, m = -inf in global memory
      cta.clear_state(i);
      cta.normalize(i);
      store_state(cta, i, 0);
    });
    cta.barrier(0, 0);
    const Range all_keys = {0, tc}, none_alike = {tc, tc};
    cta.for_each_key_tile(all_keys, none_alike, [&](int j) {
      const Range visited = visited_tiles(by_key, tile().bc, tile().br, j);
      if (!is_key_tile_seen(problem(), tile(), j)) return;
      cta.load(Tensor::K, 0, j);
      cta.load(Tensor::V, 0, j);
      cta.for_each_query_tile(visited, whole_tiles(by_key, tile().bc, tile().br, j), [&](int i) {
        if (!is_visited(problem(), tile(), i, j)) return;
        cta.load(Tensor::Q, i, j);
        cta.load(Tensor::O, i, j);
        cta.load(Tensor::L, i, j);
        cta.load(Tensor::M, i, j);
        cta.barrier(i, j);
        cta.undo_normalize(i);
        cta.scores(i, j);
        cta.mask(i, j);
        cta.barrier(i, j);
        cta.online_softmax(i, j);
        cta.barrier(i, j);
        cta.weighted_sum(i, j);
        cta.barrier(i, j);  // the scores have been read: their place takes O
        cta.normalize(i);
        cta.barrier(i, j);
        store_state(cta, i, j);
        cta.barrier(i, j);  // O has left
      });
    });
    cta.for_each_query_tile({0, tr}, whole_query_tiles, [&](int i) {
      cta.load(Tensor::L, i, 0);
      cta.load(Tensor::M, i, 0);
      cta.log_sum_exp(i);
      cta.store(Tensor::LSE, i, 0);
    });
  }

 private:
  static void store_state(CtaProgram& cta, int i, int j) {
    cta.store(Tensor::O, i, j);
    cta.store(Tensor::L, i, j);
    cta.store(Tensor::M, i, j);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v1(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV1>(problem, tile);
}

}  // namespace flashscope
