// Gradients of plain attention on the GPU, twice with the same code: in float64, as the reference, and in float32 with
// S, P, dP, dS rounded to the storage dtype, as eager frameworks run it: its largest error is the E of the tolerance
// rule.
//
// Two kernels. In the first a warp is a query row: its softmax, D = Σ P dP and dQ. In the second a warp is a key, past
// which all rows that see it come by: dK and dV. Scores are computed again wherever they are needed.
#include "kernels/backward/place.cuh"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/reference.h"

namespace flashscope::kernels {
namespace {

constexpr int kWarps = 8;            // of a CTA: rows, or keys, that it owns
constexpr int kOthers = kWarpSize;   // keys, or rows, held at a time: a lane each
constexpr int kMaxColumns = 256 / kWarpSize;

/// What the second kernel needs to know of a row.
struct RowFacts {
  double base, sum;  // maximum (0 in an empty row) and Σ exp(s - base)
  double d;          // Σ P dP
  double weight;     // what stored O and LSE add to |dK| (inherited_from_forward), for each P |Q|
  double epsilon;    // and to |dV|, for each P |dO|: one ulp of LSE
};

template <class>
struct Exact {
  using Real = double;
  static constexpr bool kExact = true;
  static __device__ double stored(double x) { return x; }
};
template <class T>
struct Eager {
  using Real = float;
  static constexpr bool kExact = false;
  static __device__ float stored(float x) { return widen(narrow<T>(x)); }
};

__device__ double ulp_of_float(double x) { return scalbn(1.0, x == 0 ? -149 : max(ilogb(x), -126) - 23); }

template <class Real>
__device__ Real dot(const float* a, const float* b, int length) {
  Real sum = 0;
  for (int c = 0; c < length; ++c) sum = fma(static_cast<Real>(a[c]), static_cast<Real>(b[c]), sum);
  return sum;
}

template <class Real, class Combine>
__device__ Real over_warp(Real x, Combine combine) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
template <class Real>
__device__ Real warp_sum(Real x) {
  return over_warp(x, [](Real a, Real b) { return a + b; });
}

template <class T>
__device__ void fill(float* target, int pitch, const GlobalTile<T>& t) {
  const T* const source = t.base + t.first();  // rows follow each other
  const int cols = t.num_cols();
  for (int n = threadIdx.x; n < t.num_rows() * cols; n += blockDim.x)
    target[n / cols * pitch + n % cols] = widen(source[n]);
}

/// acc (this lane's columns) += factor of each lane × its row of `smem`.
template <bool kMagnitude, class Real>
__device__ void add_rows(Real (&acc)[kMaxColumns], Real factor, const float* smem, int pitch, int rows, int cols) {
  const int lane = threadIdx.x % kWarpSize;
  for (int n = 0; n < rows; ++n) {
    const Real f = __shfl_sync(~0u, factor, n);
#pragma unroll
    for (int c = 0; c < kMaxColumns; ++c)
      if (lane + kWarpSize * c < cols) {
        const Real x = static_cast<Real>(smem[n * pitch + lane + kWarpSize * c]);
        acc[c] = fma(f, kMagnitude ? fabs(x) : x, acc[c]);
      }
  }
}

template <class T, class Arithmetic>
__global__ void __launch_bounds__(kWarps * kWarpSize)
    row_gradients(SparseParams<BackwardParams> p, double softmax_scale, RowFacts* facts, double* d_q, double* inherited_q) {
  using Real = typename Arithmetic::Real;
  extern __shared__ float smem[];
  const int pitch = p.head_dim | 1;                  // odd: lanes on consecutive keys are on different banks
  float* const smem_q = smem;                        // [kWarps][pitch]
  float* const smem_do = smem_q + kWarps * pitch;    // [kWarps][pitch]
  float* const smem_k = smem_do + kWarps * pitch;    // [kOthers][pitch]
  float* const smem_v = smem_k + kOthers * pitch;    // [kOthers][pitch]

  const BackwardPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kWarps, at.inner);
  const int lane = threadIdx.x % kWarpSize;
  const int row = min_int(rows.begin + static_cast<int>(threadIdx.x) / kWarpSize, rows.end - 1);  // one too many: again
  const Range kept = kept_keys(p.mask, row);
  const Range all = {kept_keys(p.mask, rows.begin).begin, kept_keys(p.mask, rows.end - 1).end};
  const float* const my_q = smem_q + (row - rows.begin) * pitch;
  const float* const my_do = smem_do + (row - rows.begin) * pitch;
  const Real scale = static_cast<Real>(softmax_scale);

  fill(smem_q, pitch, at.q(rows));
  fill(smem_do, pitch, at.d_o(rows));
  /// body(is this lane's key kept, how many keys there are)
  const auto sweep = [&](auto body) {
    for (int first = all.begin; first < all.end; first += kOthers) {
      const Range keys = {first, min_int(first + kOthers, p.mask.seqlen_k)};
      __syncthreads();
      fill(smem_k, pitch, at.k(keys));
      fill(smem_v, pitch, at.v(keys));
      __syncthreads();
      const int key = first + lane;
      body(kept.begin <= key && key < kept.end &&
               p.mask.block_kept(row / p.mask.block_rows(), key / p.mask.block_columns()),
           size_of(keys));
    }
  };
  const auto score = [&] { return Arithmetic::stored(scale * dot<Real>(my_q, smem_k + lane * pitch, p.head_dim)); };
  const auto d_probability = [&] { return Arithmetic::stored(dot<Real>(my_do, smem_v + lane * pitch, p.head_dim)); };

  Real row_max = -INFINITY, row_sum = 0;
  sweep([&](bool is_kept, int) {
    if (is_kept) row_max = fmax(row_max, score());
  });
  row_max = over_warp(row_max, [](Real a, Real b) { return fmax(a, b); });
  const Real base = row_max == -INFINITY ? 0 : row_max;
  sweep([&](bool is_kept, int) {
    if (is_kept) row_sum += exp(score() - base);
  });
  row_sum = warp_sum(row_sum);
  const auto probability = [&] { return row_sum > 0 ? Arithmetic::stored(exp(score() - base) / row_sum) : Real(0); };

  // D = Σ P dP; and O, to see how far the stored one is off.
  Real d = 0, largest_dp = 0, o[kMaxColumns] = {};
  sweep([&](bool is_kept, int num_keys) {
    const Real weight = is_kept ? probability() : Real(0), d_p = is_kept ? d_probability() : Real(0);
    d = fma(weight, d_p, d);
    largest_dp = fmax(largest_dp, fabs(d_p));
    if constexpr (Arithmetic::kExact) add_rows<false>(o, weight, smem_v, pitch, num_keys, p.head_dim);
  });
  d = warp_sum(d);

  Real sum[kMaxColumns] = {}, magnitude[kMaxColumns] = {};
  sweep([&](bool is_kept, int num_keys) {
    const Real weight = is_kept ? probability() : Real(0);
    const Real d_s = is_kept ? Arithmetic::stored(weight * (d_probability() - d)) : Real(0);
    add_rows<false>(sum, d_s, smem_k, pitch, num_keys, p.head_dim);
    if constexpr (Arithmetic::kExact) add_rows<true>(magnitude, weight, smem_k, pitch, num_keys, p.head_dim);
  });

  const std::int64_t index = static_cast<std::int64_t>(at.head) * p.mask.seqlen_q + row;
  double delta = 0, epsilon = 0, total = 0, squares = 0;
  if constexpr (Arithmetic::kExact) {
    const GlobalTile<T> stored_o = at.o({row, row + 1});
#pragma unroll
    for (int c = 0; c < kMaxColumns; ++c) {
      const int col = lane + kWarpSize * c;
      if (col >= p.head_dim) continue;
      const double error = static_cast<double>(widen(stored_o.base[stored_o.first() + col])) - o[c];
      delta += fabs(static_cast<double>(my_do[col]) * error);
      const double term = static_cast<double>(my_do[col]) * o[c];
      total += term;
      squares += term * term;
    }
    delta = warp_sum(delta) + error_of_sum(p.head_dim, warp_sum(total), warp_sum(squares));
    if (row_sum > 0) epsilon = ulp_of_float(row_max + log(row_sum));
    largest_dp = over_warp(largest_dp, [](Real a, Real b) { return fmax(a, b); });
  }
#pragma unroll
  for (int c = 0; c < kMaxColumns; ++c)
    if (lane + kWarpSize * c < p.head_dim) {
      const std::int64_t at_c = index * p.head_dim + lane + kWarpSize * c;
      const Real gradient = Arithmetic::stored(scale * sum[c]);
      d_q[at_c] = gradient;
      if constexpr (Arithmetic::kExact)
        inherited_q[at_c] = fabs(scale * magnitude[c]) * delta + epsilon * fabs(gradient);
    }
  if (lane == 0) facts[index] = {base, row_sum, d, fabs(softmax_scale) * (delta + 2 * epsilon * largest_dp), epsilon};
}

template <class T, class Arithmetic>
__global__ void __launch_bounds__(kWarps * kWarpSize)
    key_gradients(SparseParams<BackwardParams> p, double softmax_scale, const RowFacts* facts, double* d_k, double* d_v,
                  double* inherited_k, double* inherited_v) {
  using Real = typename Arithmetic::Real;
  extern __shared__ float smem[];
  const int pitch = p.head_dim | 1;
  float* const smem_k = smem;                        // [kWarps][pitch]
  float* const smem_v = smem_k + kWarps * pitch;     // [kWarps][pitch]
  float* const smem_q = smem_v + kWarps * pitch;     // [kOthers][pitch]
  float* const smem_do = smem_q + kOthers * pitch;   // [kOthers][pitch]

  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kWarps, at.inner);
  const int lane = threadIdx.x % kWarpSize;
  const int key = min_int(keys.begin + static_cast<int>(threadIdx.x) / kWarpSize, keys.end - 1);
  const SparseMask by_key = transposed(p.mask);
  const Range seen = kept_keys(by_key, key);
  const Range all = {kept_keys(by_key, keys.begin).begin, kept_keys(by_key, keys.end - 1).end};
  const float* const my_k = smem_k + (key - keys.begin) * pitch;
  const float* const my_v = smem_v + (key - keys.begin) * pitch;
  const Real scale = static_cast<Real>(softmax_scale);
  fill(smem_k, pitch, at.k(keys));
  fill(smem_v, pitch, at.v(keys));

  Real sum_k[kMaxColumns] = {}, sum_v[kMaxColumns] = {}, more_k[kMaxColumns] = {}, more_v[kMaxColumns] = {};
  for (const int end = at.head + at.group(); at.head < end; ++at.head)
    for (int first = all.begin; first < all.end; first += kOthers) {
      const Range rows = {first, min_int(first + kOthers, p.mask.seqlen_q)};
      __syncthreads();
      fill(smem_q, pitch, at.q(rows));
      fill(smem_do, pitch, at.d_o(rows));
      __syncthreads();
      const int row = first + lane;
      Real weight = 0, d_s = 0, for_k = 0, for_v = 0;
      if (seen.begin <= row && row < seen.end &&
          by_key.block_kept(key / by_key.block_rows(), row / by_key.block_columns())) {
        const RowFacts f = facts[static_cast<std::int64_t>(at.head) * p.mask.seqlen_q + row];
        const Real s = Arithmetic::stored(scale * dot<Real>(smem_q + lane * pitch, my_k, p.head_dim));
        if (f.sum > 0) weight = Arithmetic::stored(exp(s - static_cast<Real>(f.base)) / static_cast<Real>(f.sum));
        const Real d_p = Arithmetic::stored(dot<Real>(smem_do + lane * pitch, my_v, p.head_dim));
        d_s = Arithmetic::stored(weight * (d_p - static_cast<Real>(f.d)));
        for_k = weight * static_cast<Real>(f.weight);
        for_v = weight * static_cast<Real>(f.epsilon);
      }
      const int num_rows = size_of(rows);
      add_rows<false>(sum_k, d_s, smem_q, pitch, num_rows, p.head_dim);
      add_rows<false>(sum_v, weight, smem_do, pitch, num_rows, p.head_dim);
      if constexpr (Arithmetic::kExact) {
        add_rows<true>(more_k, for_k, smem_q, pitch, num_rows, p.head_dim);
        add_rows<true>(more_v, for_v, smem_do, pitch, num_rows, p.head_dim);
      }
    }

  const std::int64_t index = static_cast<std::int64_t>(at.kv_head) * p.mask.seqlen_k + key;
#pragma unroll
  for (int c = 0; c < kMaxColumns; ++c)
    if (lane + kWarpSize * c < p.head_dim) {
      const std::int64_t at_c = index * p.head_dim + lane + kWarpSize * c;
      d_k[at_c] = Arithmetic::stored(scale * sum_k[c]);
      d_v[at_c] = Arithmetic::stored(sum_v[c]);
      if constexpr (Arithmetic::kExact) inherited_k[at_c] = more_k[c], inherited_v[at_c] = more_v[c];
    }
}

struct Functions {
  const void *rows, *keys;
};

template <template <class> class Arithmetic>
Functions functions_for(DType dtype) {
  const auto of = [](auto rows, auto keys) {
    return Functions{reinterpret_cast<const void*>(rows), reinterpret_cast<const void*>(keys)};
  };
  switch (dtype) {
    case DType::fp32: return of(&row_gradients<float, Arithmetic<float>>, &key_gradients<float, Arithmetic<float>>);
    case DType::fp16: return of(&row_gradients<__half, Arithmetic<__half>>, &key_gradients<__half, Arithmetic<__half>>);
    case DType::bf16:
      return of(&row_gradients<__nv_bfloat16, Arithmetic<__nv_bfloat16>>,
                &key_gradients<__nv_bfloat16, Arithmetic<__nv_bfloat16>>);
    default: throw Error(ErrorKind::unsupported, "the reference on the GPU takes fp32, fp16 and bf16");
  }
}

constexpr const char* kWhat = "the reference of the gradients";

void launch(const void* function, int ctas_per_head, int heads, int head_dim, void** arguments) {
  if (ctas_per_head == 0 || heads == 0) return;
  const int smem = static_cast<int>(sizeof(float)) * 2 * (kWarps + kOthers) * (head_dim | 1);
  check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), kWhat);
  check_cuda(cudaLaunchKernel(function, dim3(static_cast<unsigned>(ctas_per_head * heads)), dim3(kWarps * kWarpSize),
                              arguments, static_cast<std::size_t>(smem), nullptr),
             kWhat);
  check_cuda(cudaDeviceSynchronize(), kWhat);
}

/// A float64 result on the GPU, and its way to the host.
class Result {
 public:
  Result(Tensor tensor, const AttentionProblem& p) : m_shape(shape_of(tensor, p)), m_buffer(bytes() + 1, kWhat) {}
  double* data() const { return reinterpret_cast<double*>(m_buffer.data()); }
  Array fetch() const {
    Array array(m_shape.heads, m_shape.rows, m_shape.cols);
    check_cuda(cudaMemcpy(array.values.data(), data(), static_cast<std::size_t>(bytes()), cudaMemcpyDeviceToHost),
               kWhat);
    return array;
  }

 private:
  std::int64_t bytes() const { return std::int64_t{8} * m_shape.heads * m_shape.rows * m_shape.cols; }
  TensorShape m_shape;
  DeviceBuffer m_buffer;
};

/// Six arrays: three gradients, and by how much each may be off (not written by Eager).
struct Run {
  Result d_q, d_k, d_v, more_q, more_k, more_v;

  Run(const AttentionProblem& problem, const WorkspaceParams& params, const Functions& functions)
      : d_q(Tensor::dQ, problem), d_k(Tensor::dK, problem), d_v(Tensor::dV, problem),
        more_q(Tensor::dQ, problem), more_k(Tensor::dK, problem), more_v(Tensor::dV, problem) {
    const std::int64_t rows = std::int64_t{problem.num_heads()} * problem.seqlen_q;
    const DeviceBuffer facts_buffer(static_cast<std::int64_t>(sizeof(RowFacts)) * rows + 1, kWhat);
    auto* facts = reinterpret_cast<RowFacts*>(facts_buffer.data());
    double softmax_scale = problem.scale();
    double *q = d_q.data(), *k = d_k.data(), *v = d_v.data();
    double *mq = more_q.data(), *mk = more_k.data(), *mv = more_v.data();
    SparseParams<BackwardParams> p(params, params.sparse_mask);
    p.ctas_per_head = num_tiles(problem.seqlen_q, kWarps);
    void* for_rows[] = {&p, &softmax_scale, &facts, &q, &mq};
    launch(functions.rows, p.ctas_per_head, problem.num_heads(), problem.head_dim, for_rows);
    p.ctas_per_head = num_tiles(problem.seqlen_k, kWarps);
    void* for_keys[] = {&p, &softmax_scale, &facts, &k, &v, &mk, &mv};
    launch(functions.keys, p.ctas_per_head, problem.num_kv_heads(), problem.head_dim, for_keys);
  }
};

}  // namespace

FullReference full_reference_on_gpu(const AttentionProblem& problem, const WorkspaceParams& params) {
  FullReference full;
  full.outputs = plain_on_gpu(problem, params, Precision::float64);
  const AttentionOutputs plain = plain_on_gpu(problem, params, Precision::same);
  full.plain_o = largest_error(plain.o, full.outputs.o);
  full.plain_lse = largest_error(plain.lse, full.outputs.lse);
  if (problem.pass == Pass::forward) return full;
  {
    const Run exact(problem, params, functions_for<Exact>(problem.dtype));
    full.outputs.d_q = exact.d_q.fetch();
    full.outputs.d_k = exact.d_k.fetch();
    full.outputs.d_v = exact.d_v.fetch();
    full.inherited = {exact.more_q.fetch(), exact.more_k.fetch(), exact.more_v.fetch()};
  }
  const Run eager(problem, params, functions_for<Eager>(problem.dtype));
  full.plain_errors = {largest_error(eager.d_q.fetch(), full.outputs.d_q),
                       largest_error(eager.d_k.fetch(), full.outputs.d_k),
                       largest_error(eager.d_v.fetch(), full.outputs.d_v)};
  return full;
}

}  // namespace flashscope::kernels
