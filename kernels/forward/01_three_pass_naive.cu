// Rung 01, three_pass_naive: S = QKᵀ, P = softmax(S), O = PV, one thread an output element.
//
//   flashscope measure --algorithm three_pass_naive
//
// Where everyone starts: the three lines of the formula as three kernels, straight from global memory. Nothing is kept
// on chip, so every multiply-add asks the memory system for both of its operands again. A CTA is a 32 × 32 patch of
// outputs and a warp one row of it: of what its lanes ask for at once, memory delivers whole 32-byte sectors. A row of
// Q or P is one element for all lanes (a sector a request); a column of K is 32 elements in 32 rows (32 sectors for 32
// elements, most of each thrown away); a row of V is 32 neighbours (as good as it gets).
//
// Loads and stores bypass L1 (.cg), which would otherwise hide some of this: what is counted is what was asked for.
// Rung 02 brings each tile on chip once and serves all of a CTA's threads from there.
#include "kernels/common/tile.cuh"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

constexpr int kPatch = 32;  // patch_tile() in sim/schedule/algorithms.cpp

/// A single element, widened. Volatile inside: neither hoisted, merged nor made a vector.
template <class T>
__device__ __forceinline__ float element(const T* at) {
  return widen(load_cg<T, 1>(at).values[0]);
}

/// Rounded to the storage dtype and stored past L1, as it was loaded.
template <class T>
__device__ __forceinline__ void store_element(T* at, float x) {
  store_pack(at, Pack<T, 1>{narrow<T>(x)});
}

/// Pass 1: S = softmax_scale · Q Kᵀ. One thread a score.
template <class T, class Observer>
__global__ void __maxnreg__(bound<Observer>(kNaiveRegisters)) three_pass_naive_scores(KernelParams p, Observer log) {
  const CtaPlace<T> at(p);
  const int key_tiles = num_tiles(p.mask.seqlen_k, kPatch);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kPatch, at.inner / key_tiles);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kPatch, at.inner % key_tiles);
  const int row = rows.begin + threadIdx.x / kPatch, key = keys.begin + threadIdx.x % kPatch;
  log.load(at.q(rows), size_of(keys));  // each element once for every key
  log.load(at.k(keys), size_of(rows));  // each element once for every row
  log.compute(Op::scores, at.head, rows, keys, p.head_dim);
  if (!all_kept(p.mask, rows, keys)) log.compute(Op::mask, at.head, rows, keys);
  const GlobalTile<T> s = at.scores(rows, keys);
  log.store(s);
  if (row >= rows.end || key >= keys.end) return;

  const GlobalTile<T> q = at.q({row, row + 1}), k = at.k({key, key + 1});
  float sum = 0;
#pragma unroll 4
  for (int c = 0; c < p.head_dim; ++c)
    sum = fmaf(element(q.base + q.first() + c), element(k.base + k.first() + c), sum);
  const float score = is_kept(p.mask, row, key) ? sum * p.softmax_scale : -INFINITY;
  T* const s_row = s.base + s.first() + static_cast<std::int64_t>(row - rows.begin) * s.row_elements;
  store_element(s_row + (key - keys.begin), score);
}

/// One value of each lane combined over the warp; every lane has the result.
template <class Combine>
__device__ __forceinline__ float over_warp(float x, Combine combine) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffff, x, distance));
  return x;
}

/// f(key) for the keys of a row, 32 at a time. All lanes take every turn: were they to leave the loop at different
/// turns, an unrolled loop would have them at different keys at once, and their requests would touch more sectors.
template <class F>
__device__ __forceinline__ void for_each_key(int num_keys, F f) {
  int key = threadIdx.x % kWarpSize;
#pragma unroll 4
  for (int whole = num_keys / kWarpSize; whole > 0; --whole, key += kWarpSize) f(key);
  if (key < num_keys) f(key);
}

/// Pass 2: P = softmax(S). A warp is one row, 32 keys at a time; three scans of it: maximum, sum, probabilities.
template <class T, class Observer>
__global__ void __maxnreg__(bound<Observer>(kNaiveRegisters)) three_pass_naive_softmax(KernelParams p, Observer log) {
  const CtaPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kPatch, at.inner), keys = {0, p.mask.seqlen_k};
  const int row = rows.begin + threadIdx.x / kPatch, lane = threadIdx.x % kPatch;
  for (int scan = 0; scan < 3; ++scan) log.load(at.scores(rows, keys));
  log.compute(Op::softmax, at.head, rows, keys);
  log.store(at.probabilities(rows, keys));
  log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
  log.store(at.lse(rows));
  if (row >= rows.end) return;

  const GlobalTile<T> own_s = at.scores({row, row + 1}, keys), own_p = at.probabilities({row, row + 1}, keys);
  const T* const s = own_s.base + own_s.first();
  T* const weights = own_p.base + own_p.first();
  float row_max = -INFINITY, row_sum = 0;
  for_each_key(keys.end, [&](int key) { row_max = fmaxf(row_max, element(s + key)); });
  row_max = over_warp(row_max, [](float a, float b) { return fmaxf(a, b); });
  const float base = finite_or_zero(row_max);
  for_each_key(keys.end, [&](int key) { row_sum += exp_of(element(s + key) - base); });
  row_sum = over_warp(row_sum, [](float a, float b) { return a + b; });
  const float inverse = row_sum > 0 ? 1 / row_sum : 0;  // a row that sees no key: P = 0, LSE = -inf
  for_each_key(keys.end, [&](int key) { store_element(weights + key, exp_of(element(s + key) - base) * inverse); });
  const GlobalTile<float> lse = at.lse({row, row + 1});
  if (lane == 0) store_element(lse.base + lse.first(), row_sum > 0 ? row_max + logf(row_sum) : -INFINITY);
}

/// Pass 3: O = P V. One thread an output element.
template <class T, class Observer>
__global__ void __maxnreg__(bound<Observer>(kNaiveRegisters))
    three_pass_naive_weighted_sum(KernelParams p, Observer log) {
  const CtaPlace<T> at(p);
  const int column_tiles = num_tiles(p.head_dim, kPatch);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kPatch, at.inner / column_tiles);
  const Range columns = rows_of_tile(p.head_dim, kPatch, at.inner % column_tiles);
  const int row = rows.begin + threadIdx.x / kPatch, column = columns.begin + threadIdx.x % kPatch;
  const bool ours = row < rows.end && column < columns.end;
  float sum = 0;
  log.compute(Op::clear_state, at.head, rows, at.dims());
  for (int key_tile = 0; key_tile < num_tiles(p.mask.seqlen_k, kPatch); ++key_tile) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kPatch, key_tile);
    const GlobalTile<T> weights = at.probabilities(rows, keys);
    GlobalTile<T> v = at.v(keys);
    v.cols = columns;
    log.load(weights, size_of(columns));
    log.load(v, size_of(rows));
    log.compute(Op::weighted_sum, at.head, rows, columns, size_of(keys));
    if (!ours) continue;
    const T* const p_row =
        weights.base + weights.first() + static_cast<std::int64_t>(row - rows.begin) * weights.row_elements;
    const T* const v_column = v.base + v.first() + (column - columns.begin);
#pragma unroll 2
    for (int key = 0; key < size_of(keys); ++key)
      sum = fmaf(element(p_row + key), element(v_column + key * v.row_elements), sum);
  }
  GlobalTile<T> o = at.o(rows);
  o.cols = columns;
  log.store(o);
  if (!ours) return;
  T* const o_row = o.base + o.first() + static_cast<std::int64_t>(row - rows.begin) * o.row_elements;
  store_element(o_row + (column - columns.begin), sum);
}

template <class T, class Observer>
const void* pass(int kernel) {
  switch (kernel) {
    case 0: return reinterpret_cast<const void*>(&three_pass_naive_scores<T, Observer>);
    case 1: return reinterpret_cast<const void*>(&three_pass_naive_softmax<T, Observer>);
    case 2: return reinterpret_cast<const void*>(&three_pass_naive_weighted_sum<T, Observer>);
    default: return nullptr;
  }
}

}  // namespace

const void* three_pass_naive_kernel(int kernel, DType dtype, int /*head_dim*/, bool logged) {
  switch (dtype) {
    case DType::fp32: return logged ? pass<float, OpLog>(kernel) : pass<float, NoObserver>(kernel);
    case DType::bf16: return logged ? pass<__nv_bfloat16, OpLog>(kernel) : pass<__nv_bfloat16, NoObserver>(kernel);
    case DType::fp16: return logged ? nullptr : pass<__half, NoObserver>(kernel);
    default: return nullptr;
  }
}

}  // namespace flashscope::kernels
