// flash_v2: Q outside, K and V streamed (FlashAttention-2, arXiv 2307.08691, Algorithm 1).
//
// One CTA owns query tile i of one head. acc, m and l never leave the chip; acc is divided once, at the end; one
// statistic a row (LSE) is stored for the backward pass. Key tiles the mask empties are never loaded.
#include "sim/schedule/flash_v2.h"

#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/fma_rungs.h"

namespace flashscope {
namespace {

class FlashV2 final : public Schedule {
 public:
  FlashV2(const AttentionProblem& p, TileShape tile) : Schedule("flash_v2", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::LSE};
    const int width = fma_width(p.head_dim);
    m_kernels = {{"flash_v2",
                  num_tiles(p.seqlen_q, tile.br),
                  p.num_heads(),
                  {kFmaThreads, flash_v2_smem(tile.br, tile.bc, width).bytes() + tile_walk_bytes(p.is_sparse()),
                   flash_v2_registers(width, p.dtype == DType::bf16, p.dtype == DType::fp16, p.is_sparse())},
                  fma_thread_tile(tile.br, tile.bc),
                  kFlashV2Code}};
  }

  ClosedForm closed_form() const override { return flash_v2_closed_form(problem(), tile()); }
  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int) const override { return query_tile_classes(); }

 protected:
  void cta(int, std::int64_t inner, CtaProgram& cta) const override {
    const int i = static_cast<int>(inner);
    const SparseMask mask = problem().mask();
    cta.load(Tensor::Q, i, 0);
    cta.clear_state(i);
    const Range visited = visited_tiles(mask, tile().br, tile().bc, i);
    cta.for_each_key_tile(visited, whole_tiles(mask, tile().br, tile().bc, i), [&](int j) {
      if (!is_visited(problem(), tile(), i, j)) return;
      cta.load(Tensor::K, i, j);
      cta.barrier(i, j);
      cta.scores(i, j);
      cta.mask(i, j);
      cta.barrier(i, j);  // K has been read: its place takes V
      cta.load(Tensor::V, i, j);
      cta.online_softmax(i, j);
      cta.barrier(i, j);
      cta.weighted_sum(i, j);
      cta.barrier(i, j);  // V has been read
    });
    cta.barrier(i, 0);  // Q has arrived, also where no key tile is visited: its place takes O
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.barrier(i, 0);  // O and LSE are in shared memory, in the order of the copy
    cta.store(Tensor::O, i, 0);
    cta.store(Tensor::LSE, i, 0);
  }
};

}  // namespace

ClosedForm flash_v2_closed_form(const AttentionProblem& p, const TileShape& tile) {
  const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
  const std::int64_t q_bytes = row_bytes * p.seqlen_q;
  std::int64_t keys = 0, moved_keys = 0;  // streamed past all query tiles of a head; with what whole tiles add
  for (int i = 0; i < num_tiles(p.seqlen_q, tile.br); ++i) {
    const std::int64_t visited = visited_keys(p, tile, i);
    keys += visited;
    moved_keys += tile.whole_tiles ? (visited + tile.bc - 1) / tile.bc * tile.bc : visited;  // one tile at most is short
  }
  const std::int64_t moved_rows = tile.whole_tiles ? std::int64_t{num_tiles(p.seqlen_q, tile.br)} * tile.br : p.seqlen_q;
  const std::int64_t lse = 4 * std::int64_t{p.seqlen_q} * p.num_heads();
  return {(moved_rows + 2 * moved_keys) * row_bytes * p.num_heads(), q_bytes * p.num_heads() + lse,
          (2 * q_bytes + 2 * keys * row_bytes) * p.num_heads()};
}

std::unique_ptr<Schedule> make_flash_v2(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV2>(problem, tile);
}

}  // namespace flashscope
