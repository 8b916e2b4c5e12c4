// three_pass: S = QKᵀ, P = softmax(S), O = PV as three kernels over shared-memory tiles (the paper's Algorithm 0).
//
// S and P are two N × N buffers in global memory, in the problem's dtype. Like eager attention it computes all pairs:
// under a mask the scores are set to -inf, no tile is skipped.
#include "sim/schedule/three_pass.h"

#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {

ThreePass::ThreePass(std::string algorithm, const AttentionProblem& p, TileShape tile)
    : Schedule(std::move(algorithm), p, tile) {
  m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::S, Tensor::P, Tensor::O, Tensor::LSE};
}

ThreePass::ThreePass(const AttentionProblem& p, TileShape tile) : ThreePass("three_pass", p, tile) {
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
               softmax_launch(),
               {"three_pass_weighted_sum",
                tr,
                p.num_heads(),
                {kFmaThreads, sum_smem, weighted_sum_registers(width, p.dtype == DType::bf16)},
                fma_thread_tile(tile.br, width),
                kWeightedSumCode}};
}

KernelLaunch ThreePass::softmax_launch() const {
  return {"three_pass_softmax",
          num_tiles(problem().seqlen_q, score_block_rows()),
          problem().num_heads(),
          {kSoftmaxThreads, kSoftmaxSmemBytes, kSoftmaxRegisters},
          {},
          kSoftmaxCode};
}

ClosedForm ThreePass::closed_form() const {
  const AttentionProblem& p = problem();
  const std::int64_t e = element_bytes(p.dtype), h = p.num_heads();
  const std::int64_t q = e * p.seqlen_q * p.head_dim * h;  // Q or O
  const std::int64_t k = e * p.seqlen_k * p.head_dim * h;  // K or V as the query heads see them
  const std::int64_t s = e * p.seqlen_q * p.seqlen_k * h;  // S or P
  const std::int64_t tr = num_tiles(p.seqlen_q, tile().br), tc = num_tiles(p.seqlen_k, tile().bc);
  const std::int64_t softmax_reads = softmax_warps(p.seqlen_k, element_bytes(p.dtype)) > 0 ? 1 : 2;
  const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * h;
  const std::int64_t read = tc * q + tr * k + softmax_reads * s + s + tr * k;
  const std::int64_t write = s + s + lse + q;
  return {read, write, 2 * q + 2 * k / p.heads * p.kv_heads + 4 * s};
}

int ThreePass::score_block_rows() const { return tile().br % kSoftmaxRows == 0 ? kSoftmaxRows : tile().br; }

std::vector<std::pair<std::int64_t, std::int64_t>> ThreePass::cta_classes(int kernel) const {
  if (kernel == kScores) return score_tile_classes();
  return kernel == kSoftmax ? row_classes(score_block_rows()) : query_tile_classes();
}

WarpWork ThreePass::warp_work(int kernel, const TileOp& op) const {
  if (kernel == kSoftmax) return softmax_work(op);
  if (kernel == kScores && op.op == Op::store) {  // through shared memory, in the order of the copy
    const ThreadTile scores = fma_thread_tile(tile().br, tile().bc);
    return stage_scores_work(scores.rows, scores.cols).then(copy_out_work(copy_shape(kernel, op)));
  }
  // Nothing is normalised at the end; O goes through shared memory.
  const ThreadTile output = fma_thread_tile(tile().br, fma_width(problem().head_dim));
  WarpWork work = Schedule::warp_work(kernel, op);
  return op.op == Op::store ? stage_work(output.rows, output.cols).then(work) : work;
}

WarpWork ThreePass::softmax_work(const TileOp& op) const {
  const SoftmaxRows rows{op.rows, problem().seqlen_k, static_cast<int>(element_bytes(problem().dtype))};
  switch (op.op) {
    case Op::load: return softmax_read_work(rows);
    case Op::softmax: return softmax_rows_work(rows);
    case Op::store: return op.tensor == Tensor::P ? softmax_write_work(rows) : copy_out_work(copy_shape(kSoftmax, op));
    default: return {};
  }
}

void ThreePass::cta(int kernel, std::int64_t inner, CtaProgram& cta) const {
  const int tc = num_tiles(problem().seqlen_k, tile().bc);
  switch (kernel) {
    case kScores: return scores_cta(static_cast<int>(inner / tc), static_cast<int>(inner % tc), cta);
    case kSoftmax: return softmax_cta(static_cast<int>(inner), cta);
    case kWeightedSum: return weighted_sum_cta(static_cast<int>(inner), cta);
  }
}

void ThreePass::scores_cta(int i, int j, CtaProgram& cta) const {
  cta.load(Tensor::Q, i, j);
  cta.load(Tensor::K, i, j);
  cta.barrier(i, j);
  cta.scores(i, j);
  cta.mask(i, j);
  cta.barrier(i, j);  // Q and K have been read: their place takes the scores
  cta.barrier(i, j);
  cta.store(Tensor::S, i, j);
}

void ThreePass::softmax_cta(int part, CtaProgram& cta) const {
  // The row maximum and sum, then the probabilities; a row too long for the chip is read twice.
  const int first = part * score_block_rows();
  const Range rows = {first, min_int(first + score_block_rows(), problem().seqlen_q)}, keys = {0, problem().seqlen_k};
  const int i = first / tile().br;
  const int row_warps = softmax_warps(problem().seqlen_k, static_cast<int>(element_bytes(problem().dtype)));
  const bool fits = row_warps > 0;
  const int rows_at_once = fits ? kSoftmaxThreads / kWarpSize / row_warps : 1;
  if (!fits)
    cta.in_turns({.rows = 1}, [&] { cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::whole_rows); });
  cta.in_turns({.rows = rows_at_once}, [&] {
    cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::whole_rows);
    cta.softmax(i, rows);
    cta.move_region(Op::store, Tensor::P, i, 0, rows, keys, Access::whole_rows);
  });
  cta.log_sum_exp(i, rows);
  cta.move_region(Op::store, Tensor::LSE, i, 0, rows, {0, 1}, Access::copy);
}

void ThreePass::weighted_sum_cta(int i, CtaProgram& cta) const {
  const Range all = {0, num_tiles(problem().seqlen_k, tile().bc)};
  cta.clear_state(i);
  cta.for_each_key_tile(all, whole_tiles(problem().mask(), tile().br, tile().bc, i), [&](int j) {
    cta.load(Tensor::P, i, j);
    cta.load(Tensor::V, i, j);
    cta.barrier(i, j);
    cta.weighted_sum(i, j);
    cta.barrier(i, j);
  });
  cta.barrier(i, 0);  // O is in shared memory, in the order of the copy
  cta.store(Tensor::O, i, 0);
}

std::unique_ptr<Schedule> make_three_pass(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<ThreePass>(problem, tile);
}

}  // namespace flashscope
