// The instruction counts of the FMA rungs, per warp and piece of a tile operation. They follow the loops in
// kernels/common/tile.cuh and kernels/forward/; the constants were counted in the code that nvcc makes of them for
// sm_90a (kernels/facts/instruction_mix.py prints the counts; kernels/facts/README.md says how to read them).
#pragma once
#include "sim/schedule/schedule.h"
#include "sim/schedule/warp_work.h"

namespace flashscope {

/// acc (rows × cols a thread) += A Bᵀ over `depth`: add_product_transposed().
WarpWork product_transposed_work(int rows, int cols, int depth);
/// acc (rows × cols a thread) += A B over `depth`: add_product().
WarpWork product_work(int rows, int cols, int depth);
/// acc += Aᵀ B, down the columns of both: add_product_down(). A thread reads its columns of A one by one.
WarpWork product_down_work(int rows, int cols, int depth);
/// n multiplications or additions a thread.
WarpWork arithmetic_work(int n);
/// Masking a rows × cols accumulator.
WarpWork mask_work(int rows, int cols);
/// Online softmax of a thread's rows × keys scores, rescaling acc_cols columns of the output; all rows at once, sums
/// left to the end (flash_v2).
WarpWork online_softmax_work(int rows, int keys, int acc_cols);
/// P = exp(S - LSE) of a thread's rows × keys scores.
WarpWork probabilities_work(int rows, int keys);
/// D of `rows` rows, one a thread of `threads`: two rows of `depth` floats read four at a time, multiplied and added up.
WarpWork row_dot_work(int rows, int depth, int threads);
/// The online softmax row by row, with l and m in shared memory (flash_v1).
WarpWork online_softmax_by_row_work(int rows, int keys, int acc_cols);
/// An output accumulator put into shared memory, or taken from there: four neighbouring columns at a time.
WarpWork stage_work(int rows, int cols);
/// Scores put into shared memory, element by element.
WarpWork stage_scores_work(int rows, int cols);
/// The statistics of a thread's rows: sums over lanes, reciprocal, logarithm.
WarpWork row_end_work(int rows);

/// How a copy moves a tile: `vector` elements of `element_bytes` a thread and instruction.
struct CopyShape {
  int rows = 0, cols = 0;  // of the tile
  int vector = 1;
  int element_bytes = 4;
  int threads = 0;
};
/// Global to shared memory, widened to float32: copy_in().
WarpWork copy_in_work(const CopyShape& copy);
/// A loop over the elements of a tile, by all threads, that zeroes some of them.
WarpWork zeroing_work(int elements, int threads);
/// Zeroes where a tile does not fill rows × cols (nothing where it does): zero_rest().
WarpWork zero_rest_work(const CopyShape& copy, int rows, int cols);
/// Shared to global memory, narrowed: copy_out().
WarpWork copy_out_work(const CopyShape& copy);

/// The softmax pass of three_pass on whole rows of `keys` scores: groups of softmax_warps() warps (walk.h) take a row
/// each, the whole CTA one that does not fit. The way in; the reductions and exponentials; the way out.
struct SoftmaxRows {
  int rows = 0, keys = 0, element_bytes = 0;
};
WarpWork softmax_read_work(const SoftmaxRows& rows);
WarpWork softmax_rows_work(const SoftmaxRows& rows);
WarpWork softmax_write_work(const SoftmaxRows& rows);

/// The softmax pass of three_pass's backward pass: each row by all warps, a vector of P and of dP a thread and turn. P
/// and dP in, and into shared memory where they fit there; the sum over the row; dS.
WarpWork d_softmax_read_work(const SoftmaxRows& rows);
WarpWork d_softmax_dot_work(const SoftmaxRows& rows);
WarpWork d_softmax_rows_work(const SoftmaxRows& rows);

/// The naive rung, per thread: `steps` multiply-adds with both operands from global memory, unrolled by `unroll`.
WarpWork naive_product_work(int steps, int unroll);
/// And a scan over `keys` scores of a row, 32 at a time, with or without exponentials.
WarpWork naive_scan_work(int keys, bool exponentials);

/// Before the first operation: where the CTA stands, which tiles it sees.
WarpWork prologue_work();

}  // namespace flashscope
