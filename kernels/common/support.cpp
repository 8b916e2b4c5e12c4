#include "kernels/common/support.h"

#include <algorithm>
#include <cstdint>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/decode_rung.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/hopper_rungs.h"
#include "sim/schedule/tensor_backward.h"

namespace flashscope::kernels {
namespace {

std::string names_of_rungs(Pass pass) {
  std::string names;
  for (const Algorithm& algorithm : algorithms(pass))
    if (!algorithm.rung.empty()) names += (names.empty() ? "" : ", ") + algorithm.name;
  return names;
}

/// Rungs with instances for packed sequences and block masks (forward/rungs.h, launchers.h, backward/rungs.h).
bool takes_sparse_masks(const std::string& algorithm, Pass pass) {
  if (algorithm == "three_pass" || algorithm == "flash_v2") return true;
  return pass == Pass::forward && (algorithm == "flash_v1" || algorithm == "flash_v2_tensor");
}

/// 90 → "9.0"
std::string decimal(int capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

std::string sides(const TileShape& tile) { return std::to_string(tile.br) + " x " + std::to_string(tile.bc); }

}  // namespace

std::string why_unsupported(const Schedule& schedule, const DeviceInfo& device) {
  const AttentionProblem& p = schedule.problem();
  const std::string name = schedule.algorithm();
  if (algorithm_named(name, p.pass).rung.empty())
    return name + ": no kernel is built for the " + name_of(p.pass) + " pass; those of " + names_of_rungs(p.pass) + " are";
  MatrixUnit unit = MatrixUnit::fma;  // the one that asks most of the GPU
  for (const KernelLaunch& kernel : schedule.kernels()) unit = std::max(unit, kernel.matrix_unit);
  if (p.dtype != DType::fp16 && p.dtype != DType::bf16 && (p.dtype != DType::fp32 || on_tensor_cores(unit)))
    return name + ": no kernel is built for " + name_of(p.dtype) + "; " + (on_tensor_cores(unit) ? "" : "fp32, ") +
           "fp16, bf16 are";
  const int widest = on_tensor_cores(unit) && p.pass == Pass::backward ? kTensorBackwardMaxHeadDim : kFmaMaxHeadDim;
  if (p.head_dim > widest)
    return name + ": head_dim " + std::to_string(p.head_dim) + " is above what is built; 1 … " + std::to_string(widest) +
           " run";
  const int multiple = kTmaRowBytes / element_bytes(p.dtype);
  if (unit == MatrixUnit::wgmma && p.head_dim % multiple != 0)
    return name + ": head_dim " + std::to_string(p.head_dim) + " is no multiple of " + std::to_string(multiple) +
           ": rows of whole 16 bytes are copied; multiples up to " + std::to_string(widest) + " run";
  if (p.is_sparse() && !takes_sparse_masks(name, p.pass)) {
    std::string those;
    for (const Algorithm& algorithm : algorithms(p.pass))
      if (takes_sparse_masks(algorithm.name, p.pass)) those += (those.empty() ? "" : ", ") + algorithm.name;
    return name + ": its kernel takes causal and window, no packed sequences and no block mask; those of " + those +
           " take them";
  }
  if (p.dense_mask) return name + ": no kernel takes a mask of any form; causal and window run";
  const TileShape built = algorithm_named(name, p.pass).default_tile(p);
  if (schedule.tile().br != built.br || schedule.tile().bc != built.bc || schedule.tile().stages != built.stages)
    return name + ": a tile of " + sides(schedule.tile()) + " with " + std::to_string(schedule.tile().stages) +
           " stages is simulated only; this problem's kernel is built with " + sides(built) + " and " +
           std::to_string(built.stages);
  if (schedule.tile().backward_keys) return name + ": the kernel visits key tiles first to last only";
  if (schedule.tile().whole_tiles) return name + ": the kernel loads the rows that exist only (no --whole-tiles)";
  if (schedule.tile().splits > kMaxBuiltSplits)
    return name + ": " + std::to_string(schedule.tile().splits) + " splits are simulated only; the kernel takes up to " +
           std::to_string(kMaxBuiltSplits);
  if (unit == MatrixUnit::wgmma && device.compute_capability != 90)
    return name + ": needs compute capability 9.0 (Hopper): TMA and wgmma; the GPU has " +
           decimal(device.compute_capability);
  const int oldest = on_tensor_cores(unit) ? 80 : 75;  // 8.0: mma.sync of fp16 and bf16 with cp.async
  if (device.compute_capability < oldest)
    return name + ": the GPU has compute capability " + decimal(device.compute_capability) + "; " + decimal(oldest) +
           " or newer runs";
  for (const KernelLaunch& kernel : schedule.kernels()) {
    if (kernel.resources.smem_bytes > device.smem_bytes_per_cta)
      return kernel.name + ": needs " + std::to_string(kernel.resources.smem_bytes) +
             " B of shared memory a CTA, the device allows " + std::to_string(device.smem_bytes_per_cta) + " B";
    if (kernel.ctas() > INT32_MAX)
      return kernel.name + ": " + std::to_string(kernel.ctas()) + " CTAs; a launch takes at most 2147483647";
  }
  return "";
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string why_no_gpu(const DeviceSearch& search) {
  const std::string alternative = "; simulating and replaying recordings need no GPU";
  switch (search.outcome) {
    case DeviceSearch::insufficient_driver:
      if (search.driver_version == 0)
        return "no NVIDIA driver was found on this machine (libcuda.so.1); install one to run kernels" + alternative;
      return "the NVIDIA driver is too old: it supports CUDA " + cuda_version_text(search.driver_version) +
             ", this build needs " + cuda_version_text(search.runtime_version) + " or newer; update the driver" +
             alternative;
    case DeviceSearch::other: return "the GPU could not be opened: " + search.error + alternative;
    case DeviceSearch::found:
      if (search.devices > 0) return "";
      [[fallthrough]];
    case DeviceSearch::no_device:
      return "the NVIDIA driver sees no GPU; check that one is installed and that CUDA_VISIBLE_DEVICES does not hide "
             "it" +
             alternative;
  }
  return "";
}

}  // namespace flashscope::kernels
