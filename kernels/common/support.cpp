#include "kernels/common/support.h"

#include <cstdint>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_rungs.h"

namespace flashscope::kernels {
namespace {

bool has_rung(const std::string& algorithm) {
  for (const char* name : {"three_pass_naive", "three_pass", "flash_v1", "flash_v2"})
    if (algorithm == name) return true;
  return false;
}

std::string sides(const TileShape& tile) { return std::to_string(tile.br) + " x " + std::to_string(tile.bc); }

}  // namespace

std::string why_unsupported(const Schedule& schedule, const DeviceInfo& device) {
  const AttentionProblem& p = schedule.problem();
  const std::string name = schedule.algorithm();
  if (p.pass == Pass::backward && name != "flash_v2")
    return name + ": no kernel yet for the backward pass; flash_v2 has one";
  if (!has_rung(name)) return name + ": no kernel is built; three_pass_naive, three_pass, flash_v1, flash_v2 are";
  if (p.dtype != DType::fp32 && p.dtype != DType::fp16 && p.dtype != DType::bf16)
    return name + ": no kernel is built for " + name_of(p.dtype) + "; fp32, fp16, bf16 are";
  if (p.head_dim > kFmaMaxHeadDim)
    return name + ": head_dim " + std::to_string(p.head_dim) + " is above what is built; 1 … " +
           std::to_string(kFmaMaxHeadDim) + " run";
  if (p.is_sparse()) return name + ": no kernel takes packed sequences or a block mask yet; causal and window run";
  if (p.dense_mask) return name + ": no kernel takes a mask of any form; causal and window run";
  const TileShape built = algorithm_named(name, p.pass).default_tile(p);
  if (schedule.tile().br != built.br || schedule.tile().bc != built.bc || schedule.tile().stages != built.stages)
    return name + ": a tile of " + sides(schedule.tile()) + " with " + std::to_string(schedule.tile().stages) +
           " stages is simulated only; at head_dim " + std::to_string(p.head_dim) + " the kernel is built with " +
           sides(built) + " and " + std::to_string(built.stages);
  if (schedule.tile().backward_keys) return name + ": the kernel visits key tiles first to last only";
  if (device.compute_capability < 75)
    return name + ": the GPU has compute capability " + std::to_string(device.compute_capability / 10) + "." +
           std::to_string(device.compute_capability % 10) + "; 7.5 or newer runs";
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
