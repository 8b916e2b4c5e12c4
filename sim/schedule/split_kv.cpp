// split_kv: one query row over a long cache, K and V split over CTAs (Flash-Decoding).
//
// With one query tile, flash_v2 has one CTA a head: 32 CTAs on 132 SMs, and where heads share K and V each of them reads
// all of it again. Here a CTA takes the heads that share a KV head together, their rows one below the other in one tile,
// and every part of the keys has a CTA of its own. It runs the loop of flash_v2 over its part and leaves, for each head,
// its O, divided by its own l, and its LSE in float32. A second kernel combines the parts: weighted by exp(LSE - total),
// they add up to O.
//
// A server that grows many caches at once keeps K and V in pages (PagedAttention, arXiv 2309.06180): page n of a sequence
// lies where entry n of its block table says. A CTA then looks up the pages of a key tile while the one before arrives.
#include <climits>
#include <numeric>
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
    if (is_paged()) m_tensors.push_back(Tensor::block_table);
    const int width = fma_width(p.head_dim), element = element_bytes(p.dtype);
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br);
    const bool tensor_cores = decode_on_tensor_cores(element);
    m_kernels = {{"split_kv",
                  tr * decode_chunks(tile.br, m_group) * tile.splits,
                  p.num_kv_heads(),
                  {kDecodeThreads, decode_smem(tile.br, tile.bc, width, element, is_paged()).bytes,
                   decode_registers(width, element)},
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
  /// is left out, as everywhere, and so is the block table.
  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype), heads = p.num_heads();
    const std::int64_t q = row_bytes * p.seqlen_q * heads;
    std::int64_t keys = 0, entries = 0;
    for (int i = 0; i < num_tiles(p.seqlen_q, tile().br); ++i) {
      keys += visited_keys(p, tile(), i);
      entries += table_entries(i);
    }
    const std::int64_t ctas = std::int64_t{decode_chunks(tile().br, m_group)} * p.num_kv_heads();  // that take a row
    keys *= ctas;
    entries *= ctas;
    const std::int64_t parts = 4 * (std::int64_t{p.head_dim} + 1) * p.seqlen_q * heads * tile().splits;
    const std::int64_t read = tile().splits * q + 2 * keys * row_bytes + parts;
    const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * heads;
    return {read + 4 * entries, parts + q + lse, read + parts + q};
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

  bool is_paged() const { return tile().page_size > 0; }

  /// Entries of the block table that the CTAs of query tile i read, all splits together: each tile those of its pages, so
  /// one more for every tile that begins inside a page.
  std::int64_t table_entries(int i) const {
    if (!is_paged()) return 0;
    const int bc = tile().bc, page_size = tile().page_size;
    const Paging paging = paging_of(page_size);
    const Range visited = visited_tiles(problem().mask(), tile().br, bc, i);
    std::int64_t entries = 0;
    if (problem().is_sparse()) {
      for (int j = visited.begin; j < visited.end; ++j) {
        const Range pages = paging.pages_of({j * bc, j * bc + tile_rows(problem().seqlen_k, bc, j)});
        if (is_visited(problem(), tile(), i, j)) entries += pages.end - pages.begin;
      }
      return entries;
    }
    if (visited.begin == visited.end) return 0;
    const int end = min_int(problem().seqlen_k, visited.end * bc), period = page_size / std::gcd(page_size, bc);
    const Range pages = paging.pages_of({visited.begin * bc, end});
    const int on_edges = (visited.end - 1) / period - visited.begin / period;  // of all tiles but the first
    return pages.end - pages.begin + (visited.end - visited.begin - 1) - on_edges;
  }

  void part(int i, int split, CtaProgram& cta) const {
    const SparseMask mask = problem().mask();
    move_in(Tensor::Q, i, 0, cta);
    cta.clear_state(i);
    const Range mine = split_of(visited_tiles(mask, tile().br, tile().bc, i), split, tile().splits);
    const Range whole = whole_tiles(mask, tile().br, tile().bc, i);
    const int begin = clamp_int(whole.begin, mine.begin, mine.end);
    const int step = tile().backward_keys ? -1 : 1;
    const auto visited_from = [&](int j) {  // -1: none
      for (; mine.begin <= j && j < mine.end; j += step)
        if (is_visited(problem(), tile(), i, j)) return j;
      return -1;
    };
    if (const int first = is_paged() ? visited_from(step < 0 ? mine.end - 1 : mine.begin) : -1; first >= 0) {
      cta.load(Tensor::block_table, i, first);
      cta.barrier(i, first);  // all know where K and V lie
    }
    cta.for_each_key_tile(mine, {begin, clamp_int(whole.end, begin, mine.end)}, [&](int j) {
      if (!is_visited(problem(), tile(), i, j)) return;
      move_in(Tensor::K, i, j, cta);
      move_in(Tensor::V, i, j, cta);
      if (const int next = is_paged() ? visited_from(j + step) : -1; next >= 0) cta.start(Tensor::block_table, i, next);
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
