// Tensor maps for TMA, made on the host.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "sim/problem.h"

namespace flashscope::kernels {

/// A (heads, rows, cols) tensor of two-byte elements, row-major without gaps, read by boxes of box_rows × 64 columns of
/// one head, swizzled by 128 bytes. Needs rows of a multiple of 16 bytes and a base aligned to 16. Throws Error
/// (resource) where the driver has no such function, (internal) where it refuses.
CUtensorMap make_tensor_map(DType dtype, const void* base, int heads, int rows, int cols, int box_rows);

/// The same of one-byte elements, read by boxes of box_rows × box_cols, swizzled by box_cols = 128 or 64 bytes.
CUtensorMap make_byte_tensor_map(const void* base, int heads, int rows, int cols, int box_rows, int box_cols);

/// The same of float32, by boxes of box_rows × kSumBoxColumns: what add_box() adds to.
CUtensorMap make_sum_tensor_map(const void* base, int heads, int rows, int cols, int box_rows);

}  // namespace flashscope::kernels
