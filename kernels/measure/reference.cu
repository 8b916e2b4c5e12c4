// A warp is a query row. It scans its keys three times: for the maximum, for the sum, for O; each key's score is computed
// in every scan. The CTA's rows share 32 keys at a time in shared memory.
#include "kernels/measure/reference.h"

#include "kernels/common/tile.cuh"
#include "kernels/measure/cuda_check.h"

namespace flashscope::kernels {
namespace {

constexpr int kRows = 16;         // rows of a CTA, a warp each
constexpr int kKeys = kWarpSize;  // keys held at a time: a lane each
constexpr int kMaxColumns = 256 / kWarpSize;

/// What is stored between the passes of plain attention: in float64 everything as it is, else in the storage dtype.
template <class T, class Real>
__device__ __forceinline__ Real stored(Real x) {
  if constexpr (std::is_same_v<Real, double>)
    return x;
  else
    return widen(narrow<T>(x));
}

template <class T, class Real>
__global__ void __launch_bounds__(kRows * kWarpSize, 1)
    plain_attention(SparseParams<KernelParams> p, double softmax_scale, double* o, double* lse) {
  extern __shared__ float smem[];
  const int pitch = p.head_dim | 1;             // odd: lanes on consecutive keys are on different banks
  float* const smem_q = smem;                   // [kRows][pitch]
  float* const smem_k = smem_q + kRows * pitch;  // [kKeys][pitch]
  float* const smem_v = smem_k + kKeys * pitch;  // [kKeys][pitch]

  const CtaPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kRows, at.inner);
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int row = min_int(rows.begin + warp, rows.end - 1);  // a warp too many repeats the last row
  const Range kept = kept_keys(p.mask, row);
  const Range all = {kept_keys(p.mask, rows.begin).begin, kept_keys(p.mask, rows.end - 1).end};

  const auto fill = [&](float* target, const GlobalTile<T>& t) {
    const T* const source = t.base + t.first();  // rows follow each other
    for (int n = threadIdx.x; n < t.num_rows() * p.head_dim; n += blockDim.x)
      target[n / p.head_dim * pitch + n % p.head_dim] = widen(source[n]);
  };
  const auto score = [&](int key) {  // of this lane's key; -inf where there is none
    if (key < kept.begin || key >= kept.end || !p.mask.block_kept(row / p.mask.block_rows(), key / p.mask.block_columns()))
      return -static_cast<Real>(INFINITY);
    Real sum = 0;
    for (int c = 0; c < p.head_dim; ++c)
      sum = fma(static_cast<Real>(smem_q[(row - rows.begin) * pitch + c]),
                static_cast<Real>(smem_k[lane * pitch + c]), sum);
    return stored<T>(static_cast<Real>(sum * static_cast<Real>(softmax_scale)));
  };
  const auto over_warp = [](Real x, auto combine) {
    for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lanes));
    return x;
  };
  const auto for_each_keys = [&](bool with_values, auto body) {
    for (int first = all.begin; first < all.end; first += kKeys) {
      const Range keys = {first, min_int(first + kKeys, p.mask.seqlen_k)};
      __syncthreads();
      fill(smem_k, at.k(keys));
      if (with_values) fill(smem_v, at.v(keys));
      __syncthreads();
      body(keys);
    }
  };

  fill(smem_q, at.q(rows));
  Real row_max = -INFINITY;
  for_each_keys(false, [&](Range keys) { row_max = fmax(row_max, score(keys.begin + lane)); });
  row_max = over_warp(row_max, [](Real a, Real b) { return fmax(a, b); });
  const Real base = row_max == -INFINITY ? 0 : row_max;

  Real row_sum = 0;
  for_each_keys(false, [&](Range keys) { row_sum += exp(score(keys.begin + lane) - base); });
  row_sum = over_warp(row_sum, [](Real a, Real b) { return a + b; });
  const Real inverse = row_sum > 0 ? 1 / row_sum : 0;

  Real acc[kMaxColumns] = {};
  for_each_keys(true, [&](Range keys) {
    const Real weight = stored<T>(exp(score(keys.begin + lane) - base) * inverse);
    for (int n = 0; n < size_of(keys); ++n) {
      const Real w = __shfl_sync(~0u, weight, n);
#pragma unroll
      for (int c = 0; c < kMaxColumns; ++c)
        if (lane + kWarpSize * c < p.head_dim)
          acc[c] = fma(w, static_cast<Real>(smem_v[n * pitch + lane + kWarpSize * c]), acc[c]);
    }
  });

  const std::int64_t index = static_cast<std::int64_t>(at.head) * p.mask.seqlen_q + row;
#pragma unroll
  for (int c = 0; c < kMaxColumns; ++c)
    if (lane + kWarpSize * c < p.head_dim)
      o[index * p.head_dim + lane + kWarpSize * c] = stored<T>(acc[c]);
  if (lane == 0) lse[index] = row_sum > 0 ? row_max + log(row_sum) : -static_cast<Real>(INFINITY);
}

template <class Real>
const void* kernel_for(DType dtype) {
  switch (dtype) {
    case DType::fp32: return reinterpret_cast<const void*>(&plain_attention<float, Real>);
    case DType::fp16: return reinterpret_cast<const void*>(&plain_attention<__half, Real>);
    case DType::bf16: return reinterpret_cast<const void*>(&plain_attention<__nv_bfloat16, Real>);
    default: throw Error(ErrorKind::unsupported, "the reference on the GPU takes fp32, fp16 and bf16");
  }
}

}  // namespace

AttentionOutputs plain_on_gpu(const AttentionProblem& problem, const WorkspaceParams& params, Precision precision) {
  if (problem.head_dim > kMaxColumns * kWarpSize)
    throw Error(ErrorKind::unsupported, "the reference on the GPU takes head_dim up to 256");
  Array o(problem.num_heads(), problem.seqlen_q, problem.head_dim), lse(problem.num_heads(), problem.seqlen_q, 1);
  if (lse.values.empty()) return {std::move(o), std::move(lse)};
  const auto bytes_of = [](const Array& a) { return static_cast<std::int64_t>(a.values.size() * sizeof(double)); };
  const DeviceBuffer o_buffer(bytes_of(o), "the float64 reference"), lse_buffer(bytes_of(lse), "the float64 reference");

  SparseParams<KernelParams> p(params, params.sparse_mask);
  p.ctas_per_head = num_tiles(problem.seqlen_q, kRows);
  double softmax_scale = problem.scale();
  auto* o_data = reinterpret_cast<double*>(o_buffer.data());
  auto* lse_data = reinterpret_cast<double*>(lse_buffer.data());
  void* arguments[] = {&p, &softmax_scale, &o_data, &lse_data};
  const void* const kernel =
      precision == Precision::float64 ? kernel_for<double>(problem.dtype) : kernel_for<float>(problem.dtype);
  const int smem = static_cast<int>(sizeof(float)) * (kRows + 2 * kKeys) * (problem.head_dim | 1);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "the reference");
  check_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(p.ctas_per_head * problem.num_heads())),
                              dim3(kRows * kWarpSize), arguments, static_cast<std::size_t>(smem), nullptr),
             "launching the reference");
  check_cuda(cudaDeviceSynchronize(), "running the reference");
  check_cuda(cudaMemcpy(o.values.data(), o_data, static_cast<std::size_t>(bytes_of(o)), cudaMemcpyDeviceToHost),
             "copying the reference");
  check_cuda(cudaMemcpy(lse.values.data(), lse_data, static_cast<std::size_t>(bytes_of(lse)), cudaMemcpyDeviceToHost),
             "copying the reference");
  return {std::move(o), std::move(lse)};
}

}  // namespace flashscope::kernels
