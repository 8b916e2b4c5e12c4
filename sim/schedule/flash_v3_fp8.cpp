// flash_v3_fp8: flash_v3 on e4m3, at twice the tensor cores' rate and half the bytes of K and V (FlashAttention-3,
// arXiv 2407.08608, section 3.3).
//
// Inputs come as fp16 or bf16, and so does O leave. A first kernel reads Q, K and V once, rotates the rows of Q and K,
// and writes all three as e4m3 with one scale a tile; V with its tiles transposed, because wgmma takes bytes along the
// depth only. Its bytes and its time belong to the algorithm. (FlashAttention-3 transposes V inside its kernel and
// expects the rotation to be part of a kernel before it, so that its published times hold neither rotation nor rounding.)
// The second kernel is flash_v3 on what the first has left: scores are scaled by the tiles' scales in the exponent's
// multiply-add, P is rounded to e4m3 on its way to the second product, and acc is kept in units of the last V tile's scale.
// It is rescaled only where a maximum moved: otherwise the factor is exactly 1.
#include "sim/schedule/flash_v3_fp8.h"

#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/flash_v3.h"
#include "sim/schedule/key_walk.h"
#include "sim/schedule/mma_work.h"

namespace flashscope {

TileShape flash_v3_fp8_tile(const AttentionProblem& p) {
  const int width = hopper_width(p.head_dim);
  if (width == 128) return {128, p.seqlen_k > 4096 ? 192 : 128, kFlashV3Slots};
  return {128, width == 64 ? 128 : 64, kFlashV3Slots};
}

int flash_v3_fp8_heads_at_once(const AttentionProblem& p) {
  AttentionProblem bytes = p;
  bytes.dtype = DType::fp8;
  bytes.head_dim = hopper_width(p.head_dim);
  return flash_v3_heads_at_once(bytes);
}

namespace {

class FlashV3Fp8 final : public Schedule {
 public:
  enum Kernel { kQuantize, kAttention };

  FlashV3Fp8(const AttentionProblem& p, TileShape tile)
      : Schedule("flash_v3_fp8", p, tile),
        m_plan{num_tiles(p.seqlen_q, tile.br), num_tiles(p.seqlen_k, tile.bc), p.heads / p.kv_heads} {
    m_tensors = {Tensor::Q,     Tensor::K,     Tensor::V,       Tensor::O,       Tensor::LSE,    Tensor::Q_fp8,
                 Tensor::K_fp8, Tensor::V_fp8, Tensor::Q_scale, Tensor::K_scale, Tensor::V_scale};
    const int width = hopper_width(p.head_dim);
    KernelLaunch quantize{"flash_v3_fp8_quantize",
                          m_plan.ctas(),
                          p.num_kv_heads(),
                          {kQuantizeThreads, quantize_smem(tile.bc, width).bytes, quantize_registers(width)},
                          {},
                          quantize_code(width)};
    KernelLaunch attention{"flash_v3_fp8",
                           m_plan.q_tiles,
                           p.num_heads(),
                           {flash_v3_threads(tile.br), fp8_smem(tile.br, tile.bc, width, tile.stages).bytes,
                            flash_v3_registers(tile.br)},
                           {},
                           kFlashV3Fp8Code,
                           MatrixUnit::wgmma};
    attention.persistent = true;
    attention.loading_threads = kWarpgroupThreads;
    m_kernels = {quantize, attention};
  }

  /// The paper's count here: Q, K, V read and written as bytes, then flash_v2's on these, O in the dtype. Scales and LSE
  /// are left out.
  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    if (m_plan.q_tiles == 0) return {};
    const std::int64_t width = hopper_width(p.head_dim), heads = p.num_heads(), kv_heads = p.num_kv_heads();
    const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
    const std::int64_t queries = heads * p.seqlen_q, keys = kv_heads * p.seqlen_k;
    const std::int64_t padded_keys = kv_heads * m_plan.kv_tiles * tile().bc;
    std::int64_t visits = 0, tiles = 0, padded_visits = 0;  // keys and key tiles that query tiles see
    for (int i = 0; i < m_plan.q_tiles; ++i) {
      const Range seen = visited_tiles(problem().mask(), tile().br, tile().bc, i);
      visits += visited_keys(p, tile(), i);
      std::int64_t here = seen.end - seen.begin;
      if (p.is_sparse()) {
        here = 0;
        for (int j = seen.begin; j < seen.end; ++j) here += is_visited(p, tile(), i, j);
      }
      tiles += here;
    }
    padded_visits = tiles * tile().bc;
    const std::int64_t inputs = (queries + 2 * keys) * row_bytes, o = queries * row_bytes;
    const std::int64_t written = (queries + keys + padded_keys) * width;
    const std::int64_t read = (queries + heads * (visits + padded_visits)) * width;
    const std::int64_t scales_written = 4 * (heads * m_plan.q_tiles + 2 * kv_heads * m_plan.kv_tiles);
    const std::int64_t scales_read = 4 * heads * (m_plan.q_tiles + 2 * tiles);
    return {inputs + read + scales_read, written + scales_written + o + 4 * queries, inputs + written + read + o};
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const override {
    if (kernel == kAttention) return query_tile_classes();
    if (!sector_aligned() || m_plan.ctas() == 0) return Schedule::cta_classes(kernel);
    std::vector<std::pair<std::int64_t, std::int64_t>> classes;
    const auto add = [&](std::int64_t first, int tiles, bool has_rest, std::int64_t times) {
      const int whole = tiles - (has_rest ? 1 : 0);
      if (whole > 0) classes.emplace_back(first, whole * times);
      if (has_rest) classes.emplace_back(first + whole, times);
    };
    const bool q_rest = problem().seqlen_q % tile().br != 0, kv_rest = problem().seqlen_k % tile().bc != 0;
    const std::int64_t of_q = std::int64_t{m_plan.group} * m_plan.q_tiles;
    add(0, m_plan.q_tiles, q_rest, m_plan.group);
    add(of_q, m_plan.kv_tiles, kv_rest, 1);
    add(of_q + m_plan.kv_tiles, m_plan.kv_tiles, kv_rest, 1);
    return classes;
  }

  std::int64_t taken(int kernel, std::int64_t n) const override {
    if (kernel == kQuantize) return n;
    const KernelLaunch& launch = kernels()[kAttention];
    const QueryTile at = query_tile_taken(static_cast<int>(n), launch.heads, static_cast<int>(launch.ctas_per_head),
                                          std::min(flash_v3_fp8_heads_at_once(problem()), launch.heads));
    return at.head * launch.ctas_per_head + at.i;
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (kernel == kAttention) return wgmma_warp_work(*this, op, 1, Rescales::where_needed);
    return quantize_warp_work(*this, op, copy_shape(kernel, op));
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    if (kernel == kQuantize) return quantize(m_plan.part(static_cast<int>(inner)), cta);
    attention(static_cast<int>(inner), cta);
  }

 private:
  static void quantize(QuantizePlan::Part part, CtaProgram& cta) {
    constexpr Tensor from[] = {Tensor::Q, Tensor::K, Tensor::V};
    constexpr Tensor to[] = {Tensor::Q_fp8, Tensor::K_fp8, Tensor::V_fp8};
    constexpr Tensor scale[] = {Tensor::Q_scale, Tensor::K_scale, Tensor::V_scale};
    cta.select_heads(part.head, 1);
    cta.load(from[part.kind], part.tile, part.tile);
    cta.quantize(to[part.kind], part.tile, part.tile);
    cta.store(scale[part.kind], part.tile, part.tile);
    cta.store(to[part.kind], part.tile, part.tile);
  }

  void attention(int i, CtaProgram& cta) const {
    const KeyWalk keys(*this, i);
    const int slots_ahead = tile().stages - 1;
    // In the producer's order: K, Q, V of the first tile, then K and V of each, the scales of both before K.
    constexpr int kLoads = 4;  // of a key tile
    const auto start_k = [&](int j) {
      cta.start(Tensor::K_scale, i, j);
      cta.start(Tensor::V_scale, i, j);
      cta.start(Tensor::K_fp8, i, j, Access::box);
    };
    const auto start_v = [&](int j) { cta.start(Tensor::V_fp8, i, j, Access::box); };
    int j_ahead = keys.first();
    if (slots_ahead > 0 && j_ahead >= 0) start_k(j_ahead);
    cta.start(Tensor::Q_scale, i, 0);
    cta.start(Tensor::Q_fp8, i, 0, Access::box);
    for (int n = 0; n < slots_ahead && j_ahead >= 0; ++n, j_ahead = keys.next(j_ahead)) {
      if (n > 0) start_k(j_ahead);
      start_v(j_ahead);
    }
    cta.clear_state(i);
    if (keys.first() < 0) cta.wait(i, 0);
    cta.for_each_key_tile(keys.tiles(), keys.like(slots_ahead), [&](int j) {
      if (!keys.visits(j)) return;
      const KeyWalk::Ahead ahead = keys.ahead(j, slots_ahead);
      if (ahead.j >= 0) {  // the slots of the tile before have been read
        start_k(ahead.j);
        start_v(ahead.j);
      }
      cta.wait(i, j, 1 + kLoads * ahead.tiles);  // K, and at first Q, have arrived; V may be on its way
      cta.scores(i, j);
      cta.mask(i, j);
      cta.online_softmax(i, j);
      cta.wait(i, j, kLoads * ahead.tiles);
      cta.weighted_sum(i, j);
    });
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.store(Tensor::LSE, i, 0, Access::by_eight_rows);
    cta.store(Tensor::O, i, 0, Access::eight_rows);
  }

  QuantizePlan m_plan;
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v3_fp8(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV3Fp8>(problem, tile);
}

}  // namespace flashscope
