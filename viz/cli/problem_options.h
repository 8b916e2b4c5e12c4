// The problem options that all commands and the window share: what to compute, how it is tiled, on which GPU.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"

namespace CLI {
class App;
}

namespace flashscope {

/// Option values as given; what was not given follows from the others (kv_heads from heads, seqlen_q from seqlen).
struct ProblemOptions {
  int batch = 1;
  int heads = 16;
  std::optional<int> kv_heads;
  std::optional<int> seqlen, seqlen_q, seqlen_k;
  int head_dim = 64;
  DType dtype = DType::bf16;
  bool causal = false;
  std::optional<std::pair<int, int>> window;  // left, right; -1: all
  std::string block_mask;                           // a file or a preset; empty: none
  std::vector<int> cu_seqlens_q, cu_seqlens_k;      // of keys: those of queries when not given
  std::string algorithm = "flash_v2";
  Pass pass = Pass::forward;
  TileShape tile = {0, 0, 0, false, 0};  // 0: the rung's own; splits: as many as run at once on the GPU
  std::string gpu = "nvidia-h200";
  Start start = Start::cold;
  // Of a kernel of somebody else: what its rung here would say itself.
  std::optional<int> ctas_per_sm;  // that an SM holds at once
  bool persistent = false;         // one CTA an SM at a time, as where they stay and take one tile after the other

  bool operator==(const ProblemOptions&) const = default;

  /// Puts the mask options into a problem whose sizes are known.
  void set_mask(AttentionProblem& problem) const;
  /// Throws Error(usage) where options contradict each other or a size is out of range.
  AttentionProblem problem() const;
  /// `tile` with the splits that the algorithm and the GPU give.
  TileShape tile_for(const AttentionProblem& problem) const;
  /// For a command that runs this one algorithm: throws Error(unsupported) for --splits, --page-size or --stages where
  /// they would change nothing. (Where several algorithms share the options, each takes what it knows.)
  void refuse_without_effect() const;
  /// Throws Error(unsupported) where fewer CTAs fit on an SM than the options say, or not so many splits.
  std::unique_ptr<Schedule> schedule() const;
  /// A shipped description, or a file; its SMs hold no more CTAs than the options say. Throws Error(usage), Error(input).
  Machine machine() const;
};

/// What a command leaves out, because its other options say it.
struct ProblemOptionSet {
  bool sizes = true;      // --batch … --head-dim
  bool algorithm = true;  // --algorithm
  bool pass = true;
  bool gpu = true;
  bool start = true;
  bool residency = true;  // --ctas-per-sm, --persistent, --whole-tiles
  std::vector<std::string> dtypes = {"fp32", "fp16", "bf16", "fp8"};
};

/// Declares the options of the set on `app`; parsing writes into `options`, which must live as long as `app`.
void add_problem_options(CLI::App& app, ProblemOptions& options, const ProblemOptionSet& which = {});

/// Sets one option by its name without dashes ("seqlen", "head-dim", "causal"), as a sweep, a list of problems or one
/// side of a comparison does. Flags take "" or "true" and "false". Throws Error(usage).
void set_problem_option(ProblemOptions& options, const std::string& name, const std::string& text);

/// `base` with the settings of "ALGORITHM:option=value:flag" applied, e.g. "flash_v2:bc=128:causal". Throws
/// Error(usage).
ProblemOptions apply_setting(ProblemOptions base, const std::string& setting);

/// Values of a whole-number option: "NAME=FIRST:LAST:xFACTOR", "NAME=FIRST:LAST:+STEP" or "NAME=A,B,C".
struct Sweep {
  std::string name;
  std::vector<std::string> values;
};
/// Throws Error(usage); at most 1000 values.
Sweep parse_sweep(const std::string& text);

}  // namespace flashscope
