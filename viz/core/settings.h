// What the user chose: the problem, the two algorithms, the GPU. A value; everything the window computes is a function
// of it. Every number passes clamp() before anything uses it.
#pragma once
#include <array>
#include <string>

#include "sim/engine/engine.h"
#include "sim/problem.h"
#include "sim/schedule/schedule.h"

namespace flashscope::viz {

struct Settings {
  AttentionProblem problem;  // the default problem of the command line
  TileShape tile{64, 64, 1};
  std::array<std::string, 2> algorithms = {"three_pass", "flash_v2"};
  std::string gpu = "nvidia-h200";
  Start start = Start::cold;
  int stage_seqlen = 1024;  // the stage draws a problem of at most this many rows and keys

  bool operator==(const Settings&) const = default;
};

/// Inclusive range of a control.
struct IntRange {
  int lo = 0, hi = 0;
};
inline constexpr IntRange kSeqlenRange = {1, 65536};
inline constexpr IntRange kHeadDimRange = {8, 256};
inline constexpr IntRange kTileRange = {1, 256};
inline constexpr IntRange kSplitsRange = {1, 256};
inline constexpr IntRange kHeadsRange = {1, 128};
inline constexpr IntRange kBatchRange = {1, 64};
inline constexpr IntRange kStageSeqlenRange = {64, 65536};
inline constexpr IntRange kStagesRange = {1, 8};
inline constexpr IntRange kWindowRange = {-1, 65536};  // -1: all
inline constexpr IntRange kDensityRange = {1, 100};    // percent
inline constexpr IntRange kSeedRange = {0, 9999};
inline constexpr IntRange kSequencesRange = {1, 64};   // packed into one batch entry; 1: not packed
inline constexpr IntRange kBlockRange = {1, 1024};  // rows and keys of a mask's block

/// A block mask that is made for any length: "butterfly:0.25:0:64", as on the command line.
struct BlockMaskChoice {
  std::string pattern;  // "local", "strided", "butterfly", "random"; "": none, or a file
  int percent = 25, seed = 0, block = 64;
  bool operator==(const BlockMaskChoice&) const = default;
};
const std::vector<std::string>& block_mask_patterns();
/// Of the problem's mask; an empty pattern where it has none or one from a file.
BlockMaskChoice block_mask_choice(const AttentionProblem& problem);
/// Gives the problem such a mask, for its lengths.
void set_block_mask(AttentionProblem& problem, const BlockMaskChoice& choice);

/// How many sequences are packed along the rows; 1 where none are.
int packed_sequences(const AttentionProblem& problem);
/// Packs the rows into that many sequences, long and short ones by turns (3 : 1 : 4 : 2), in one batch entry; 1: unpacks.
void pack_sequences(AttentionProblem& problem, int sequences);

/// Other lengths: a block mask is made again for them (one from a file, which is of one length, goes), and so are the
/// offsets of packed sequences.
void set_lengths(AttentionProblem& problem, int seqlen_q, int seqlen_k);

/// The nearest value of the range; NaN becomes the lower end.
int clamp_to(IntRange range, double value);

/// Settings with every number inside its range, kv_heads a divisor of heads, a block mask made for the lengths, and names
/// that exist.
Settings clamp(Settings settings);

/// The problem the stage draws: one batch entry, at most stage_seqlen rows and keys, and as many heads as keep each
/// run's trace within `max_ops` tile operations. Tile shape, head_dim and dtype are the problem's own, and of its mask
/// the part for the first rows and keys.
AttentionProblem stage_problem(const Settings& settings, std::int64_t max_ops);

/// "16 heads · 1,024 × 1,024 · d 64 · bf16 · causal"
std::string describe(const AttentionProblem& problem);

}  // namespace flashscope::viz
