// split_kv: one query row over a long cache, K and V split over CTAs (Flash-Decoding).
//
// With one query tile, flash_v2 has one CTA a head: 32 CTAs on 132 SMs, and where heads share K and V each of them reads
// all of it again. Here a CTA takes the heads that share a KV head together, their rows one below the other in one tile,
// and every part of the keys has a CTA of its own. It runs the loop of flash_v2 over its part and leaves, for each head,
// its O, divided by its own l, and its LSE in float32. A second kernel combines the parts: weighted by exp(LSE - total),
// they add up to O.
#include <climits>
#include <string>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/decode_rung.h"
#include "sim/schedule/decode_work.h"

namespace flashscope {
namespace {

class SplitKv final : public Schedule {
 public:
  enum Kernel { kSplit, kCombine };

  SplitKv(const AttentionProblem& p, TileShape tile) : Schedule("split_kv", p, tile), m_group(p.heads / p.kv_heads) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::LSE, Tensor::O_split, Tensor::LSE_split};
    const int width = fma_width(p.head_dim), element = element_bytes(p.dtype);
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br);
    const bool tensor_cores = decode_on_tensor_cores(element);
    m_kernels = {{"split_kv",
                  tr * decode_chunks(tile.br, m_group) * tile.splits,
                  p.num_kv_heads(),
                  {kDecodeThreads, decode_smem(tile.br, tile.bc, width, element).bytes, decode_registers(width, element)},
                  {},
                  tensor_cores ? kSplitKvTensorCode : kSplitKvCode,
                  tensor_cores ? MatrixUnit::tensor : MatrixUnit::fma},
                 {"split_kv_combine",
                  tr,
                  p.num_heads(),
                  {kDecodeThreads, combine_smem(tile.br, tile.splits, width).bytes(), kCombineRegisters},
                  {},
                  kCombineCode}};
  }

  /// The paper's count here: Q once for each split, K and V, the parts written and read with their LSE, O. The final LSE
  /// is left out, as everywhere.
  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype), heads = p.num_heads();
    const std::int64_t q = row_bytes * p.seqlen_q * heads;
    std::int64_t keys = 0;
    for (int i = 0; i < num_tiles(p.seqlen_q, tile().br); ++i) keys += visited_keys(p, tile(), i);
    keys *= std::int64_t{decode_chunks(tile().br, m_group)} * p.num_kv_heads();
    const std::int64_t parts = 4 * (std::int64_t{p.head_dim} + 1) * p.seqlen_q * heads * tile().splits;
    const std::int64_t read = tile().splits * q + 2 * keys * row_bytes + parts;
    const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * heads;
    return {read, parts + q + lse, read + parts + q};
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    return kernel == kSplit ? split_kv_work(*this, op, copy_shape(kernel, op)) : combine_work(*this, op);
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    if (kernel == kCombine) return combine(static_cast<int>(inner), cta);
    const int chunks = decode_chunks(tile().br, m_group), heads = decode_heads(tile().br, m_group);
    const int split = static_cast<int>(inner % tile().splits);
    const int chunk = static_cast<int>(inner / tile().splits % chunks);
    cta.select_heads(chunk * heads, min_int(heads, m_group - chunk * heads));
    part(static_cast<int>(inner / tile().splits / chunks), split, cta);
  }

 private:
  /// Float32 tiles come through registers, those for the tensor cores by copies that do not wait.
  void move_in(Tensor tensor, int i, int j, CtaProgram& cta) const {
    if (decode_on_tensor_cores(element_bytes(problem().dtype)))
      cta.start(tensor, i, j);
    else
      cta.load(tensor, i, j);
  }

  void part(int i, int split, CtaProgram& cta) const {
    const SparseMask mask = problem().mask();
    move_in(Tensor::Q, i, 0, cta);
    cta.clear_state(i);
    const Range mine = split_of(visited_tiles(mask, tile().br, tile().bc, i), split, tile().splits);
    const Range whole = whole_tiles(mask, tile().br, tile().bc, i);
    const int begin = clamp_int(whole.begin, mine.begin, mine.end);
    cta.for_each_key_tile(mine, {begin, clamp_int(whole.end, begin, mine.end)}, [&](int j) {
      if (!is_visited(problem(), tile(), i, j)) return;
      move_in(Tensor::K, i, j, cta);
      move_in(Tensor::V, i, j, cta);
      cta.wait(i, j);
      cta.barrier(i, j);  // they have arrived for all
      cta.scores(i, j);
      cta.mask(i, j);
      cta.online_softmax(i, j);
      cta.weighted_sum(i, j);
      cta.barrier(i, j);  // they have been read
    });
    cta.wait(i, 0);  // for Q, where no key tile is visited
    cta.barrier(i, 0);
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.barrier(i, 0);  // O is in shared memory, in the order of the copy
    cta.store_split(Tensor::O_split, i, split);
    cta.store_split(Tensor::LSE_split, i, split);
  }

  static void combine(int i, CtaProgram& cta) {
    cta.load_splits(Tensor::LSE_split, i);
    cta.barrier(i, 0);  // every thread knows every weight
    cta.load_splits(Tensor::O_split, i);
    cta.combine(i);
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.barrier(i, 0);
    cta.store(Tensor::O, i, 0);
    cta.store(Tensor::LSE, i, 0);
  }

  int m_group;  // query heads that share a KV head
};

}  // namespace

std::unique_ptr<Schedule> make_split_kv(const AttentionProblem& problem, TileShape tile) {
  // Rows of all parts: what validate() knows nothing of.
  const std::int64_t heads = std::int64_t{problem.num_heads()} * tile.splits;
  const double bytes = 4.0 * (problem.head_dim + 1.0) * problem.seqlen_q * static_cast<double>(heads);
  if (heads > INT_MAX || bytes > 1e17)
    throw Error(ErrorKind::usage, "--splits: " + std::to_string(tile.splits) + " parts of each of " +
                                      std::to_string(problem.num_heads()) + " heads are too many to count");
  return std::make_unique<SplitKv>(problem, tile);
}

}  // namespace flashscope
