// `ncu --csv`: hardware counters of any kernel, as NVIDIA Nsight Compute prints them. Two forms: long (a line a metric;
// what --metrics and --section give) and wide (a line a launch, the units in a row of their own; --page raw).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace flashscope {

/// One kernel launch of the file. What the file does not hold is unavailable, with the metric to collect; outputs are
/// not checked, and hbm_write_bytes misses what is still dirty in L2 when the kernel ends.
struct NcuLaunch {
  std::string id;      // ncu's number of the launch
  std::string kernel;  // its name
  int line = 0;        // where it stands first
  kernels::Measurement measured;
  std::int64_t rounded_to_bytes = 1;  // the coarsest step that the printed digits of a byte count leave
};

/// In the order of the file; never empty. `file` is the name for messages. Lines that begin with "==" are ncu's own
/// talk and are skipped anywhere, other lines before the header too. Prefixes (K, M, G, T) are decimal, a sector is 32
/// bytes, and commas group thousands.
/// Throws Error(input) with file and line: no header, no measurement, a row of another width, an unknown unit, no number.
std::vector<NcuLaunch> ncu_launches_from_csv(std::string_view text, const std::string& file);

/// The launches added up, as one: bytes and time each where every one has it; the clock is that of the first.
NcuLaunch sum_of(const std::vector<NcuLaunch>& launches);

/// Metrics that are understood, as --metrics of ncu takes them: "dram__bytes_read.sum,…".
std::string ncu_metrics();

}  // namespace flashscope
