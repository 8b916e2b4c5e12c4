// The list of algorithms. Adding one is a schedule file and a line in algorithms.cpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/schedule/schedule.h"

namespace flashscope {

struct Algorithm {
  std::string name;     // --algorithm
  Pass pass;            // --pass: a backward pass goes under the name of the forward pass that it belongs to
  std::string rung;     // place in the ladder of kernels; empty: there is no kernel yet
  std::string summary;  // one line for --help and menus
  /// The tile the rung is built with for this problem: what is simulated when --br and --bc are not given.
  TileShape (*default_tile)(const AttentionProblem&);
  std::unique_ptr<Schedule> (*make)(const AttentionProblem&, TileShape);
  /// Rounds its inputs to a narrower format than they come in: its results are held to its own schedule, executed.
  bool quantizes = false;
};

/// Those of one pass, in the order of the ladder.
const std::vector<Algorithm>& algorithms(Pass pass = Pass::forward);
/// Throws Error(usage) that lists the names.
const Algorithm& algorithm_named(const std::string& name, Pass pass = Pass::forward);

inline constexpr int kMaxSplits = 65536;
inline constexpr int kMinPageSize = 16, kMaxPageSize = 65536;

/// Validates problem and tile (each side 1 … 1024, stages 1 … 8, zero means the default; splits 1 … kMaxSplits, of
/// split_kv; zero means 1; page_size, of split_kv, 0 or a power of two in kMinPageSize … kMaxPageSize) and builds the
/// schedule of the problem's pass.
std::unique_ptr<Schedule> make_schedule(const std::string& algorithm, const AttentionProblem& problem,
                                        TileShape tile = {0, 0, 0});

/// The forward pass of the same algorithm, with its own tile: it leaves what a backward schedule starts from.
std::unique_ptr<Schedule> forward_before(const Schedule& backward);

std::unique_ptr<Schedule> make_three_pass_naive(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_three_pass(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_three_pass_tensor(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v1(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v2(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v2_tensor(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v3(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v3_fp8(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_split_kv(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_three_pass_backward(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v1_backward(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v2_backward(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v2_tensor_backward(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v3_backward(const AttentionProblem&, TileShape);

}  // namespace flashscope
