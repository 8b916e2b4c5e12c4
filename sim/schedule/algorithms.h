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
  std::string rung;     // place in the ladder of kernels
  std::string summary;  // one line for --help and menus
  /// The tile the rung is built with for this problem: what is simulated when --br and --bc are not given.
  TileShape (*default_tile)(const AttentionProblem&);
  std::unique_ptr<Schedule> (*make)(const AttentionProblem&, TileShape);
};

const std::vector<Algorithm>& algorithms();
/// Throws Error(usage) that lists the names.
const Algorithm& algorithm_named(const std::string& name);

/// Validates problem and tile (each side 1 … 1024, stages 1 … 8; zero means the default) and builds the schedule.
std::unique_ptr<Schedule> make_schedule(const std::string& algorithm, const AttentionProblem& problem,
                                        TileShape tile = {0, 0, 0});

std::unique_ptr<Schedule> make_three_pass_naive(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_three_pass(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v1(const AttentionProblem&, TileShape);
std::unique_ptr<Schedule> make_flash_v2(const AttentionProblem&, TileShape);

}  // namespace flashscope
