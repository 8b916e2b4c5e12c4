// L2: bytes a second for all SMs together and through the port of one, and the size at which a buffer that all SMs read
// over and over no longer stays. By time always; by bytes that reach HBM where counters are allowed.
#include <string>

#include "kernels/calibrate/rig.h"
#include "kernels/measure/scans.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr int kParts = 8;      // of the buffer, read by each CTA: then each line is read once by every SM
constexpr double kMib = 1 << 20;

__device__ unsigned never_written;  // see arithmetic.cu

// ---- the port of one SM ---------------------------------------------------------------------------------------------

constexpr int kPortThreads = 1024;
constexpr int kPortLoads = 4;  // 16 bytes each, under way in each thread
constexpr int kPortBytes = 256 * 1024;
constexpr int kPortRounds = 16;

/// One CTA alone on the GPU reads a small buffer again and again, past L1.
__global__ void __launch_bounds__(kPortThreads) read_alone(const uint4* data, CtaTicks* ticks) {
  unsigned sum = 0;
  CtaWatch watch;
  watch.start();
#pragma unroll 1
  for (int round = 0; round < kPortRounds; ++round) {
#pragma unroll 1
    for (int at = threadIdx.x; at < kPortBytes / 16; at += kPortLoads * kPortThreads) {
      uint4 x[kPortLoads];
#pragma unroll
      for (int n = 0; n < kPortLoads; ++n)
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[n].x), "=r"(x[n].y), "=r"(x[n].z), "=r"(x[n].w)
                     : "l"(data + at + n * kPortThreads));
#pragma unroll
      for (int n = 0; n < kPortLoads; ++n) sum ^= x[n].x ^ x[n].y ^ x[n].z ^ x[n].w;
    }
  }
  watch.stop(ticks);
  if (sum == 0x9e3779b9u) never_written = sum;
}

void add_port(Rig& rig, const DeviceBuffer& buffer) {
  const auto* data = static_cast<const uint4*>(static_cast<const void*>(buffer.data()));
  const TickSamples samples =
      rig.time_ctas(1, [&](CtaTicks* ticks) { read_alone<<<1, kPortThreads>>>(data, ticks); });
  std::vector<double> rates;
  for (double clocks : samples.clocks) rates.push_back(double{kPortBytes} * kPortRounds / clocks);
  Reading reading = summarise("L2", "port of one SM", "B/clk/SM", rates,
                              "one CTA of 1024 threads alone, four 16 B loads under way in each, 256 KiB read again and again");
  reading.field = "l2_bytes_per_clk_per_sm";
  rig.add(reading);
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

/// 1/8 to 1 1/2 of L2, in sixteenths, in whole pieces.
std::vector<std::int64_t> sizes(const Rig& rig, int first_sixteenth) {
  std::vector<std::int64_t> list;
  for (int n = first_sixteenth; n <= 24; n += n < 18 ? 1 : 2) list.push_back(rig.l2_bytes() * n / 16 / 65536 * 65536);
  return list;
}

std::string mib(std::int64_t bytes) {
  const auto tenths = static_cast<long long>(static_cast<double>(bytes) / kMib * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

void add_bandwidth(Rig& rig, const DeviceBuffer& buffer) {
  const std::size_t first = rig.readings.size();
  const int ctas = staggered_ctas_per_sm() * rig.sms();
  const std::vector<std::int64_t> all = sizes(rig, 2);
  std::vector<double> x, y;
  for (std::int64_t bytes : all) {
    const std::vector<double> us =
        rig.time_warm([&] { staggered_scan(buffer.data(), bytes, kParts, ctas); });
    const double moved = static_cast<double>(bytes / 8192 / kParts * 8192) * ctas;
    std::vector<double> rates;
    for (double t : us) rates.push_back(moved / t / 1e3);
    rig.add(summarise("L2", "shared by all SMs, " + mib(bytes), "GB/s", rates,
                      "every SM reads the whole buffer, each CTA from a start of its own"));
    x.push_back(static_cast<double>(bytes));
    y.push_back(*rig.readings.back().value.value);
  }
  take_largest(rig.readings, first, "l2_gb_per_s");
  rig.add(summarise("L2", "size up to which that keeps 95 %", "MiB", {knee(x, y, 0.95) / kMib}, "from the curve above"));
  rig.add(summarise("L2", "size up to which that keeps 75 %", "MiB", {knee(x, y, 0.75) / kMib}, "from the curve above"));

  const std::int64_t small = rig.l2_bytes() / 4 / 65536 * 65536;
  int round = 0;
  std::vector<double> rates;
  // One round is short: many in one sample.
  constexpr int kRounds = 16;
  for (double us : rig.time_warm([&] {
         for (int n = 0; n < kRounds; ++n) own_scan(buffer.data(), small, 7 * ++round, 4 * rig.sms());
       }))
    rates.push_back(kRounds * static_cast<double>(small) / us / 1e3);
  rig.add(summarise("L2", "read by one SM at a time, " + mib(small), "GB/s", rates,
                    "each piece by another SM in every round; the gaps between 16 short kernels are in it"));
}

// ---- what comes back from HBM ---------------------------------------------------------------------------------------

void add_rereads(Rig& rig, const DeviceBuffer& buffer) {
  constexpr int kRounds = 8;
  constexpr const char* kName = "size up to which 95 % of re-reads hit, by counters";
  if (!rig.counting()) return rig.add(unmeasured("L2", kName, "MiB", "not asked for"));
  const OpenedCounters& opened = rig.bench().counters();
  if (!opened.counters) return rig.add(unmeasured("L2", kName, "MiB", opened.reason));
  constexpr double kNoTime = 0;  // a millisecond's background is nothing beside these bytes
  std::vector<double> x, hits;
  for (std::int64_t bytes : sizes(rig, 5)) {
    rig.check_cancelled();
    const CounterValues v = opened.counters->measure({[&] {
                                                        for (int round = 0; round < kRounds; ++round)
                                                          shared_scan(buffer.data(), bytes, 2 * rig.sms());
                                                      },
                                                      nullptr},
                                                     kNoTime);
    if (!v.hbm_read_bytes.value) return rig.add(unmeasured("L2", kName, "MiB", v.hbm_read_bytes.reason));
    const double reads = static_cast<double>(*v.hbm_read_bytes.value) / static_cast<double>(bytes);
    x.push_back(static_cast<double>(bytes));
    hits.push_back(1 - (reads - 1) / (kRounds - 1));
    rig.add(summarise("L2", "re-reads that hit, " + mib(bytes), "%", {100 * hits.back()},
                      "HBM bytes of eight rounds in which all SMs read the buffer from its start together"));
  }
  rig.add(summarise("L2", kName, "MiB", {knee(x, hits, 0.95) / kMib}, "from the counts above"));
}

}  // namespace

void measure_l2(Rig& rig) {
  const DeviceBuffer buffer(2 * rig.l2_bytes(), "measuring L2");
  stream_write(buffer.data(), buffer.bytes(), 21);
  add_port(rig, buffer);
  add_bandwidth(rig, buffer);
  add_rereads(rig, buffer);
}

}  // namespace flashscope::kernels
