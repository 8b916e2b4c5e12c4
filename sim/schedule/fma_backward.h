// What a CTA of a backward kernel occupies: the FMA rungs' 128 threads and SMEM pitches (fma_rungs.h), more tiles.
#pragma once
#include "sim/schedule/fma_rungs.h"

namespace flashscope {

// ---- flash_v2 -------------------------------------------------------------------------------------------------------

/// Offsets in floats; `floats` is the whole. dK, dV and dQ leave through the places of K and V, which nobody reads
/// then.
struct BackwardSmem {
  int q = 0, d_o = 0, k = 0, v = 0;
  int s = 0;           // P, read and then replaced by dS. S and dP stay in the registers of the threads that own them
  int lse = 0, d = 0;  // row statistics
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};

/// P and dS lie with the axis along a row that the product to come adds up over: keys for dQ, queries for dK and dV.
FLASHSCOPE_HD constexpr BackwardSmem flash_v2_backward_smem(int br, int bc, int width, bool by_key) {
  const int q = br * smem_pitch(width), k = bc * smem_pitch(width);
  const int s = by_key ? bc * smem_pitch(br) : br * smem_pitch(bc);
  return {0, q, 2 * q, 2 * q + k, 2 * (q + k), 2 * (q + k) + s, 2 * (q + k) + s + br, 2 * (q + k) + s + 2 * br};
}

/// O and dO, and D on its way out.
struct RowDotSmem {
  int o = 0, d_o = 0, d = 0;
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};
FLASHSCOPE_HD constexpr RowDotSmem row_dot_smem(int br, int width) {
  const int o = br * smem_pitch(width);
  return {0, o, 2 * o, 2 * o + br};
}

/// Registers a thread, as in fma_rungs.h. Shared memory leaves room for two CTAs an SM up to width 128, for four at 32.
inline constexpr int kRowDotRegisters = 48;
inline constexpr int kKeyGradientsRegisters = 255;
/// `is_sparse`: packed sequences or a block mask, as in fma_rungs.h.
FLASHSCOPE_HD constexpr int query_gradient_registers(int width, bool is_sparse) {
  return width == 32 && !is_sparse ? 168 : 255;
}

/// Instructions of the compiled kernels, as in fma_rungs.h: medians over dtypes and widths of the sm_90a cubin.
inline constexpr int kRowDotCode = 1296, kKeyGradientsCode = 3856, kQueryGradientCode = 3264;

// ---- three_pass ------------------------------------------------------------------------------------------------------

/// A tile of P or dS with queries as rows (a), and the rows that it weighs (b): K for dQ, dO or Q for dV and dK. Then, in
/// their place, the result (s).
FLASHSCOPE_HD constexpr SmemLayout gradient_sum_smem(int br, int bc, int width, bool by_key) {
  const int scores = br * smem_pitch(bc), rows = (by_key ? br : bc) * smem_pitch(width);
  const int result = (by_key ? bc : br) * smem_pitch(width);
  return {0, scores, 0, 0, 0, 0, scores + rows > result ? scores + rows : result};
}

/// Registers a thread, as in fma_rungs.h: of dV and dK, of dQ, of dP, and of dS.
FLASHSCOPE_HD constexpr int key_sum_registers(int width, bool is_fp32, bool is_bf16) {
  if (is_fp32) return width <= 64 ? 96 : 128;
  if (width == 32 && !is_bf16) return 96;
  return width <= 64 ? 128 : 168;
}
FLASHSCOPE_HD constexpr int query_sum_registers(int width) { return width <= 128 ? 128 : 168; }
FLASHSCOPE_HD constexpr int d_probability_registers(bool is_fp32) { return is_fp32 ? 96 : 80; }
inline constexpr int kDSoftmaxRegisters = 64;  // 46 are used, but all 16 named barriers too: four CTAs an SM

/// Instructions of the compiled kernels, likewise.
inline constexpr int kValueGradientCode = 1376, kProbabilityGradientCode = 1448, kDSoftmaxCode = 296,
                     kQuerySumCode = 1472, kKeyGradientCode = 1416;

// ---- flash_v1 --------------------------------------------------------------------------------------------------------

/// Q, dO, O (then dQ), K and V (at the end dK and dV), one place for P and then dS, queries as rows, and LSE and D.
struct FlashV1BackwardSmem {
  int q = 0, d_o = 0, o = 0, k = 0, v = 0;
  int s = 0;
  int lse = 0, d = 0;
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};
FLASHSCOPE_HD constexpr FlashV1BackwardSmem flash_v1_backward_smem(int br, int bc, int width) {
  const int q = br * smem_pitch(width), k = bc * smem_pitch(width);
  const int s = 3 * q + 2 * k, lse = s + br * smem_pitch(bc);
  return {0, q, 2 * q, 3 * q, 3 * q + k, s, lse, lse + br, lse + 2 * br};
}
inline constexpr int kFlashV1BackwardRegisters = 255;
inline constexpr int kFlashV1BackwardCode = 5208;

}  // namespace flashscope
