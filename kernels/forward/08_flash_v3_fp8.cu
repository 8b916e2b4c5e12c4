// The instances of rung 08 (08_flash_v3_fp8.cuh, 08_flash_v3_fp8_quantize.cuh) that are built, and their launch.
#include "kernels/forward/08_flash_v3_fp8.cuh"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/forward/08_flash_v3_fp8_quantize.cuh"
#include "kernels/forward/launchers.h"
#include "kernels/hopper/tensor_map.h"
#include "kernels/measure/cuda_check.h"
#include "sim/schedule/flash_v3_fp8.h"

namespace flashscope::kernels {
namespace {

struct Functions {
  const void* quantize = nullptr;
  const void* attention = nullptr;
};

template <class T, int kWidth, int kBlockM, int kBlockN, class Observer>
Functions instance_of() {
  return {reinterpret_cast<const void*>(&flash_v3_fp8_quantize<Quantize<T, kWidth, kBlockM, kBlockN>, Observer>),
          reinterpret_cast<const void*>(&flash_v3_fp8<FlashV3Fp8<T, kWidth, kBlockM, kBlockN>, Observer>)};
}

template <class T, class Observer>
Functions by_tile(int width, const TileShape& tile) {
  const auto is = [&](int width_, int br, int bc) { return width == width_ && tile.br == br && tile.bc == bc; };
  if (tile.stages != kFlashV3Slots) return {};
  if (is(64, 128, 128)) return instance_of<T, 64, 128, 128, Observer>();
  if constexpr (std::is_same_v<Observer, NoObserver>) {
    if (is(128, 128, 128)) return instance_of<T, 128, 128, 128, Observer>();
    if (is(128, 128, 192)) return instance_of<T, 128, 128, 192, Observer>();
    if (is(256, 128, 64)) return instance_of<T, 256, 128, 64, Observer>();
  }
  return {};
}

Functions functions_of(const Schedule& schedule, bool logged) {
  const AttentionProblem& p = schedule.problem();
  const int width = hopper_width(p.head_dim);
  if (logged) return p.dtype == DType::bf16 ? by_tile<__nv_bfloat16, OpLog>(width, schedule.tile()) : Functions{};
  if (p.dtype == DType::fp16) return by_tile<__half, NoObserver>(width, schedule.tile());
  if (p.dtype == DType::bf16) return by_tile<__nv_bfloat16, NoObserver>(width, schedule.tile());
  return {};
}
const void* quantize_function(const Schedule& schedule, bool logged) { return functions_of(schedule, logged).quantize; }
const void* attention_function(const Schedule& schedule, bool logged) { return functions_of(schedule, logged).attention; }

const WorkspaceParams& of_workspace(const KernelParams& params) { return static_cast<const WorkspaceParams&>(params); }

template <class Params>
void launch(const void* function, const KernelLaunch& shape, unsigned ctas, Params& params, const OpLog* log) {
  NoObserver none;
  OpLog observer = log ? *log : OpLog{};
  void* arguments[] = {&params, log ? static_cast<void*>(&observer) : static_cast<void*>(&none)};
  check_cuda(cudaLaunchKernel(function, dim3(ctas), dim3(static_cast<unsigned>(shape.resources.threads)), arguments,
                              static_cast<std::size_t>(shape.resources.smem_bytes), nullptr),
             ("launching " + shape.name).c_str());
}

void launch_quantize(const Schedule& schedule, const KernelParams& params, const OpLog* log) {
  const AttentionProblem& problem = schedule.problem();
  const KernelLaunch& shape = schedule.kernels()[0];
  QuantizeParams p;
  static_cast<WorkspaceParams&>(p) = of_workspace(params);
  p.plan = {num_tiles(problem.seqlen_q, schedule.tile().br), num_tiles(problem.seqlen_k, schedule.tile().bc),
            problem.heads / problem.kv_heads};
  launch(quantize_function(schedule, log != nullptr), shape, static_cast<unsigned>(shape.ctas()), p, log);
}

void launch_attention(const Schedule& schedule, const KernelParams& params, const OpLog* log) {
  const AttentionProblem& problem = schedule.problem();
  const TileShape& tile = schedule.tile();
  const KernelLaunch& shape = schedule.kernels()[1];
  const int width = hopper_width(problem.head_dim), atom = fp8_atom_bytes(width);
  Fp8Params p;
  static_cast<WorkspaceParams&>(p) = of_workspace(params);
  p.m_blocks = static_cast<int>(shape.ctas_per_head);
  p.n_blocks = num_tiles(problem.seqlen_k, tile.bc);
  p.all_heads = shape.heads;
  p.heads_at_once = flash_v3_fp8_heads_at_once(problem);
  p.q_map = make_byte_tensor_map(p.q_fp8, problem.num_heads(), problem.seqlen_q, width, tile.br, atom);
  p.k_map = make_byte_tensor_map(p.k_fp8, problem.num_kv_heads(), problem.seqlen_k, width, tile.bc, atom);
  p.v_map = make_byte_tensor_map(p.v_fp8, problem.num_kv_heads(), p.n_blocks * width, tile.bc, width, kFp8KeysOfAtom);
  int device = 0, num_sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  launch(attention_function(schedule, log != nullptr), shape,
         static_cast<unsigned>(std::min<std::int64_t>(num_sms, shape.ctas())), p, log);
}

}  // namespace

const Launcher flash_v3_fp8_launchers[2] = {{quantize_function, launch_quantize}, {attention_function, launch_attention}};

}  // namespace flashscope::kernels
