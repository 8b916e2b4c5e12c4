// TMA: one thread asks for a whole tile, and a unit of its own copies it (PTX manual, "cp.async.bulk.tensor").
//
// A tensor map, made by the host, says where a tensor lies and how large a box is. The copy fills what lies outside the
// tensor with zeros: tails need no code. Boxes here are kAtomColumns = 64 columns wide, 128 bytes a row, and come out
// swizzled: chunk c (16 bytes) of row r lies at place c ^ (r % 8), which is what wgmma expects and has no bank conflict.
// A tile of more columns is several such atoms, one behind the other.
#pragma once
#include <cuda.h>

#include "kernels/hopper/mbarrier.cuh"
#include "sim/schedule/hopper_rungs.h"

namespace flashscope::kernels {

__device__ __forceinline__ void prefetch(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Starts to copy the box whose first element is (column, row) of a head; its bytes arrive at `full`.
__device__ __forceinline__ void load_box(unsigned smem, const CUtensorMap* map, int column, int row, int head,
                                         Mbarrier full) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(smem),
      "l"(map), "r"(column), "r"(row), "r"(head), "r"(full.smem())
      : "memory");
}

}  // namespace flashscope::kernels
