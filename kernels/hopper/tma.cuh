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

/// Starts to add a box in shared memory to a tensor of float32, element by element, in L2; what lies outside the tensor is
/// left out. What the threads of the CTA wrote there must have passed fence_for_copies() and a barrier.
__device__ __forceinline__ void add_box(const CUtensorMap* map, unsigned smem, int column, int row, int head) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
               "r"(column), "r"(row), "r"(head), "r"(smem)
               : "memory");
}
/// What this thread has started to add since the last call is a group.
__device__ __forceinline__ void commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until all groups have been read from shared memory; until they have been added.
__device__ __forceinline__ void wait_for_boxes_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wait_for_boxes_added() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// What this thread has written to shared memory may be read by copies and by the tensor cores, after a barrier.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace flashscope::kernels
