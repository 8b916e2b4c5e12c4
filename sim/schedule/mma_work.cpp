#include "sim/schedule/mma_work.h"

#include <algorithm>

#include "sim/error.h"
#include "sim/schedule/fp8_rung.h"
#include "sim/schedule/hopper_rungs.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }
/// Straight-line arithmetic, as in fma_work.cpp.
int straight(int instructions) { return instructions * 7 / 5; }

constexpr int kWavefrontBytes = 128;
constexpr int kLdmatrixWavefronts = 4;  // four matrices of 8 × 8 two-byte elements: 512 B
constexpr int kPairs = 2;               // neighbouring elements that one thread holds of a row of 8 columns

/// One step of a product, 16 deep: the fragments of the next come while this one's are multiplied.
Stretch product_step(const MmaTile& tile, int a_loads, int converts, int element_bytes) {
  const int mma = ceil_div(tile.rows16 * tile.cols8 * element_bytes, 2);
  const int loads = ceil_div((a_loads + ceil_div(tile.cols8, 2)) * element_bytes, 2);
  const int n = loads + mma + converts;
  return {.instructions = n,
          .clocks = straight(n),
          .alu = converts,
          .mma = mma,
          .wavefronts = kLdmatrixWavefronts * loads,
          .prefetches = true};
}

/// Before the first step: its fragments are waited for.
Stretch first_fragments(const MmaTile& tile) {
  return {.instructions = 8 + tile.rows16, .clocks = 12 + 2 * tile.rows16, .alu = 6, .waits = 1};
}

}  // namespace

WarpWork mma_transposed_work(const MmaTile& tile, int depth, int element_bytes) {
  return WarpWork()
      .then(first_fragments(tile))
      .then(product_step(tile, tile.rows16, 0, element_bytes), ceil_div(depth, 16));
}

WarpWork mma_work(const MmaTile& tile, int depth, AFrom a, int element_bytes) {
  const int a_loads = a == AFrom::shared_memory ? tile.rows16 : 0;
  const int converts = a == AFrom::registers ? 4 * tile.rows16 : 0;  // two floats to one register
  return WarpWork()
      .then(first_fragments(tile))
      .then(product_step(tile, a_loads, converts, element_bytes), ceil_div(depth, 16));
}

WarpWork start_copy_work(const CopyShape& copy, int width, RowCheck check) {
  const int vectors = ceil_div(copy.rows * copy.cols, std::max(1, copy.vector) * std::max(1, copy.threads));
  WarpWork work;
  if (copy.cols == width && copy.vector > 1) {  // a thread's vectors lie a fixed distance apart, known to the compiler
    // Both as compiled: flash_v2_tensor's K and V; and all others, which work out addresses vector by vector (10 to 14
    // instructions), because each is under a condition of its own.
    const bool checks = check == RowCheck::each;
    work.then({.instructions = 10, .clocks = 24, .alu = 6, .waits = checks ? 2 : 0});
    if (checks) return work.then({.instructions = 12, .clocks = 19, .fma = 3, .alu = 7, .wavefronts = 4}, vectors);
    return work.then({.instructions = 3, .clocks = 6, .alu = 2, .wavefronts = 4}, vectors);
  }
  // Where a thread starts and its step: a division by a chain of conversions and a reciprocal. Then a loop, whose
  // address registers are waited for at each turn; three of its instructions do nothing, but the compiler has them
  // before a cp.async.
  work.then({.instructions = 59, .clocks = 197, .fma = 21, .alu = 28, .mufu = 3, .waits = 6});
  return work.then({.instructions = 26, .clocks = 60, .fma = 8, .alu = 13, .wavefronts = 4, .waits = 1}, vectors);
}

WarpWork round_work(const MmaTile& tile) {
  const int pairs = 2 * tile.rows16 * tile.cols8, n = 4 * pairs;
  return WarpWork().then({.instructions = n, .clocks = 2 * n, .fma = kPairs * pairs, .alu = pairs, .wavefronts = pairs});
}

WarpWork round_scores_work(const MmaTile& tile) {
  const int pairs = 2 * tile.rows16 * tile.cols8;  // two multiplications, a rounding, an address and a store
  return WarpWork()
      .then({.instructions = 30, .clocks = 80, .fma = 4, .alu = 18, .waits = 1})
      .then({.instructions = 7 * pairs, .clocks = 10 * pairs, .fma = 3 * pairs, .alu = 3 * pairs, .wavefronts = pairs});
}

MmaTile mma_scores_tile(const TileShape& tile) {
  return {std::max(1, ceil_div(tile.br, 16 * kMmaWarps)), ceil_div(tile.bc, 8)};
}
MmaTile mma_output_tile(const TileShape& tile, int width) {
  return {std::max(1, ceil_div(tile.br, 16 * kMmaWarps)), width / 8};
}

namespace {

/// A pass over all elements of a tile of which some are zeroed, an element a thread: a warp that has none goes by, and
/// one that has asks a special register where shared memory begins.
WarpWork zero_some_work(int elements, int with_some, int threads) {
  const int turns = ceil_div(elements, threads), storing = std::min(turns, ceil_div(with_some, threads));
  return WarpWork()
      .then({.instructions = 25, .clocks = 83, .fma = 4, .alu = 16, .wavefronts = 1, .waits = 1}, storing)
      .then({.instructions = 12, .clocks = 50, .fma = 2, .alu = 6}, turns - storing);
}

/// zero_columns(): those from `cols` on of all rows; a warp has 32 neighbours of a row, or whole rows.
WarpWork zero_right_work(int rows, int cols, int width, int threads) {
  return cols == width ? WarpWork()
                       : zero_some_work(rows * width, rows * (width - cols / kWarpSize * kWarpSize), threads);
}
/// zero_rows(): the rows from `rows` on.
WarpWork zero_below_work(int rows, int all, int width, int threads) {
  return rows == all ? WarpWork() : zero_some_work(all * width, (all - rows) * width, threads);
}

}  // namespace

WarpWork mma_load_work(const TileOp& op, const CopyShape& copy, int tile_rows, int width, RowCheck check) {
  WarpWork work = op.starts ? start_copy_work(copy, width, check) : copy_in_work(copy);
  return work.then(zero_below_work(copy.rows, tile_rows, width, copy.threads));
}

WarpWork zero_columns_work(const AttentionProblem& problem, int rows) {
  return zero_right_work(rows, problem.head_dim, fma_width(problem.head_dim), kMmaThreads);
}

WarpWork mma_warp_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy) {
  const TileShape& tile = schedule.tile();
  const int width = fma_width(schedule.problem().head_dim), element = element_bytes(schedule.problem().dtype);
  const MmaTile scores = mma_scores_tile(tile), output = mma_output_tile(tile, width);
  const int rows = 2 * scores.rows16;  // of a thread
  const int keys = kPairs * scores.cols8, cols = kPairs * output.cols8;
  switch (op.op) {
    case Op::load: {
      const Layout layout = layout_of(op.tensor);
      const int tile_cols = layout == Layout::scores ? tile.bc : width;
      WarpWork work = op.starts ? start_copy_work(copy, tile_cols, RowCheck::each) : copy_in_work(copy);
      const int tile_rows = layout == Layout::by_key ? tile.bc : tile.br;
      return work.then(zero_right_work(tile_rows, copy.cols, tile_cols, copy.threads))
          .then(zero_below_work(copy.rows, tile_rows, tile_cols, copy.threads));
    }
    case Op::store: {
      if (layout_of(op.tensor) == Layout::statistic) return copy_out_work(copy);
      const int vectors = ceil_div(copy.rows * copy.cols, std::max(1, copy.vector) * std::max(1, copy.threads));
      return WarpWork()
          .then({.instructions = 54, .clocks = 190, .fma = 20, .alu = 24, .mufu = 3, .waits = 5})
          .then({.instructions = 24, .clocks = 56, .fma = 7, .alu = 14, .wavefronts = 4, .waits = 1}, vectors);
    }
    case Op::scores: return mma_transposed_work(scores, width, element);
    case Op::weighted_sum: return mma_work(output, tile.bc, AFrom::registers, element);
    case Op::mask: {
      const int n = 12 * rows + 3 * rows * keys;
      return WarpWork().then({.instructions = n, .clocks = straight(n), .alu = n});
    }
    case Op::online_softmax: {
      WarpWork work;
      work.then({.instructions = rows * keys, .clocks = straight(rows * keys), .alu = rows * keys});  // row maxima
      work.then({.instructions = 2 * rows, .clocks = straight(2 * rows), .alu = rows, .wavefronts = rows, .waits = 1},
                2);  // over four lanes
      // The scale is part of the exponent: a multiply-add, an exponential and an addition an element. A vote of the warp
      // leaves acc as it is where no maximum moved, which is so after the first few tiles.
      const int n = rows * (3 * keys + 6) + 3;
      return work.then({.instructions = n,
                        .clocks = straight(n),
                        .fma = rows * (2 * keys + 3),
                        .alu = 2 * rows,
                        .mufu = rows * (keys + 1),
                        .waits = 1});
    }
    case Op::clear_state: return arithmetic_work(rows * cols);
    case Op::normalize: return round_work(output);
    case Op::log_sum_exp: return row_end_work(rows);
    case Op::barrier:
    case Op::wait: return {};
    default: break;
  }
  throw Error(ErrorKind::internal, std::string("mma_warp_work: ") + name_of(op.op) + " is no operation of these rungs");
}

namespace {

/// A product of a warpgroup, 16 deep a step: the warps issue and, unless it is left, wait. A fence before, a commit and a
/// wait after. The tensor cores read B from shared memory, once for all four warps, and A too unless warps hold it.
WarpWork wgmma_product(int cols, int depth, AFrom a, Product product, int element_bytes) {
  const int steps = ceil_div(depth, 16), n = 8 + 3 * steps;
  const int rows = cols + (a == AFrom::shared_memory ? kWarpgroupRows : 0);
  return WarpWork().then({.instructions = n,
                          .clocks = straight(n),
                          .wgmma = ceil_div(steps * ceil_div(cols, 8) * element_bytes, 2),
                          .product = product,
                          .wavefronts = ceil_div(rows * 16 * steps * element_bytes, 4 * kWavefrontBytes)});
}

/// TMA writes a tile, or reads it, beside all warps: each is given its share of the wavefronts.
WarpWork box_work(const TileOp& op, int consumers) {
  return WarpWork().then({.wavefronts = ceil_div(static_cast<int>(op.bytes), kWavefrontBytes * 4 * consumers)});
}

}  // namespace

WarpWork wgmma_warp_work(const Schedule& schedule, const TileOp& op) {
  return wgmma_warp_work(schedule, op, element_bytes(schedule.problem().dtype), Rescales::always);
}

WarpWork wgmma_warp_work(const Schedule& schedule, const TileOp& op, int element, Rescales rescales) {
  const TileShape& tile = schedule.tile();
  const int width = hopper_width(schedule.problem().head_dim);
  constexpr int kRows = 2;                                    // of a thread
  const int keys = kPairs * ceil_div(tile.bc, 8), cols = kPairs * width / 8;
  switch (op.op) {
    case Op::scores: return wgmma_product(tile.bc, width, AFrom::shared_memory, Product::waited, element);
    // Issued behind the scores of the next key tile, whose softmax does not wait for it.
    case Op::weighted_sum: return wgmma_product(width, tile.bc, AFrom::registers, Product::after_next, element);
    case Op::mask: {
      const int n = 12 * kRows + 3 * kRows * keys;
      return WarpWork().then({.instructions = n, .clocks = straight(n), .alu = n});
    }
    case Op::online_softmax: {
      const int all = kRows * keys;
      WarpWork work;
      work.then({.instructions = all, .clocks = straight(all), .alu = all});  // row maxima
      work.then({.instructions = 2 * kRows, .clocks = straight(2 * kRows), .alu = kRows, .wavefronts = kRows, .waits = 1},
                2);  // over four lanes
      // Multiply-add, exponential, sum; rounded in pairs; acc rescaled, or a vote on it. As flash_v3 is compiled a sum takes
      // three clocks and a rounding five; in flash_v3_fp8 a sum six, because fewer of them are under way, and a rounding two.
      const int rescaled = rescales == Rescales::always ? kRows * cols : 3;
      const int n = 3 * all + all / 2 + rescaled + 10 * kRows;
      const int spaced = element == 1 ? 5 * all + all / 2 : 2 * all + 4 * all / 2;
      return work.then({.instructions = n,
                        .clocks = n + spaced + 10 * kRows,
                        .fma = 2 * all + (rescales == Rescales::always ? rescaled : 0) + 4 * kRows,
                        .alu = all / 2 + 4 * kRows,
                        .mufu = all + kRows,
                        .waits = 1});
    }
    case Op::clear_state: return arithmetic_work(kRows * cols);
    case Op::normalize: return arithmetic_work(kRows * cols);
    case Op::log_sum_exp: return row_end_work(kRows);
    case Op::store: {
      if (layout_of(op.tensor) == Layout::statistic) return WarpWork().then({.instructions = 8, .clocks = 16, .alu = 4});
      // Rounded in pairs, exchanged among four lanes, written 16 bytes at a time.
      const int pairs = kRows * cols / 2, stores = ceil_div(pairs, 4);
      const int n = pairs + 4 * pairs + 6 * stores;
      return WarpWork().then(
          {.instructions = n, .clocks = straight(n), .alu = 4 * pairs, .wavefronts = pairs + 4 * stores, .waits = 1});
    }
    case Op::load:  // a warp of its own asks, and nobody copies
      return box_work(op, std::max(1, ceil_div(tile.br, kWarpgroupRows)));
    case Op::barrier:
    case Op::wait: return {};
    default: break;
  }
  throw Error(ErrorKind::internal, std::string("wgmma_warp_work: ") + name_of(op.op) + " is no operation of these rungs");
}

namespace {

/// What has been written to shared memory is to be seen by TMA and the tensor cores: all of it is waited for, and then
/// the fence itself.
WarpWork fence_work() { return WarpWork().then({.instructions = 3, .clocks = 14, .waits = 2}); }

}  // namespace

WarpWork wgmma_backward_work(const Schedule& schedule, const TileOp& op) {
  const TileShape& tile = schedule.tile();
  const int width = hopper_width(schedule.problem().head_dim), element = element_bytes(schedule.problem().dtype);
  constexpr int kRows = 2;                                             // keys of a thread
  const int queries = kPairs * ceil_div(tile.br, 8), all = kRows * queries;  // its columns of S; elements
  // dQ of a tile is shared out among the warpgroups: so many columns each, of 64 rows.
  const int consumers = std::max(1, ceil_div(tile.bc, kWarpgroupRows));
  const int dq_cols = std::max(8, ceil_div(tile.br * width, kWarpgroupRows * consumers)), dq = kRows * kPairs * dq_cols / 8;
  switch (op.op) {
    case Op::scores: return wgmma_product(tile.br, width, AFrom::shared_memory, Product::waited, element);
    case Op::d_probabilities:  // under the exponentials
      return wgmma_product(tile.br, width, AFrom::shared_memory, Product::with_last, element);
    case Op::gradient_sum:
      if (op.tensor == Tensor::dQ) return wgmma_product(dq_cols, tile.bc, AFrom::shared_memory, Product::waited, element);
      return wgmma_product(width, tile.br, AFrom::registers, Product::left, element);
    case Op::mask: {
      const int n = 12 * kRows + 3 * all;
      return WarpWork().then({.instructions = n, .clocks = straight(n), .alu = n});
    }
    case Op::probabilities: {  // LSE from shared memory, two a read; a multiply-add and an exponential; rounded in pairs
      const int reads = queries / kPairs, n = 2 * all + all / 2 + reads;
      return WarpWork().then({.instructions = n,
                              .clocks = straight(n),
                              .fma = all,
                              .alu = all / 2,
                              .mufu = all,
                              .wavefronts = reads,
                              .waits = 1});
    }
    case Op::d_scores: {  // D; a subtraction, a multiplication; rounded, and 8 × 8 matrices to shared memory, four a time
      const int reads = queries / kPairs, stores = ceil_div(all, 8), n = 2 * all + all / 2 + reads + 2 * stores;
      return WarpWork()
          .then({.instructions = n,
                 .clocks = straight(n),
                 .fma = 2 * all,
                 .alu = all / 2 + stores,
                 .wavefronts = reads + 4 * stores,
                 .waits = 2})
          .then(fence_work());
    }
    case Op::clear_gradient: return op.tensor == Tensor::dQ ? WarpWork() : arithmetic_work(kRows * kPairs * width / 8);
    case Op::row_dot: return wgmma_product(kWarpgroupRows, width, AFrom::shared_memory, Product::waited, element);
    case Op::store: {
      if (layout_of(op.tensor) == Layout::statistic) return WarpWork().then({.instructions = 8, .clocks = 16, .alu = 4});
      if (op.adds)  // into swizzled shared memory, two a store; a warp of its own does the rest
        // Rows r and r + 1 put their pairs into the same 16 bytes of banks: twice the wavefronts. Before that the warps
        // ask whether the place is free, and after it they say that it is taken.
        return WarpWork()
            .then({.instructions = dq, .clocks = straight(dq), .alu = dq / 2, .wavefronts = 2 * dq, .waits = 2})
            .then(fence_work())
            .then(box_work(op, consumers));
      return wgmma_warp_work(schedule, op);
    }
    case Op::load:  // a warp of its own asks, and nobody copies
      return box_work(op, consumers);
    case Op::barrier:
    case Op::wait: return {};
    default: break;
  }
  throw Error(ErrorKind::internal, std::string("wgmma_backward_work: ") + name_of(op.op) + " is no operation of this rung");
}

WarpWork quantize_warp_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy) {
  const int width = hopper_width(schedule.problem().head_dim), threads = std::max(1, copy.threads);
  switch (op.op) {
    case Op::load: {  // all of a thread's vectors at once, into registers; of V pairs, each asked whether its key
                      // exists
      const int vectors = ceil_div(copy.rows * copy.cols, std::max(1, copy.vector) * threads);
      const int n = 20 + (copy.vector == 2 ? 9 : 4) * vectors;
      return WarpWork().then({.instructions = n, .clocks = 2 * n, .fma = vectors, .alu = 10 + 2 * vectors, .waits = 1});
    }
    case Op::quantize: {
      const int pairs = ceil_div(op.rows * op.cols, 2 * threads);
      const Stretch over_cta{.instructions = 30, .clocks = 60, .alu = 12, .wavefronts = 4, .waits = 6};
      WarpWork work;
      if (op.tensor == Tensor::V_fp8) {
        work.then({.instructions = 2 * pairs, .clocks = straight(2 * pairs), .alu = 2 * pairs}).then(over_cta);
        // Widened, scaled, rounded; through shared memory, sixteen bytes at a time.
        const int n = 5 * pairs + pairs / 2, vectors = 2 * ceil_div(pairs, 8);
        return work.then({.instructions = n + vectors,
                          .clocks = 2 * n,
                          .fma = 4 * pairs,
                          .alu = pairs + pairs / 2,
                          .wavefronts = 4 * vectors,
                          .waits = 1});
      }
      // As compiled, of rows of 64 to 256 columns: what a thread does for a row, and for a pair of its columns. The
      // largest column, into fp16, signs, butterflies, of which two steps exchange with another lane.
      int stages = 0;
      while (1 << stages < width) ++stages;
      const int rows = ceil_div(op.rows * kRotateLanes, threads), lane_steps = 2;
      const int widened = schedule.problem().dtype == DType::bf16 ? 2 : 0;  // more, because bf16 goes through float32
      const int n = 20 * rows + (7 + stages + widened) * pairs;
      work.then({.instructions = n,
                 .clocks = n * 7 / 5,
                 .fma = (3 + stages + widened) * pairs,
                 .alu = 5 * pairs,
                 .wavefronts = lane_steps * (pairs + rows),
                 .waits = 2 * lane_steps});
      work.then(over_cta);
      // keep_column: moved, rounded, widened, the error summed up, in each round; then moved and rounded.
      const int k = 14 * rows + (3 + 8 * kKeepColumnRounds) * pairs;
      return work.then({.instructions = k,
                        .clocks = k * 7 / 5,
                        .fma = (2 + 3 * kKeepColumnRounds) * pairs,
                        .alu = 4 * rows + (2 + 5 * kKeepColumnRounds) * pairs,
                        .wavefronts = kKeepColumnRounds * lane_steps * rows,
                        .waits = kKeepColumnRounds * lane_steps});
    }
    case Op::store: {
      const int vectors = ceil_div(copy.rows * copy.cols, std::max(1, copy.vector) * threads);
      const int n = 10 + 4 * vectors;
      return WarpWork().then({.instructions = n, .clocks = 2 * n, .alu = 4 + vectors});
    }
    case Op::barrier:
    case Op::wait: return {};
    default: break;
  }
  throw Error(ErrorKind::internal, std::string("quantize_warp_work: ") + name_of(op.op) + " is no operation of this kernel");
}

namespace {

WarpWork repeated(const WarpWork& work, int times) {
  WarpWork all;
  for (int n = 0; n < times; ++n) all.then(work);
  return all;
}

/// A row a thread, into a register and from there to shared memory.
WarpWork start_statistic_work() {
  return WarpWork().then({.instructions = 20, .clocks = 50, .fma = 2, .alu = 12, .wavefronts = 1});
}

}  // namespace

WarpWork mma_backward_work(const Schedule& schedule, const TileOp& op, const CopyShape& copy,
                           const MmaBackwardShape& shape) {
  const int width = fma_width(schedule.problem().head_dim), element = element_bytes(schedule.problem().dtype);
  const int rows16 = std::max(1, ceil_div(shape.owned, 16 * kMmaWarps));
  const int chunk = std::min(shape.chunk, shape.streamed), chunks = ceil_div(shape.streamed, chunk);
  const MmaTile scores = {rows16, ceil_div(chunk, 8)}, gradient = {rows16, width / 8};
  const int rows = 2 * rows16, cols = kPairs * scores.cols8;  // of a thread, in a chunk
  // LSE and D of columns come from shared memory, two a read; those of rows stay in registers.
  const int reads = shape.owns_keys ? scores.cols8 : 0;
  switch (op.op) {
    case Op::load:
      if (layout_of(op.tensor) == Layout::statistic) return start_statistic_work();
      return mma_load_work(op, copy, layout_of(op.tensor) == Layout::by_key ? schedule.tile().bc : schedule.tile().br,
                           width, RowCheck::each);
    case Op::store: {
      const WarpWork work = mma_warp_work(schedule, op, copy);
      return layout_of(op.tensor) == Layout::statistic ? work : round_work(gradient).then(work);
    }
    case Op::row_dot:  // O and dO
      return repeated(mma_transposed_work({1, 2}, width, element), rows16)
          .then(zero_columns_work(schedule.problem(), 2 * shape.owned));
    case Op::clear_gradient:
      return arithmetic_work(rows * kPairs * gradient.cols8)
          .then(zero_columns_work(schedule.problem(), 2 * shape.owned + 2 * shape.stages * shape.streamed));
    case Op::scores:
    case Op::d_probabilities: return repeated(mma_transposed_work(scores, width, element), chunks);
    case Op::mask: {
      const int n = 12 * rows + 3 * rows * cols;
      return WarpWork().then({.instructions = n, .clocks = straight(n), .alu = n}, chunks);
    }
    case Op::probabilities: {  // a multiply-add, a multiplication and an exponential an element
      const int n = 3 * rows * cols + reads;
      return WarpWork().then({.instructions = n,
                              .clocks = straight(n),
                              .fma = 2 * rows * cols,
                              .mufu = rows * cols,
                              .wavefronts = reads,
                              .waits = 1},
                             chunks);
    }
    case Op::d_scores: {  // a subtraction and a multiplication
      const int n = 2 * rows * cols + reads;
      return WarpWork().then({.instructions = n,
                              .clocks = straight(n),
                              .fma = 2 * rows * cols,
                              .wavefronts = reads,
                              .waits = reads > 0 ? 1 : 0},
                             chunks);
    }
    case Op::gradient_sum: return repeated(mma_work(gradient, chunk, AFrom::registers, element), chunks);
    case Op::barrier:
    case Op::wait: return {};
    default: break;
  }
  throw Error(ErrorKind::internal, std::string("mma_backward_work: ") + name_of(op.op) + " is no operation of these kernels");
}

}  // namespace flashscope
