// flash_v3: the loops of flash_v2 on Hopper (FlashAttention-3, arXiv 2407.08608). A producer warp keeps one tile of K and
// one of V ahead of the warpgroups that compute, in rings of two slots; CTAs are persistent and take query tiles in an
// order that lets K and V stay in L2 and leaves short tiles for the end.
//
// The operations of a key tile follow each other as in flash_v2. What runs beside what (wgmma, two or three warpgroups,
// the scores of one tile beside the weighted sum of the one before) is no order but a property of the units: see
// MatrixUnit::wgmma.
#include "sim/schedule/flash_v3.h"

#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/flash_v2.h"
#include "sim/schedule/key_walk.h"
#include "sim/schedule/mma_work.h"

namespace flashscope {

/// Measured on an H200 (docs/deviations.md). Taller tiles read K and V less often from shared memory, wider ones pay
/// for the ends of a tile less often; both leave more of the GPU idle when few tiles are left.
TileShape flash_v3_tile(const AttentionProblem& p) {
  const int width = hopper_width(p.head_dim);
  const bool long_rows = p.seqlen_k > 4096;
  const MaskShape mask = p.mask();
  const bool is_banded = mask.left >= 0 || mask.right >= 0;
  if (width == 64) {
    // Three warpgroups hide exponentials, of which this width has most a product, better than two. A causal head of
    // few tiles wants short ones: more of a diagonal tile is thrown away than is won.
    constexpr std::int64_t kManyTiles = 2 * 132;  // two rounds of the largest Hopper
    const bool many = std::int64_t{p.num_heads()} * num_tiles(p.seqlen_q, 192) >= kManyTiles;
    return many && (!is_banded || p.seqlen_k >= 4096) ? TileShape{192, 128, kFlashV3Slots}
                                                      : TileShape{128, 128, kFlashV3Slots};
  }
  if (width == 128) return {128, long_rows ? 176 : 128, kFlashV3Slots};
  return {128, 80, kFlashV3Slots};  // the widest whose two slots fit in shared memory
}

/// Under a mask that cuts, heads are interleaved so that long tiles come first: as many as keep K and V in half of an
/// H200's L2. Without one all tiles are equally long, and heads go one by one.
int flash_v3_heads_at_once(const AttentionProblem& p) {
  constexpr std::int64_t kBytes = 32'000'000;
  const MaskShape mask = p.mask();
  if (mask.left < 0 && mask.right < 0) return 1;
  const std::int64_t kv_head_bytes = 2 * std::int64_t{p.seqlen_k} * p.head_dim * element_bytes(p.dtype);
  const std::int64_t kv_heads = kBytes / std::max<std::int64_t>(1, kv_head_bytes);
  return static_cast<int>(std::clamp<std::int64_t>(kv_heads * (p.heads / p.kv_heads), 1, std::max(1, p.num_heads())));
}

namespace {

class FlashV3 final : public Schedule {
 public:
  FlashV3(const AttentionProblem& p, TileShape tile) : Schedule("flash_v3", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::LSE};
    const FlashV3Smem smem =
        flash_v3_smem(tile.br, tile.bc, hopper_width(p.head_dim), tile.stages, element_bytes(p.dtype));
    KernelLaunch launch{"flash_v3",
                        num_tiles(p.seqlen_q, tile.br),
                        p.num_heads(),
                        {flash_v3_threads(tile.br), smem.bytes, flash_v3_registers(tile.br)},
                        {},
                        kFlashV3Code,
                        MatrixUnit::wgmma};
    launch.persistent = true;
    launch.loading_threads = kWarpgroupThreads;
    m_kernels = {launch};
  }

  ClosedForm closed_form() const override { return flash_v2_closed_form(problem(), tile()); }
  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int) const override { return query_tile_classes(); }

  std::int64_t taken(int, std::int64_t n) const override {
    const KernelLaunch& launch = kernels().front();
    const QueryTile at = query_tile_taken(static_cast<int>(n), launch.heads, static_cast<int>(launch.ctas_per_head),
                                          std::min(flash_v3_heads_at_once(problem()), launch.heads));
    return at.head * launch.ctas_per_head + at.i;
  }

  WarpWork warp_work(int, const TileOp& op) const override { return wgmma_warp_work(*this, op); }

 protected:
  void cta(int, std::int64_t inner, CtaProgram& cta) const override {
    const int i = static_cast<int>(inner);
    const KeyWalk keys(*this, i);
    const int slots_ahead = tile().stages - 1;
    // In the producer's order: K, Q, V of the first tile, then K and V of each. Returns 1, or 0 where no copy runs on its
    // own.
    const auto start = [&](Tensor tensor, int j) { return cta.start(tensor, i, j, Access::box); };
    int j_ahead = keys.first();
    if (slots_ahead > 0 && j_ahead >= 0) start(Tensor::K, j_ahead);
    const int a_load = start(Tensor::Q, 0);
    for (int n = 0; n < slots_ahead && j_ahead >= 0; ++n, j_ahead = keys.next(j_ahead)) {
      if (n > 0) start(Tensor::K, j_ahead);
      start(Tensor::V, j_ahead);
    }
    cta.clear_state(i);
    if (keys.first() < 0) cta.wait(i, 0);
    cta.for_each_key_tile(keys.tiles(), keys.like(slots_ahead), [&](int j) {
      if (!keys.visits(j)) return;
      const KeyWalk::Ahead ahead = keys.ahead(j, slots_ahead);
      if (ahead.j >= 0) {  // the slots of the tile before have been read
        start(Tensor::K, ahead.j);
        start(Tensor::V, ahead.j);
      }
      cta.wait(i, j, a_load * (1 + 2 * ahead.tiles));  // K, and at first Q, have arrived; V may be on its way
      cta.scores(i, j);
      cta.mask(i, j);
      cta.online_softmax(i, j);
      cta.wait(i, j, a_load * 2 * ahead.tiles);
      cta.weighted_sum(i, j);
    });
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.store(Tensor::LSE, i, 0, Access::by_eight_rows);
    cta.store(Tensor::O, i, 0, Access::eight_rows);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v3(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV3>(problem, tile);
}

}  // namespace flashscope
