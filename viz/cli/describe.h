// The same words for the same things in every command's tables.
#pragma once
#include <string>

#include "kernels/kernels.h"
#include "sim/engine/engine.h"
#include "viz/io/json_fwd.h"
#include "viz/io/recording.h"

namespace flashscope {

/// "batch 1, heads 16, seqlen 4,096, head_dim 64, bf16, causal"
std::string describe(const AttentionProblem& problem);
/// "Br 64, Bc 64", and "stages 2" where there is more than one.
std::string describe(const TileShape& tile);
/// "hbm 41.2 %, fma 30.1 %, …" largest first, shares under 0.05 % left out; "n/a" when no CTA ran.
std::string describe_reasons(const KernelPrediction& kernel);

/// A value for JSON, or the string "unavailable (reason)".
Json measured_json(const kernels::Measured<std::int64_t>& measured);
Json measured_json(const kernels::Measured<double>& measured);

/// A recorded row for this machine and setting, and where it comes from; or why there is none.
struct Recorded {
  bool found = false;
  kernels::Measurement measured;  // every value unavailable, with the reason, when not found
  std::string origin;             // "recorded on NVIDIA H200, 2026-11-29", or the reason
};
/// `file`: a recording to look in; empty: those shipped. Throws Error(input) for a bad file.
Recorded find_recorded(const Machine& machine, const Schedule& schedule, Start start, const std::string& file = "");

/// "" or, where the engine ran some heads and continued the line for the rest, a sentence that says so.
std::string extrapolation_note(const Schedule& schedule, const Prediction& prediction);

/// A measurement in which nothing is available, for one reason.
kernels::Measurement unmeasured(const std::string& reason);

/// The machine with its SMs at the clock the row ran at, where it was read: what its time is compared with.
Machine at_measured_clock(Machine machine, const kernels::Measurement& measured);

}  // namespace flashscope
