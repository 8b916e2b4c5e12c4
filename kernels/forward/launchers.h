// Rungs that are built for more than one tile, or that are not launched as (KernelParams, Observer) with a CTA for each
// of the schedule's: a visible list, as in rungs.h.
#pragma once
#include <string>

#include "kernels/common/params.h"
#include "sim/schedule/schedule.h"

namespace flashscope::kernels {

struct OpLog;

struct Launcher {
  /// For cudaFuncGetAttributes; nullptr where it is not built for the schedule's problem and tile.
  const void* (*function)(const Schedule&, bool logged);
  /// On the default stream, with the observer where there is one. The parameters are a workspace's (WorkspaceParams).
  /// nullptr: like the rungs of rungs.h.
  void (*launch)(const Schedule&, const KernelParams&, const OpLog* log);
};

extern const Launcher flash_v2_tensor_launcher;   // 06
extern const Launcher flash_v2_tensor_sparse_launcher;  // 06 for packed sequences and block masks
extern const Launcher split_kv_paged_launcher;    // decode: its first kernel, for K and V in pages
extern const Launcher flash_v3_launcher;          // 07
extern const Launcher flash_v3_fp8_launchers[2];  // 08: the quantising kernel, and attention

extern const Launcher flash_v3_backward_launchers[3];  // 07 backward: D; dK, dV and parts of dQ; dQ

/// Of kernel number `kernel`; nullptr: the rung is in rungs.h.
inline const Launcher* launcher_of(const Schedule& schedule, int kernel) {
  if (schedule.problem().pass != Pass::forward)
    return schedule.algorithm() == "flash_v3" ? &flash_v3_backward_launchers[kernel] : nullptr;
  if (schedule.algorithm() == "flash_v2_tensor")
    return schedule.problem().is_sparse() ? &flash_v2_tensor_sparse_launcher : &flash_v2_tensor_launcher;
  if (schedule.algorithm() == "split_kv" && schedule.tile().page_size > 0 && kernel == 0) return &split_kv_paged_launcher;
  if (schedule.algorithm() == "flash_v3") return &flash_v3_launcher;
  if (schedule.algorithm() == "flash_v3_fp8") return &flash_v3_fp8_launchers[kernel];
  return nullptr;
}

}  // namespace flashscope::kernels
