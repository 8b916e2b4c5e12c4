// How long one load waits: for a line in the near half of L2, in the far half, and in HBM. One thread walks a chain of
// lines, each naming the next, with the clock read around every step; a histogram tells near from far.
//
// On a GPU whose L2 has two halves, a line lives in its home half and is copied into the half of an SM that reads it.
// So: SM w reads every line; then SM r, reading each once, finds lines of its own half near, and, if w sits at the other
// half, the rest far. Which SM sits where nobody says; with several w and r both kinds turn up.
#include <algorithm>

#include "kernels/calibrate/rig.h"
#include "kernels/measure/statistics.h"

namespace flashscope::kernels {
namespace {

constexpr int kLines = 2048;
constexpr int kLineBytes = 128;
constexpr std::int64_t kRegionBytes = std::int64_t{kLines} * kLineBytes;
constexpr int kStride = 1037;  // odd, so the chain visits every line; neighbours in time are none in memory

/// Each line's first word: the number of the line after it. One chain a region.
__global__ void write_chains(unsigned* words) {
  unsigned* region = words + blockIdx.x * (kRegionBytes / 4);
  for (int line = threadIdx.x; line < kLines; line += blockDim.x)
    region[line * (kLineBytes / 4)] = (line + kStride) % kLines;
}

__device__ unsigned load_past_l1(const unsigned* at) {
  unsigned x;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}

__device__ int this_sm() {
  int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

/// The first CTA that finds itself on SM `sm` walks the region and notes each step's clocks; the others leave. `claim` is
/// 0 before and 1 after, or still 0 when no CTA came to that SM.
__global__ void walk_on(int sm, const unsigned* region, unsigned short* clocks, int* claim) {
  __shared__ unsigned short taken[kLines];
  __shared__ volatile unsigned reached;
  if (this_sm() != sm || threadIdx.x != 0 || atomicExch(claim, 1) != 0) return;
  unsigned line = load_past_l1(region + (kLines - 1) * (kLineBytes / 4));  // the address translation of the region
  for (int n = 0; n < kLines - 1; ++n) {
    const long long begin = clock64();
    line = load_past_l1(region + line * (kLineBytes / 4));
    reached = line;  // a store that waits for the load, so that the clock after it does too
    const long long end = clock64();
    taken[n] = static_cast<unsigned short>(min(end - begin, 65535ll));
  }
  for (int n = 0; n < kLines - 1; ++n) clocks[n] = taken[n];
}

/// Clocks between two readings with nothing but the store between: part of every step.
__global__ void empty_steps(unsigned short* clocks) {
  __shared__ volatile unsigned reached;
  for (int n = 0; n < kLines - 1; ++n) {
    const long long begin = clock64();
    reached = n;
    const long long end = clock64();
    clocks[n] = static_cast<unsigned short>(end - begin);
  }
}

class Walker {
 public:
  explicit Walker(Rig& rig, int regions)
      : m_rig(rig),
        m_chains(regions * kRegionBytes, "timing single loads"),
        m_clocks(kLines * 2, "timing single loads"),
        m_claim(256, "timing single loads") {
    write_chains<<<regions, 256>>>(words());
    empty_steps<<<1, 1>>>(clocks());
    const std::vector<double> empty = fetch();
    m_overhead = median(empty);
    rig.bench().cleaner().evict();
  }

  /// Clocks of each step of SM `sm` through a region, less those of the clock itself; empty when no CTA reached the SM.
  std::vector<double> walk(int sm, int region) {
    check_cuda(cudaMemset(m_claim.data(), 0, 4), "timing single loads");
    auto* const claim = static_cast<int*>(static_cast<void*>(m_claim.data()));
    // More CTAs than fit at once: every SM gets some.
    walk_on<<<m_rig.sms() * 64, 32>>>(sm, words() + region * (kRegionBytes / 4), clocks(), claim);
    int claimed = 0;
    check_cuda(cudaMemcpy(&claimed, claim, 4, cudaMemcpyDeviceToHost), "timing single loads");
    if (!claimed) return {};
    std::vector<double> steps = fetch();
    for (double& step : steps) step -= m_overhead;
    return steps;
  }

 private:
  unsigned* words() const { return static_cast<unsigned*>(static_cast<void*>(m_chains.data())); }
  unsigned short* clocks() const { return static_cast<unsigned short*>(static_cast<void*>(m_clocks.data())); }
  std::vector<double> fetch() const {
    std::vector<unsigned short> taken(kLines - 1);
    check_cuda(cudaMemcpy(taken.data(), clocks(), taken.size() * 2, cudaMemcpyDeviceToHost), "timing single loads");
    return {taken.begin(), taken.end()};
  }

  Rig& m_rig;
  const DeviceBuffer m_chains, m_clocks, m_claim;
  double m_overhead = 0;
};

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Reading in_ns(const Rig& rig, const char* name, std::vector<double> clocks, const char* field, const char* method) {
  for (double& c : clocks) c = 1e3 * c / rig.mhz;
  Reading reading = summarise("latency", name, "ns", clocks, method);
  reading.field = field;
  return reading;
}

}  // namespace

void measure_latency(Rig& rig) {
  constexpr int kFirst = 4, kSecond = 6;  // SMs that read a region first, and after it
  Walker walker(rig, kFirst * kSecond + 8);
  std::vector<double> hits, misses;
  int region = 0;
  for (int w = 0; w < kFirst; ++w)
    for (int r = 0; r < kSecond; ++r, ++region) {
      const int first = w * rig.sms() / kFirst;
      const int second = (first + 1 + r * (rig.sms() - 1) / kSecond) % rig.sms();
      const std::vector<double> cold = walker.walk(first, region);
      append(misses, cold);
      if (!cold.empty()) append(hits, walker.walk(second, region));
      rig.check_cancelled();
    }
  for (; region < kFirst * kSecond + 8; ++region) append(misses, walker.walk(region * 5 % rig.sms(), region));
  if (hits.empty()) return rig.add(unmeasured("latency", "all", "ns", "no CTA reached the SMs that were to load"));

  const NearFar l2 = split_near_far(hits);
  rig.add(in_ns(rig, "L2 hit, near", l2.near, "l2_latency_ns",
                "single loads past L1 of lines another SM has read; the lower of two groups of latencies"));
  if (l2.far.empty())
    rig.add(in_ns(rig, "L2 hit, far", l2.near, "l2_far_latency_ns", "no second group of latencies: the same as near"));
  else
    rig.add(in_ns(rig, "L2 hit, far", l2.far, "l2_far_latency_ns",
                  "single loads past L1 of lines another SM has read; the higher of two groups of latencies"));
  rig.add(in_ns(rig, "HBM", misses, "hbm_latency_ns", "single loads of lines in no cache, page known, nothing else running"));
}

}  // namespace flashscope::kernels
