// Rung 07 backward, flash_v3: the backward pass for Hopper, five products a tile pair instead of seven (FlashAttention-2,
// arXiv 2307.08691, section 3.2; FlashAttention-3, arXiv 2407.08608, for warps that load and warps that compute).
//
//   flashscope measure --pass backward --algorithm flash_v3
//
// A CTA owns 128 keys and keeps their dK and dV in registers; Q and dO stream by. Over rung 06 backward this adds
//   * dQ from the same S and dP: no second kernel computes them again. But dQ of a query tile is a sum over the CTAs of all
//     key tiles. Each adds its part to dQ_sum, a float32 tensor in global memory, by TMA, in L2 (add_box); a kernel before
//     sets it to zero, one after it scales and rounds it to dQ;
//   * TMA and wgmma: one warp loads, one warp adds dQ, two warpgroups compute, each for 64 keys.
//
// Products are laid out so that P and dS never leave their registers on the way to dV and dK: Sᵀ = K Qᵀ and dPᵀ = V dOᵀ have
// keys as rows, and so are, rounded, the left operand of dV += Pᵀ dO and dK += dSᵀ Q. Only dQ = dS K needs all 128 keys of
// both warpgroups along its depth: dS goes through shared memory, where the tensor core reads it transposed.
//
//   warp 0         Q0 dO0 | Q1 dO1 | Q2 dO2 ...                          as slots of the rings become free
//   warpgroup 1    Sᵀ dPᵀ | P, dS  | dV dQ dK | Sᵀ dPᵀ | P, dS ...       64 keys; what stands between bars runs one
//   warpgroup 2    Sᵀ dPᵀ |  P, dS  | dV dQ dK | Sᵀ dPᵀ |  P, dS ...     after the other on the tensor cores
//   warp 1                                     + dQ0            + dQ1    from shared memory, while the next tile is computed
//
// The warpgroups meet once a tile, where dS is exchanged; else they drift, and the tensor cores have one's products to do
// while the other is at P and dS. dQ is issued before dK, and leaves the registers under it. (Sᵀ and dPᵀ of the next tile,
// issued behind dK as well, would fill the rest: the compiler then serialises all products. docs/deviations.md)
//
// In which order do the parts of dQ add up? If they add as they come, float addition gives other last bits in other runs.
// With kOrdered each query tile has a turn: the CTA of key tile j adds after that of j + 1 has, and every run gives the same
// bits. CTAs start in the order of their numbers, the last key tile first, so that none waits for one that starts later;
// and under a causal mask the last key tile is the one that begins with the query tile that it alone and those before it
// see: CTAs follow each other by as many tiles as the diagonal moves. In the other order the first query tile of a CTA would
// be the one that the CTAs before it come to last.
//
// The registers of the two warpgroups are all taken. Where a log is kept, the warp that adds dQ writes down what they do.
#pragma once
#include "kernels/backward/place.cuh"
#include "kernels/hopper/accumulators.cuh"
#include "kernels/hopper/warpgroup.cuh"
#include "sim/schedule/hopper_backward.h"

namespace flashscope::kernels {

struct HopperBackwardParams : BackwardParams {
  CUtensorMap q_map, d_o_map, o_map;  // boxes of kBlockM rows
  CUtensorMap k_map, v_map;           // boxes of kBlockN rows
  CUtensorMap dq_sum_map;             // boxes of kBlockM rows, float32
  float* dq_sum = nullptr;            // (batch · heads, seqlen_q, head_dim)
  unsigned* dq_turn = nullptr;        // (batch · heads, query tiles): key tiles that have added; 0 before and after. kOrdered
  int m_blocks = 0;
};

/// What is fixed when the kernels are built.
template <class T_, int kWidth_, bool kOrdered_>
struct FlashV3Backward {
  using T = T_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kBlockM = hopper_backward_queries(kWidth), kBlockN = kHopperBackwardKeys;
  static constexpr bool kOrdered = kOrdered_;
  static constexpr bool kSumEarly = kWidth == 128;  // dV before dS, whose time it fills; two tiles of 128 × 64 leave no room
  static constexpr int kSlots = kHopperBackwardSlots;
  static constexpr int kAtoms = kWidth / kAtomColumns;
  static constexpr HopperBackwardSmem kSmem = hopper_backward_smem(kBlockM, kBlockN, kWidth, kSlots);
  // dQ of a tile is shared out by rows where there are 128, else by columns: 64 × 64 for each warpgroup.
  static constexpr bool kByRows = kBlockM == kHopperBackwardConsumers * kWarpgroupRows;
  static_assert(kByRows ? kWidth == kAtomColumns : kAtoms == kHopperBackwardConsumers);
  // Of 65,536 registers an SM; the kernel is launched with what all threads can have alike.
  template <bool kLogs>
  static constexpr int kProducerRegisters = kLogs ? 56 : 24;
  template <bool kLogs>
  static constexpr int kConsumerRegisters = kLogs ? 224 : 240;

  struct Barriers {
    unsigned smem;
    __device__ Mbarrier at(int n) const { return Mbarrier(smem + 8 * n); }
    __device__ Mbarrier kv_full() const { return at(0); }
    __device__ Mbarrier q_full(int slot) const { return at(1 + slot); }
    __device__ Mbarrier q_empty(int slot) const { return at(1 + kSlots + slot); }
    __device__ Mbarrier do_full(int slot) const { return at(1 + 2 * kSlots + slot); }
    __device__ Mbarrier do_empty(int slot) const { return at(1 + 3 * kSlots + slot); }
  };
};

/// Named barriers: dS of both warpgroups is in shared memory; a dQ is; its place may take the next.
enum HopperBackwardBarrier { kDsWritten = 1, kDqWritten, kDqTaken };
inline constexpr int kComputingThreads = kHopperBackwardConsumers * kWarpgroupThreads;
inline constexpr int kDqThreads = kComputingThreads + kWarpSize;  // and the warp that adds

/// The CTA's keys, and the query tiles that see them.
template <class Kernel>
struct KeyPlace {
  int kv_head, first_head, group, n_block;
  Range keys, m_blocks;

  __device__ explicit KeyPlace(const HopperBackwardParams& p) {
    kv_head = static_cast<int>(blockIdx.x) / p.ctas_per_head;
    n_block = static_cast<int>(blockIdx.x) % p.ctas_per_head;
    if (Kernel::kOrdered) n_block = p.ctas_per_head - 1 - n_block;
    group = p.heads / p.kv_heads;
    first_head = kv_head * group;
    const int first = n_block * Kernel::kBlockN;
    keys = {first, first + tile_rows(p.mask.seqlen_k, Kernel::kBlockN, n_block)};
    m_blocks = visited_tiles(transposed(p.mask), Kernel::kBlockN, Kernel::kBlockM, n_block);
  }
};

// ---- before: D = rowsum(dO ∘ O), dQ_sum = 0 ---------------------------------------------------------------------------

/// D is the diagonal of O dOᵀ. A warpgroup multiplies 64 rows by 64 and keeps 64 of the results, because D then adds up in
/// the same order as dP: where a row sees a single key, O is its V, and dP - D is 0 to the last bit, as it should be. The
/// kernel waits for memory, not for this.
template <class Kernel, class Observer>
__global__ void __maxnreg__(bound<Observer>(kHopperRowDotRegisters))
    flash_v3_backward_row_dot(const __grid_constant__ HopperBackwardParams p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kTileBytes = 2 * kBlockM * Kernel::kWidth;
  extern __shared__ unsigned char shared_bytes[];
  const unsigned base = smem_address(shared_bytes), smem = (base + kAtomAlignment - 1) / kAtomAlignment * kAtomAlignment;
  const auto tiles_full = [smem] { return Mbarrier(smem + 2 * kTileBytes); };
  const BackwardPlace<T> at(p);
  const int m_block = at.inner;
  if (threadIdx.x == 0) {
    tiles_full().init(1);
    fence_inits();
    tiles_full().arrive_expecting(2 * kTileBytes);
    for (int atom = 0; atom < Kernel::kAtoms; ++atom) {
      const unsigned to = smem + atom * kBlockM * kAtomRowBytes;
      load_box(to, &p.o_map, atom * kAtomColumns, m_block * kBlockM, at.head, tiles_full());
      load_box(to + kTileBytes, &p.d_o_map, atom * kAtomColumns, m_block * kBlockM, at.head, tiles_full());
    }
  }
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);
  log.load(at.o(rows));
  log.load(at.d_o(rows));
  __syncthreads();

  const GlobalTile<float> dq_sum{Tensor::dQ_sum, p.dq_sum, at.head, p.mask.seqlen_q, p.head_dim, rows, at.dims()};
  float4* const sums = reinterpret_cast<float4*>(dq_sum.base + dq_sum.first());
  for (int n = threadIdx.x; n < size_of(rows) * p.head_dim / 4; n += blockDim.x)
    __stcg(sums + n, make_float4(0, 0, 0, 0));
  log.compute(Op::clear_gradient, at.head, rows, at.dims(), 0, Tensor::dQ);
  log.store(dq_sum);

  tiles_full().wait(0);
  const int warpgroup_row = static_cast<int>(threadIdx.x) / kWarpgroupThreads * kWarpgroupRows;
  const Descriptor o = descriptor_along_depth(smem + warpgroup_row * kAtomRowBytes), d_o = o + units(kTileBytes);
  float square[kWarpgroupRows / 2];
  before_products();
  multiply_transposed<T, false>(square, o, d_o);
#pragma unroll
  for (int step = 1; step < Kernel::kWidth / 16; ++step)
    multiply_transposed<T, true>(square, o + deeper<kBlockM>(step), d_o + deeper<kBlockM>(step));
  commit_products();
  wait_for_products<0>();
  settle(square);
  // The diagonal of this warp's 16 rows: two blocks of 8 × 8, one lane in four has an element of it.
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize, row = accumulator_row();
  float diagonal[kAccumulatorRows] = {};
#pragma unroll
  for (int n = 0; n < kWarpgroupRows / 2; ++n) {
    const int half = n / 2 % 2;
    if (n / 4 * 8 + accumulator_col() + n % 2 == 16 * warp + 8 * half + row) diagonal[half] = square[n];
  }
  log.compute(Op::row_dot, at.head, rows, at.dims(), 0, Tensor::O);
  const GlobalTile<float> d = at.d(rows);
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    const int tile_row = warpgroup_row + 16 * warp + 8 * half + row;
    if (accumulator_col() == row / 2 * 2 && tile_row < size_of(rows)) __stcg(d.base + d.first() + tile_row, diagonal[half]);
  }
  log.store(d);
#endif
}

// ---- after: dQ = softmax_scale · dQ_sum ---------------------------------------------------------------------------------

inline constexpr int kRoundVector = 4;  // elements

template <class Kernel, class Observer>
__global__ void __maxnreg__(bound<Observer>(kHopperRoundRegisters))
    flash_v3_backward_round(const __grid_constant__ HopperBackwardParams p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using T = typename Kernel::T;
  const BackwardPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, Kernel::kBlockM, at.inner);
  const GlobalTile<float> dq_sum{Tensor::dQ_sum, p.dq_sum, at.head, p.mask.seqlen_q, p.head_dim, rows, at.dims()};
  log.load(dq_sum);
  const float4* const from = reinterpret_cast<const float4*>(dq_sum.base + dq_sum.first());
  uint2* const to = reinterpret_cast<uint2*>(static_cast<T*>(p.d_q) + dq_sum.first());
  // A vector a thread: the lanes of a request then take whole sectors. Two neighbouring ones, in two requests, would have each
  // sector sent twice.
#pragma unroll 4
  for (int n = threadIdx.x; n < size_of(rows) * p.head_dim / kRoundVector; n += kHopperRoundThreads) {
    const float4 x = __ldcg(from + n);
    const float s = p.softmax_scale;
    __stcg(to + n, make_uint2(rounded_pair<T>(x.x * s, x.y * s), rounded_pair<T>(x.z * s, x.w * s)));
  }
  log.store(at.d_q(rows));
#endif
}

// ---- dK, dV and parts of dQ ---------------------------------------------------------------------------------------------

template <class Kernel, class Observer>
__device__ __forceinline__ void load_tiles(const HopperBackwardParams&, const KeyPlace<Kernel>&, unsigned smem,
                                           float* smem_lse, float* smem_d, typename Kernel::Barriers, Observer&);
template <class Kernel, class Observer>
__device__ __forceinline__ void add_query_gradients(const HopperBackwardParams&, const KeyPlace<Kernel>&, unsigned smem,
                                                    Observer&);
template <class Kernel>
__device__ __forceinline__ void compute_gradients(const HopperBackwardParams&, const KeyPlace<Kernel>&, unsigned smem,
                                                  typename Kernel::Barriers, int number);

/// Places in the log: K and V, and the cleared gradients; then each tile's own loads, where it is the first of its head,
/// those of the next, and what is computed; then what ends the CTA.
inline constexpr int kBackwardLogFirstTile = 4, kBackwardLogLoads = 4, kBackwardLogTile = 2 * kBackwardLogLoads + 10;
__device__ constexpr int backward_log_tile(int turn) { return kBackwardLogFirstTile + kBackwardLogTile * turn; }

template <class Kernel, class Observer>
__global__ void __launch_bounds__(kHopperBackwardThreads, 1)
    flash_v3_backward(const __grid_constant__ HopperBackwardParams p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_bytes[];
  const unsigned base = smem_address(shared_bytes), smem = (base + kAtomAlignment - 1) / kAtomAlignment * kAtomAlignment;
  unsigned char* const aligned = shared_bytes + (smem - base);
  float* const smem_lse = reinterpret_cast<float*>(aligned + Kernel::kSmem.lse);  // [slot][kBlockM], times log2(e)
  float* const smem_d = reinterpret_cast<float*>(aligned + Kernel::kSmem.d);      // [slot][kBlockM]
  const typename Kernel::Barriers barriers{smem + Kernel::kSmem.barriers};
  if (threadIdx.x == 0) {
    prefetch(&p.q_map), prefetch(&p.d_o_map), prefetch(&p.k_map), prefetch(&p.v_map), prefetch(&p.dq_sum_map);
    barriers.kv_full().init(1);
    for (int slot = 0; slot < Kernel::kSlots; ++slot) {
      // Who asks for the bytes arrives, and each lane with its part of LSE or D.
      barriers.q_full(slot).init(1 + kWarpSize), barriers.do_full(slot).init(1 + kWarpSize);
      // Every thread has read LSE and D for itself, and says so for itself.
      barriers.q_empty(slot).init(kComputingThreads), barriers.do_empty(slot).init(kComputingThreads);
    }
    fence_inits();
  }
  __syncthreads();
  const KeyPlace<Kernel> at(p);
  const int warp = __shfl_sync(~0u, threadIdx.x / kWarpSize, 0);  // known to be the same in a warp
  constexpr bool kLogs = !std::is_same_v<Observer, NoObserver>;
  if (warp < 4) {
    give_registers<Kernel::template kProducerRegisters<kLogs>>();
    if (warp == 0) load_tiles<Kernel>(p, at, smem, smem_lse, smem_d, barriers, log);
    if (warp == 1) add_query_gradients<Kernel>(p, at, smem, log);
  } else {
    take_registers<Kernel::template kConsumerRegisters<kLogs>>();
    compute_gradients<Kernel>(p, smem, barriers, warp / 4 - 1);
  }
#endif
}

/// A warp: K and V once, then Q with LSE and dO with D, tile by tile, head after head of the group.
template <class Kernel, class Observer>
__device__ void load_tiles(const HopperBackwardParams& p, const KeyPlace<Kernel>& at, unsigned smem, float* smem_lse,
                           float* smem_d, typename Kernel::Barriers barriers, Observer& log) {
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN;
  const int lane = threadIdx.x % kWarpSize;
  const auto load = [&](const CUtensorMap* map, unsigned to, int rows, int head, int tile, Mbarrier full) {
    for (int atom = 0; atom < Kernel::kAtoms; ++atom)
      load_box(to + atom * rows * kAtomRowBytes, map, atom * kAtomColumns, tile * rows, head, full);
  };
  if (lane == 0 && at.m_blocks.begin < at.m_blocks.end) {
    barriers.kv_full().arrive_expecting(2 * 2 * kBlockN * Kernel::kWidth);
    load(&p.k_map, smem + Kernel::kSmem.k, kBlockN, at.kv_head, at.n_block, barriers.kv_full());
    load(&p.v_map, smem + Kernel::kSmem.v, kBlockN, at.kv_head, at.n_block, barriers.kv_full());
    log.at(blockIdx.x, 0, 0);
    const auto tile_of = [&](Tensor tensor, const void* from) {
      return GlobalTile<const T>{tensor, static_cast<const T*>(from), at.kv_head, p.mask.seqlen_k, p.head_dim, at.keys,
                                 {0, p.head_dim}};
    };
    const auto k = tile_of(Tensor::K, p.k), v = tile_of(Tensor::V, p.v);
    log.load(k);
    log.load(v);
  }
  auto place = RingPlace<Kernel::kSlots>::of_producer();
  for (int head = at.first_head; head < at.first_head + at.group; ++head)
    for (int m_block = at.m_blocks.begin; m_block < at.m_blocks.end; ++m_block, place.advance()) {
      const int slot = place.slot(), rows = tile_rows(p.mask.seqlen_q, kBlockM, m_block);
      const std::int64_t first = static_cast<std::int64_t>(head) * p.mask.seqlen_q + m_block * kBlockM;
      const auto start = [&](const CUtensorMap* map, int to, Mbarrier empty, Mbarrier full, const float* from,
                             float* statistic, auto value) {
        float x[kBlockM / kWarpSize];  // asked for before the wait: the slot is rarely free at once
#pragma unroll
        for (int n = 0; n < kBlockM / kWarpSize; ++n) {
          const int row = lane + n * kWarpSize;
          x[n] = row < rows ? value(__ldcg(from + first + row)) : value(INFINITY);
        }
        empty.wait(place.parity());
        if (lane == 0) {
          full.arrive_expecting(Kernel::kSmem.qdo_bytes);
          load(map, smem + to + slot * Kernel::kSmem.qdo_bytes, kBlockM, head, m_block, full);
        }
#pragma unroll
        for (int n = 0; n < kBlockM / kWarpSize; ++n) statistic[slot * kBlockM + lane + n * kWarpSize] = x[n];
        full.arrive();
      };
      if constexpr (!std::is_same_v<Observer, NoObserver>) {
        const int of_head = m_block - at.m_blocks.begin;
        const int turn = (head - at.first_head) * size_of(at.m_blocks) + of_head;
        log.at(blockIdx.x, of_head == 0 ? backward_log_tile(turn) : backward_log_tile(turn - 1) + kBackwardLogLoads, 0);
        const Range here = {m_block * kBlockM, m_block * kBlockM + rows};
        const auto tile_of = [&](Tensor tensor, const void* from) {
          return GlobalTile<const T>{tensor, static_cast<const T*>(from), head, p.mask.seqlen_q, p.head_dim, here,
                                     {0, p.head_dim}};
        };
        const auto statistic_of = [&](Tensor tensor, float* from) {
          return GlobalTile<float>{tensor, from, head, p.mask.seqlen_q, 1, here, {0, 1}};
        };
        const auto q = tile_of(Tensor::Q, p.q), d_o = tile_of(Tensor::dO, p.d_o);
        const auto lse = statistic_of(Tensor::LSE, p.lse), d = statistic_of(Tensor::D, p.d);
        log.load(q);
        log.load(lse);
        log.load(d_o);
        log.load(d);
      }
      // A row that sees no key, and one past the end: P = 0.
      start(&p.q_map, Kernel::kSmem.q, barriers.q_empty(slot), barriers.q_full(slot), p.lse, smem_lse,
            [](float lse) { return lse == -INFINITY ? INFINITY : lse * 1.44269504f; });
      start(&p.d_o_map, Kernel::kSmem.d_o, barriers.do_empty(slot), barriers.do_full(slot), p.d, smem_d,
            [](float d) { return d == INFINITY ? 0 : d; });
    }
}

/// What the warpgroups compute for a tile, in the order of the schedule.
template <class Kernel, class Observer>
__device__ void log_tile(const HopperBackwardParams& p, const KeyPlace<Kernel>& at, int head, int m_block, Observer& log) {
  const Range rows = rows_of_tile(p.mask.seqlen_q, Kernel::kBlockM, m_block), dims = {0, p.head_dim};
  log.compute(Op::scores, head, rows, at.keys, p.head_dim);
  if (!all_kept(p.mask, rows, at.keys)) log.compute(Op::mask, head, rows, at.keys);
  log.compute(Op::probabilities, head, rows, at.keys);
  log.compute(Op::d_probabilities, head, rows, at.keys, p.head_dim);
  log.compute(Op::d_scores, head, rows, at.keys);
  log.compute(Op::gradient_sum, head, at.keys, dims, size_of(rows), Tensor::dV);
  log.compute(Op::clear_gradient, head, rows, dims, 0, Tensor::dQ);
  log.compute(Op::gradient_sum, head, rows, dims, size_of(at.keys), Tensor::dQ);
  log.compute(Op::gradient_sum, head, at.keys, dims, size_of(rows), Tensor::dK);
  const GlobalTile<float> dq_sum{Tensor::dQ_sum, p.dq_sum, head, p.mask.seqlen_q, p.head_dim, rows, dims};
  log.store(dq_sum);
}

/// A warp: adds each tile's part of dQ to dQ_sum.
template <class Kernel, class Observer>
__device__ void add_query_gradients(const HopperBackwardParams& p, const KeyPlace<Kernel>& at, unsigned smem,
                                    Observer& log) {
  using T = typename Kernel::T;
  constexpr int kBoxBytes = Kernel::kBlockM * kAtomRowBytes;
  const bool is_first = is_first_lane();
  log.at(blockIdx.x, 2, kWarpSize);
  log.compute(Op::clear_gradient, at.first_head, at.keys, {0, p.head_dim}, 0, Tensor::dK);
  log.compute(Op::clear_gradient, at.first_head, at.keys, {0, p.head_dim}, 0, Tensor::dV);
  if (at.m_blocks.begin < at.m_blocks.end) pass_by(kDqTaken, kDqThreads);
  int turn = 0;
  for (int head = at.first_head; head < at.first_head + at.group; ++head)
    for (int m_block = at.m_blocks.begin; m_block < at.m_blocks.end; ++m_block, ++turn) {
      wait_at(kDqWritten, kDqThreads);
      log.at(blockIdx.x, backward_log_tile(turn) + 2 * kBackwardLogLoads, kWarpSize);
      if constexpr (!std::is_same_v<Observer, NoObserver>) log_tile(p, at, head, m_block, log);
      if (is_first) {
        unsigned* const turns = p.dq_turn + (head * p.m_blocks + m_block);
        const Range n_blocks = visited_tiles(p.mask, Kernel::kBlockM, Kernel::kBlockN, m_block);
        if constexpr (Kernel::kOrdered) {
          unsigned now;
          do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(turns) : "memory");
          while (now != static_cast<unsigned>(n_blocks.end - 1 - at.n_block));
        }
        for (int box = 0; box < Kernel::kWidth / kSumBoxColumns; ++box)
          add_box(&p.dq_sum_map, smem + Kernel::kSmem.d_q + box * kBoxBytes, box * kSumBoxColumns,
                  m_block * Kernel::kBlockM, head);
        commit_boxes();
        wait_for_boxes_read();
        if constexpr (Kernel::kOrdered) {
          wait_for_boxes_added();
          __threadfence();
          if (at.n_block > n_blocks.begin)
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turns) : "memory");
          else
            *turns = 0;  // the last: for the next launch
        }
      }
      __syncwarp();
      if (m_block + 1 < at.m_blocks.end || head + 1 < at.first_head + at.group) pass_by(kDqTaken, kDqThreads);
    }
  if (is_first) wait_for_boxes_added();
  log.at(blockIdx.x, backward_log_tile(turn), kWarpSize);
  const auto tile_of = [&](Tensor tensor, void* to) {
    return GlobalTile<T>{tensor, static_cast<T*>(to), at.kv_head, p.mask.seqlen_k, p.head_dim, at.keys, {0, p.head_dim}};
  };
  const auto d_k = tile_of(Tensor::dK, p.d_k), d_v = tile_of(Tensor::dV, p.d_v);
  log.store(d_k);
  log.store(d_v);
}

/// A thread's four 8 × 8 matrices of 16-bit elements to shared memory: lane l says where row l % 8 of matrix l / 8 goes.
__device__ __forceinline__ void store_matrices(unsigned smem, const unsigned (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}

__device__ __forceinline__ float2 load_pair(unsigned smem) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(smem) : "memory");
  return x;
}

/// A warpgroup: 64 of the CTA's keys, `number` says which.
template <class Kernel>
__device__ void compute_gradients(const HopperBackwardParams& p, unsigned smem, typename Kernel::Barriers barriers,
                                  int number) {
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN, kWidth = Kernel::kWidth;
  constexpr int kSlotBytes = Kernel::kSmem.qdo_bytes;
  const int warp_row = 16 * (static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize);
  const int first_key = kWarpgroupRows * number + warp_row + accumulator_row();  // of this thread, of the tile
  const float scale_log2 = p.softmax_scale * 1.44269504f;
  const MaskShape by_key = transposed(p.mask);
  const KeyPlace<Kernel> at(p);

  // K and V as left operands, this warpgroup's rows; Q and dO along their rows, for S and dP, and down their columns.
  const Descriptor k = descriptor_along_depth(smem + Kernel::kSmem.k + kWarpgroupRows * number * kAtomRowBytes);
  const Descriptor v = k + units(Kernel::kSmem.v - Kernel::kSmem.k);
  const Descriptor q = descriptor_along_depth(smem + Kernel::kSmem.q), d_o = q + units(Kernel::kSmem.d_o - Kernel::kSmem.q);
  const Descriptor down_q = descriptor_across_depth(smem + Kernel::kSmem.q, kBlockM * kAtomRowBytes);
  const Descriptor down_do = down_q + units(Kernel::kSmem.d_o - Kernel::kSmem.q);
  // This warpgroup's part of dQ = dS K: rows, an atom of dS, or columns, an atom of K.
  const Descriptor d_s = descriptor_across_depth(
      smem + Kernel::kSmem.d_s + (Kernel::kByRows ? number : 0) * kBlockN * kAtomRowBytes, kBlockN * kAtomRowBytes);
  const Descriptor down_k = descriptor_across_depth(
      smem + Kernel::kSmem.k + (Kernel::kByRows ? 0 : number) * kBlockN * kAtomRowBytes, kBlockN * kAtomRowBytes);

  float acc_s[kBlockM / 2], acc_dp[kBlockM / 2];  // transposed: a thread has two keys
  float acc_dk[kWidth / 2], acc_dv[kWidth / 2];
#pragma unroll
  for (int n = 0; n < kWidth / 2; ++n) acc_dk[n] = acc_dv[n] = 0;

  const auto issue_transposed = [&](float(&acc)[kBlockM / 2], Descriptor a, Descriptor b) {
    before_products();
    multiply_transposed_first<T>(acc, a, b);
#pragma unroll
    for (int step = 1; step < kWidth / 16; ++step)
      multiply_transposed<T, true>(acc, a + deeper<kBlockN>(step), b + deeper<kBlockM>(step));
    commit_products();
  };
  const auto issue_sum = [&](float(&acc)[kWidth / 2], const unsigned(&left)[kBlockM / 16][4], Descriptor b) {
    before_products();
#pragma unroll
    for (int n = 0; n < kBlockM / 16; ++n)
      multiply_add<T>(acc, left[n][0], left[n][1], left[n][2], left[n][3], b + units(16 * kAtomRowBytes) * n);
    commit_products();
  };
  auto place = RingPlace<Kernel::kSlots>::of_consumer();
  const auto issue_tile = [&] {
    const int slot = place.slot();
    barriers.q_full(slot).wait(place.parity());
    issue_transposed(acc_s, k, q + units(kSlotBytes) * slot);
    barriers.do_full(slot).wait(place.parity());
    issue_transposed(acc_dp, v, d_o + units(kSlotBytes) * slot);
  };

  const int num_turns = at.group * size_of(at.m_blocks);
  if (num_turns > 0) barriers.kv_full().wait(0);
  int m_block = at.m_blocks.begin;
#pragma unroll 1
  for (int turn = 0; turn < num_turns; ++turn) {
    const int slot = place.slot(), column = slot * kBlockM + accumulator_col();
    const Range rows = {m_block * kBlockM, m_block * kBlockM + tile_rows(p.mask.seqlen_q, kBlockM, m_block)};

    // 1. Pᵀ = exp(softmax_scale · K Qᵀ - LSE).
    issue_tile();
    wait_for_products<1>();
    settle(acc_s);
#pragma unroll
    for (int n = 0; n < kBlockM / 8; ++n) {
      const float2 lse = load_pair(smem + Kernel::kSmem.lse + 4 * (column + 8 * n));
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        float* const s = acc_s + 4 * n + 2 * half;
        s[0] = exp2_of(fmaf(s[0], scale_log2, -lse.x));
        s[1] = exp2_of(fmaf(s[1], scale_log2, -lse.y));
      }
    }
    if (at.keys.end - at.keys.begin < kBlockN || !all_kept(p.mask, rows, at.keys)) {
      const int query = opaque(rows.begin + accumulator_col());
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        const int key = at.keys.begin + first_key + 8 * half;
        const Range kept = key < at.keys.end ? kept_keys(by_key, key) : Range{0, 0};  // a key past the end has no weight
        const int begin = kept.begin - query, end = kept.end - query;
#pragma unroll
        for (int n = 0; n < kBlockM / 8; ++n)
#pragma unroll
          for (int x = 0; x < 2; ++x)
            if (8 * n + x < begin || 8 * n + x >= end) acc_s[4 * n + 2 * half + x] = 0;
      }
    }

    // 2. dV += Pᵀ dO, behind dPᵀ = V dOᵀ.
    unsigned p_rounded[kBlockM / 16][4];
    if constexpr (Kernel::kSumEarly) {
      round_to_a<T>(p_rounded, acc_s);
      issue_sum(acc_dv, p_rounded, down_do + units(kSlotBytes) * slot);
    }

    // 3. dSᵀ = Pᵀ ∘ (dPᵀ - D); rounded, in registers and in shared memory.
    wait_for_products<Kernel::kSumEarly ? 1 : 0>();
    settle(acc_dp);
#pragma unroll
    for (int n = 0; n < kBlockM / 8; ++n) {
      const float2 d = load_pair(smem + Kernel::kSmem.d + 4 * (column + 8 * n));
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        float* const x = acc_dp + 4 * n + 2 * half;
        x[0] = acc_s[4 * n + 2 * half] * (x[0] - d.x);
        x[1] = acc_s[4 * n + 2 * half + 1] * (x[1] - d.y);
      }
    }
    if constexpr (!Kernel::kSumEarly) {
      round_to_a<T>(p_rounded, acc_s);
      issue_sum(acc_dv, p_rounded, down_do + units(kSlotBytes) * slot);
    }
    unsigned ds_rounded[kBlockM / 16][4];
    round_to_a<T>(ds_rounded, acc_dp);
    const int ds_at = (turn & 1) * Kernel::kSmem.ds_bytes;
    {
      const int lane = threadIdx.x % kWarpSize, row = kWarpgroupRows * number + warp_row + lane % 16;
      const unsigned row_at = smem + Kernel::kSmem.d_s + ds_at + row * kAtomRowBytes;
#pragma unroll
      for (int n = 0; n < kBlockM / 16; ++n)
        store_matrices(row_at + n / 4 * kBlockN * kAtomRowBytes + ((n % 4 * 2 + lane / 16) ^ row % 8) * 16, ds_rounded[n]);
    }
    fence_for_copies();
    wait_at(kDsWritten, kComputingThreads);

    // 4. A part of dQ = dS K, and dK += dSᵀ Q; the scale comes at the end.
    float acc_dq[kWarpgroupRows / 2];
    before_products();
    multiply_across_first<T>(acc_dq, d_s + units(ds_at), down_k);
#pragma unroll
    for (int step = 1; step < kBlockN / 16; ++step)
      multiply_add_across<T>(acc_dq, d_s + units(ds_at) + units(16 * kAtomRowBytes) * step,
                             down_k + units(16 * kAtomRowBytes) * step);
    commit_products();
    issue_sum(acc_dk, ds_rounded, down_q + units(kSlotBytes) * slot);

    // 5. dV and dQ are here: dO has been read, and dQ leaves.
    wait_for_products<1>();
    settle(acc_dq);
    settle(acc_dv);
    barriers.do_empty(slot).arrive();
    place.advance();
    wait_at(kDqTaken, kDqThreads);
    {
      const int row = (Kernel::kByRows ? kWarpgroupRows * number : 0) + warp_row + accumulator_row();
      const unsigned row_at = smem + Kernel::kSmem.d_q + row * kAtomRowBytes;
#pragma unroll
      for (int n = 0; n < kWarpgroupRows / 8; ++n) {
        const int col = (Kernel::kByRows ? 0 : kWarpgroupRows * number) + 8 * n + accumulator_col();
        const unsigned box = row_at + col / kSumBoxColumns * kBlockM * kAtomRowBytes;
#pragma unroll
        for (int half = 0; half < kAccumulatorRows; ++half)
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                           box + 8 * half * kAtomRowBytes + ((col % kSumBoxColumns / 4) ^ row % 8) * 16 + col % 4 * 4),
                       "f"(acc_dq[4 * n + 2 * half]), "f"(acc_dq[4 * n + 2 * half + 1])
                       : "memory");
      }
    }
    fence_for_copies();
    pass_by(kDqWritten, kDqThreads);

    // 6. dK is here: Q has been read.
    wait_for_products<0>();
    settle(acc_dk);
    barriers.q_empty(slot).arrive();
    if (++m_block == at.m_blocks.end) m_block = at.m_blocks.begin;  // of the next head
  }

  // 7. One write each. A key that no query sees has gradients 0.
  const KeyPlace<Kernel> place_again(p);  // asked for again: it need not have waited in registers
  const int row = at.keys.begin + first_key;
  const std::int64_t head_at = static_cast<std::int64_t>(place_again.kv_head) * p.mask.seqlen_k * p.head_dim;
  const float once[kAccumulatorRows] = {1, 1}, scale[kAccumulatorRows] = {p.softmax_scale, p.softmax_scale};
  store_output(acc_dk, scale, static_cast<T*>(p.d_k) + head_at, row, at.keys.end, p.head_dim);
  store_output(acc_dv, once, static_cast<T*>(p.d_v) + head_at, row, at.keys.end, p.head_dim);
}

}  // namespace flashscope::kernels
