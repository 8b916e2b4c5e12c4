#include "viz/core/span_names.h"

#include <algorithm>
#include <cstdio>

#include "sim/schedule/hopper_rungs.h"

namespace flashscope::viz {

std::vector<std::string> span_names(const std::string& doing) {
  std::vector<std::string> names = {doing};
  for (const char* tail : {" from ", " = "})
    if (const std::size_t at = names.back().find(tail); at != std::string::npos && at > 0)
      names.push_back(names.back().substr(0, at));
  for (const std::string verb : {"load ", "store "})
    if (names.back().rfind(verb, 0) == 0) names.push_back(names.back().substr(verb.size()));
  return names;
}

std::string title_of(Reason reason) {
  switch (reason) {
    case Reason::hbm: return "HBM";
    case Reason::l2: return "L2";
    case Reason::smem: return "SMEM";
    case Reason::fma: return "FMA";
    default: return name_of(reason);
  }
}

std::string meaning_of(Reason reason) {
  switch (reason) {
    case Reason::hbm:
      return "HBM: bytes come that L2 does not hold, or a store waits until HBM takes what L2 pushes out.";
    case Reason::l2: return "L2: bytes come from L2, or go there, through the SM's port.";
    case Reason::smem:
      return "SMEM: shared memory is busy longest, with what products read,\nand with what loads put there and stores "
             "fetch.";
    case Reason::tensor: return "tensor: products on the tensor cores.";
    case Reason::fma:
      return "FMA: the float32 units, and the schedulers that issue to them.\n"
             "Instructions of loads and stores (addresses, conversions, copies) are\n"
             "issued by the same schedulers: where that takes longer than the bytes\n"
             "to come, a load or store has this colour, too.";
    case Reason::exp: return "exp: exponentials and reciprocals, in the special-function units.";
    case Reason::barrier: return "barrier: the threads of a CTA wait for each other.";
    case Reason::launch: return "launch: a kernel or a CTA starts.";
    case Reason::idle: return "idle: no CTA.";
  }
  return "";
}

namespace {

bool is_issue(const OpSpan& span) {
  return span.reason == Reason::fma && (span.op.op == Op::load || span.op.op == Op::store);
}

}  // namespace

std::string title_of(const OpSpan& span) { return is_issue(span) ? "issue" : title_of(span.reason); }

std::string remark_on(const OpSpan& span) {
  if (!is_issue(span)) return "";
  const std::string moved = span.op.op == Op::store ? "store" : "load";
  return "no multiply-add: the instructions of the " + moved +
         " are issued by the\nschedulers that feed the FMA units, " +
         (span.op.starts ? "and the bytes come meanwhile" : "and that takes longer than its bytes");
}

int folded_warpgroups(const KernelLaunch& launch) {
  if (launch.matrix_unit != MatrixUnit::wgmma) return 1;
  return std::max(1, (launch.resources.threads - launch.loading_threads) / kWarpgroupThreads);
}

int folded_warpgroups(const Schedule& schedule) {
  int most = 1;
  for (const KernelLaunch& launch : schedule.kernels()) most = std::max(most, folded_warpgroups(launch));
  return most;
}

std::string clock_text(double t_us, double duration_us) {
  const double unit = duration_us < 999.5 ? 1 : duration_us < 999.5e3 ? 1e3 : 1e6;
  char text[96];
  std::snprintf(text, sizeof text, "%.3f of %.3f %s", t_us / unit, duration_us / unit,
                unit < 2     ? "µs"
                : unit < 2e3 ? "ms"
                             : "s");
  return text;
}

}  // namespace flashscope::viz
