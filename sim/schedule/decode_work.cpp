#include "sim/schedule/decode_work.h"

#include <algorithm>
#include <string>

#include "sim/error.h"
#include "sim/schedule/decode_rung.h"
#include "sim/schedule/mma_work.h"

namespace flashscope {
namespace {

/// What takes no instructions worth counting; anything else has been forgotten.
WarpWork no_work(const TileOp& op) {
  if (op.op == Op::barrier || op.op == Op::wait) return {};
  throw Error(ErrorKind::internal, std::string("split_kv: no work is written down for ") + name_of(op.op));
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Wavefronts of one shared-memory instruction of a warp, 128 bytes each.
constexpr int kVectors = 4;    // 16 bytes on each of 32 lanes
constexpr int kBroadcast = 1;  // the same 16 bytes for all lanes

/// What is the same for both kinds of units.
struct Shape {
  explicit Shape(const Schedule& schedule, const TileOp& op)
      : br(schedule.tile().br),
        bc(schedule.tile().bc),
        width(fma_width(schedule.problem().head_dim)),
        rows(op.heads * br) {}
  int br, bc, width;
  int rows;  // of the query tile, those of all heads
};

/// Sixteen rows; each warp has its own keys, sixteen at a time.
WarpWork tensor_core_work(const Shape& s, const TileOp& op) {
  const int sixteens = ceil_div(s.bc, 16 * kDecodeWarps);          // of keys a warp
  const int rows = 2, keys = 4 * sixteens, columns = s.width / 4;  // of a thread
  switch (op.op) {
    case Op::scores: return mma_transposed_work({1, 2 * sixteens}, s.width, 2);
    case Op::mask:  // each row's query, by a division, and what it keeps
      return WarpWork().then({.instructions = 62 + 3 * keys,
                              .clocks = 155 + 9 * keys,
                              .fma = 18,
                              .alu = 40 + 2 * keys,
                              .mufu = 3,
                              .waits = 5},
                             rows);
    case Op::online_softmax: {
      WarpWork work;  // maxima over four lanes, then a subtraction, a multiplication and an exponential a score
      work.then({.instructions = 2 * rows, .clocks = 3 * rows, .alu = rows, .wavefronts = rows, .waits = 1}, 2);
      const int n = rows * (5 * keys + columns + 12);
      return work.then({.instructions = n,
                        .clocks = n * 7 / 5,
                        .fma = rows * (3 * keys + columns + 2),
                        .alu = rows * (keys + 4),
                        .mufu = rows * (keys + 1),
                        .waits = 1});
    }
    case Op::weighted_sum: return mma_work({1, s.width / 8}, 16 * sixteens, AFrom::registers, 2);
    case Op::clear_state: return arithmetic_work(rows * columns);
    case Op::normalize: {
      // The warps' O are added up, one warp after the other: each multiplies, reads and writes all rows while the
      // others wait for it.
      const Stretch turn = {.instructions = rows * (18 * columns / 5 + 44),
                            .clocks = rows * (5 * columns + 140),
                            .fma = 2 * rows * columns,
                            .alu = 20 * rows,
                            .mufu = 2 * rows,
                            .wavefronts = 2 * rows * columns,
                            .waits = 5 * rows};
      constexpr int kOthers = kDecodeWarps - 1;
      return WarpWork().then(turn).then({.clocks = kOthers * turn.clocks, .waits = kOthers * turn.waits});
    }
    case Op::log_sum_exp: return row_end_work(rows);
    default: return no_work(op);
  }
}

/// Each warp has four rows and all keys, a key a lane; warps without rows rest.
WarpWork fma_unit_work(const Shape& s, const TileOp& op) {
  constexpr int kRows = kDecodeRows / kDecodeWarps;
  const int keys = ceil_div(s.bc, kWarpSize), columns = std::max(1, s.width / kWarpSize);  // of a lane
  const int vectors = ceil_div(columns, 4);
  const auto share = [&](int n) { return ceil_div(n * std::min(s.rows, kDecodeRows), kDecodeRows); };  // of all warps
  switch (op.op) {
    case Op::scores:  // a step: four columns
      return WarpWork().then({.instructions = keys + kRows + 4 * kRows * keys + 3,
                              .clocks = keys + kRows + 4 * kRows * keys + 20,
                              .fma = 4 * kRows * keys,
                              .wavefronts = kVectors * keys + kBroadcast * kRows,
                              .waits = 1},
                             share(s.width / 4));
    case Op::mask:
      return WarpWork().then(
          {.instructions = 30 + 3 * keys, .clocks = 85 + 5 * keys, .fma = 3, .alu = 22 + 2 * keys, .waits = 1}, kRows);
    case Op::online_softmax:
      // Row after row, as compiled: the shuffles of one (five, each after the other) do not wait beside those of the
      // next.
      return WarpWork().then({.instructions = 26 + 7 * keys + columns,
                              .clocks = 90 + 20 * keys + 2 * columns,
                              .fma = 4 + 6 * keys + columns,
                              .alu = 7 + keys,
                              .mufu = 1 + keys,
                              .wavefronts = 5 + keys,
                              .waits = 7},
                             kRows);
    case Op::weighted_sum:  // a step: four keys
      return WarpWork().then({.instructions = 4 * vectors + kRows + 4 * kRows * columns + 3,
                              .clocks = 4 * vectors + kRows + 4 * kRows * columns + 18,
                              .fma = 4 * kRows * columns,
                              .wavefronts = 4 * std::min(kVectors, columns) * vectors + kBroadcast * kRows,
                              .waits = 1},
                             share(ceil_div(s.bc, 4)));
    case Op::clear_state: return arithmetic_work(kRows * columns);
    case Op::normalize: return arithmetic_work(kRows * columns).then(stage_work(kRows, columns));
    case Op::log_sum_exp: return row_end_work(kRows);
    default: return no_work(op);
  }
}

}  // namespace

WarpWork split_kv_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy) {
  const Shape shape(schedule, op);
  const bool tensor_cores = decode_on_tensor_cores(element_bytes(schedule.problem().dtype));
  switch (op.op) {
    case Op::load: {
      WarpWork work;
      if (op.tensor == Tensor::block_table)  // an entry a thread, then into shared memory
        return work.then({.instructions = 12, .clocks = 24, .alu = 6, .wavefronts = 1});
      for (int head = 0; head < op.heads; ++head)
        work.then(op.starts ? start_copy_work(copy, shape.width, RowCheck::each) : copy_in_work(copy));
      if (op.tensor == Tensor::Q) return work.then(zero_rest_work(copy, kDecodeRows, shape.width));
      if (schedule.tile().page_size > 0) {  // each vector's page out of shared memory, and its row there
        const int vectors = ceil_div(copy.rows * ceil_div(copy.cols, copy.vector), copy.threads);
        if (op.starts) {
          work.then({.instructions = 8, .clocks = 16, .alu = 6, .wavefronts = 1, .waits = 1}, vectors);
        } else {  // as compiled each is also waited for before the next
          work = WarpWork()
                     .then({.instructions = 59, .clocks = 197, .fma = 21, .alu = 28, .mufu = 3, .waits = 6})
                     .then({.instructions = 40, .clocks = 116, .fma = 12, .alu = 18, .wavefronts = 5, .waits = 2},
                           vectors);
          work.round_trips = vectors;
        }
      }
      // At 256 columns a thread has sixteen vectors of a tile and the compiler branches around each.
      if (tensor_cores && op.tensor != Tensor::Q && shape.width >= 256 && copy.cols == shape.width) {
        const int vectors = ceil_div(copy.rows * copy.cols, copy.vector * copy.threads);
        work.then({.instructions = 17, .clocks = 40, .fma = 5, .alu = 10, .waits = 2}, vectors);
      }
      // Half of what the loop executes around its copies and products: the next tile's rows, and whether some are
      // missing.
      if (tensor_cores) work.then({.instructions = 28, .clocks = 80, .fma = 8, .alu = 16, .waits = 1});
      const int cols = tensor_cores ? copy.cols : shape.width;  // there the columns have been zero since the start
      return work.then(zero_rest_work(copy, shape.bc, cols));
    }
    case Op::store: return copy_out_work(copy);
    default: return tensor_cores ? tensor_core_work(shape, op) : fma_unit_work(shape, op);
  }
}

WarpWork combine_work(const Schedule& schedule, const TileOp& op) {
  const int splits = schedule.tile().splits, head_dim = schedule.problem().head_dim;
  switch (op.op) {
    case Op::load: {
      // LSE: a split a thread; then maximum and weights. O: each warp has every fourth split, eight in flight.
      const bool is_statistic = op.tensor == Tensor::LSE_split;
      const int n = op.rows * (is_statistic ? ceil_div(splits, kDecodeThreads)
                                            : ceil_div(splits, kDecodeWarps) * ceil_div(head_dim, 4 * kWarpSize));
      WarpWork work;
      work.round_trips = std::max(1, is_statistic ? n : ceil_div(n, 8));
      return work.then({.instructions = 12, .clocks = 24, .alu = 6, .wavefronts = is_statistic ? 1 : 0}, n);
    }
    case Op::combine: {
      const int n = op.rows * ceil_div(splits, kDecodeWarps) * ceil_div(head_dim, kWarpSize);
      return arithmetic_work(std::min(n, 1 << 20)).then(row_end_work(op.rows));
    }
    case Op::normalize: return arithmetic_work(op.rows * ceil_div(head_dim, kDecodeThreads)).then(row_end_work(op.rows));
    case Op::log_sum_exp: return row_end_work(op.rows);
    case Op::store: return WarpWork().then({.instructions = 20, .clocks = 60, .alu = 10}, op.rows);
    default: return no_work(op);
  }
}

}  // namespace flashscope
