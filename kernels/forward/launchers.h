// Rungs that are not launched as (KernelParams, Observer) with a CTA for each of the schedule's: a visible list, as in
// rungs.h.
#pragma once
#include <string>

#include "kernels/common/params.h"
#include "sim/schedule/schedule.h"

namespace flashscope::kernels {

struct OpLog;

struct Launcher {
  /// For cudaFuncGetAttributes; nullptr where it is not built for the schedule's problem and tile.
  const void* (*function)(const Schedule&, bool logged);
  /// On the default stream, with the observer where there is one.
  void (*launch)(const Schedule&, const KernelParams&, const OpLog* log);
};

extern const Launcher flash_v3_launcher;  // 07

/// nullptr: the rung is in rungs.h.
inline const Launcher* launcher_of(const Schedule& schedule) {
  if (schedule.problem().pass == Pass::forward && schedule.algorithm() == "flash_v3") return &flash_v3_launcher;
  return nullptr;
}

}  // namespace flashscope::kernels
