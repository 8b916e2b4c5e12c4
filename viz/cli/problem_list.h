// A file of problems to run: kernels/recordings/problems.json, drawn.json, or the user's own.
#pragma once
#include <string>
#include <vector>

#include "viz/cli/problem_options.h"

namespace flashscope {

struct ListedProblem {
  ProblemOptions options;
  std::vector<std::string> algorithms;  // empty: all of its pass
  std::string place;                    // for messages: "problems.json: problem 3: "
};

/// A JSON list of {problem options by name, "algorithms": [...]}; what an entry leaves out is as in `shared`. Throws
/// Error(input) with file and place.
std::vector<ListedProblem> read_problem_list(const std::string& path, const ProblemOptions& shared);

}  // namespace flashscope
