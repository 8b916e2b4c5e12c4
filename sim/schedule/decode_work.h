// What the warps of split_kv execute for an operation, counted from its loops in kernels/decode/.
#pragma once
#include "sim/schedule/fma_work.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// Of the kernel that works on a part of the keys; `copy` is how it moves the region of a load or store.
WarpWork split_kv_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy);
/// Of the one that combines the parts.
WarpWork combine_work(const Schedule& schedule, const TileOp& op);

}  // namespace flashscope
