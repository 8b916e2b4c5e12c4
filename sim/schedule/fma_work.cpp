#include "sim/schedule/fma_work.h"

#include <algorithm>

#include "sim/schedule/fma_rungs.h"

namespace flashscope {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Wavefronts of one shared-memory instruction. 128 bytes a pass, quarter warp by quarter warp for 16-byte lanes; equal
// addresses are served together within half a warp, not across halves (Nsight Compute on an H100: forum thread 373160).
constexpr int kOperandOfRow = 2;     // LDS.128, one address in each half: a row of A, the same for sixteen lanes
constexpr int kOperandOfColumn = 4;  // LDS.128, sixteen addresses, the same in both halves
constexpr int kOperandPair = 2;      // LDS.64 likewise

/// Loop control and addresses of an iteration of either product.
constexpr int kLoopInstructions = 7, kLoopClocks = 10;
/// From one LDS to the next.
constexpr int kLoadIssueClocks = 4;

/// Reads from the busier register bank for n multiply-adds of one row of a thread's tile. An operand that the next
/// instruction uses again stays in the operand cache; the wider the row, the more of them do. Median over the compiled
/// products of all rungs and dtypes; they lie within 10 %.
int bank_reads(int n, int cols) {
  const int per_64 = cols >= 8 ? 75 : cols >= 4 ? 83 : 93;
  return ceil_div(n * per_64, 64);
}

/// Straight-line arithmetic: the compiler's stall counts add up to about 1.4 clocks an instruction.
int straight(int instructions) { return instructions * 7 / 5; }

/// e^x from a base-2 exponential that takes denormal results: multiply, compare, two scalings, MUFU; and the
/// subtraction before it.
constexpr int kExpFma = 4, kExpAlu = 1, kExpMufu = 1, kExpInstructions = 6;

int vectors_per_thread(const CopyShape& copy) {
  return ceil_div(ceil_div(copy.rows * copy.cols, std::max(1, copy.vector)), std::max(1, copy.threads));
}

}  // namespace

WarpWork product_transposed_work(int rows, int cols, int depth) {
  // Four columns of A and B. The first operands come, then the others; the first row's multiply-adds start when the
  // first are there. From then on a row's operands come while the row before the last is multiplied.
  Phase step;
  step.stretches.push_back({.instructions = kLoopInstructions + 2,
                            .clocks = kLoopClocks + kLoadIssueClocks * 2,
                            .wavefronts = kOperandOfColumn + kOperandOfRow,
                            .prefetches = true});
  const int others = cols - 1 + (rows > 1 ? 1 : 0);
  step.stretches.push_back({.instructions = others,
                            .clocks = kLoadIssueClocks * others,
                            .wavefronts = kOperandOfColumn * (cols - 1) + kOperandOfRow * (rows > 1 ? 1 : 0),
                            .prefetches = true});
  step.stretches.push_back({.instructions = 4, .clocks = 4, .fma = 4, .bank_reads = bank_reads(4, cols)});
  for (int r = 0; r < rows; ++r) {
    const int n = 4 * (r == 0 ? cols - 1 : cols), load = r + 2 < rows ? 1 : 0;
    if (n == 0) continue;
    step.stretches.push_back({.instructions = n + load,
                              .clocks = n + load,
                              .fma = n,
                              .bank_reads = bank_reads(n, cols),
                              .wavefronts = kOperandOfRow * load,
                              .prefetches = true});
  }
  step.times = ceil_div(depth, 4);
  return {{step}, 1};
}

WarpWork product_work(int rows, int cols, int depth) {
  const int vector = std::min(4, cols), loads = ceil_div(cols, vector);
  const int column_wavefronts = (vector == 4 ? kOperandOfColumn : kOperandPair) * loads;
  Phase step;  // four columns of A, four rows of B: the first of each are waited for, the rest come meanwhile
  const int first_rows = std::min(2, rows);
  step.stretches.push_back({.instructions = kLoopInstructions + first_rows + loads,
                            .clocks = kLoopClocks + kLoadIssueClocks * (first_rows + loads),
                            .wavefronts = kOperandOfRow * first_rows + column_wavefronts,
                            .waits = 1});
  for (int k = 0; k < 4; ++k) {
    const int n = rows * cols, more = k == 0 ? rows - first_rows : 0, next = k < 3 ? loads : 0;
    step.stretches.push_back({.instructions = n + more + next,
                              .clocks = n + more + next,
                              .fma = n,
                              .bank_reads = bank_reads(n, cols),
                              .wavefronts = kOperandOfRow * more + (k < 3 ? column_wavefronts : 0),
                              .prefetches = true});
  }
  step.times = ceil_div(depth, 4);
  return {{step}, 1};
}

WarpWork product_down_work(int rows, int cols, int depth) {
  // Two rows of A and B an iteration. The lanes of a warp have two columns of A, which lie side by side: a wavefront.
  const int vector = std::min(4, cols), loads = ceil_div(cols, vector);
  const int b_wavefronts = (vector == 4 ? kOperandOfColumn : kOperandPair) * loads;
  const int n = 2 * rows * cols, reads = 2 * (loads + rows), instructions = n + reads + 5;
  return WarpWork().then({.instructions = instructions,
                          .clocks = instructions + 2 * reads,
                          .fma = n,
                          .bank_reads = bank_reads(n, cols),
                          .wavefronts = 2 * (b_wavefronts + rows),
                          .waits = 1},
                         ceil_div(depth, 2));
}

WarpWork arithmetic_work(int n) { return WarpWork().then({.instructions = n, .clocks = straight(n), .fma = n}); }

WarpWork mask_work(int rows, int cols) {
  // A row's first and last kept key, then two comparisons and a selection an element.
  const int n = 12 * rows + 4 * rows * cols;
  return WarpWork().then({.instructions = n, .clocks = 2 * n, .alu = n});
}

WarpWork online_softmax_work(int rows, int keys, int acc_cols) {
  WarpWork work;
  work.then({.instructions = rows * keys, .clocks = straight(rows * keys), .alu = rows * keys});  // row maxima
  // Over sixteen lanes: four shuffles, all rows side by side.
  work.then({.instructions = 2 * rows, .clocks = straight(2 * rows), .alu = rows, .wavefronts = rows, .waits = 1}, 4);
  const int exps = keys + 1;  // and the rescale
  const int n = rows * (exps * kExpInstructions + keys + acc_cols + 2);
  work.then({.instructions = n,
             .clocks = straight(n),
             .fma = rows * (exps * kExpFma + keys + acc_cols),
             .alu = rows * (exps * kExpAlu + 2),
             .mufu = rows * exps * kExpMufu,
             .waits = 1});
  return work.then(stage_scores_work(rows, keys));
}

WarpWork probabilities_work(int rows, int keys) {
  const int n = rows * keys;
  return WarpWork().then({.instructions = n * kExpInstructions,
                          .clocks = straight(n * kExpInstructions),
                          .fma = n * kExpFma,
                          .alu = n * kExpAlu,
                          .mufu = n * kExpMufu,
                          .waits = 1});
}

WarpWork row_dot_work(int rows, int depth, int threads) {
  // Each addition waits for the one before. Where there are fewer rows than threads some warps have nothing to do: each
  // is given its share.
  constexpr int kDependentClocks = 4;
  return WarpWork().then({.instructions = 4 + 2 + kLoopInstructions,
                          .clocks = 4 * kDependentClocks + kLoopClocks,
                          .fma = 4,
                          .wavefronts = 2 * kOperandOfColumn,
                          .waits = 1},
                         ceil_div(ceil_div(depth, 4) * rows, threads));
}

WarpWork online_softmax_by_row_work(int rows, int keys, int acc_cols) {
  const int exps = keys + 1;
  const int n = exps * kExpInstructions + 2 * keys + acc_cols + 30;
  WarpWork work;
  // m and l read, four shuffles, exponential, four shuffles, reciprocal: each waits for the one before.
  work.then({.instructions = n,
             .clocks = 3 * n,
             .fma = exps * kExpFma + keys + acc_cols + 6,
             .alu = exps * kExpAlu + keys + 14,
             .mufu = exps + 1,
             .wavefronts = 12,
             .waits = 11},
            rows);
  return work.then(stage_scores_work(rows, keys));
}

WarpWork stage_work(int rows, int cols) {
  const int n = ceil_div(rows * cols, 4);
  return WarpWork().then({.instructions = n, .clocks = kLoadIssueClocks * n, .wavefronts = 4 * n});
}

WarpWork stage_scores_work(int rows, int cols) {
  const int n = rows * cols;  // the two rows of a warp's lanes meet in twelve banks
  return WarpWork().then({.instructions = n, .clocks = kLoadIssueClocks * n, .wavefronts = 2 * n});
}

WarpWork row_end_work(int rows) {
  return WarpWork().then(
      {.instructions = 50, .clocks = 150, .fma = 24, .alu = 14, .mufu = 1, .wavefronts = 4, .waits = 5}, rows);
}

namespace {

/// Where a thread starts in a tile, and its step: two divisions of run-time integers.
constexpr Stretch kCursor = {.instructions = 54, .clocks = 150, .alu = 30, .mufu = 3, .waits = 3};

}  // namespace

WarpWork copy_in_work(const CopyShape& copy) {
  const int batches = ceil_div(vectors_per_thread(copy), 4);  // kBatch
  const bool widens = copy.vector > 4;
  WarpWork work;
  work.round_trips = std::max(1, batches);
  work.then(kCursor);
  // Addresses of four vectors; then they are converted and stored. Lanes of eight floats meet in pairs.
  const int stored = copy.vector == 1 ? 4 : widens ? 8 * 8 : 4 * 4;
  work.then({.instructions = widens ? 206 : 133,
             .clocks = widens ? 440 : 286,
             .fma = widens ? 57 : 41,
             .alu = widens ? 110 : 72,
             .wavefronts = stored},
            batches);
  return work;
}

WarpWork zeroing_work(int elements, int threads) {
  // Where shared memory begins is asked of a special register each time, and waited for.
  return WarpWork().then({.instructions = 16, .clocks = 61, .fma = 3, .alu = 11, .wavefronts = 1, .waits = 1},
                         ceil_div(elements, std::max(1, threads)));
}

WarpWork zero_rest_work(const CopyShape& copy, int rows, int cols) {
  return copy.rows == rows && copy.cols == cols ? WarpWork() : zeroing_work(rows * cols, copy.threads);
}

WarpWork copy_out_work(const CopyShape& copy) {
  WarpWork work;
  work.then(kCursor);
  // Read element by element, lanes a vector apart: as many lanes to a bank as the vector is long.
  work.then({.instructions = 18 + copy.vector * 3 / 2,
             .clocks = 55 + 2 * copy.vector,
             .fma = 6,
             .alu = 10 + copy.vector / 2,
             .wavefronts = copy.vector * copy.vector,
             .waits = 1},
            vectors_per_thread(copy));
  return work;
}

namespace {

/// n exponentials, each with the arithmetic around it.
Stretch exponentials(int n) {
  return {.instructions = n * (kExpInstructions + 2),
          .clocks = 2 * n * (kExpInstructions + 2),
          .fma = n * (kExpFma + 1),
          .alu = n * kExpAlu,
          .mufu = n * kExpMufu,
          .waits = 1};
}

/// A warp's share of the rows of one operation of the softmax pass.
struct WarpShare {
  explicit WarpShare(const SoftmaxRows& r)
      : vector(kVectorBytes / r.element_bytes), row_warps(softmax_warps(r.keys, r.element_bytes)) {
    fits = row_warps > 0;
    if (!fits) row_warps = kSoftmaxThreads / kWarpSize;
    rows = ceil_div(r.rows, kSoftmaxThreads / kWarpSize / row_warps);
    vectors = ceil_div(score_pitch(r.keys, r.element_bytes), vector * kWarpSize * row_warps);
  }
  int vector, row_warps;     // elements; warps of a row
  int rows = 0, vectors = 0;  // its rows, one after the other, and of each so many vectors a lane
  bool fits = false;
};

}  // namespace

WarpWork softmax_read_work(const SoftmaxRows& rows) {
  const WarpShare share(rows);
  WarpWork work;
  // Also of a row that fits each vector is waited for before the next is asked for. The source asks for all, but what
  // puts -inf behind the last key touches a vector as soon as it has come, and the compiler leaves that between two
  // loads: of the eight LDG of the compiled kernel each is followed by an instruction that waits for it.
  work.round_trips = share.rows * share.vectors;
  work.then({.instructions = 40, .clocks = 90, .alu = 25}, share.rows);
  return work.then({.instructions = 24, .clocks = 95, .fma = 4, .alu = 13}, share.rows * share.vectors);
}

WarpWork softmax_rows_work(const SoftmaxRows& rows) {
  const WarpShare share(rows);
  const int v = share.vector;
  WarpWork work;
  work.then({.instructions = 2 * v + 5, .clocks = 5 * v + 7, .fma = v / 2, .alu = 3 * v / 2},
            share.rows * share.vectors);                                        // widened; maximum
  work.then(exponentials(share.fits ? v : v + 1), share.rows * share.vectors);  // a long row rescales its sum
  for (int reduction = 0; reduction < 2; ++reduction) {                         // over the warp; over the warps of a row
    work.then({.instructions = 10, .clocks = 30, .alu = 5, .wavefronts = 5, .waits = 5}, share.rows);
    if (share.row_warps > 1)
      work.then({.instructions = 8 + 2 * share.row_warps,
                 .clocks = 60 + 4 * share.row_warps,
                 .alu = share.row_warps,
                 .wavefronts = 1 + share.row_warps,
                 .waits = 2},
                share.rows);
  }
  return work.then({.instructions = 60, .clocks = 150, .fma = 20, .alu = 20, .mufu = 2, .wavefronts = 1, .waits = 2},
                   share.rows);
}

WarpWork softmax_write_work(const SoftmaxRows& rows) {
  const WarpShare share(rows);
  const int v = share.vector;
  Stretch s = exponentials(v);  // computed again: they would need twice the registers that the scores do
  s.instructions += 8 + 2 * v;
  s.clocks += 16 + 4 * v;
  s.fma += v;
  s.alu += 5 + v;
  WarpWork work;
  return work.then(s, share.rows * share.vectors);
}

namespace {

/// Turns of a CTA over its rows, a vector a thread.
int d_softmax_turns(const SoftmaxRows& r) {
  return r.rows * ceil_div(score_pitch(r.keys, r.element_bytes) * r.element_bytes, kVectorBytes * kSoftmaxThreads);
}

}  // namespace

// Counts as three_pass_backward_ds is compiled for bf16, and for vectors of four as its parts are.
WarpWork d_softmax_read_work(const SoftmaxRows& rows) {
  const int v = kVectorBytes / rows.element_bytes, turns = d_softmax_turns(rows);
  WarpWork work;
  work.round_trips = turns;
  const bool keeps = d_softmax_rows_fit(rows.keys);  // in shared memory, for the second loop
  return work.then({.instructions = 28 + 6 * v,
                    .clocks = 49 + 9 * v,
                    .fma = 5 + 2 * v,
                    .alu = 20 + 3 * v,
                    .wavefronts = keeps ? 2 * v : 0},
                   turns);
}

WarpWork d_softmax_dot_work(const SoftmaxRows& rows) {  // over the warp, over the warps; and the row's addresses
  return WarpWork().then({.instructions = 78, .clocks = 240, .fma = 18, .alu = 40, .wavefronts = 14, .waits = 9},
                         rows.rows);
}

WarpWork d_softmax_rows_work(const SoftmaxRows& rows) {
  const int v = kVectorBytes / rows.element_bytes;
  const bool kept = d_softmax_rows_fit(rows.keys);
  return WarpWork().then({.instructions = 38 + 7 * v,
                          .clocks = 76 + 12 * v,
                          .fma = 8 + 3 * v,
                          .alu = 22 + 2 * v,
                          .wavefronts = kept ? 2 * v : 0,
                          .waits = kept ? 1 : 0},
                         d_softmax_turns(rows));
}

WarpWork naive_product_work(int steps, int unroll) {
  WarpWork work;
  work.round_trips = std::max(1, ceil_div(steps, unroll));
  const int n = unroll == 4 ? 47 : 35, clocks = unroll == 4 ? 138 : 76;
  return work.then({.instructions = n, .clocks = clocks, .fma = unroll * 3, .alu = unroll == 4 ? 24 : 22},
                   ceil_div(steps, unroll));
}

WarpWork naive_scan_work(int keys, bool exponentials) {
  const int sweeps = ceil_div(ceil_div(keys, kWarpSize), 4);
  WarpWork work;
  work.round_trips = std::max(1, sweeps);
  return work.then({.instructions = exponentials ? 60 : 35,
                    .clocks = exponentials ? 126 : 79,
                    .fma = exponentials ? 23 : 3,
                    .alu = exponentials ? 26 : 25,
                    .mufu = exponentials ? 4 : 0,
                    .waits = exponentials ? 1 : 0},
                   sweeps);
}

WarpWork prologue_work() {
  return WarpWork().then({.instructions = 250, .clocks = 560, .fma = 60, .alu = 110, .mufu = 9, .waits = 9});
}

}  // namespace flashscope
