// Rung 08, flash_v3_fp8: flash_v3 on eight bits (FlashAttention-3, arXiv 2407.08608, section 3.3).
//
//   flashscope measure --algorithm flash_v3_fp8 --head-dim 128 --seqlen 16384
//
// Inputs are fp16 or bf16, and so is O; between them everything that is multiplied is e4m3. Over rung 07 this adds
//   * a first kernel (08_flash_v3_fp8_quantize.cuh) that rotates Q and K, rounds Q, K and V with one scale a tile, and
//     writes V with its tiles transposed. What it moves and the time it takes count: the rung is both kernels;
//   * products of bytes: 32 deep, at twice the rate, from half the shared memory (wgmma_fp8.cuh);
//   * scales: those of Q and K go into the exponent's multiply-add, that of V into the rescaling of acc;
//   * P in e4m3: exp(S - max) of the true maximum is at most 1, times 2^8 at most 256, so that nothing saturates at 448.
//     The row sum is of the weights before they are rounded.
//
// Producer, rings, ping-pong between two consumer warpgroups, scores of the next key tile under the weighted sum of this
// one, persistent CTAs: as in 07_flash_v3.cuh, whose picture holds here too. The scales of a key tile lie beside its slot.
//
// What it costs: errors of some percent of O's size, whatever its 16-bit ends (docs/deviations.md has them beside the
// speed). Where it does not work: V tiles of one head whose largest elements lie 2^90 apart, whose ratio leaves float32.
#pragma once
#include "kernels/forward/07_flash_v3.cuh"
#include "kernels/hopper/wgmma_fp8.cuh"

namespace flashscope::kernels {

struct Fp8Params : WorkspaceParams {
  CUtensorMap q_map;  // of Q_fp8: boxes of kBlockM rows × an atom's columns
  CUtensorMap k_map;  // of K_fp8: boxes of kBlockN rows
  CUtensorMap v_map;  // of V_fp8, whose rows are head_dim's columns: boxes of all of them × 64 keys
  int m_blocks = 0;       // query tiles a head
  int n_blocks = 0;       // key tiles a head
  int all_heads = 0;      // batch · heads
  int heads_at_once = 1;  // see query_tile_taken()
};

/// The switches are those of 07. acc is left alone where no maximum of a warp's rows moved: its factor is then exactly
/// 1, so that no bit changes, and half as much product time as in 07 has fewer multiplications to hide. kHoldsWait: the
/// wait for the weighted sum stays behind the softmax (hold_behind); measured, it is worth it for wide tiles.
template <class T_, int kWidth_, int kBlockM_, int kBlockN_, bool kPingPong_ = true, bool kSkipRescale_ = true,
          bool kHoldsWait_ = (kBlockN_ > 128)>
struct FlashV3Fp8 : FlashV3<T_, kWidth_, kBlockM_, kBlockN_, true, kPingPong_, kSkipRescale_> {
  using Base = FlashV3<T_, kWidth_, kBlockM_, kBlockN_, true, kPingPong_, kSkipRescale_>;
  static constexpr bool kHoldsWait = kHoldsWait_;
  // The producer has scales to carry: 40 + 2 · 232 of the 512 registers that a thread of each warpgroup shares.
  template <bool kLogs>
  static constexpr int kProducerRegisters = kLogs ? 56 : 40;
  template <bool kLogs>
  static constexpr int kConsumerRegisters = kLogs ? 224 : 232;
  static constexpr int kAtomBytes = fp8_atom_bytes(kWidth_), kAtoms = kWidth_ / kAtomBytes;  // of Q and K
  static constexpr int kKeyAtoms = kBlockN_ / kFp8KeysOfAtom;                                // of V
  static constexpr Fp8Smem kSmem = fp8_smem(kBlockM_, kBlockN_, kWidth_, Base::kSlots);
  static_assert(kBlockN_ % kFp8KeysOfAtom == 0);
};

/// What a slot's K and V were divided by, in shared memory. `into_unit`: the scale of the V tile before, in units of this.
struct SlotScales {
  float k, v, into_unit;

  /// As the first lane reads them, for all of its warp: that lane will say that the slot has been read, and nothing else
  /// would put the reads of the others before the next tile's scales are written.
  __device__ static SlotScales read_by_warp(const SlotScales* smem) {
    const SlotScales here = is_first_lane() ? *smem : SlotScales{0, 0, 0};
    return {__shfl_sync(~0u, here.k, 0), __shfl_sync(~0u, here.v, 0), __shfl_sync(~0u, here.into_unit, 0)};
  }
};

/// As in 07, with the loads of two scales more.
inline constexpr int kFp8LogFirstStep = 7, kFp8LogStep = 8, kFp8LogLoads = 4;
__device__ constexpr int fp8_log_step(int step) { return kFp8LogFirstStep + kFp8LogStep * step; }

// ---- the kernel -------------------------------------------------------------------------------------------------------

template <class Kernel, class Observer>
__device__ __forceinline__ void fp8_produce(const Fp8Params&, unsigned smem, typename Kernel::Barriers, int* smem_tile,
                                            SlotScales* smem_scales, Observer&);
template <class Kernel, class Observer>
__device__ __forceinline__ void fp8_consume(const Fp8Params&, unsigned smem, typename Kernel::Barriers,
                                            const int* smem_tile, const SlotScales* smem_scales, int number, Observer&);

template <class Kernel, class Observer>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    flash_v3_fp8(const __grid_constant__ Fp8Params p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_bytes[];
  const unsigned base = smem_address(shared_bytes), smem = (base + kAtomAlignment - 1) / kAtomAlignment * kAtomAlignment;
  unsigned char* const aligned = shared_bytes + (smem - base);
  int* const smem_tile = reinterpret_cast<int*>(aligned + Kernel::kSmem.tile);
  SlotScales* const smem_scales = reinterpret_cast<SlotScales*>(aligned + Kernel::kSmem.scales);  // then that of Q
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
    if (threadIdx.x == 0) fp8_produce<Kernel>(p, smem, barriers, smem_tile, smem_scales, log);
  } else {
    take_registers<Kernel::template kConsumerRegisters<kLogs>>();
    fp8_consume<Kernel>(p, smem, barriers, smem_tile, smem_scales, warpgroup - 1, log);
  }
#endif
}

// ---- the producer -----------------------------------------------------------------------------------------------------

template <class Kernel, class Observer>
__device__ void fp8_produce(const Fp8Params& p, unsigned smem, typename Kernel::Barriers barriers, int* smem_tile,
                            SlotScales* smem_scales, Observer& log) {
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN, kWidth = Kernel::kWidth;
  constexpr int kAtomBytes = Kernel::kAtomBytes;
  const unsigned num_query_tiles = static_cast<unsigned>(p.m_blocks * p.all_heads);
  auto k_at = RingPlace<Kernel::kSlots>::of_producer(), v_at = k_at;
  auto q_at = RingPlace<1>::of_producer();
  for (unsigned n = blockIdx.x; n < num_query_tiles;) {
    // 1. The next query tile, as in 07.
    const unsigned taken = atomicAdd(&tiles_taken, 1u);
    if (taken + 1 == num_query_tiles) tiles_taken = 0;

    const QueryTile at = query_tile_taken(static_cast<int>(n), p.all_heads, p.m_blocks, p.heads_at_once);
    const int kv_head = at.head / p.heads * p.kv_heads + kv_head_of(at.head % p.heads, p.heads, p.kv_heads);
    const Range n_blocks = visited_tiles(p.mask, kBlockM, kBlockN, at.i);
    const auto log_at = [&](int place) { log.at(static_cast<unsigned>(at.head * p.m_blocks + at.i), place, 0); };
    const auto log_tile = [&](Tensor tensor, unsigned char* base, int head, int seqlen, Range rows) {
      log.load(GlobalTile<unsigned char>{tensor, base, head, seqlen, kWidth, rows, {0, kWidth}});
    };
    const auto load_scale = [&](Tensor tensor, float* base, int head, int tiles, int tile) {
      const GlobalTile<float> scale{tensor, base, head, tiles, 1, {tile, tile + 1}, {0, 1}};
      log.load(scale);
      return __ldcg(base + scale.first());
    };
    // Boxes of Q and K, atom by atom.
    const auto load_rows = [&](const CUtensorMap* map, unsigned to, int rows, int head, int tile, Mbarrier full) {
      full.arrive_expecting(rows * kWidth);
      for (int atom = 0; atom < Kernel::kAtoms; ++atom)
        load_box(to + atom * rows * kAtomBytes, map, atom * kAtomBytes, tile * rows, head, full);
    };
    const auto start_q = [&](int log_place) {
      log_at(log_place);
      const float scale = load_scale(Tensor::Q_scale, p.q_scale, at.head, p.m_blocks, at.i);
      barriers.q_empty().wait(q_at.parity());
      q_at.advance();
      *smem_tile = static_cast<int>(n);
      *reinterpret_cast<float*>(smem_scales + Kernel::kSlots) = scale;
      load_rows(&p.q_map, smem + Kernel::kSmem.q, kBlockM, at.head, at.i, barriers.q_full());
      const int row = at.i * kBlockM;
      log_tile(Tensor::Q_fp8, p.q_fp8, at.head, p.mask.seqlen_q, {row, row + tile_rows(p.mask.seqlen_q, kBlockM, at.i)});
    };
    float v_before = 1;
    const auto start_k = [&](int n_block, int log_place) {
      log_at(log_place);
      // Asked for before the wait: the slot is rarely free at once.
      const float k_scale = load_scale(Tensor::K_scale, p.k_scale, kv_head, p.n_blocks, n_block);
      const float v_scale = load_scale(Tensor::V_scale, p.v_scale, kv_head, p.n_blocks, n_block);
      const int slot = k_at.slot();
      barriers.k_empty(slot).wait(k_at.parity());
      k_at.advance();
      smem_scales[slot] = {k_scale, v_scale, v_before / v_scale};
      v_before = v_scale;
      load_rows(&p.k_map, smem + Kernel::kSmem.k + slot * Kernel::kSmem.kv_bytes, kBlockN, kv_head, n_block,
                barriers.k_full(slot));
      const int row = n_block * kBlockN;
      log_tile(Tensor::K_fp8, p.k_fp8, kv_head, p.mask.seqlen_k,
               {row, row + tile_rows(p.mask.seqlen_k, kBlockN, n_block)});
    };
    const auto start_v = [&](int n_block, int log_place) {
      const int slot = v_at.slot();
      barriers.v_empty(slot).wait(v_at.parity());
      v_at.advance();
      barriers.v_full(slot).arrive_expecting(kBlockN * kWidth);
      for (int atom = 0; atom < Kernel::kKeyAtoms; ++atom)
        load_box(smem + Kernel::kSmem.v + slot * Kernel::kSmem.kv_bytes + atom * kWidth * kFp8KeysOfAtom, &p.v_map,
                 atom * kFp8KeysOfAtom, n_block * kWidth, kv_head, barriers.v_full(slot));
      log_at(log_place);
      log_tile(Tensor::V_fp8, p.v_fp8, kv_head, p.n_blocks * kBlockN, {n_block * kBlockN, (n_block + 1) * kBlockN});
    };

    // 2. K, and after the first K also Q: the slot of K is free earlier than the place of Q; then V.
    if (n_blocks.begin == n_blocks.end) start_q(3);
    for (int n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
      const int step = n_block - n_blocks.begin;
      start_k(n_block, step == 0 ? 0 : fp8_log_step(step - 1));
      if (step == 0) start_q(3);
      start_v(n_block, step == 0 ? 5 : fp8_log_step(step - 1) + 3);
    }
    n = gridDim.x + taken;
  }
  barriers.q_empty().wait(q_at.parity());
  *smem_tile = -1;  // no more
  barriers.q_full().arrive();
}

// ---- a consumer's pieces ----------------------------------------------------------------------------------------------

/// A thread's two rows: maximum of the scores as exponents of two, and 2^8 times the sum over this thread's keys.
struct Fp8RowState {
  float max[kAccumulatorRows] = {-INFINITY, -INFINITY};
  float sum[kAccumulatorRows] = {0, 0};
};

/// S becomes 2^8 · exp2(S · scale - max), where `scale` makes a tile's products exponents of two; says by how much what
/// was summed up before shrinks.
template <int kScores>
__device__ __forceinline__ void fp8_online_softmax(float (&acc_s)[kScores], Fp8RowState& rows, float scale,
                                                   float (&rescale)[kAccumulatorRows]) {
  float base[kAccumulatorRows], largest[4];  // four chains side by side hide each other's latency
#pragma unroll
  for (int x = 0; x < 4; ++x) largest[x] = acc_s[x];
#pragma unroll
  for (int n = 4; n < kScores; ++n) largest[n % 4] = fmaxf(largest[n % 4], acc_s[n]);
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    const float new_max = fmaxf(rows.max[half], quad_maximum(fmaxf(largest[2 * half], largest[2 * half + 1])) * scale);
    const float finite = finite_or_zero(new_max);
    rescale[half] = exp2_of(rows.max[half] - finite);
    base[half] = finite - kFp8WeightExponent;
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
        s = exp2_of(fmaf(s, scale, -base[half]));
        sum[half][x] += s;
      }
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half)
    rows.sum[half] = rows.sum[half] * rescale[half] + (sum[half][0] + sum[half][1]);
}

/// Keeps wait_for_products() behind the arithmetic that `sum`, never negative, comes from. The assembler moves that
/// wait up over arithmetic, as if nothing were to run beside products, but not over a store to memory; so here is one
/// that is never done.
__device__ __forceinline__ void hold_behind(float sum, unsigned smem) {
  asm volatile("{\n.reg .pred never;\nsetp.lt.f32 never, %0, 0f00000000;\n@never st.shared.f32 [%1], %0;\n}" ::"f"(sum),
               "r"(smem)
               : "memory");
}

/// Rounded, as A of the next product: 32 keys a row of the array, in the order of key_at().
template <int kScores>
__device__ __forceinline__ void round_to_fp8_a(unsigned (&p)[kScores / 16][4], const float (&acc_s)[kScores]) {
#pragma unroll
  for (int n = 0; n < kScores / 16; ++n)
#pragma unroll
    for (int x = 0; x < 4; ++x) {  // row g or g + 8; first or second sixteen keys
      const int first = 16 * n + x / 2 * 8 + x % 2 * 2;
      p[n][x] = rounded_to_e4m3(acc_s[first], acc_s[first + 1], acc_s[first + 4], acc_s[first + 5]);
    }
}

// ---- a consumer -------------------------------------------------------------------------------------------------------

/// A warpgroup: 64 rows of each query tile, `number` says which.
template <class Kernel, class Observer>
__device__ void fp8_consume(const Fp8Params& p, unsigned smem, typename Kernel::Barriers barriers, const int* smem_tile,
                            const SlotScales* smem_scales, int number, Observer& log) {
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN, kWidth = Kernel::kWidth;
  constexpr int kAtomBytes = Kernel::kAtomBytes;
  smem = static_cast<unsigned>(opaque(static_cast<int>(smem)));  // or its address would be found anew for each product
  const int warp = threadIdx.x % kWarpgroupThreads / kWarpSize;
  const int thread_row = kWarpgroupRows * number + 16 * warp + accumulator_row();  // of the query tile
  // Scores come out kWidth times too large (rotate_row).
  const float scale_log2 = (p.softmax_scale == 0 ? 1.0f : fabsf(p.softmax_scale)) * 1.44269504f / kWidth;
  const Descriptor q = fp8_descriptor<kAtomBytes>(smem + Kernel::kSmem.q + kWarpgroupRows * number * kAtomBytes);
  const Descriptor k = fp8_descriptor<kAtomBytes>(smem + Kernel::kSmem.k);
  const Descriptor v = fp8_descriptor<kFp8KeysOfAtom>(smem + Kernel::kSmem.v);

  float acc_s[kBlockN / 2];
  unsigned weights[kBlockN / 32][4];  // P, rounded
  float acc_o[kWidth / 2];            // in units of the scale of the V tile that was added last

  const auto issue_scores = [&](int slot) {
    const Descriptor k_slot = k + units(Kernel::kSmem.kv_bytes) * slot;
    before_products();
    fp8_multiply_transposed<false>(acc_s, q, k_slot);
#pragma unroll
    for (int step = 1; step < kWidth / kFp8StepDepth; ++step)
      fp8_multiply_transposed<true>(acc_s, q + fp8_deeper<kAtomBytes, kBlockM>(step),
                                    k_slot + fp8_deeper<kAtomBytes, kBlockN>(step));
    commit_products();
  };
  const auto issue_weighted_sum = [&](int slot) {
    const Descriptor v_slot = v + units(Kernel::kSmem.kv_bytes) * slot;
    before_products();
#pragma unroll
    for (int step = 0; step < kBlockN / kFp8StepDepth; ++step)
      fp8_multiply_add(acc_o, weights[step], v_slot + fp8_deeper<kFp8KeysOfAtom, kWidth>(step));
    commit_products();
  };
  const auto release = [&](Mbarrier empty) {
    __syncwarp();
    if (is_first_lane()) empty.arrive();
  };
  // Turns at the tensor cores, as in 07.
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
    const float q_scale_here = is_first_lane() ? *reinterpret_cast<const float*>(smem_scales + Kernel::kSlots) : 0.0f;
    const float q_scale = __shfl_sync(~0u, q_scale_here, 0) * scale_log2;
    const QueryTile at = query_tile_taken(tile, p.all_heads, p.m_blocks, p.heads_at_once);
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
      log_at(fp8_log_step(n_block - n_blocks.begin) + kFp8LogLoads);
      log.compute(Op::scores, at.head, rows, keys, p.head_dim);
      if (!std::is_same_v<Observer, NoObserver> && !all_kept(p.mask, rows, keys))
        log.compute(Op::mask, at.head, rows, keys);
      log.compute(Op::online_softmax, at.head, rows, keys);
      log.compute(Op::weighted_sum, at.head, rows, {0, p.head_dim}, size_of(keys));
    };
    log_at(6);
    log.compute(Op::clear_state, at.head, rows, {0, p.head_dim});
    Fp8RowState state;
    float rescale[kAccumulatorRows];
    float v_scale = 1;  // the unit of acc_o
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
      const SlotScales first = SlotScales::read_by_warp(smem_scales + k_at.slot());
      issue_scores(k_at.slot());
      wait_for_products<0>();
      settle(acc_s);
      release(barriers.k_empty(k_at.slot()));
      k_at.advance();
      if (n_blocks.begin + 1 == n_blocks.end) release(barriers.q_empty());
      mask_if_needed(n_blocks.begin);
      fp8_online_softmax(acc_s, state, q_scale * first.k, rescale);
      v_scale = first.v;
      round_to_fp8_a(weights, acc_s);
      log_key_tile(n_blocks.begin);

      // 3. Each further one: its scores and the weighted sum of the one before, issued together.
#pragma unroll 1
      for (int n_block = n_blocks.begin + 1; n_block < n_blocks.end; ++n_block) {
        barriers.k_full(k_at.slot()).wait(k_at.parity());
        const SlotScales scales = SlotScales::read_by_warp(smem_scales + k_at.slot());
        wait_for_turn();
        issue_scores(k_at.slot());
        barriers.v_full(v_at.slot()).wait(v_at.parity());
        issue_weighted_sum(v_at.slot());
        pass_turn();

        wait_for_products<1>();  // S is here, O += P V runs on
        settle(acc_s);
        release(barriers.k_empty(k_at.slot()));
        k_at.advance();
        if (n_block + 1 == n_blocks.end) release(barriers.q_empty());
        mask_if_needed(n_block);
        fp8_online_softmax(acc_s, state, q_scale * scales.k, rescale);

        if constexpr (Kernel::kHoldsWait) hold_behind(state.sum[0] + state.sum[1], smem);
        wait_for_products<0>();
        settle(acc_o);
        release(barriers.v_empty(v_at.slot()));
        v_at.advance();
        v_scale = scales.v;
#pragma unroll
        for (int half = 0; half < kAccumulatorRows; ++half) rescale[half] *= scales.into_unit;
        // The maxima of a warp's rows stand still most of the time, and V's scales, powers of two, are nearly always
        // equal: exp2(0) · 1 is 1 to the last bit, because maxima are kept scaled (RowState in 07).
        if (!Kernel::kSkipRescale || !__all_sync(~0u, rescale[0] == 1 && rescale[1] == 1)) {
#pragma unroll
          for (int n = 0; n < kWidth / 2; ++n) acc_o[n] *= rescale[n / 2 % 2];
        }
        settle(acc_s);  // P's registers were read until here
        round_to_fp8_a(weights, acc_s);
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
    log_at(fp8_log_step(size_of(n_blocks)));
    log.compute(Op::normalize, at.head, rows, {0, p.head_dim});
    log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
    const GlobalTile<float> lse{Tensor::LSE, p.lse, at.head, p.mask.seqlen_q, 1, rows, {0, 1}};
    const GlobalTile<T> o{Tensor::O, static_cast<T*>(p.o), at.head, p.mask.seqlen_q, p.head_dim, rows, {0, p.head_dim}};
    log.store(lse);
    log.store(o);
    float inverse[kAccumulatorRows];
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const float sum = quad_total(state.sum[half]);  // 2^8 times too large, as acc is
      inverse[half] = sum > 0 ? v_scale / sum : sum;  // a row that sees no key: O = 0, LSE = -inf; NaN stays
      const float log_sum = sum == 0 ? -INFINITY : (state.max[half] - kFp8WeightExponent) * 0.693147181f + logf(sum);
      if (threadIdx.x % 4 == 0 && row + 8 * half < rows.end) lse.base[lse.first() + thread_row + 8 * half] = log_sum;
    }
    store_output(acc_o, inverse, o.base + static_cast<std::int64_t>(at.head) * p.mask.seqlen_q * p.head_dim, row, rows.end,
                 p.head_dim);
  }
}

}  // namespace flashscope::kernels
