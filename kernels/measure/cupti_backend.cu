// CUPTI's Range Profiler, the only file that knows it: one user range, replayed by us once a pass, so that L2 can be
// cleaned before each. The library is opened at run time and never linked; building needs its headers.
// Source: CUPTI documentation, Range Profiling API (CUDA 12.6 Update 2 and later, compute capability 7.5 and later).
#include "kernels/measure/counter_backend.h"

#if !__has_include(<cupti_range_profiler.h>)

namespace flashscope::kernels {
std::unique_ptr<CounterBackend> open_cupti() {
  throw CounterFault(CounterFault::unavailable, "built without CUPTI headers");
}
}  // namespace flashscope::kernels

#else

#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "kernels/measure/cuda_check.h"

namespace flashscope::kernels {
namespace {

constexpr int kMaxPasses = 64;  // far more than any list of ours needs: a GPU that never says "done" must not hang us

// CUPTI tells by the structure's size which version of it the caller was built with.
#define CUPTI_PARAMS(type, name) \
  type name{};                   \
  name.structSize = type##_STRUCT_SIZE

struct CuptiFunctions {
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiProfilerInitialize) initialize = nullptr;
  decltype(&cuptiProfilerDeInitialize) deinitialize = nullptr;
  decltype(&cuptiDeviceGetChipName) get_chip_name = nullptr;
  decltype(&cuptiProfilerGetCounterAvailability) get_counter_availability = nullptr;
  decltype(&cuptiProfilerHostInitialize) host_initialize = nullptr;
  decltype(&cuptiProfilerHostDeinitialize) host_deinitialize = nullptr;
  decltype(&cuptiProfilerHostConfigAddMetrics) host_add_metrics = nullptr;
  decltype(&cuptiProfilerHostGetConfigImageSize) host_get_config_size = nullptr;
  decltype(&cuptiProfilerHostGetConfigImage) host_get_config = nullptr;
  decltype(&cuptiProfilerHostEvaluateToGpuValues) host_evaluate = nullptr;
  decltype(&cuptiRangeProfilerEnable) enable = nullptr;
  decltype(&cuptiRangeProfilerDisable) disable = nullptr;
  decltype(&cuptiRangeProfilerGetCounterDataSize) get_data_size = nullptr;
  decltype(&cuptiRangeProfilerCounterDataImageInitialize) initialize_data = nullptr;
  decltype(&cuptiRangeProfilerSetConfig) set_config = nullptr;
  decltype(&cuptiRangeProfilerStart) start = nullptr;
  decltype(&cuptiRangeProfilerStop) stop = nullptr;
  decltype(&cuptiRangeProfilerPushRange) push_range = nullptr;
  decltype(&cuptiRangeProfilerPopRange) pop_range = nullptr;
  decltype(&cuptiRangeProfilerDecodeData) decode_data = nullptr;
  decltype(&cuptiRangeProfilerGetCounterDataInfo) get_data_info = nullptr;
};

// Where the loader looks, then where toolkits lie. FLASHSCOPE_CUPTI names the file and comes first.
void* open_library() {
  const std::string versioned = "libcupti.so." + std::to_string(CUDA_VERSION / 1000);
  std::vector<std::string> names;
  if (const char* chosen = std::getenv("FLASHSCOPE_CUPTI")) names.push_back(chosen);
  names.push_back(versioned);
  names.push_back("libcupti.so");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", ""}) {
    const char* home = *variable ? std::getenv(variable) : "/usr/local/cuda";
    if (!home) continue;
    for (const char* folder : {"/lib64/", "/extras/CUPTI/lib64/"}) names.push_back(home + (folder + versioned));
  }
  std::string last;
  for (const std::string& name : names) {
    // Never closed: CUPTI hooks itself into the driver.
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    last = dlerror();
  }
  throw CounterFault(CounterFault::unavailable, versioned +
                                                    " was not found; install the CUDA toolkit's CUPTI or set "
                                                    "FLASHSCOPE_CUPTI to the file (" +
                                                    last + ")");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw CounterFault(CounterFault::unavailable,
                       std::string("this CUPTI is too old: it has no ") + name + "; it came with CUDA 12.6 Update 2");
}

CuptiFunctions load_functions() {
  void* library = open_library();
  CuptiFunctions f;
  find(library, "cuptiGetResultString", f.get_result_string);
  find(library, "cuptiProfilerInitialize", f.initialize);
  find(library, "cuptiProfilerDeInitialize", f.deinitialize);
  find(library, "cuptiDeviceGetChipName", f.get_chip_name);
  find(library, "cuptiProfilerGetCounterAvailability", f.get_counter_availability);
  find(library, "cuptiProfilerHostInitialize", f.host_initialize);
  find(library, "cuptiProfilerHostDeinitialize", f.host_deinitialize);
  find(library, "cuptiProfilerHostConfigAddMetrics", f.host_add_metrics);
  find(library, "cuptiProfilerHostGetConfigImageSize", f.host_get_config_size);
  find(library, "cuptiProfilerHostGetConfigImage", f.host_get_config);
  find(library, "cuptiProfilerHostEvaluateToGpuValues", f.host_evaluate);
  find(library, "cuptiRangeProfilerEnable", f.enable);
  find(library, "cuptiRangeProfilerDisable", f.disable);
  find(library, "cuptiRangeProfilerGetCounterDataSize", f.get_data_size);
  find(library, "cuptiRangeProfilerCounterDataImageInitialize", f.initialize_data);
  find(library, "cuptiRangeProfilerSetConfig", f.set_config);
  find(library, "cuptiRangeProfilerStart", f.start);
  find(library, "cuptiRangeProfilerStop", f.stop);
  find(library, "cuptiRangeProfilerPushRange", f.push_range);
  find(library, "cuptiRangeProfilerPopRange", f.pop_range);
  find(library, "cuptiRangeProfilerDecodeData", f.decode_data);
  find(library, "cuptiRangeProfilerGetCounterDataInfo", f.get_data_info);
  return f;
}

// libcuda is already in the process when a context exists; linking it would keep the program from starting without one.
CUcontext current_context() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto get = library ? reinterpret_cast<decltype(&cuCtxGetCurrent)>(dlsym(library, "cuCtxGetCurrent")) : nullptr;
  CUcontext context = nullptr;
  if (!get || get(&context) != CUDA_SUCCESS || !context)
    throw CounterFault(CounterFault::unavailable, "no CUDA context is current");
  return context;
}

class CuptiBackend : public CounterBackend {
 public:
  CuptiBackend() : m_cupti(load_functions()) {
    check_cuda(cudaFree(nullptr), "starting CUDA");  // makes the context of the current device
    m_context = current_context();
    CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, initialize);
    check(m_cupti.initialize(&initialize), "cuptiProfilerInitialize");
    m_initialized = true;
    try {
      ask_for_chip();
    } catch (...) {
      finish();
      throw;
    }
  }
  ~CuptiBackend() override { finish(); }

  std::vector<double> collect(const std::vector<std::string>& metrics, const std::function<void()>& before_pass,
                              const std::function<void()>& body) override {
    Config& config = config_for(metrics);

    // 1. The profiler is enabled only while it is used: it slows launches down, and rows are timed in between.
    Enabled session(*this);
    CUpti_RangeProfiler_Object* profiler = session.profiler;

    // 2. Room for the raw counts of one range.
    CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = profiler;
    size.pMetricNames = config.names.data();
    size.numMetrics = config.names.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    check(m_cupti.get_data_size(&size), "cuptiRangeProfilerGetCounterDataSize");
    std::vector<std::uint8_t> data(size.counterDataSize);
    CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
    image.pRangeProfilerObject = profiler;
    image.counterDataSize = data.size();
    image.pCounterData = data.data();
    check(m_cupti.initialize_data(&image), "cuptiRangeProfilerCounterDataImageInitialize");

    CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, set);
    set.pRangeProfilerObject = profiler;
    set.configSize = config.image.size();
    set.pConfig = config.image.data();
    set.counterDataImageSize = data.size();
    set.pCounterDataImage = data.data();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = 1;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.passIndex = 0;
    set.targetNestingLevel = 1;
    check(m_cupti.set_config(&set), "cuptiRangeProfilerSetConfig");

    // 3. The body once a pass, with nothing else inside the range.
    bool done = false;
    for (int pass = 0; !done; ++pass) {
      if (pass == kMaxPasses) throw CounterFault(CounterFault::unavailable, "CUPTI asks for passes without end");
      if (before_pass) before_pass();
      check_cuda(cudaDeviceSynchronize(), "preparing a counted pass");
      done = run_pass(profiler, body);
    }

    // 4. Raw counts to values.
    CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
    decode.pRangeProfilerObject = profiler;
    check(m_cupti.decode_data(&decode), "cuptiRangeProfilerDecodeData");
    CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
    info.pCounterDataImage = data.data();
    info.counterDataImageSize = data.size();
    check(m_cupti.get_data_info(&info), "cuptiRangeProfilerGetCounterDataInfo");
    if (decode.numOfRangeDropped != 0 || info.numTotalRanges != 1)
      throw CounterFault(CounterFault::unavailable, "CUPTI lost the counted range");

    std::vector<double> values(metrics.size(), std::numeric_limits<double>::quiet_NaN());
    CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluate);
    evaluate.pHostObject = config.host;
    evaluate.pCounterDataImage = data.data();
    evaluate.counterDataImageSize = data.size();
    evaluate.rangeIndex = 0;
    evaluate.ppMetricNames = config.names.data();
    evaluate.numMetrics = config.names.size();
    evaluate.pMetricValues = values.data();
    check(m_cupti.host_evaluate(&evaluate), "cuptiProfilerHostEvaluateToGpuValues");
    return values;
  }

 private:
  // What CUPTI has to know to schedule one list of metrics; made once a list.
  struct Config {
    std::vector<std::string> metrics;
    std::vector<const char*> names;  // into metrics
    std::vector<std::uint8_t> image;
    CUpti_Profiler_Host_Object* host = nullptr;
  };

  struct Enabled {
    explicit Enabled(CuptiBackend& backend) : m_backend(backend) {
      CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, params);
      params.ctx = backend.m_context;
      backend.check(backend.m_cupti.enable(&params), "cuptiRangeProfilerEnable");
      profiler = params.pRangeProfilerObject;
    }
    ~Enabled() {
      CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
      params.pRangeProfilerObject = profiler;
      m_backend.m_cupti.disable(&params);
    }
    Enabled(const Enabled&) = delete;
    Enabled& operator=(const Enabled&) = delete;

    CUpti_RangeProfiler_Object* profiler = nullptr;

   private:
    CuptiBackend& m_backend;
  };

  // True when this was the last pass that the metrics need.
  bool run_pass(CUpti_RangeProfiler_Object* profiler, const std::function<void()>& body) {
    CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
    start.pRangeProfilerObject = profiler;
    check(m_cupti.start(&start), "cuptiRangeProfilerStart");
    CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
    push.pRangeProfilerObject = profiler;
    push.pRangeName = "call";
    check(m_cupti.push_range(&push), "cuptiRangeProfilerPushRange");

    body();
    check_cuda(cudaDeviceSynchronize(), "running a counted pass");

    CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
    pop.pRangeProfilerObject = profiler;
    check(m_cupti.pop_range(&pop), "cuptiRangeProfilerPopRange");
    CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
    stop.pRangeProfilerObject = profiler;
    check(m_cupti.stop(&stop), "cuptiRangeProfilerStop");
    return stop.isAllPassSubmitted != 0;
  }

  void ask_for_chip() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "asking for the device");
    CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
    chip.deviceIndex = static_cast<std::size_t>(device);
    check(m_cupti.get_chip_name(&chip), "cuptiDeviceGetChipName");
    m_chip = chip.pChipName;

    CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, availability);
    availability.ctx = m_context;
    check(m_cupti.get_counter_availability(&availability), "cuptiProfilerGetCounterAvailability");
    m_availability.resize(availability.counterAvailabilityImageSize);
    availability.pCounterAvailabilityImage = m_availability.data();
    check(m_cupti.get_counter_availability(&availability), "cuptiProfilerGetCounterAvailability");
  }

  Config& config_for(const std::vector<std::string>& metrics) {
    const auto known = m_configs.find(metrics);
    if (known != m_configs.end()) return known->second;

    Config config;
    config.metrics = metrics;
    for (const std::string& name : config.metrics) config.names.push_back(name.c_str());
    CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, host);
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = m_chip.c_str();
    host.pCounterAvailabilityImage = m_availability.data();
    check(m_cupti.host_initialize(&host), "cuptiProfilerHostInitialize");
    config.host = host.pHostObject;
    try {
      CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
      add.pHostObject = config.host;
      add.ppMetricNames = config.names.data();
      add.numMetrics = config.names.size();
      check(m_cupti.host_add_metrics(&add), "cuptiProfilerHostConfigAddMetrics");
      CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
      size.pHostObject = config.host;
      check(m_cupti.host_get_config_size(&size), "cuptiProfilerHostGetConfigImageSize");
      config.image.resize(size.configImageSize);
      CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, get);
      get.pHostObject = config.host;
      get.configImageSize = config.image.size();
      get.pConfigImage = config.image.data();
      check(m_cupti.host_get_config(&get), "cuptiProfilerHostGetConfigImage");
    } catch (...) {
      release(config.host);
      throw;
    }
    // Moving a vector keeps its elements where they are, so names stay valid.
    return m_configs.emplace(metrics, std::move(config)).first->second;
  }

  void check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = nullptr;
    if (m_cupti.get_result_string(result, &text) != CUPTI_SUCCESS || !text) text = "unknown";
    const std::string message = std::string(call) + ": " + text + " (" + std::to_string(result) + ")";
    const bool refused = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ||
                         result == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES;
    throw CounterFault(refused ? CounterFault::permission : CounterFault::unavailable, message);
  }

  void release(CUpti_Profiler_Host_Object* host) {
    CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, params);
    params.pHostObject = host;
    m_cupti.host_deinitialize(&params);
  }

  void finish() {
    for (auto& [metrics, config] : m_configs) release(config.host);
    m_configs.clear();
    CUPTI_PARAMS(CUpti_Profiler_DeInitialize_Params, params);
    if (m_initialized) m_cupti.deinitialize(&params);
    m_initialized = false;
  }

  CuptiFunctions m_cupti;
  CUcontext m_context = nullptr;
  bool m_initialized = false;
  std::string m_chip;
  std::vector<std::uint8_t> m_availability;
  std::map<std::vector<std::string>, Config> m_configs;
};

}  // namespace

#undef CUPTI_PARAMS

std::unique_ptr<CounterBackend> open_cupti() { return std::make_unique<CuptiBackend>(); }

}  // namespace flashscope::kernels

#endif
