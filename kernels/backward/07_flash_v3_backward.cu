// The instances of rung 07 backward (07_flash_v3_backward.cuh) that are built, and their launch: tensor maps, and the turns
// of the query tiles.
#include "kernels/backward/07_flash_v3_backward.cuh"

#include <cuda_runtime_api.h>

#include "kernels/forward/launchers.h"
#include "kernels/hopper/tensor_map.h"
#include "kernels/measure/cuda_check.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

enum KernelNumber { kRowDot, kGradients, kRound };

template <class Kernel, class Observer>
const void* instance_of(int kernel) {
  if (kernel == kRowDot) return reinterpret_cast<const void*>(&flash_v3_backward_row_dot<Kernel, Observer>);
  if (kernel == kGradients) return reinterpret_cast<const void*>(&flash_v3_backward<Kernel, Observer>);
  return reinterpret_cast<const void*>(&flash_v3_backward_round<Kernel, Observer>);
}

template <class T, bool kOrdered>
const void* by_width(int kernel, int width) {
  if (width == 64) return instance_of<FlashV3Backward<T, 64, kOrdered>, NoObserver>(kernel);
  if (width == 128) return instance_of<FlashV3Backward<T, 128, kOrdered>, NoObserver>(kernel);
  return nullptr;
}

template <int kKernel>
const void* function_of(const Schedule& schedule, bool logged) {
  const AttentionProblem& p = schedule.problem();
  const int width = hopper_width(p.head_dim);
  const bool ordered = !schedule.tile().any_order;
  if (logged)
    return p.dtype == DType::bf16 && width == 64 && ordered
               ? instance_of<FlashV3Backward<__nv_bfloat16, 64, true>, OpLog>(kKernel)
               : nullptr;
  if (p.dtype == DType::fp16) return ordered ? by_width<__half, true>(kKernel, width) : by_width<__half, false>(kKernel, width);
  if (p.dtype == DType::bf16)
    return ordered ? by_width<__nv_bfloat16, true>(kKernel, width) : by_width<__nv_bfloat16, false>(kKernel, width);
  return nullptr;
}

/// One number a query tile, 0 between launches: kept from one to the next, and larger when more are needed.
unsigned* turns_for(std::int64_t query_tiles) {
  static unsigned* turns = nullptr;
  static std::int64_t number = 0;
  if (query_tiles <= number) return turns;
  if (turns) check_cuda(cudaFree(turns), "freeing the turns of query tiles");
  turns = nullptr;
  number = 0;
  const auto bytes = static_cast<std::size_t>(query_tiles) * sizeof(unsigned);
  if (cudaMalloc(reinterpret_cast<void**>(&turns), bytes) != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorKind::resource, "flash_v3 backward needs " + std::to_string(bytes) + " B of GPU memory more than are free");
  }
  check_cuda(cudaMemset(turns, 0, bytes), "clearing the turns of query tiles");
  number = query_tiles;
  return turns;
}

HopperBackwardParams params_of(const Schedule& schedule, const KernelParams& params) {
  const AttentionProblem& problem = schedule.problem();
  const TileShape& tile = schedule.tile();
  const auto& workspace = static_cast<const WorkspaceParams&>(params);
  HopperBackwardParams p;
  static_cast<BackwardParams&>(p) = workspace;
  p.dq_sum = workspace.dq_sum;
  p.m_blocks = num_tiles(problem.seqlen_q, tile.br);
  p.dq_turn = turns_for(std::int64_t{problem.num_heads()} * p.m_blocks);
  const auto by_query = [&](const void* base) {
    return make_tensor_map(problem.dtype, base, problem.num_heads(), problem.seqlen_q, problem.head_dim, tile.br);
  };
  const auto by_key = [&](const void* base) {
    return make_tensor_map(problem.dtype, base, problem.num_kv_heads(), problem.seqlen_k, problem.head_dim, tile.bc);
  };
  p.q_map = by_query(params.q);
  p.o_map = by_query(params.o);
  p.d_o_map = by_query(p.d_o);
  p.k_map = by_key(params.k);
  p.v_map = by_key(params.v);
  p.dq_sum_map = make_sum_tensor_map(p.dq_sum, problem.num_heads(), problem.seqlen_q, problem.head_dim, tile.br);
  return p;
}

template <int kKernel>
void launch(const Schedule& schedule, const KernelParams& params, const OpLog* log) {
  const KernelLaunch& shape = schedule.kernels()[kKernel];
  HopperBackwardParams p = params_of(schedule, params);
  p.ctas_per_head = static_cast<int>(shape.ctas_per_head);
  NoObserver none;
  OpLog observer = log ? *log : OpLog{};
  void* arguments[] = {&p, log ? static_cast<void*>(&observer) : static_cast<void*>(&none)};
  check_cuda(cudaLaunchKernel(function_of<kKernel>(schedule, log != nullptr), dim3(static_cast<unsigned>(shape.ctas())),
                              dim3(static_cast<unsigned>(shape.resources.threads)), arguments,
                              static_cast<std::size_t>(shape.resources.smem_bytes), nullptr),
             ("launching " + shape.name).c_str());
}

}  // namespace

const Launcher flash_v3_backward_launchers[3] = {{function_of<kRowDot>, launch<kRowDot>},
                                                 {function_of<kGradients>, launch<kGradients>},
                                                 {function_of<kRound>, launch<kRound>}};

}  // namespace flashscope::kernels
