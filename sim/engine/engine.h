// The timed run of a schedule on a machine: CTAs on SMs, L2 and HBM as shared links, units of an SM as shared servers.
// What is modelled and what is not, with the error seen: docs/deviations.md.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/count/count.h"
#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"
#include "sim/trace/trace.h"

namespace flashscope {

class L2Cache;

/// What L2 holds when the first kernel starts.
enum class Start {
  cold,              // no line of the problem, nothing dirty
  warm,              // what one earlier run leaves
  cold_each_kernel,  // cold before every kernel; dirty lines are written back between kernels, uncounted
};
const char* name_of(Start start);
Start start_from_name(const std::string& name);  // Error(usage)

struct RunOptions {
  Start start = Start::cold;
  TraceSink* trace = nullptr;
  /// Beyond so many operations heads that do what those before them did are passed over.
  std::int64_t whole_op_budget = 500'000;
  /// Operations that a run takes one by one, and steps that it may take: see simulate().
  std::int64_t op_budget = 20'000'000;
  /// Up to so many operations larger steps are taken only where they are seen to change nothing.
  std::int64_t settled_op_budget = 160'000'000;
  /// Called now and then with the done share 0 … 1 of the run under way (one of several, where runs are compared); returning false stops the run with Error(internal, "cancelled").
  std::function<bool(double)> progress;
};

/// Bytes beyond L2.
struct HbmTraffic {
  std::int64_t read = 0, write = 0;
  bool operator==(const HbmTraffic&) const = default;
};

struct KernelPrediction {
  KernelCount count;
  HbmTraffic hbm;
  std::array<HbmTraffic, kNumTensors> tensors;
  std::int64_t hbm_dirty_bytes = 0;  // written, still in L2 when the kernel ends
  std::int64_t l2_read_hit_bytes = 0;
  int ctas_per_sm = 0;
  std::string occupancy_limit;                        // "shared memory", "registers", "threads", "CTAs"
  Picoseconds begin = 0, end = 0;                     // first CTA start, last CTA end
  std::array<Picoseconds, kNumReasons> reasons = {};  // CTA time by reason, summed over CTAs
  Picoseconds cta_time = 0;                           // sum over CTAs of end - start: equals the sum of `reasons`
};

struct Prediction {
  std::vector<KernelPrediction> kernels;
  KernelCount count;
  HbmTraffic hbm;
  std::array<HbmTraffic, kNumTensors> tensors;
  std::int64_t hbm_dirty_bytes = 0;  // after the last kernel
  Picoseconds time = 0;              // kernels, and the launch gaps between them
  std::int64_t operations = 0;       // performed to find out: tile operations, or steps of several
  int simulated_heads = 0;           // of batch · heads, as wholes: fewer means extrapolated (see simulate)

  double time_us() const { return static_cast<double>(time) / 1e6; }
};

/// CTAs of a kernel that fit on one SM at once, and what limits them. 0 with the reason when not even one fits.
struct Occupancy {
  int ctas_per_sm = 0;
  std::string limit;
};
Occupancy occupancy(const CtaResources& resources, const Machine& machine);

/// The machine's L2 (l2.h), empty.
L2Cache l2_of(const Machine& machine);
/// The partition of L2 that an SM asks. SMs are numbered in the order in which the CTAs of a grid start on them. On an H200
/// that is GPC after GPC (flashscope_l2_probe), and a GPC belongs to one partition: neighbours share theirs.
int l2_partition_of(int sm, const Machine& machine);

/// The SM on which CTA `cta` of a grid of `ctas` starts while slots are free: one on each SM in turn. A grid that leaves
/// SMs empty has its first few on neighbours and the rest dealt out evenly, so that neighbours share a GPC
/// (flashscope_l2_probe).
int first_sm_of(std::int64_t cta, std::int64_t ctas, const Machine& machine);

/// Least time that the machine's rates allow for the counted work: the roofline. No run is faster.
Picoseconds roofline_bound(const KernelCount& count, MatrixUnit unit, std::int64_t hbm_read_bytes,
                           const Machine& machine);

/// Throws Error(unsupported) when a CTA does not fit on an SM (names needed and available).
///
/// Up to whole_op_budget, and with a trace, every CTA is run and every tile is taken on its own. Counts stay exact
/// beyond it, and docs/deviations.md gives the errors.
///   Heads of a kernel that has turned L2 over are passed over where those before them repeat each other (heads.h);
///   `simulated_heads` is what the kernel with the fewest ran.
/// Beyond op_budget:
///   Loops over hundreds of tiles are taken several tiles at a time (grain.h), if twice as many at a time say the same: no
///   counter is then off by more than 0.2 %, and time by at most 1 %, of the run tile by tile. If they do not, it is the run
///   tile by tile, up to settled_op_budget. Beyond that larger steps are taken unseen.
///   Where loops are short, or steps still above the budget, two runs with fewer heads are made, and time, HBM traffic and
///   stalls are continued in a straight line; `simulated_heads` says so too. Where six heads are too much, the same is done
///   with the first CTAs of each kernel, if no mask makes them differ; `simulated_heads` is then 0.
Prediction simulate(const Schedule& schedule, const Machine& machine, const RunOptions& options = {});

}  // namespace flashscope
