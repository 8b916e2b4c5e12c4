// flashscope_probe: what do this GPU's counters count? Runs the self-test, then streams of known size, then warp
// requests of every shape the kernels use, and prints the bytes that counting sectors expects next to the bytes that
// were counted.
//
//   flashscope_probe            one table on standard output; exit code 0, or 4 where there is no GPU or no counter
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/measure/bench.h"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/probe/access_pattern.h"
#include "kernels/measure/probe/probe_main.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

enum class Access { ld_cg, ld_ca, cp_async, st, red };

// One instruction of each kind, volatile so that the compiler does not merge it with its neighbours. The loaded value
// is returned because the assembler drops loads that nobody uses.
template <class Element>
__device__ std::uint32_t load_cg(const char* address) {
  if constexpr (sizeof(Element) == 2) {
    unsigned short x;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(x) : "l"(address));
    return x;
  } else if constexpr (sizeof(Element) == 4) {
    std::uint32_t x;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(address));
    return x;
  } else if constexpr (sizeof(Element) == 8) {
    uint2 x;
    asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(address));
    return x.x ^ x.y;
  } else {
    uint4 x;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(address));
    return x.x ^ x.y ^ x.z ^ x.w;
  }
}

template <class Element>
__device__ std::uint32_t load_ca(const char* address) {
  if constexpr (sizeof(Element) == 2) {
    unsigned short x;
    asm volatile("ld.global.ca.u16 %0, [%1];" : "=h"(x) : "l"(address));
    return x;
  } else {
    std::uint32_t x;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(address));
    return x;
  }
}

template <class Element>
__device__ void store(char* address, std::uint32_t x) {
  if constexpr (sizeof(Element) == 2)
    asm volatile("st.global.u16 [%0], %1;" ::"l"(address), "h"(static_cast<unsigned short>(x)) : "memory");
  else if constexpr (sizeof(Element) == 4)
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(x) : "memory");
  else if constexpr (sizeof(Element) == 8)
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(x), "r"(~x) : "memory");
  else
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %1, %2};" ::"l"(address), "r"(x), "r"(~x) : "memory");
}

__device__ std::uint32_t never_written;  // see streams.cu

template <class Element, Access kAccess>
__global__ void requests_kernel(char* base, AccessPattern p, std::int64_t requests) {
  [[maybe_unused]] __shared__ uint4 landing[256];
  std::uint32_t sum = 0;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kWarpLanes;
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpLanes;
  for (std::int64_t r = first; r < requests; r += warps) {
    char* address = base + r * p.request_pitch + p.offset + static_cast<std::int64_t>(lane) * p.lane_stride;
    if (lane >= p.active_lanes) continue;
    for (int step = 0; step < p.steps; ++step, address += p.step_bytes) {
      if constexpr (kAccess == Access::ld_cg) sum += load_cg<Element>(address);
      if constexpr (kAccess == Access::ld_ca) sum += load_ca<Element>(address);
      if constexpr (kAccess == Access::st)
        store<Element>(address, static_cast<std::uint32_t>(r * kWarpLanes + lane + step));
      if constexpr (kAccess == Access::red)
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(1.0f) : "memory");
#if __CUDA_ARCH__ >= 800
      if constexpr (kAccess == Access::cp_async) {
        const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(&landing[threadIdx.x]));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(address) : "memory");
      }
#endif
    }
  }
#if __CUDA_ARCH__ >= 800
  if constexpr (kAccess == Access::cp_async) asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  if (sum == 0x9e3779b9u) never_written = sum;
}

struct Case {
  const char* name;
  Access access;
  AccessPattern pattern;
};

// The pitch of a request: whole lines, and one between neighbours.
AccessPattern shape(int element, int lane_stride, int offset, int lanes = kWarpLanes, int steps = 1,
                    int step_bytes = 0) {
  AccessPattern p{element, lane_stride, offset, lanes, steps, step_bytes, 0};
  const std::int64_t end =
      offset + std::int64_t{lane_stride} * (lanes - 1) + element + std::int64_t{steps - 1} * step_bytes;
  p.request_pitch = (end + 127) / 128 * 128 + 128;
  return p;
}

// Neighbouring requests back to back, as in a kernel that walks over a matrix: edge sectors are shared.
AccessPattern packed(int element, int offset) {
  AccessPattern p{element, element, offset, kWarpLanes, 1, 0, std::int64_t{element} * kWarpLanes};
  return p;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  const auto add = [&](const char* name, Access access, AccessPattern p) { list.push_back({name, access, p}); };
  // Loads past L1, 32 consecutive elements.
  add("ld.cg 2 B consecutive, offset 0", Access::ld_cg, shape(2, 2, 0));
  add("ld.cg 2 B consecutive, offset 4", Access::ld_cg, shape(2, 2, 4));
  add("ld.cg 2 B consecutive, offset 16", Access::ld_cg, shape(2, 2, 16));
  add("ld.cg 4 B consecutive, offset 0", Access::ld_cg, shape(4, 4, 0));
  add("ld.cg 4 B consecutive, offset 4", Access::ld_cg, shape(4, 4, 4));
  add("ld.cg 4 B consecutive, offset 16", Access::ld_cg, shape(4, 4, 16));
  add("ld.cg 8 B consecutive, offset 0", Access::ld_cg, shape(8, 8, 0));
  add("ld.cg 8 B consecutive, offset 8", Access::ld_cg, shape(8, 8, 8));
  add("ld.cg 16 B consecutive, offset 0", Access::ld_cg, shape(16, 16, 0));
  add("ld.cg 16 B consecutive, offset 16", Access::ld_cg, shape(16, 16, 16));
  add("ld.cg 2 B packed, offset 4", Access::ld_cg, packed(2, 4));
  add("ld.cg 4 B packed, offset 16", Access::ld_cg, packed(4, 16));
  // One element for all lanes; one row a lane.
  add("ld.cg 2 B broadcast", Access::ld_cg, shape(2, 0, 0));
  add("ld.cg 4 B broadcast", Access::ld_cg, shape(4, 0, 0));
  add("ld.cg 2 B row a lane (pitch 128)", Access::ld_cg, shape(2, 128, 0));
  add("ld.cg 4 B row a lane (pitch 128)", Access::ld_cg, shape(4, 128, 0));
  add("ld.cg 2 B, 4 lanes on", Access::ld_cg, shape(2, 2, 0, 4));
  // Element after element along a row, as in a dot product: does a sector come once, or once an instruction?
  add("ld.cg 2 B broadcast, 64 along a row", Access::ld_cg, shape(2, 0, 0, kWarpLanes, 64, 2));
  add("ld.cg 4 B broadcast, 64 along a row", Access::ld_cg, shape(4, 0, 0, kWarpLanes, 64, 4));
  add("ld.cg 2 B row a lane, 64 along", Access::ld_cg, shape(2, 128, 0, kWarpLanes, 64, 2));
  add("ld.ca 2 B row a lane, 64 along", Access::ld_ca, shape(2, 128, 0, kWarpLanes, 64, 2));
  add("ld.ca 4 B consecutive, offset 16", Access::ld_ca, shape(4, 4, 16));
  add("cp.async 16 B consecutive, offset 0", Access::cp_async, shape(16, 16, 0));
  add("cp.async 16 B consecutive, offset 16", Access::cp_async, shape(16, 16, 16));
  // Stores.
  add("st 2 B consecutive, offset 0", Access::st, shape(2, 2, 0));
  add("st 2 B consecutive, offset 4", Access::st, shape(2, 2, 4));
  add("st 4 B consecutive, offset 0", Access::st, shape(4, 4, 0));
  add("st 4 B consecutive, offset 16", Access::st, shape(4, 4, 16));
  add("st 8 B consecutive, offset 0", Access::st, shape(8, 8, 0));
  add("st 16 B consecutive, offset 0", Access::st, shape(16, 16, 0));
  add("st 16 B consecutive, offset 16", Access::st, shape(16, 16, 16));
  add("st 4 B packed, offset 16", Access::st, packed(4, 16));
  add("st 4 B packed, offset 4", Access::st, packed(4, 4));
  add("st 2 B packed, offset 0", Access::st, packed(2, 0));
  add("st 2 B packed, offset 16", Access::st, packed(2, 16));
  add("st 2 B row a lane (pitch 128)", Access::st, shape(2, 128, 0));
  add("st 4 B row a lane (pitch 128)", Access::st, shape(4, 128, 0));
  add("st 16 B row a lane (pitch 128)", Access::st, shape(16, 128, 0));
  add("st 2 B every other, offset 0", Access::st, shape(2, 4, 0));
  add("st 4 B every other, offset 0", Access::st, shape(4, 8, 0));
  add("st 4 B, 1 lane on", Access::st, shape(4, 4, 0, 1));
  add("st 4 B, 4 lanes on", Access::st, shape(4, 4, 0, 4));
  add("st 2 B row a lane, 16 along", Access::st, shape(2, 128, 0, kWarpLanes, 16, 2));
  add("red.add 4 B consecutive, offset 0", Access::red, shape(4, 4, 0));
  add("red.add 4 B row a lane (pitch 128)", Access::red, shape(4, 128, 0));
  return list;
}

template <class Element>
void launch_element(const Case& c, char* base, std::int64_t requests, int ctas) {
  switch (c.access) {
    case Access::ld_cg: requests_kernel<Element, Access::ld_cg><<<ctas, 256>>>(base, c.pattern, requests); break;
    case Access::ld_ca: requests_kernel<Element, Access::ld_ca><<<ctas, 256>>>(base, c.pattern, requests); break;
    case Access::cp_async: requests_kernel<Element, Access::cp_async><<<ctas, 256>>>(base, c.pattern, requests); break;
    case Access::st: requests_kernel<Element, Access::st><<<ctas, 256>>>(base, c.pattern, requests); break;
    case Access::red: requests_kernel<Element, Access::red><<<ctas, 256>>>(base, c.pattern, requests); break;
  }
  check_cuda(cudaGetLastError(), c.name);
}

void launch_case(const Case& c, char* base, std::int64_t requests, int ctas) {
  switch (c.pattern.element_bytes) {
    case 2: launch_element<std::uint16_t>(c, base, requests, ctas); break;
    case 4: launch_element<std::uint32_t>(c, base, requests, ctas); break;
    case 8: launch_element<uint2>(c, base, requests, ctas); break;
    default: launch_element<uint4>(c, base, requests, ctas); break;
  }
}

std::string text(const Measured<std::int64_t>& m) { return m.value ? std::to_string(*m.value) : "-"; }

void print_reasons(const CounterValues& v) {
  for (const auto* m : {&v.sm_read_bytes, &v.sm_write_bytes, &v.hbm_read_bytes, &v.hbm_write_bytes})
    if (!m->value) {
      std::printf("    - : %s\n", m->reason.c_str());
      return;
    }
}

double ratio(const Measured<std::int64_t>& counted, std::int64_t expected) {
  return counted.value && expected > 0 ? static_cast<double>(*counted.value) / static_cast<double>(expected) : 0;
}

void print_time(Bench& bench, const char* name, const Workload& workload) {
  const TimingResult t = bench.stopwatch().time(workload, {});
  std::printf("%-44s %10.2f us (p10 %.2f, p90 %.2f; empty kernel %.2f; %d launches; SM clock %.0f MHz%s%s)\n", name,
              t.time_us.value.value_or(0), t.p10_us, t.p90_us, t.empty_kernel_us, t.launches,
              t.sm_clock_mhz.value.value_or(0), t.time_us.reason.empty() ? "" : "; ", t.time_us.reason.c_str());
  std::fflush(stdout);
}

void probe_streams(Bench& bench, Counters& counters) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const DeviceBuffer source(kGib, "the probe"), target(kGib, "the probe");
  stream_write(source.data(), kGib, 3);
  struct Stream {
    std::string name;
    std::int64_t read, write;
    std::function<void()> launch;
  };
  std::vector<Stream> streams;
  for (const auto& [size, mib] : {std::pair{"1 GiB", 1024}, {"16 MiB", 16}, {"2 MiB", 2}}) {
    const std::int64_t bytes = std::int64_t{mib} << 20;
    const std::string name = size;
    streams.push_back({name + " read", bytes, 0, [&source, bytes] { stream_read(source.data(), bytes); }});
    streams.push_back({name + " write", 0, bytes, [&target, bytes] { stream_write(target.data(), bytes, 5); }});
    streams.push_back({name + " copy", bytes, bytes,
                       [&source, &target, bytes] { stream_copy(target.data(), source.data(), bytes); }});
  }
  streams.push_back({"empty kernel, 1 CTA", 0, 0, [] { empty_launch(1); }});
  streams.push_back({"empty kernel, 65536 CTAs", 0, 0, [] { empty_launch(65536); }});

  print_time(bench, "1 GiB read, counters open", {streams[0].launch, nullptr});
  std::printf("\n%-26s %13s %13s %13s %13s %13s %13s %13s\n", "stream", "reads exp.", "SM reads", "HBM reads",
              "writes exp.", "SM writes", "HBM drained", "HBM undrained");
  for (const Stream& s : streams) {
    const CounterValues v = counters.measure({s.launch, nullptr}, 0);
    std::printf("%-26s %13lld %13s %13s %13lld %13s %13s %13s\n", s.name.c_str(), static_cast<long long>(s.read),
                text(v.sm_read_bytes).c_str(), text(v.hbm_read_bytes).c_str(), static_cast<long long>(s.write),
                text(v.sm_write_bytes).c_str(), text(v.hbm_write_bytes).c_str(),
                text(v.hbm_write_undrained_bytes).c_str());
    print_reasons(v);
    std::fflush(stdout);
  }
}

void probe_requests(Counters& counters) {
  constexpr std::int64_t kMaxRequests = std::int64_t{1} << 18;
  constexpr std::int64_t kBufferBytes = std::int64_t{5} << 28;  // 1.25 GiB: 2^18 requests of 32 lines and a spare one
  const DeviceBuffer buffer(kBufferBytes, "the probe");
  stream_write(buffer.data(), kBufferBytes, 11);
  int device = 0, sms = 0, capability = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  check_cuda(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device),
             "asking for the capability");

  std::printf(
      "\nWarp requests. Expected bytes: 'instr' = sectors of each warp instruction x 32; 'by128' = of each 128 B that\n"
      "vectors are split into; 'once' = each sector once a warp; 'named' = bytes the lanes name. SM is reads for "
      "loads,\n"
      "writes for stores and reductions.\n");
  std::printf("%-38s %11s %11s %11s %11s | %11s %7s | %11s %11s %11s %11s\n", "case", "instr", "by128", "once", "named",
              "SM counted", "/instr", "SM reads", "SM writes", "HBM reads", "HBM drained");
  for (const Case& c : cases()) {
    if (c.access == Access::cp_async && capability < 8) continue;
    const std::int64_t room = (kBufferBytes - c.pattern.request_pitch) / c.pattern.request_pitch;
    const std::int64_t requests = room < kMaxRequests ? room : kMaxRequests;
    const Workload workload{[&] { launch_case(c, buffer.data(), requests, sms * 8); }, nullptr};
    const CounterValues v = counters.measure(workload, 0);
    const bool writes = c.access == Access::st || c.access == Access::red;
    const Measured<std::int64_t>& counted = writes ? v.sm_write_bytes : v.sm_read_bytes;
    const std::int64_t expected = requests * sector_bytes_by_instruction(c.pattern);
    std::printf("%-38s %11lld %11lld %11lld %11lld | %11s %7.4f | %11s %11s %11s %11s\n", c.name,
                static_cast<long long>(expected), static_cast<long long>(requests * sector_bytes_by_128(c.pattern)),
                static_cast<long long>(requests * sector_bytes_once(c.pattern)),
                static_cast<long long>(requests * named_bytes(c.pattern)), text(counted).c_str(),
                ratio(counted, expected), text(v.sm_read_bytes).c_str(), text(v.sm_write_bytes).c_str(),
                text(v.hbm_read_bytes).c_str(), text(v.hbm_write_bytes).c_str());
    print_reasons(v);
    std::fflush(stdout);
  }
}

int run() {
  Bench bench;
  int device = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the device");
  std::printf("%s, driver %s, L2 %lld B, SM clock %.0f MHz, memory clock %.0f MHz\n", properties.name,
              bench.nvml().driver_version().value.value_or("?").c_str(),
              static_cast<long long>(bench.cleaner().l2_bytes()), bench.nvml().sm_clock_mhz().value.value_or(0),
              bench.nvml().memory_clock_mhz().value.value_or(0));
  {
    constexpr std::int64_t kGib = std::int64_t{1} << 30;
    const DeviceBuffer source(kGib, "the probe"), target(kGib, "the probe");
    stream_write(source.data(), kGib, 3);
    print_time(bench, "1 GiB read, before counters are opened", {[&] { stream_read(source.data(), kGib); }, nullptr});
    print_time(bench, "1 GiB write", {[&] { stream_write(target.data(), kGib, 4); }, nullptr});
    print_time(bench, "1 GiB copy", {[&] { stream_copy(target.data(), source.data(), kGib); }, nullptr});
    print_time(bench, "empty kernel, 65536 CTAs", {[] { empty_launch(65536); }, nullptr});
  }
  const OpenedCounters& opened = bench.counters();
  const SelfTest& test = opened.self_test;
  std::printf("self-test: %lld B moved, HBM reads %.0f, SM reads %.0f, HBM writes (drained) %.0f\n",
              static_cast<long long>(test.expected_bytes), test.hbm_read, test.sm_read, test.hbm_write);
  if (!opened.counters) {
    std::printf("counters unavailable: %s\n", opened.reason.c_str());
    return 4;
  }
  std::printf("self-test passed; floor of the drain %lld B of HBM writes\n",
              static_cast<long long>(opened.counters->floor_bytes()));
  probe_streams(bench, *opened.counters);
  probe_requests(*opened.counters);
  return 0;
}

}  // namespace
}  // namespace flashscope::kernels

int main() { return flashscope::kernels::probe_main("flashscope_probe", flashscope::kernels::run); }
