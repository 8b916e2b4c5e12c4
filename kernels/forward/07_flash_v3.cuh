// Rung 07, flash_v3: the loops of flash_v2 for Hopper, where loads, matrix products and exponentials run side by side
// (FlashAttention-3, arXiv 2407.08608).
//
//   flashscope measure --algorithm flash_v3
//
// Over rung 06 (flash_v2_tensor) this adds
//   * TMA: one thread asks for whole tiles; they arrive at mbarriers, swizzled (tma.cuh, mbarrier.cuh);
//   * wgmma: four warps multiply 64 rows at once, K and V read from shared memory by the tensor core (wgmma.cuh);
//   * warp specialisation: a producer warpgroup only loads and gives its registers to the consumer warpgroups, which only
//     compute; each of these has 64 rows of the query tile and all keys;
//   * overlap inside a warpgroup: the scores of the next key tile are multiplied before the weighted sum of this one, so
//     that its softmax runs under products;
//   * ping-pong between warpgroups: they take turns at the tensor cores, one's softmax under the other's products;
//   * persistent CTAs: each takes one query tile after another from a counter, and loads the next while it finishes one.
//
//   producer       Q K0 | V0 K1 | V1 K2 | V2 ...               as slots of the ring become free
//   consumer 0     S0   softmax0   S1,O+=P0 V0   softmax1       S2,O+=P1 V1   softmax2 ...
//   consumer 1          S0         softmax0      S1,O+=P0 V0    softmax1      S2,O+=P1 V1 ...
//
// Each S,O pair is issued in one go; the softmax starts when S has ended, while O += P V still runs.
#pragma once
#include "kernels/common/mma.cuh"
#include "kernels/hopper/accumulators.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "sim/schedule/hopper_rungs.h"

namespace flashscope::kernels {

struct FlashV3Params : KernelParams {
  CUtensorMap q_map;  // boxes of kBlockM rows
  CUtensorMap k_map;  // boxes of kBlockN rows
  CUtensorMap v_map;
  int m_blocks = 0;       // query tiles a head
  int all_heads = 0;      // batch · heads
  int heads_at_once = 1;  // see query_tile_taken()
};

/// Query tiles that were taken beyond each CTA's first; 0 before and after a launch. Launches follow one another.
static __device__ unsigned tiles_taken;

/// What is fixed when the kernel is built. The switches take an idea away, for the ladder.
template <class T_, int kWidth_, int kBlockM_, int kBlockN_, bool kOverlap_ = true, bool kPingPong_ = true,
          bool kSkipRescale_ = false>
struct FlashV3 {
  using T = T_;
  static constexpr int kWidth = kWidth_;  // head_dim, rounded up
  static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_;
  static constexpr int kConsumers = flash_v3_consumers(kBlockM);
  static constexpr bool kOverlap = kOverlap_, kPingPong = kPingPong_;
  static constexpr bool kSkipRescale = kSkipRescale_;
  static constexpr int kSlots = kFlashV3Slots;
  static constexpr int kThreads = flash_v3_threads(kBlockM);
  // Of 65,536 registers an SM; the kernel is launched with what all threads can have alike.
  // (A producer that logs needs more.)
  template <bool kLogs>
  static constexpr int kProducerRegisters = kConsumers > 2 ? 32 : kLogs ? 56 : 24;
  template <bool kLogs>
  static constexpr int kConsumerRegisters = kConsumers > 2 ? 160 : kLogs ? 224 : 240;

  // Tiles in shared memory are kWidth / 64 atoms, each [rows][64], swizzled.
  static constexpr int kAtoms = kWidth / kAtomColumns;
  static constexpr FlashV3Smem kSmem = flash_v3_smem(kBlockM, kBlockN, kWidth, kSlots);

  // Barriers: a tile is full when its bytes have arrived, a slot empty when all warps of the consumers have read it.
  struct Barriers {
    unsigned smem;
    __device__ Mbarrier at(int n) const { return Mbarrier(smem + 8 * n); }
    __device__ Mbarrier q_full() const { return at(0); }
    __device__ Mbarrier q_empty() const { return at(1); }
    __device__ Mbarrier k_full(int slot) const { return at(kFlashV3QBarriers + slot); }
    __device__ Mbarrier k_empty(int slot) const { return at(kFlashV3QBarriers + kSlots + slot); }
    __device__ Mbarrier v_full(int slot) const { return at(kFlashV3QBarriers + 2 * kSlots + slot); }
    __device__ Mbarrier v_empty(int slot) const { return at(kFlashV3QBarriers + 3 * kSlots + slot); }
  };
};

__device__ __forceinline__ QueryTile query_tile(const FlashV3Params& p, int n) {
  return query_tile_taken(n, p.all_heads, p.m_blocks, p.heads_at_once);
}

/// Places in the log of a query tile: Q, the first K and V, and the cleared state; then kLogStep operations for each key
/// tile, among them the loads of the next one's K and V; then what ends it.
inline constexpr int kLogFirstStep = 4, kLogStep = 6, kLogLoads = 2;
__device__ constexpr int log_step(int step) { return kLogFirstStep + kLogStep * step; }

// ---- the kernel -------------------------------------------------------------------------------------------------------

template <class Kernel, class Observer>
__device__ __forceinline__ void produce(const FlashV3Params&, unsigned smem, typename Kernel::Barriers, int* smem_tile,
                                        Observer&);
template <class Kernel, class Observer>
__device__ __forceinline__ void consume(const FlashV3Params&, unsigned smem, typename Kernel::Barriers,
                                        const int* smem_tile, int number, Observer&);

template <class Kernel, class Observer>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    flash_v3(const __grid_constant__ FlashV3Params p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_bytes[];
  const unsigned base = smem_address(shared_bytes), smem = (base + kAtomAlignment - 1) / kAtomAlignment * kAtomAlignment;
  int* const smem_tile = reinterpret_cast<int*>(shared_bytes + (smem - base) + Kernel::kSmem.tile);
  const typename Kernel::Barriers barriers{smem + Kernel::kSmem.barriers};
  if (threadIdx.x == 0) {
    prefetch(&p.q_map), prefetch(&p.k_map), prefetch(&p.v_map);
    constexpr int kWarps = 4 * Kernel::kConsumers;  // that say that they have read
    barriers.q_full().init(1), barriers.q_empty().init(kWarps);
    for (int slot = 0; slot < Kernel::kSlots; ++slot) {
      barriers.k_full(slot).init(1), barriers.k_empty(slot).init(kWarps);
      barriers.v_full(slot).init(1), barriers.v_empty(slot).init(kWarps);
    }
    fence_inits();
  }
  __syncthreads();
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / kWarpgroupThreads, 0);  // known to be the same in a warp
  constexpr bool kLogs = !std::is_same_v<Observer, NoObserver>;
  if (warpgroup == 0) {
    give_registers<Kernel::template kProducerRegisters<kLogs>>();
    if (threadIdx.x == 0) produce<Kernel>(p, smem, barriers, smem_tile, log);
  } else {
    take_registers<Kernel::template kConsumerRegisters<kLogs>>();
    consume<Kernel>(p, smem, barriers, smem_tile, warpgroup - 1, log);
  }
#endif
}

// ---- the producer -----------------------------------------------------------------------------------------------------

/// A tensor that is loaded tile by tile.
struct Source {
  Tensor tensor;
  const void* base;
  const CUtensorMap& map;
  int seqlen, tile_rows;
  unsigned smem;  // of the first slot
};

/// One thread: loads the tiles that the consumers will ask for, in their order, as far ahead as the slots allow.
template <class Kernel, class Observer>
__device__ void produce(const FlashV3Params& p, unsigned smem, typename Kernel::Barriers barriers, int* smem_tile,
                        Observer& log) {
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN;
  const Source q{Tensor::Q, p.q, p.q_map, p.mask.seqlen_q, kBlockM, smem + Kernel::kSmem.q};
  const Source k{Tensor::K, p.k, p.k_map, p.mask.seqlen_k, kBlockN, smem + Kernel::kSmem.k};
  const Source v{Tensor::V, p.v, p.v_map, p.mask.seqlen_k, kBlockN, smem + Kernel::kSmem.v};
  const unsigned num_query_tiles = static_cast<unsigned>(p.m_blocks * p.all_heads);
  auto k_at = RingPlace<Kernel::kSlots>::of_producer(), v_at = k_at;
  auto q_at = RingPlace<1>::of_producer();
  for (unsigned n = blockIdx.x; n < num_query_tiles;) {
    // 1. The next query tile is asked for now: by the time it is needed the answer is here. Whoever is the last to be
    // told that there are none left puts the counter back.
    const unsigned taken = atomicAdd(&tiles_taken, 1u);
    if (taken + 1 == num_query_tiles) tiles_taken = 0;

    const QueryTile at = query_tile(p, static_cast<int>(n));
    const int kv_head = at.head / p.heads * p.kv_heads + kv_head_of(at.head % p.heads, p.heads, p.kv_heads);
    const Range n_blocks = visited_tiles(p.mask, kBlockM, kBlockN, at.i);
    const auto start_load = [&](const Source& from, int head, int tile, int slot, Mbarrier full, int log_place) {
      full.arrive_expecting(2 * from.tile_rows * Kernel::kWidth);
      for (int atom = 0; atom < Kernel::kAtoms; ++atom)
        load_box(from.smem + (slot * Kernel::kAtoms + atom) * from.tile_rows * kAtomRowBytes, &from.map,
                 atom * kAtomColumns, tile * from.tile_rows, head, full);
      log.at(static_cast<unsigned>(at.head * p.m_blocks + at.i), log_place, 0);
      const int row = tile * from.tile_rows;
      log.load(GlobalTile<const T>{from.tensor, static_cast<const T*>(from.base), head, from.seqlen, p.head_dim,
                                   {row, row + tile_rows(from.seqlen, from.tile_rows, tile)}, {0, p.head_dim}});
    };
    const auto start_q = [&] {
      barriers.q_empty().wait(q_at.parity());
      q_at.advance();
      *smem_tile = static_cast<int>(n);
      start_load(q, at.head, at.i, 0, barriers.q_full(), 1);
    };

    // 2. K, and after the first K also Q: the slot of K is free earlier than the place of Q; then V.
    if (n_blocks.begin == n_blocks.end) start_q();
    for (int n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
      const int step = n_block - n_blocks.begin;
      barriers.k_empty(k_at.slot()).wait(k_at.parity());
      start_load(k, kv_head, n_block, k_at.slot(), barriers.k_full(k_at.slot()), step == 0 ? 0 : log_step(step - 1));
      k_at.advance();
      if (step == 0) start_q();
      barriers.v_empty(v_at.slot()).wait(v_at.parity());
      start_load(v, kv_head, n_block, v_at.slot(), barriers.v_full(v_at.slot()), step == 0 ? 2 : log_step(step - 1) + 1);
      v_at.advance();
    }
    n = gridDim.x + taken;
  }
  barriers.q_empty().wait(q_at.parity());
  *smem_tile = -1;  // no more
  barriers.q_full().arrive();
}

// ---- a consumer's pieces ----------------------------------------------------------------------------------------------

/// A thread's two rows of each tile: maximum of the scaled scores, and sum over this thread's keys (the four lanes of a
/// row are added up at the end). Were the maximum kept unscaled, the compiler would fuse its product with the scale into
/// the difference of two maxima: equal ones would then differ by a rounding error, and the sums would drift tile by tile.
struct RowState {
  float max[kAccumulatorRows] = {-INFINITY, -INFINITY};
  float sum[kAccumulatorRows] = {0, 0};
};

/// -inf where the pair is not kept or the key does not exist.
template <int kScores>
__device__ __forceinline__ void mask_scores(float (&acc_s)[kScores], const MaskShape& mask, int row, int first_key) {
  const int key = opaque(first_key + accumulator_col());
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    const Range kept = kept_keys(mask, row + 8 * half);
    const int begin = kept.begin - key, end = kept.end - key;
#pragma unroll
    for (int n = 0; n < kScores / 4; ++n)
#pragma unroll
      for (int x = 0; x < 2; ++x)
        if (8 * n + x < begin || 8 * n + x >= end) acc_s[4 * n + 2 * half + x] = -INFINITY;
  }
}

/// S becomes exp2((S - max) · scale_log2); says by how much what was summed up before shrinks.
template <int kScores>
__device__ __forceinline__ void online_softmax(float (&acc_s)[kScores], RowState& rows, float scale_log2,
                                               float (&rescale)[kAccumulatorRows]) {
  float tile_max[kAccumulatorRows], base[kAccumulatorRows];
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    float even = acc_s[2 * half], odd = acc_s[2 * half + 1];  // two chains: half the latency
#pragma unroll
    for (int n = 1; n < kScores / 4; ++n) {
      even = fmaxf(even, acc_s[4 * n + 2 * half]);
      odd = fmaxf(odd, acc_s[4 * n + 2 * half + 1]);
    }
    tile_max[half] = fmaxf(even, odd);
  }
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    const float new_max = fmaxf(rows.max[half], quad_maximum(tile_max[half]) * scale_log2);
    base[half] = finite_or_zero(new_max);
    rescale[half] = exp2_of(rows.max[half] - base[half]);
    rows.max[half] = new_max;
  }
  float sum[kAccumulatorRows][2] = {};
#pragma unroll
  for (int n = 0; n < kScores / 4; ++n)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half)
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        float& s = acc_s[4 * n + 2 * half + x];
        s = exp2_of(fmaf(s, scale_log2, -base[half]));
        sum[half][x] += s;
      }
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half)
    rows.sum[half] = rows.sum[half] * rescale[half] + (sum[half][0] + sum[half][1]);
}

// ---- a consumer -------------------------------------------------------------------------------------------------------

/// A warpgroup: 64 rows of each query tile, `number` says which.
template <class Kernel, class Observer>
__device__ void consume(const FlashV3Params& p, unsigned smem, typename Kernel::Barriers barriers, const int* smem_tile,
                        int number, Observer& log) {
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN, kWidth = Kernel::kWidth;
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpSize;
  const int thread_row = kWarpgroupRows * number + 16 * warp + accumulator_row();  // of the query tile
  const float scale_log2 = p.softmax_scale == 0 ? 1.0f : fabsf(p.softmax_scale) * 1.44269504f;
  const Descriptor q = descriptor_along_depth(smem + Kernel::kSmem.q + kWarpgroupRows * number * kAtomRowBytes);
  const Descriptor k = descriptor_along_depth(smem + Kernel::kSmem.k);
  const Descriptor v = descriptor_across_depth(smem + Kernel::kSmem.v, kBlockN * kAtomRowBytes);

  float acc_s[kBlockN / 2];
  unsigned weights[kBlockN / 16][4];  // P, rounded
  float acc_o[kWidth / 2];

  const auto issue_scores = [&](int slot) {
    const Descriptor k_slot = k + units(Kernel::kSmem.kv_bytes) * slot;
    before_products();
    multiply_transposed<T, false>(acc_s, q, k_slot);
#pragma unroll
    for (int step = 1; step < kWidth / 16; ++step)
      multiply_transposed<T, true>(acc_s, q + deeper<kBlockM>(step), k_slot + deeper<kBlockN>(step));
    commit_products();
  };
  const auto issue_weighted_sum = [&](int slot) {
    const Descriptor v_slot = v + units(Kernel::kSmem.kv_bytes) * slot;
    before_products();
#pragma unroll
    for (int n = 0; n < kBlockN / 16; ++n)
      multiply_add<T>(acc_o, weights[n][0], weights[n][1], weights[n][2], weights[n][3],
                      v_slot + units(16 * kAtomRowBytes) * n);
    commit_products();
  };
  const auto release = [&](Mbarrier empty) {
    __syncwarp();
    if (is_first_lane()) empty.arrive();
  };
  // Turns at the tensor cores: barrier 1 + n opens for warpgroup n when the one before it has issued its products.
  const auto wait_for_turn = [&] {
    if constexpr (Kernel::kPingPong) wait_at(1 + number, 2 * kWarpgroupThreads);
  };
  const auto pass_turn = [&] {
    if constexpr (Kernel::kPingPong) pass_by(1 + (number + 1) % Kernel::kConsumers, 2 * kWarpgroupThreads);
  };
  if (number == Kernel::kConsumers - 1) pass_turn();  // the first turn is warpgroup 0's

  auto k_at = RingPlace<Kernel::kSlots>::of_consumer(), v_at = k_at;
  auto q_at = RingPlace<1>::of_consumer();
#pragma unroll 1
  while (true) {
    // 1. Which query tile, and which key tiles does it see?
    barriers.q_full().wait(q_at.parity());
    q_at.advance();
    // Read by the lane that will say that the warp has read it.
    const int tile = __shfl_sync(~0u, is_first_lane() ? *smem_tile : 0, 0);
    if (tile < 0) break;
    const QueryTile at = query_tile(p, tile);
    const Range rows = {at.i * kBlockM, at.i * kBlockM + tile_rows(p.mask.seqlen_q, kBlockM, at.i)};
    const Range n_blocks = visited_tiles(p.mask, kBlockM, kBlockN, at.i);
    const Range unmasked = whole_tiles(p.mask, kBlockM, kBlockN, at.i);
    const int row = rows.begin + thread_row;
    // The log speaks of the CTA as a whole; the first warpgroup writes it.
    const auto log_at = [&](int place) {
      log.at(static_cast<unsigned>(at.head * p.m_blocks + at.i), place, kWarpgroupThreads);
    };
    const auto log_key_tile = [&](int n_block) {
      const Range keys = {n_block * kBlockN, n_block * kBlockN + tile_rows(p.mask.seqlen_k, kBlockN, n_block)};
      log_at(log_step(n_block - n_blocks.begin) + kLogLoads);
      log.compute(Op::scores, at.head, rows, keys, p.head_dim);
      if (!std::is_same_v<Observer, NoObserver> && !all_kept(p.mask, rows, keys))
        log.compute(Op::mask, at.head, rows, keys);
      log.compute(Op::online_softmax, at.head, rows, keys);
      log.compute(Op::weighted_sum, at.head, rows, {0, p.head_dim}, size_of(keys));
    };
    log_at(3);
    log.compute(Op::clear_state, at.head, rows, {0, p.head_dim});
    RowState state;
    float rescale[kAccumulatorRows];
#pragma unroll
    for (int n = 0; n < kWidth / 2; ++n) acc_o[n] = 0;

    const auto mask_if_needed = [&](int n_block) {
      if (p.softmax_scale <= 0) {  // what is left of the scale is its sign; a scale of 0 makes all scores equal
        const float sign = p.softmax_scale < 0 ? -1.0f : 0.0f;
#pragma unroll
        for (int n = 0; n < kBlockN / 2; ++n) acc_s[n] *= sign;
      }
      if (n_block < unmasked.begin || n_block >= unmasked.end) mask_scores(acc_s, p.mask, row, n_block * kBlockN);
    };

    if (n_blocks.begin == n_blocks.end) release(barriers.q_empty());
    else {
      // 2. The first key tile: scores and softmax, nothing to run beside.
      barriers.k_full(k_at.slot()).wait(k_at.parity());
      issue_scores(k_at.slot());
      wait_for_products<0>();
      settle(acc_s);
      release(barriers.k_empty(k_at.slot()));
      k_at.advance();
      if (n_blocks.begin + 1 == n_blocks.end) release(barriers.q_empty());
      mask_if_needed(n_blocks.begin);
      online_softmax(acc_s, state, scale_log2, rescale);
      round_to_a<T>(weights, acc_s);
      log_key_tile(n_blocks.begin);

      // 3. Each further one: its scores and the weighted sum of the one before, issued together.
#pragma unroll 1
      for (int n_block = n_blocks.begin + 1; n_block < n_blocks.end; ++n_block) {
        barriers.k_full(k_at.slot()).wait(k_at.parity());
        wait_for_turn();
        issue_scores(k_at.slot());
        barriers.v_full(v_at.slot()).wait(v_at.parity());
        issue_weighted_sum(v_at.slot());
        pass_turn();
        if constexpr (!Kernel::kOverlap) wait_for_products<0>();

        wait_for_products<1>();  // S is here, O += P V runs on
        settle(acc_s);
        release(barriers.k_empty(k_at.slot()));
        k_at.advance();
        if (n_block + 1 == n_blocks.end) release(barriers.q_empty());
        mask_if_needed(n_block);
        online_softmax(acc_s, state, scale_log2, rescale);

        wait_for_products<0>();
        settle(acc_o);
        release(barriers.v_empty(v_at.slot()));
        v_at.advance();
        // The maxima of a warp's rows stand still most of the time.
        if (!Kernel::kSkipRescale || !__all_sync(~0u, rescale[0] == 1 && rescale[1] == 1)) {
#pragma unroll
          for (int n = 0; n < kWidth / 2; ++n) acc_o[n] *= rescale[n / 2 % 2];
        }
        settle(acc_s);  // P's registers were read until here
        round_to_a<T>(weights, acc_s);
        log_key_tile(n_block);
      }

      // 4. The last weighted sum.
      barriers.v_full(v_at.slot()).wait(v_at.parity());
      issue_weighted_sum(v_at.slot());
      wait_for_products<0>();
      settle(acc_o);
      release(barriers.v_empty(v_at.slot()));
      v_at.advance();
    }

    // 5. One division, one write.
    log_at(log_step(size_of(n_blocks)));
    log.compute(Op::normalize, at.head, rows, {0, p.head_dim});
    log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
    const GlobalTile<float> lse{Tensor::LSE, p.lse, at.head, p.mask.seqlen_q, 1, rows, {0, 1}};
    const GlobalTile<T> o{Tensor::O, static_cast<T*>(p.o), at.head, p.mask.seqlen_q, p.head_dim, rows, {0, p.head_dim}};
    log.store(lse);
    log.store(o);
    float inverse[kAccumulatorRows];
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const float sum = quad_total(state.sum[half]);
      inverse[half] = sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0, LSE = -inf
      const float log_sum = sum > 0 ? state.max[half] * 0.693147181f + logf(sum) : -INFINITY;
      if (threadIdx.x % 4 == 0 && row + 8 * half < rows.end) lse.base[lse.first() + thread_row + 8 * half] = log_sum;
    }
    store_output(acc_o, inverse, o.base + static_cast<std::int64_t>(at.head) * p.mask.seqlen_q * p.head_dim, row, rows.end,
                 p.head_dim);
  }
}

}  // namespace flashscope::kernels
