// The GPU of this machine, behind kernels.h.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "kernels/calibrate/calibrate.h"
#include "kernels/common/facts.h"
#include "kernels/common/observer.cuh"
#include "kernels/common/support.h"
#include "kernels/common/verify.h"
#include "kernels/common/workspace.h"
#include "kernels/backward/rungs.h"
#include "kernels/forward/launchers.h"
#include "kernels/measure/bench.h"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/reference.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {
namespace {

class CudaMemory final : public DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) override {
    void* data = nullptr;
    if (cudaMalloc(&data, static_cast<std::size_t>(bytes)) == cudaSuccess) return data;
    cudaGetLastError();  // the failure is reported by the caller; the next check must not see it again
    return nullptr;
  }
  void release(void* data) noexcept override { cudaFree(data); }
  std::int64_t free_bytes() override {
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<std::int64_t>(free);
  }
  void fill(void* target, int byte, std::int64_t bytes) override {
    check_cuda(cudaMemset(target, byte, static_cast<std::size_t>(bytes)), "filling a buffer");
  }
  void copy_in(void* target, const void* host, std::int64_t bytes) override {
    check_cuda(cudaMemcpy(target, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice), "copying to the GPU");
  }
  void copy_out(void* host, const void* source, std::int64_t bytes) override {
    check_cuda(cudaMemcpy(host, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost),
               "copying from the GPU");
  }
};

const void* function_of(const Schedule& schedule, int kernel, bool logged) {
  if (const Launcher* launcher = launcher_of(schedule, kernel)) return launcher->function(schedule, logged);
  const bool is_backward = schedule.problem().pass == Pass::backward, is_sparse = schedule.problem().is_sparse();
  const KernelFunction rung =
      is_backward ? backward_of(schedule.algorithm(), is_sparse) : rung_of(schedule.algorithm(), is_sparse);
  return rung ? rung(kernel, schedule.problem().dtype, schedule.problem().head_dim, logged) : nullptr;
}

/// Launches kernel number `kernel` on the default stream, with the observer when there is one.
void launch(const Schedule& schedule, int kernel, WorkspaceParams params, const OpLog* log) {
  const KernelLaunch& shape = schedule.kernels()[static_cast<std::size_t>(kernel)];
  if (shape.ctas() == 0) return;  // a grid of no CTAs is an error to CUDA, and nothing to do for us
  const void* function = function_of(schedule, kernel, log != nullptr);
  if (!function) throw Error(ErrorKind::internal, shape.name + " is not built for this problem");
  const int smem = static_cast<int>(shape.resources.smem_bytes);
  check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), shape.name.c_str());
  const Launcher* launcher = launcher_of(schedule, kernel);
  if (launcher && launcher->launch) return launcher->launch(schedule, params, log);
  params.ctas_per_head = static_cast<int>(shape.ctas_per_head);
  NoObserver none;
  OpLog observer = log ? *log : OpLog{};
  SparseParams<KernelParams> forward(params, params.sparse_mask);
  SparseParams<BackwardParams> backward(params, params.sparse_mask);
  PagedParams paged(params, params.pages);
  void* const told = schedule.tile().page_size > 0 && kernel == 0      ? static_cast<void*>(&paged)
                     : !schedule.problem().is_sparse()                  ? static_cast<void*>(&params)
                     : schedule.problem().pass == Pass::backward ? static_cast<void*>(&backward)
                                                                      : static_cast<void*>(&forward);
  void* arguments[] = {told, log ? static_cast<void*>(&observer) : static_cast<void*>(&none)};
  check_cuda(cudaLaunchKernel(function, dim3(static_cast<unsigned>(shape.ctas())),
                              dim3(static_cast<unsigned>(shape.resources.threads)), arguments,
                              static_cast<std::size_t>(smem), nullptr),
             ("launching " + shape.name).c_str());
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<DeviceMemory> memory) : m_memory(std::move(memory)), m_info(read_info()) {}

  DeviceInfo info() const override {
    check_alive();
    return read_info();  // clocks change
  }

  std::string why_unsupported(const Schedule& schedule) const override {
    if (!m_lost.empty()) return lost_text();
    return kernels::why_unsupported(schedule, m_info);
  }

  AttentionOutputs run(const Schedule& schedule, const AttentionInputs& inputs) override {
    check_can_run(schedule, inputs);
    Workspace workspace(schedule, inputs, *m_memory);
    run_forward_before(schedule, workspace.params());
    run_kernels(schedule, workspace.params(), nullptr);
    workspace.check_guards();
    return workspace.outputs();
  }

  Measurement measure(const Schedule& schedule, const MeasureOptions& options) override {
    const AttentionInputs inputs = seeded_inputs(schedule.problem(), options.seed);
    check_can_run(schedule, inputs);
    Workspace workspace(schedule, inputs, *m_memory);
    run_forward_before(schedule, workspace.params());
    run_kernels(schedule, workspace.params(), nullptr);
    workspace.check_guards();
    VerifiedOutputs verified;
    if (options.check) {
      verified = verify_outputs(schedule, inputs, workspace.outputs(), options.seed, [&] {
        FullReference full = reference_of(schedule, inputs, workspace);
        if (algorithm_named(schedule.algorithm(), schedule.problem().pass).quantizes)
          add_errors_of_quantizing(schedule.problem(), workspace, full);
        return full;
      });
      require_passed(schedule, "O", verified.o);
      require_passed(schedule, "LSE", verified.lse);
      if (schedule.problem().pass == Pass::backward) {
        require_passed(schedule, "dQ", verified.d_q);
        require_passed(schedule, "dK", verified.d_k);
        require_passed(schedule, "dV", verified.d_v);
      }
    }
    if (!m_bench) m_bench = std::make_unique<Bench>();
    const Workload workload{[&] {
                              for (int k = 0; k < num_kernels(schedule); ++k)
                                launch(schedule, k, workspace.params(), nullptr);
                            },
                            {}};  // no rung accumulates into what was there before
    Measurement row = m_bench->measure(workload, options);
    row.o = verified.o;
    row.lse = verified.lse;
    row.d_q = verified.d_q;
    row.d_k = verified.d_k;
    row.d_v = verified.d_v;
    return row;
  }

  std::vector<LoggedOp> log(const Schedule& schedule, const AttentionInputs& inputs) override {
    check_can_run(schedule, inputs);
    for (int k = 0; k < num_kernels(schedule); ++k)
      if (!function_of(schedule, k, true))
        throw Error(ErrorKind::unsupported,
                    schedule.algorithm() + ": the log is built for fp32 and bf16 with head_dim 33 … 64");
    const std::vector<LoggedOp> expected = expected_log(schedule);
    if (expected.size() > kMaxLoggedOps)
      throw Error(ErrorKind::unsupported, "the log of this problem has " + std::to_string(expected.size()) +
                                              " operations; up to " + std::to_string(kMaxLoggedOps) + " are logged");
    Workspace workspace(schedule, inputs, *m_memory);
    // Twice what is expected: a kernel that does more than its schedule is to be seen doing it.
    const std::size_t capacity = 2 * expected.size() + 1024;
    const std::int64_t bytes = static_cast<std::int64_t>(capacity * sizeof(OpRecord)) + 256;
    const std::unique_ptr<void, std::function<void(void*)>> buffer(m_memory->allocate(bytes),
                                                                   [this](void* data) { m_memory->release(data); });
    if (!buffer) throw Error(ErrorKind::resource, "the log needs " + std::to_string(bytes) + " B of GPU memory");
    m_memory->fill(buffer.get(), 0, bytes);
    OpLog observer{};
    observer.count = static_cast<unsigned long long*>(buffer.get());
    observer.records = reinterpret_cast<OpRecord*>(static_cast<char*>(buffer.get()) + 256);
    observer.capacity = capacity;

    run_forward_before(schedule, workspace.params());
    std::vector<LoggedOp> log;
    for (int k = 0; k < num_kernels(schedule); ++k) {
      m_memory->fill(buffer.get(), 0, 256);
      run_kernel(schedule, k, workspace.params(), &observer);
      unsigned long long count = 0;
      m_memory->copy_out(&count, observer.count, sizeof count);
      if (count > capacity)
        throw Error(ErrorKind::internal, schedule.kernels()[static_cast<std::size_t>(k)].name + " logged " +
                                             std::to_string(count) + " operations, twice what its schedule has");
      std::vector<OpRecord> records(static_cast<std::size_t>(count));
      if (count)
        m_memory->copy_out(records.data(), observer.records, static_cast<std::int64_t>(count * sizeof(OpRecord)));
      std::sort(records.begin(), records.end(), [](const OpRecord& a, const OpRecord& b) {
        return std::tie(a.cta, a.sequence) < std::tie(b.cta, b.sequence);
      });
      for (const OpRecord& r : records)
        log.push_back({k, r.cta, r.op, r.tensor, r.head, r.row, r.rows, r.col, r.cols, r.depth, r.bytes,
                       r.heads});
    }
    workspace.check_guards();
    return log;
  }

  Calibration calibrate(const CalibrateOptions& options) override {
    check_alive();
    if (!m_bench) m_bench = std::make_unique<Bench>();
    return run_microbenchmarks(*m_bench, options);
  }

 private:
  static constexpr std::size_t kMaxLoggedOps = std::size_t{1} << 20;
  static int num_kernels(const Schedule& schedule) { return static_cast<int>(schedule.kernels().size()); }

  std::string lost_text() const { return "the GPU session was lost when " + m_lost + "; start the program again"; }
  void check_alive() const {
    if (!m_lost.empty()) throw Error(ErrorKind::env, lost_text());
  }

  static DeviceInfo read_info() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "asking for the GPU");
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    int runtime = 0;
    check_cuda(cudaRuntimeGetVersion(&runtime), "asking for the CUDA version");
    const Nvml nvml(current_pci_bus_id());
    DeviceInfo info;
    info.name = properties.name;
    info.compute_capability = 10 * properties.major + properties.minor;
    info.num_sms = properties.multiProcessorCount;
    info.l2_bytes = properties.l2CacheSize;
    info.smem_bytes_per_cta = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
    info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    info.driver_version = nvml.driver_version().value.value_or("");
    info.cuda_version = cuda_version_text(runtime);
    info.sm_clock_mhz = nvml.sm_clock_mhz();
    info.memory_clock_mhz = nvml.memory_clock_mhz();
    return info;
  }

  /// All that can be known before anything is allocated or launched.
  void check_can_run(const Schedule& schedule, const AttentionInputs& inputs) const {
    check_alive();
    const std::string reason = why_unsupported(schedule);
    if (!reason.empty()) throw Error(ErrorKind::unsupported, reason);
    if (!inputs.keep.values.empty())
      throw Error(ErrorKind::unsupported,
                  schedule.algorithm() + ": no kernel takes a mask of any form; causal and window run");
  }

  /// Runs one kernel and waits for it, so that whatever goes wrong is this kernel's fault and nobody else's.
  void run_kernel(const Schedule& schedule, int kernel, const WorkspaceParams& params, const OpLog* log) {
    launch(schedule, kernel, params, log);
    const cudaError_t code = cudaDeviceSynchronize();
    if (code == cudaSuccess) return;
    // Such an error stays with the process: every later call would fail with it, whoever makes it.
    m_lost = schedule.kernels()[static_cast<std::size_t>(kernel)].name + " failed (" + cudaGetErrorString(code) + ")";
    throw Error(ErrorKind::internal, "kernel " + m_lost + "; the GPU session is lost: start the program again");
  }

  void run_kernels(const Schedule& schedule, const WorkspaceParams& params, const OpLog* log) {
    for (int k = 0; k < num_kernels(schedule); ++k) run_kernel(schedule, k, params, log);
  }

  /// O and LSE, which a backward pass reads, as the forward pass of the same algorithm leaves them.
  void run_forward_before(const Schedule& schedule, const WorkspaceParams& params) {
    if (schedule.problem().pass == Pass::backward) run_kernels(*forward_before(schedule), params, nullptr);
  }

  /// The reference knows K and V in one piece alone.
  FullReference reference_of(const Schedule& schedule, const AttentionInputs& inputs, const Workspace& workspace) {
    if (schedule.tile().page_size == 0) return full_reference_on_gpu(schedule.problem(), workspace.params());
    const Workspace whole(*make_schedule("flash_v2", schedule.problem()), inputs, *m_memory);
    return full_reference_on_gpu(schedule.problem(), whole.params());
  }

  /// Of plain attention as precise as a rung that quantises: every row, in float64, on the numbers that it multiplies.
  void add_errors_of_quantizing(const AttentionProblem& problem, const Workspace& workspace, FullReference& full) {
    full.quantized = workspace.quantized();
    const AttentionProblem p = quantized_problem(problem);
    const Workspace multiplied(*make_schedule("flash_v2", p), full.quantized, *m_memory);  // for its tensors alone
    const AttentionOutputs wide = plain_on_gpu(p, multiplied.params(), Precision::float64);
    Array o(wide.o.heads, wide.o.rows, problem.head_dim);
    for (std::size_t n = 0, row = 0; n < o.values.size(); n += static_cast<std::size_t>(o.cols), ++row)
      std::copy_n(wide.o.values.begin() + static_cast<std::ptrdiff_t>(row) * wide.o.cols, o.cols,
                  o.values.begin() + static_cast<std::ptrdiff_t>(n));
    full.plain_o = std::max(full.plain_o, largest_error(o, full.outputs.o));
    full.plain_lse = std::max(full.plain_lse, largest_error(wide.lse, full.outputs.lse));
  }

  static void require_passed(const Schedule& schedule, const char* name, const Verification& v) {
    if (!v.passed)
      throw Error(ErrorKind::verify, schedule.algorithm() + ": " + name + " is wrong at " + v.worst + " (" +
                                         std::to_string(v.tolerance_used) + " times its tolerance); nothing was timed");
  }

  std::shared_ptr<DeviceMemory> m_memory;
  const DeviceInfo m_info;         // its fixed parts: limits and capability
  std::unique_ptr<Bench> m_bench;  // made for the first measurement
  std::string m_lost;              // which kernel took the context with it, and how; empty while all is well
};

}  // namespace

KernelFacts kernel_facts(const Schedule& schedule, int kernel) {
  const KernelLaunch& shape = schedule.kernels()[static_cast<std::size_t>(kernel)];
  const void* function = function_of(schedule, kernel, false);
  if (!function) throw Error(ErrorKind::unsupported, shape.name + " is not built for this problem");
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, function), shape.name.c_str());
  const int smem = static_cast<int>(shape.resources.smem_bytes);
  check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), shape.name.c_str());
  int ctas = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, function, shape.resources.threads,
                                                           static_cast<std::size_t>(smem)),
             shape.name.c_str());
  return {attributes.numRegs, static_cast<std::int64_t>(attributes.localSizeBytes), ctas};
}

std::unique_ptr<Device> open_device(std::shared_ptr<DeviceMemory> memory) {
  DeviceSearch search;
  const cudaError_t code = cudaGetDeviceCount(&search.devices);
  search.outcome = code == cudaSuccess                   ? DeviceSearch::found
                   : code == cudaErrorInsufficientDriver ? DeviceSearch::insufficient_driver
                   : code == cudaErrorNoDevice           ? DeviceSearch::no_device
                                                         : DeviceSearch::other;
  search.error = cudaGetErrorString(code);
  cudaDriverGetVersion(&search.driver_version);
  cudaRuntimeGetVersion(&search.runtime_version);
  const std::string reason = why_no_gpu(search);
  if (!reason.empty()) throw Error(ErrorKind::env, reason);
  check_cuda(cudaSetDevice(0), "opening the GPU");
  return std::make_unique<CudaDevice>(std::move(memory));
}

std::unique_ptr<Device> open_device() { return open_device(std::make_shared<CudaMemory>()); }

}  // namespace flashscope::kernels
