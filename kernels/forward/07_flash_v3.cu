// The instances of rung 07 (07_flash_v3.cuh) that are built, and their launch: tensor maps, and as many CTAs as SMs.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/forward/07_flash_v3.cuh"
#include "kernels/forward/launchers.h"
#include "kernels/hopper/tensor_map.h"
#include "kernels/measure/cuda_check.h"
#include "sim/schedule/flash_v3.h"

namespace flashscope::kernels {
namespace {

template <class T, class Observer>
const void* by_tile(int width, const TileShape& tile) {
  const auto is = [&](int width_, int br, int bc) { return width == width_ && tile.br == br && tile.bc == bc; };
  if (tile.stages != kFlashV3Slots) return nullptr;
  if (is(64, 128, 128)) return reinterpret_cast<const void*>(&flash_v3<FlashV3<T, 64, 128, 128>, Observer>);
  if constexpr (std::is_same_v<Observer, NoObserver>) {
    if (is(64, 192, 128)) return reinterpret_cast<const void*>(&flash_v3<FlashV3<T, 64, 192, 128>, Observer>);
    if (is(128, 128, 128)) return reinterpret_cast<const void*>(&flash_v3<FlashV3<T, 128, 128, 128>, Observer>);
    if (is(128, 128, 176)) return reinterpret_cast<const void*>(&flash_v3<FlashV3<T, 128, 128, 176>, Observer>);
    if (is(256, 128, 80)) return reinterpret_cast<const void*>(&flash_v3<FlashV3<T, 256, 128, 80>, Observer>);
  }
  return nullptr;
}

const void* function_of(const Schedule& schedule, bool logged) {
  const AttentionProblem& p = schedule.problem();
  const int width = hopper_width(p.head_dim);
  if (logged) return p.dtype == DType::bf16 ? by_tile<__nv_bfloat16, OpLog>(width, schedule.tile()) : nullptr;
  if (p.dtype == DType::fp16) return by_tile<__half, NoObserver>(width, schedule.tile());
  if (p.dtype == DType::bf16) return by_tile<__nv_bfloat16, NoObserver>(width, schedule.tile());
  return nullptr;
}

FlashV3Params params_of(const Schedule& schedule, const KernelParams& params) {
  const AttentionProblem& problem = schedule.problem();
  const KernelLaunch& launch = schedule.kernels().front();
  FlashV3Params p;
  static_cast<KernelParams&>(p) = params;
  const auto map = [&](const void* base, int heads, int rows, int box_rows) {
    return make_tensor_map(problem.dtype, base, heads, rows, problem.head_dim, box_rows);
  };
  p.q_map = map(params.q, problem.num_heads(), problem.seqlen_q, schedule.tile().br);
  p.k_map = map(params.k, problem.num_kv_heads(), problem.seqlen_k, schedule.tile().bc);
  p.v_map = map(params.v, problem.num_kv_heads(), problem.seqlen_k, schedule.tile().bc);
  p.m_blocks = static_cast<int>(launch.ctas_per_head);
  p.all_heads = launch.heads;
  p.heads_at_once = flash_v3_heads_at_once(problem);
  return p;
}

void launch_flash_v3(const Schedule& schedule, const KernelParams& params, const OpLog* log) {
  const KernelLaunch& shape = schedule.kernels().front();
  FlashV3Params p = params_of(schedule, params);
  int device = 0, num_sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  NoObserver none;
  OpLog observer = log ? *log : OpLog{};
  void* arguments[] = {&p, log ? static_cast<void*>(&observer) : static_cast<void*>(&none)};
  check_cuda(cudaLaunchKernel(function_of(schedule, log != nullptr),
                              dim3(static_cast<unsigned>(std::min<std::int64_t>(num_sms, shape.ctas()))),
                              dim3(static_cast<unsigned>(shape.resources.threads)), arguments,
                              static_cast<std::size_t>(shape.resources.smem_bytes), nullptr),
             "launching flash_v3");
}

}  // namespace

const Launcher flash_v3_launcher = {function_of, launch_flash_v3};

}  // namespace flashscope::kernels
