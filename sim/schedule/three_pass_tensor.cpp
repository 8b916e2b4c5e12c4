// three_pass_tensor: the three passes with products on tensor cores and loads under way while the CTA computes.
#include <algorithm>
#include <deque>
#include <numeric>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/mma_work.h"
#include "sim/schedule/tensor_rungs.h"
#include "sim/schedule/three_pass.h"

namespace flashscope {
namespace {

class ThreePassTensor final : public ThreePass {
 public:
  ThreePassTensor(const AttentionProblem& p, TileShape tile) : ThreePass("three_pass_tensor", p, tile) {
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const int width = fma_width(p.head_dim);
    const std::int64_t element = element_bytes(p.dtype);
    const std::int64_t scores_smem = element * three_pass_tensor_scores_smem(tile.br, tile.bc, width);
    const std::int64_t sum_smem = element * three_pass_tensor_weighted_sum_smem(tile.br, tile.bc, width, tile.stages);
    m_kernels = {{"three_pass_tensor_scores",
                  tr * tc,
                  p.num_heads(),
                  {kMmaThreads, scores_smem, kScoresTensorRegisters},
                  {},
                  kScoresTensorCode,
                  MatrixUnit::tensor},
                 softmax_launch(),
                 {"three_pass_tensor_weighted_sum",
                  tr,
                  p.num_heads(),
                  {kMmaThreads, sum_smem, weighted_sum_tensor_registers(width)},
                  {},
                  kWeightedSumTensorCode,
                  MatrixUnit::tensor}};
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (kernel == kSoftmax) return softmax_work(op);
    const CopyShape copy = copy_shape(kernel, op);
    const WarpWork work = mma_warp_work(*this, op, copy);
    const MmaTile output = mma_output_tile(tile(), fma_width(problem().head_dim));
    if (op.op == Op::weighted_sum)
      return mma_work(output, tile().bc, AFrom::shared_memory, element_bytes(problem().dtype));
    if (op.op == Op::store)
      return (kernel == kScores ? round_scores_work(mma_scores_tile(tile())) : round_work(output)).then(work);
    // Half of what the loop over key tiles executes beside its copies and products: the next tile's rows and keys, and
    // whether something is to be zeroed there.
    if (op.op == Op::load && kernel == kWeightedSum)
      return WarpWork().then({.instructions = 35, .clocks = 130, .fma = 8, .alu = 18, .waits = 2}).then(work);
    return work;
  }
  /// As compiled: the divisions that find tile and head, each a chain of conversions and a reciprocal.
  WarpWork prologue_work(int kernel) const override {
    if (kernel == kSoftmax) return ThreePass::prologue_work(kernel);
    if (kernel == kWeightedSum)
      return WarpWork().then({.instructions = 114, .clocks = 293, .fma = 34, .alu = 50, .mufu = 12, .waits = 14});
    return WarpWork().then({.instructions = 166, .clocks = 504, .fma = 75, .alu = 60, .mufu = 15, .waits = 20});
  }

 protected:
  void scores_cta(int i, int j, CtaProgram& cta) const override {
    cta.start(Tensor::Q, i, j);
    cta.start(Tensor::K, i, j);
    cta.wait(i, j);
    cta.barrier(i, j);
    cta.scores(i, j);
    cta.mask(i, j);
    cta.barrier(i, j);  // Q and K have been read: their place takes the scores
    cta.barrier(i, j);
    cta.store(Tensor::S, i, j);
  }

  void weighted_sum_cta(int i, CtaProgram& cta) const override {
    const int tc = num_tiles(problem().seqlen_k, tile().bc), ahead = tile().stages - 1;
    const auto in_order = [&](int n) { return tile().backward_keys ? tc - 1 - n : n; };
    std::deque<int> under_way;            // loads of this tile and of those ahead
    const auto start_tile = [&](int n) {  // the n-th that is visited
      if (n < tc) under_way.push_back(cta.start(Tensor::P, i, in_order(n)) + cta.start(Tensor::V, i, in_order(n)));
    };
    cta.clear_state(i);
    for (int n = 0; n < ahead; ++n) start_tile(n);
    // Tiles that start a whole tile, and so wait alike. From behind, the first is partial, and like no other.
    const Range whole = whole_tiles(problem().mask(), tile().br, tile().bc, i);
    Range like = {whole.begin, std::min(whole.end, problem().seqlen_k / tile().bc - ahead)};
    if (tile().backward_keys) like = {std::max(whole.begin, ahead), whole.end};
    cta.for_each_key_tile({0, tc}, like.begin < like.end ? like : Range{0, 0}, [&](int j) {
      start_tile(in_order(j) + ahead);  // in_order is its own inverse
      under_way.pop_front();
      cta.wait(i, j, std::accumulate(under_way.begin(), under_way.end(), 0));
      cta.barrier(i, j);
      cta.weighted_sum(i, j);
      cta.barrier(i, j);  // this stage has been read
    });
    cta.barrier(i, 0);  // O is in shared memory, in the order of the copy
    cta.store(Tensor::O, i, 0);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_three_pass_tensor(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<ThreePassTensor>(problem, tile);
}

}  // namespace flashscope
