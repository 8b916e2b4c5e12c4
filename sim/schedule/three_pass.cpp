// three_pass: S = QKᵀ, P = softmax(S), O = PV as three kernels over shared-memory tiles (the paper's Algorithm 0).
//
// S and P are two N × N buffers in global memory, in the problem's dtype. Like eager attention it computes all pairs:
// under a mask the scores are set to -inf, no tile is skipped.
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class ThreePass final : public Schedule {
 public:
  enum Kernel { kScores, kSoftmax, kWeightedSum };

  ThreePass(const AttentionProblem& p, TileShape tile) : Schedule("three_pass", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::S, Tensor::P, Tensor::O, Tensor::LSE};
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const int width = fma_width(p.head_dim);
    const std::int64_t scores_smem = three_pass_scores_smem(tile.br, tile.bc, width).bytes();
    const std::int64_t sum_smem = three_pass_weighted_sum_smem(tile.br, tile.bc, width).bytes();
    m_kernels = {{"three_pass_scores",
                  tr * tc,
                  p.num_heads(),
                  {kFmaThreads, scores_smem, kScoresRegisters},
                  fma_thread_tile(tile.br, tile.bc),
                  kScoresCode},
                 {"three_pass_softmax",
                  tr,
                  p.num_heads(),
                  {kSoftmaxThreads, softmax_row_bytes(p.seqlen_k), kSoftmaxRegisters},
                  {},
                  kSoftmaxCode},
                 {"three_pass_weighted_sum",
                  tr,
                  p.num_heads(),
                  {kFmaThreads, sum_smem, weighted_sum_registers(width)},
                  fma_thread_tile(tile.br, width),
                  kWeightedSumCode}};
  }

  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t e = element_bytes(p.dtype), h = p.num_heads();
    const std::int64_t q = e * p.seqlen_q * p.head_dim * h;  // Q or O
    const std::int64_t k = e * p.seqlen_k * p.head_dim * h;  // K or V as the query heads see them
    const std::int64_t s = e * p.seqlen_q * p.seqlen_k * h;  // S or P
    const std::int64_t tr = num_tiles(p.seqlen_q, tile().br), tc = num_tiles(p.seqlen_k, tile().bc);
    const std::int64_t softmax_reads = softmax_row_fits(p.seqlen_k) ? 1 : 2;
    const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * h;
    const std::int64_t read = tc * q + tr * k + softmax_reads * s + s + tr * k;
    const std::int64_t write = s + s + lse + q;
    return {read, write, 2 * q + 2 * k / p.heads * p.kv_heads + 4 * s};
  }

  int score_block_rows() const override { return tile().br % kSoftmaxRows == 0 ? kSoftmaxRows : tile().br; }

  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const override {
    return kernel == kScores ? score_tile_classes() : Schedule::cta_classes(kernel);
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (kernel == kScores && op.op == Op::store) {  // through shared memory, in the order of the copy
      const ThreadTile scores = fma_thread_tile(tile().br, tile().bc);
      return stage_scores_work(scores.rows, scores.cols).then(copy_out_work(copy_shape(kernel, op)));
    }
    if (kernel != kSoftmax) {
      // Nothing is normalised at the end; O goes through shared memory.
      const ThreadTile output = fma_thread_tile(tile().br, fma_width(problem().head_dim));
      WarpWork work = Schedule::warp_work(kernel, op);
      return op.op == Op::store ? stage_work(output.rows, output.cols).then(work) : work;
    }
    const bool fits = softmax_row_fits(problem().seqlen_k);
    TileOp one_row = op;
    one_row.rows = 1;
    if (op.op == Op::softmax) one_row.tensor = Tensor::S;
    const CopyShape row = copy_shape(kernel, one_row);
    switch (op.op) {
      case Op::load: return softmax_read_work(op.rows, row, fits);
      case Op::softmax: return softmax_rows_work(op.rows, row, fits);
      case Op::store:
        return op.tensor == Tensor::P ? softmax_write_work(op.rows, row, fits) : copy_out_work(copy_shape(kernel, op));
      default: return {};
    }
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    const int tc = num_tiles(problem().seqlen_k, tile().bc);
    const int i = static_cast<int>(kernel == kScores ? inner / tc : inner);
    const int j = static_cast<int>(kernel == kScores ? inner % tc : 0);
    switch (kernel) {
      case kScores:
        cta.load(Tensor::Q, i, j);
        cta.load(Tensor::K, i, j);
        cta.barrier(i, j);
        cta.scores(i, j);
        cta.mask(i, j);
        cta.barrier(i, j);  // Q and K have been read: their place takes the scores
        cta.barrier(i, j);
        cta.store(Tensor::S, i, j);
        break;
      case kSoftmax: {
        // The row maximum and sum, then the probabilities; a row too long for the chip is read twice.
        const Range tile_rows = cta.rows_of(i), keys = {0, problem().seqlen_k};
        for (int row = tile_rows.begin; row < tile_rows.end; row += kSoftmaxRows) {
          const Range rows = {row, min_int(row + kSoftmaxRows, tile_rows.end)};
          cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::copy_by_row);
          if (!softmax_row_fits(problem().seqlen_k))
            cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::copy_by_row);
          cta.softmax(i, rows);
          cta.move_region(Op::store, Tensor::P, i, 0, rows, keys, Access::copy_by_row);
          cta.log_sum_exp(i, rows);
          cta.move_region(Op::store, Tensor::LSE, i, 0, rows, {0, 1}, Access::copy);
        }
        break;
      }
      case kWeightedSum:
        cta.clear_state(i);
        cta.for_each_key_tile({0, tc}, whole_tiles(problem().mask(), tile().br, tile().bc, i), [&](int key_tile) {
          cta.load(Tensor::P, i, key_tile);
          cta.load(Tensor::V, i, key_tile);
          cta.barrier(i, key_tile);
          cta.weighted_sum(i, key_tile);
          cta.barrier(i, key_tile);
        });
        cta.barrier(i, 0);  // O is in shared memory, in the order of the copy
        cta.store(Tensor::O, i, 0);
        break;
    }
  }
};

}  // namespace

std::unique_ptr<Schedule> make_three_pass(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<ThreePass>(problem, tile);
}

}  // namespace flashscope
