// What a CTA of the FMA rungs (02, 04, 05) occupies: threads, register tile, and where its tiles lie in shared memory.
//
// Compiled by the host for the schedules and by nvcc for the kernels: the shared memory that the occupancy of a
// simulated CTA is computed from is the one that the kernel asks for.
#pragma once
#include <cstdint>

#include "sim/schedule/walk.h"

namespace flashscope {

/// 128 threads as 8 × 16: thread (ty, tx) owns rows ty, ty + 8, … and, of 16 · n columns, n. Sixteen neighbouring lanes
/// hold whole rows between them, so a row's maximum and sum need shuffles only.
inline constexpr int kFmaThreads = 128;
inline constexpr int kFmaThreadRows = 8;
inline constexpr int kFmaThreadCols = 16;

/// Heads come in four compiled widths; a narrower head_dim runs in the next one. Wider heads exist in the model only.
inline constexpr int kFmaMaxHeadDim = 256;
FLASHSCOPE_HD constexpr int fma_width(int head_dim) {
  return head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : (head_dim + 255) / 256 * 256;
}

/// Floats from one row of an SMEM tile to the next. Four more than the columns: eight consecutive rows then start in
/// eight different groups of four banks, and a column of float4 reads has no bank conflict.
FLASHSCOPE_HD constexpr int smem_pitch(int cols) { return cols + 4; }

/// Offsets in floats; `floats` is the whole. Operands are widened to float32 on their way in.
struct SmemLayout {
  int a = 0;         // Q, or P
  int b = 0;         // K (three_pass: or V; flash_v2: K and V in turn)
  int c = 0;         // V (flash_v1)
  int s = 0;         // scores; before and after them, results on their way out (flash_v1: O on its way in, too)
  int m = 0, l = 0;  // row statistics
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};

/// Q and K; then, in their place, S on its way out. (For the compiled tiles S is the smaller.)
FLASHSCOPE_HD constexpr SmemLayout three_pass_scores_smem(int br, int bc, int width) {
  const int operands = (br + bc) * smem_pitch(width), result = br * smem_pitch(bc);
  return {0, br * smem_pitch(width), 0, 0, 0, 0, operands > result ? operands : result};
}

/// P and V; then, in their place, O on its way out.
FLASHSCOPE_HD constexpr SmemLayout three_pass_weighted_sum_smem(int br, int bc, int width) {
  const int operands = br * smem_pitch(bc) + bc * smem_pitch(width), result = br * smem_pitch(width);
  return {0, br * smem_pitch(bc), 0, 0, 0, 0, operands > result ? operands : result};
}

/// Q, K, V, and one place for O coming in, then the scores, then O going out; l and m of the query tile.
FLASHSCOPE_HD constexpr SmemLayout flash_v1_smem(int br, int bc, int width) {
  const int q = br * smem_pitch(width), k = bc * smem_pitch(width);
  const int s = br * smem_pitch(bc > width ? bc : width);
  return {0, q, q + k, q + 2 * k, q + 2 * k + s, q + 2 * k + s + br, q + 2 * k + s + 2 * br};
}

/// Q (at the end: O), one tile for K and V in turn, and the scores (at the end: LSE).
FLASHSCOPE_HD constexpr SmemLayout flash_v2_smem(int br, int bc, int width) {
  const int q = br * smem_pitch(width), kv = bc * smem_pitch(width), s = br * smem_pitch(bc);
  return {0, q, 0, q + kv, 0, q + kv, q + kv + s};
}

/// Registers a thread: the bound that a rung is compiled with (__maxnreg__), the least at which nothing is spilled. A
/// test on the GPU compares the occupancy that follows with the device's own.
inline constexpr int kNaiveRegisters = 32;
inline constexpr int kScoresRegisters = 96;
inline constexpr int kSoftmaxRegisters = 80;
FLASHSCOPE_HD constexpr int weighted_sum_registers(int width, bool is_bf16) {
  return width <= 64 ? 128 : width == 128 && is_bf16 ? 176 : 168;
}
/// `is_sparse`: packed sequences or a block mask, whose instances look tiles up while their sums are in registers.
FLASHSCOPE_HD constexpr int flash_v1_registers(int width, bool is_bf16, bool is_sparse) {
  if (is_sparse && width == 256) return 232;
  return width == 128 || (width == 64 && is_bf16) ? 232 : 168;
}
FLASHSCOPE_HD constexpr int flash_v2_registers(int width, bool is_bf16, bool is_fp16, bool is_sparse) {
  if (is_sparse) return (width == 32 && is_fp16) || (width == 256 && !is_bf16) ? 168 : 232;
  return width == 128 || (width == 32 && is_bf16) ? 232 : 168;
}

/// Instructions of a compiled kernel, median over dtypes and widths (kernels/facts/sm_90a.json). About half of them are
/// executed: each copy exists for vectors and for single elements.
inline constexpr int kNaiveProductCode = 310, kNaiveSoftmaxCode = 580;
inline constexpr int kScoresCode = 1920, kSoftmaxCode = 2120, kWeightedSumCode = 1460;
inline constexpr int kFlashV1Code = 4590, kFlashV2Code = 4140;

}  // namespace flashscope
