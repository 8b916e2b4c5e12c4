// What a warp of the tensor-core rungs (03, 06, 07) executes for a tile operation. A CTA's warps share the query rows; each
// has every key and every column. Counts follow kernels/common/mma.cuh and the kernels' loops.
#pragma once
#include "sim/schedule/fma_work.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// A warp's rows of a product, in units of 16, and its result's columns, in units of 8.
struct MmaTile {
  int rows16 = 0;
  int cols8 = 0;
};

/// What a warp has of S (Br × Bc) and of O (Br × width): CTAs have kMmaWarps warps.
MmaTile mma_scores_tile(const TileShape& tile);
MmaTile mma_output_tile(const TileShape& tile, int width);

/// acc += A Bᵀ over `depth`, both from shared memory: add_product_transposed(). Elements of two bytes; of one or four
/// (fp8, tf32, which no rung has) the tensor cores do twice or half as many in the same time.
WarpWork mma_transposed_work(const MmaTile& tile, int depth, int element_bytes);
/// acc += A B over `depth`; A comes from registers, rounded on the way, or from shared memory.
enum class AFrom { registers, shared_memory };
WarpWork mma_work(const MmaTile& tile, int depth, AFrom a, int element_bytes);
/// Whether a copy asks of each vector if its row exists, or the kernel has another copy for tiles that are cut short.
enum class RowCheck { each, none };
/// Starting to copy a tile of so many columns on chip: cp.async, vector by vector.
WarpWork start_copy_work(const CopyShape& copy, int width, RowCheck check);

/// An accumulator of 8 · cols8 columns scaled (or not) and rounded into shared memory, two columns at a time.
WarpWork round_work(const MmaTile& tile);
/// Scores likewise, each masked or not.
WarpWork round_scores_work(const MmaTile& tile);

/// When a rung rescales acc: after each key tile, or, asked for by a vote of the warp, where a maximum has moved. That is so
/// in the first few tiles and then hardly ever: only the vote is counted.
enum class Rescales { always, where_needed };
/// Any operation of the rungs on wgmma: a warp has 16 of its warpgroup's 64 rows. Elements of the products are those of
/// the problem's dtype, or of so many bytes.
WarpWork wgmma_warp_work(const Schedule& schedule, const TileOp& op);
WarpWork wgmma_warp_work(const Schedule& schedule, const TileOp& op, int element_bytes, Rescales rescales);

/// Any operation of the backward rung on wgmma, whose warps have 16 of their warpgroup's 64 keys.
WarpWork wgmma_backward_work(const Schedule& schedule, const TileOp& op);

/// Any operation of the kernel that rotates and rounds Q, K and V to fp8 (08_flash_v3_fp8_quantize.cuh).
WarpWork quantize_warp_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy);

/// Any operation of a forward rung whose CTAs have kMmaWarps warps.
WarpWork mma_warp_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy);

/// A load into a tile of tile_rows × width whose columns beyond head_dim have been zero since the CTA's start: only rows
/// that are missing are zeroed.
WarpWork mma_load_work(const TileOp& op, const CopyShape& copy, int tile_rows, int width, RowCheck check);
/// Zeroes those columns, of tiles of so many rows together; nothing where head_dim is the width.
WarpWork zero_columns_work(const AttentionProblem& problem, int rows);

/// How a backward kernel shares its work: the warps share the `owned` rows, of queries or of keys, and each takes the
/// `streamed` rows of a tile `chunk` at a time.
struct MmaBackwardShape {
  int owned = 0;
  int streamed = 0;
  int chunk = 0;
  bool owns_keys = false;
  int stages = 1;  // of streamed tiles
};
/// Any operation of a backward kernel whose CTAs have kMmaWarps warps.
WarpWork mma_backward_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy,
                           const MmaBackwardShape& shape);

}  // namespace flashscope
