// The observer that each rung is compiled with. NoObserver costs nothing and is what runs and is timed; OpLog writes
// down every tile operation, and a test compares that with the schedule.
#pragma once
#include <type_traits>

#include "kernels/common/log_record.h"
#include "sim/schedule/op.h"
#include "sim/schedule/walk.h"

namespace flashscope::kernels {

/// A rectangle of one head of a row-major tensor in global memory.
template <class T>
struct GlobalTile {
  Tensor tensor;
  T* base;  // of the whole tensor
  int head, tensor_rows, row_elements;  // row_elements: from one row to the next, in elements
  Range rows, cols;

  __device__ int num_rows() const { return rows.end - rows.begin; }
  __device__ int num_cols() const { return cols.end - cols.begin; }
  __device__ std::int64_t first() const {
    return (static_cast<std::int64_t>(head) * tensor_rows + rows.begin) * row_elements + cols.begin;
  }
  __device__ std::int64_t bytes() const { return static_cast<std::int64_t>(num_rows()) * num_cols() * sizeof(T); }
};

struct NoObserver {
  __device__ void at(unsigned /*cta*/, int /*sequence*/, int /*thread*/) {}
  template <class T>
  __device__ void load(const GlobalTile<T>&, std::int64_t /*times*/ = 1, int /*heads*/ = 1) {}
  template <class T>
  __device__ void store(const GlobalTile<T>&) {}
  __device__ void compute(Op, int /*head*/, Range /*rows*/, Range /*cols*/, int /*depth*/ = 0, Tensor = Tensor::Q,
                          int /*heads*/ = 1) {}
};

/// Thread 0 of each CTA appends; records of different CTAs mix in the buffer and are sorted by (cta, sequence)
/// afterwards. `heads`: from that of the tile, or `head`, on; the region is in each of them.
struct OpLog {
  OpRecord* records;
  unsigned long long* count;  // may pass `capacity`: what was dropped is then known
  unsigned long long capacity;
  int sequence = 0;
  int thread = 0;      // that writes, of the CTA
  unsigned cta = ~0u;  // that is written down; ~0: the running one

  /// Where warps work side by side, or a CTA does the work of several: what follows is of `cta` of the schedule, is
  /// numbered from `sequence` on, and is written by `thread_`.
  __device__ void at(unsigned cta_, int sequence_, int thread_) {
    cta = cta_;
    sequence = sequence_;
    thread = thread_;
  }

  template <class T>
  __device__ void load(const GlobalTile<T>& t, std::int64_t times = 1, int heads = 1) {
    append({Op::load, t.tensor, 0, 0, t.head, t.rows.begin, t.num_rows(), t.cols.begin, t.num_cols(), 0,
            times * heads * t.bytes(), heads});
  }
  template <class T>
  __device__ void store(const GlobalTile<T>& t) {
    append({Op::store, t.tensor, 0, 0, t.head, t.rows.begin, t.num_rows(), t.cols.begin, t.num_cols(), 0, t.bytes(), 1});
  }
  /// `tensor` as in TileOp: of operations that are about one.
  __device__ void compute(Op op, int head, Range rows, Range cols, int depth = 0, Tensor tensor = Tensor::Q,
                          int heads = 1) {
    append({op, tensor, 0, 0, head, rows.begin, rows.end - rows.begin, cols.begin, cols.end - cols.begin, depth, 0,
            heads});
  }

 private:
  __device__ void append(OpRecord record) {
    if (threadIdx.x != static_cast<unsigned>(thread)) return;
    record.cta = cta == ~0u ? blockIdx.x : cta;
    record.sequence = sequence++;
    const unsigned long long slot = atomicAdd(count, 1ull);
    if (slot < capacity) records[slot] = record;
  }
};

/// Registers that a rung may use: what its schedule says, or 64 at least and freely above where it keeps a log.
template <class Observer>
__host__ __device__ constexpr int bound(int registers) {
  return std::is_same_v<Observer, NoObserver> ? registers : registers <= 64 ? 64 : 255;
}

}  // namespace flashscope::kernels
