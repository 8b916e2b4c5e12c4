// three_pass_naive: the three passes with one thread an output element, straight from global memory.
//
// Where everyone starts. Nothing is kept on chip, so every multiply-add asks the memory system again; loads bypass L1,
// and the traffic is the sectors of each warp request. A CTA is a 32 × 32 patch of outputs: a warp is one row of it.
#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class ThreePassNaive final : public Schedule {
 public:
  static constexpr int kScanUnroll = 4;  // keys of a lane that are under way at once
  enum Kernel { kScores, kSoftmax, kWeightedSum };

  ThreePassNaive(const AttentionProblem& p, TileShape tile) : Schedule("three_pass_naive", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::S, Tensor::P, Tensor::O, Tensor::LSE};
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const int patch = std::min(1024, tile.br * tile.bc);  // threads; a larger patch takes several rounds
    m_kernels = {
        {"three_pass_naive_scores", tr * tc, p.num_heads(), {patch, 0, kNaiveRegisters}, {}, kNaiveProductCode},
        {"three_pass_naive_softmax", tr, p.num_heads(), {patch, 0, kNaiveRegisters}, {}, kNaiveSoftmaxCode},
        {"three_pass_naive_weighted_sum",
         tr * num_tiles(p.head_dim, tile.bc),
         p.num_heads(),
         {patch, 0, kNaiveRegisters},
         {},
         kNaiveProductCode}};
  }

  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t e = element_bytes(p.dtype), h = p.num_heads();
    const std::int64_t pairs = std::int64_t{p.seqlen_q} * p.seqlen_k * h;
    const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * h;
    // Every multiply-add of either product asks for two elements; the softmax scans S three times.
    const std::int64_t read = e * pairs * (2 * p.head_dim + 3 + 2 * p.head_dim);
    const std::int64_t o = e * p.seqlen_q * p.head_dim * h;
    const std::int64_t k = e * p.seqlen_k * p.head_dim * p.num_kv_heads();
    return {read, 2 * e * pairs + lse + o, 2 * o + 2 * k + 4 * e * pairs};
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const override {
    if (kernel == kScores) return score_tile_classes();
    if (kernel == kSoftmax) return query_tile_classes();
    // A CTA for each patch of a row of O: all rows have the same patches.
    std::vector<std::pair<std::int64_t, std::int64_t>> classes;
    const std::int64_t patches = num_tiles(problem().head_dim, tile().bc);
    for (const auto& [i, rows] : query_tile_classes())
      for (std::int64_t patch = 0; patch < patches; ++patch) classes.emplace_back(i * patches + patch, rows);
    return classes;
  }

  /// A product's two loads and its multiply-adds are one loop: its instructions stand at the product, its waits at the
  /// second load.
  WarpWork warp_work(int kernel, const TileOp& op) const override {
    constexpr int kScoresUnroll = 4, kSumUnroll = 2;  // as the kernels say
    WarpWork work;
    switch (op.op) {
      case Op::load:
        if (op.tensor == Tensor::S) return naive_scan_work(op.cols, false);
        // Four multiply-adds a turn of the loop, but within its 32 registers the compiler asks for the two operands of
        // one, waits, and then for those of the next.
        if (op.tensor == Tensor::K) work.round_trips = op.cols;
        if (op.tensor == Tensor::V) work.round_trips = num_tiles(op.rows, kSumUnroll);
        if (op.tensor == Tensor::Q || op.tensor == Tensor::P) work.round_trips = 0;
        return work;
      case Op::scores: return naive_product_work(op.depth, kScoresUnroll);
      case Op::weighted_sum: return naive_product_work(op.depth, kSumUnroll);
      case Op::softmax: return naive_scan_work(op.cols, true).then(naive_scan_work(op.cols, true));
      default: return Schedule::warp_work(kernel, op);
    }
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    const AttentionProblem& p = problem();
    const int tc = num_tiles(p.seqlen_k, tile().bc), column_tiles = num_tiles(p.head_dim, tile().bc);
    const int per_row = kernel == kScores ? tc : kernel == kSoftmax ? 1 : column_tiles;
    const int i = static_cast<int>(inner / per_row), j = static_cast<int>(inner % per_row);
    const Range rows = cta.rows_of(i), dims = {0, p.head_dim};
    const std::int64_t num_rows = rows.end - rows.begin;
    switch (kernel) {
      case kScores: {
        const Range keys = cta.keys_of(j);
        // A warp is one query row and up to 32 keys: it asks for an element of Q as one (all lanes the same), and for a
        // column of K lane by lane.
        cta.request(Tensor::Q, i, j, rows, dims, Access::broadcast, 1, keys.end - keys.begin);
        cta.request(Tensor::K, i, j, keys, dims, Access::row_per_lane, num_rows, num_rows);
        cta.scores(i, j);
        cta.mask(i, j);
        cta.move_region(Op::store, Tensor::S, i, j, rows, keys, Access::row_per_warp);
        break;
      }
      case kSoftmax: {
        const Range keys = {0, p.seqlen_k};
        for (int scan = 0; scan < 2; ++scan)  // maximum, sum
          cta.in_turns({.key_tiles = kScanUnroll},
                       [&] { cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::row_per_warp); });
        cta.in_turns({.key_tiles = kScanUnroll}, [&] {  // probabilities
          cta.move_region(Op::load, Tensor::S, i, 0, rows, keys, Access::row_per_warp);
          cta.softmax(i, rows);
          cta.move_region(Op::store, Tensor::P, i, 0, rows, keys, Access::row_per_warp);
        });
        cta.log_sum_exp(i);
        cta.move_region(Op::store, Tensor::LSE, i, 0, rows, {0, 1}, Access::row_per_warp);
        break;
      }
      case kWeightedSum: {
        const Range columns = {j * tile().bc, j * tile().bc + tile_rows(p.head_dim, tile().bc, j)};
        cta.clear_state(i);
        cta.for_each_key_tile({0, tc}, whole_tiles(p.mask(), tile().br, tile().bc, i), [&](int key_tile) {
          const Range keys = cta.keys_of(key_tile);
          cta.request(Tensor::P, i, key_tile, rows, keys, Access::broadcast, 1, columns.end - columns.begin);
          cta.request(Tensor::V, i, key_tile, keys, columns, Access::row_per_warp, num_rows, num_rows);
          cta.weighted_sum(i, key_tile, columns);
        });
        cta.move_region(Op::store, Tensor::O, i, 0, rows, columns, Access::row_per_warp);
        break;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Schedule> make_three_pass_naive(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<ThreePassNaive>(problem, tile);
}

}  // namespace flashscope
