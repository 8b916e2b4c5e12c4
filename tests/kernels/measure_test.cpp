// The measuring protocol on a GPU that exists only here: an L2 that keeps written bytes until something pushes them
// out, a counter that sees what reaches memory, and hosts that refuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "kernels/measure/measure.h"
#include "kernels/measure/probe/access_pattern.h"
#include "kernels/measure/statistics.h"
#include "sim/error.h"

using namespace flashscope;
using namespace flashscope::kernels;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kTestBytes = 1024 * kMiB;

// Written bytes stay dirty in L2 up to its size; a sweep brings them to memory and costs a floor of its own writes.
struct FakeGpu {
  std::int64_t l2_bytes = 60 * kMiB;
  std::int64_t sweep_writes = 4096;
  std::int64_t profiler_reads = 21760;  // every range moves a little by itself
  double background_reads = 0, background_writes = 0;  // a second

  double sm_read = 0, sm_write = 0, hbm_read = 0, hbm_write = 0, accumulator = 0;
  std::int64_t dirty = 0;

  void read(std::int64_t bytes) { sm_read += static_cast<double>(bytes), hbm_read += static_cast<double>(bytes); }
  void write(std::int64_t bytes) {
    sm_write += static_cast<double>(bytes);
    const std::int64_t out = std::max<std::int64_t>(0, dirty + bytes - l2_bytes);
    hbm_write += static_cast<double>(out);
    dirty += bytes - out;
  }
  void pass_time(double seconds) { hbm_read += background_reads * seconds, hbm_write += background_writes * seconds; }
  void clean() { hbm_write += static_cast<double>(dirty), dirty = 0; }
  void evict() {
    clean();
    hbm_write += 1e9;  // the evicting writes themselves: must never be inside a range
    hbm_read += 1e9;
  }
  void sweep() {
    clean();
    read(2 * l2_bytes);
    hbm_write += static_cast<double>(sweep_writes);
  }
  MemoryWork work() {
    MemoryWork w;
    w.evict = [this] { evict(); };
    w.sweep = [this] { sweep(); };
    w.read = [this] { read(kTestBytes); };
    w.copy = [this] { read(kTestBytes), write(kTestBytes); };
    w.test_bytes = kTestBytes;
    w.idle = [this] { pass_time(0.25); };
    w.idle_seconds = 0.25;
    return w;
  }
};

// Runs the body three times, as a GPU does that cannot count everything at once; the last pass gives the values.
class FakeBackend : public CounterBackend {
 public:
  explicit FakeBackend(FakeGpu& gpu) : m_gpu(gpu) {}
  double factor = 1;  // a counter that counts wrong
  bool refuse_after_self_test = false;
  std::string missing;  // a metric without a value

  std::vector<double> collect(const std::vector<std::string>& metrics, const std::function<void()>& before_pass,
                              const std::function<void()>& body) override {
    ++ranges;
    if (refuse_after_self_test && ranges > 6)
      throw CounterFault(CounterFault::unavailable, "cuptiRangeProfilerEnable: HARDWARE_BUSY (26)");
    std::map<std::string, double> seen;
    for (int pass = 0; pass < 3; ++pass) {
      before_pass();
      CHECK(m_gpu.dirty == 0);  // nothing of before may be charged to the range
      const FakeGpu start = m_gpu;
      body();
      seen[metric::kSmRead] = m_gpu.sm_read - start.sm_read;
      seen[metric::kSmWrite] = m_gpu.sm_write - start.sm_write;
      seen[metric::kHbmRead] = m_gpu.hbm_read - start.hbm_read + static_cast<double>(m_gpu.profiler_reads);
      seen[metric::kHbmWrite] = m_gpu.hbm_write - start.hbm_write;
      seen["accumulator"] = m_gpu.accumulator;
    }
    std::vector<double> values;
    for (const std::string& name : metrics)
      values.push_back(name == missing || !seen.count(name) ? std::numeric_limits<double>::quiet_NaN()
                                                            : factor * seen[name]);
    return values;
  }

  int ranges = 0;

 private:
  FakeGpu& m_gpu;
};

OpenedCounters open_fake(FakeGpu& gpu, const std::function<void(FakeBackend&)>& change = {}) {
  return Counters::open(
      [&]() -> std::unique_ptr<CounterBackend> {
        auto backend = std::make_unique<FakeBackend>(gpu);
        if (change) change(*backend);
        return backend;
      },
      gpu.work());
}

OpenedCounters open_refusing(FakeGpu& gpu) {
  return Counters::open(
      []() -> std::unique_ptr<CounterBackend> {
        throw CounterFault(CounterFault::permission, "cuptiRangeProfilerEnable: INSUFFICIENT_PRIVILEGES (35)");
      },
      gpu.work());
}

struct FakeStopwatch : Stopwatch {
  TimingResult time(const Workload& workload, const TimingOptions& options) override {
    std::vector<double> launches;
    for (int i = 0; i < options.launches; ++i) {
      workload.prepare();
      workload.launch();
      launches.push_back(100 + i);
      if (options.progress && !options.progress((i + 1.0) / options.launches))
        throw Error(ErrorKind::internal, "cancelled");
    }
    return summarise_times(launches, {3, 2, 4}, {1980, 1965, 1980}, "");
  }
};

bool all_unavailable(const Measurement& row) {
  for (const auto* m :
       {&row.sm_read_bytes, &row.sm_write_bytes, &row.hbm_read_bytes, &row.hbm_write_bytes, &row.hbm_write_floor_bytes,
        &row.hbm_background_read_bytes, &row.hbm_background_write_bytes})
    if (m->value || m->reason.empty()) return false;
  return true;
}

}  // namespace

TEST_CASE("median_and_percentiles_are_those_of_the_sorted_samples") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(median({7}) == 7);
  CHECK(percentile({0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 0.1) == doctest::Approx(10));
  CHECK(percentile({1, 2}, 0.9) == doctest::Approx(1.9));
  CHECK(percentile({5, 1, 9}, 0) == 1);
  CHECK(percentile({5, 1, 9}, 1) == 9);
  CHECK_THROWS_AS(median({}), Error);
  CHECK_THROWS_AS(percentile({1}, 1.5), Error);
  CHECK_THROWS_AS(percentile({1}, std::nan("")), Error);

  const std::uint32_t seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1e3, 1e3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> samples(1 + random() % 40);
    for (double& s : samples) s = value(random);
    const double middle = median(samples);
    const auto below = std::count_if(samples.begin(), samples.end(), [&](double s) { return s < middle; });
    const auto above = std::count_if(samples.begin(), samples.end(), [&](double s) { return s > middle; });
    CHECK(below == above);
    CHECK(percentile(samples, 0.1) <= middle);
    CHECK(percentile(samples, 0.9) >= middle);
  }
}

TEST_CASE("time_is_the_median_less_the_empty_kernel") {
  const TimingResult t = summarise_times({12, 10, 11, 30, 11}, {2, 3, 2}, {1980, 1200, 1980}, "");
  REQUIRE(t.time_us.value);
  CHECK(*t.time_us.value == doctest::Approx(9));
  CHECK(t.empty_kernel_us == 2);
  CHECK(t.p10_us == doctest::Approx(8.4));
  CHECK(t.p90_us == doctest::Approx(20.8));
  CHECK(t.launches == 5);
  CHECK(*t.sm_clock_mhz.value == 1980);
}

TEST_CASE("a_call_no_longer_than_an_empty_kernel_has_no_time") {
  for (const double launch : {2.0, 1.5}) {
    const TimingResult t = summarise_times({launch}, {2}, {}, "the driver's libnvidia-ml.so.1 was not found");
    CHECK_FALSE(t.time_us.value);
    CHECK_FALSE(t.time_us.reason.empty());
    CHECK_FALSE(t.sm_clock_mhz.value);
    CHECK(t.sm_clock_mhz.reason == "the driver's libnvidia-ml.so.1 was not found");
  }
}

TEST_CASE("drained_writes_are_exact_at_every_size_and_the_floor_is_subtracted") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu);
  REQUIRE_MESSAGE(opened.counters, opened.reason);
  CHECK(opened.counters->floor_bytes() == gpu.sweep_writes);
  for (const std::int64_t written : {std::int64_t{32}, kMiB, 59 * kMiB, 61 * kMiB, 700 * kMiB}) {
    CAPTURE(written);
    const CounterValues v = opened.counters->measure({[&] { gpu.read(3 * kMiB), gpu.write(written); }, nullptr}, 0);
    CHECK(*v.sm_read_bytes.value == 3 * kMiB);  // the sweep's reads are not in it
    CHECK(*v.sm_write_bytes.value == written);
    CHECK(*v.hbm_read_bytes.value == 3 * kMiB + gpu.profiler_reads);
    CHECK(*v.hbm_write_bytes.value == written);
    CHECK(*v.hbm_write_floor_bytes.value == gpu.sweep_writes);
    CHECK(*v.hbm_write_undrained_bytes.value == std::max<std::int64_t>(0, written - gpu.l2_bytes));
  }
}

TEST_CASE("what_the_gpu_moves_by_itself_is_not_the_kernel's") {
  FakeGpu gpu;
  gpu.profiler_reads = 0;
  gpu.background_reads = 2e6, gpu.background_writes = 18e6;
  const OpenedCounters opened = open_fake(gpu);
  REQUIRE(opened.counters);
  for (const double seconds : {0.0, 0.001, 0.5}) {
    CAPTURE(seconds);
    const auto kernel = [&] {
      gpu.read(3 * kMiB), gpu.write(2 * kMiB);
      gpu.pass_time(seconds);
    };
    const CounterValues v = opened.counters->measure({kernel, nullptr}, seconds);
    CHECK(*v.hbm_read_bytes.value == 3 * kMiB);
    CHECK(*v.hbm_write_bytes.value == 2 * kMiB);
    CHECK(*v.hbm_background_read_bytes.value == std::llround(2e6 * seconds));
    CHECK(*v.hbm_background_write_bytes.value == std::llround(18e6 * seconds));
  }
}

TEST_CASE("a_kernel_that_writes_nothing_never_counts_below_zero") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu);
  REQUIRE(opened.counters);
  gpu.sweep_writes = 1000;  // less than when the floor was taken
  const CounterValues v = opened.counters->measure({[&] { gpu.read(kMiB); }, nullptr}, 0);
  CHECK(*v.hbm_write_bytes.value == 0);
}

TEST_CASE("outputs_are_reset_before_each_pass_outside_the_range") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu);
  REQUIRE(opened.counters);
  int resets = 0, launches = 0;
  const Workload workload{[&] {
                            ++launches;
                            gpu.accumulator += 1;
                            gpu.write(kMiB);
                          },
                          [&] {
                            ++resets;
                            gpu.accumulator = 0;
                            gpu.write(10 * kMiB);  // dirty lines of the reset are not the kernel's
                          }};
  const CounterValues v = opened.counters->measure(workload, 0, {"accumulator", "no_such_metric"});
  CHECK(resets == launches);
  CHECK(resets == 6);  // three passes of each range
  CHECK(*v.hbm_write_bytes.value == kMiB);
  CHECK(*v.sm_write_bytes.value == kMiB);
  REQUIRE(v.extra.size() == 2);
  CHECK(*v.extra[0].value == 1);
  CHECK_FALSE(v.extra[1].value);
  CHECK(v.extra[1].reason.find("no_such_metric") != std::string::npos);
}

TEST_CASE("self_test_holds_each_of_its_three_counts_to_one_percent") {
  const SelfTest right{1000, 1000, 1000, 1000};
  CHECK(self_test_verdict(right) == "");
  for (double SelfTest::*count : {&SelfTest::hbm_read, &SelfTest::sm_read, &SelfTest::hbm_write})
    for (const auto& [counted, passes] : {std::pair{990.0, true},
                                          {1010.0, true},
                                          {989.0, false},
                                          {1011.0, false},
                                          {0.0, false},
                                          {std::numeric_limits<double>::quiet_NaN(), false},
                                          {std::numeric_limits<double>::infinity(), false}}) {
      SelfTest test = right;
      test.*count = counted;
      CAPTURE(counted);
      CHECK(self_test_verdict(test).empty() == passes);
    }
  CHECK(self_test_verdict({}) != "");
  CHECK(self_test_verdict({1000, 31, 1000, 1000}).find("counted 31 B of HBM reads") != std::string::npos);
}

TEST_CASE("counters_that_fail_the_self_test_are_not_shown") {
  for (const double factor : {0.5, 32.0, 1.02, 0.0}) {
    FakeGpu gpu;
    const OpenedCounters opened = open_fake(gpu, [&](FakeBackend& b) { b.factor = factor; });
    CHECK_FALSE(opened.counters);
    CHECK(opened.reason.find("self-test failed") == 0);
  }
  for (const char* missing : {metric::kHbmRead, metric::kHbmWrite, metric::kSmRead}) {
    FakeGpu gpu;
    CHECK_FALSE(open_fake(gpu, [&](FakeBackend& b) { b.missing = missing; }).counters);
  }
  // A sweep that pushes nothing out leaves 60 of 1024 MiB uncounted.
  FakeGpu gpu;
  MemoryWork work = gpu.work();
  work.sweep = [] {};
  const OpenedCounters undrained = Counters::open([&] { return std::make_unique<FakeBackend>(gpu); }, work);
  CHECK_FALSE(undrained.counters);
}

TEST_CASE("one_missing_metric_leaves_the_others") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu, [](FakeBackend& b) { b.missing = metric::kSmWrite; });
  REQUIRE(opened.counters);
  const CounterValues v = opened.counters->measure({[&] { gpu.write(5 * kMiB); }, nullptr}, 0);
  CHECK_FALSE(v.sm_write_bytes.value);
  CHECK(v.sm_write_bytes.reason.find(metric::kSmWrite) != std::string::npos);
  CHECK(*v.hbm_write_bytes.value == 5 * kMiB);
}

TEST_CASE("refused_counters_leave_the_time_and_name_the_remedy") {
  FakeGpu gpu;
  FakeStopwatch stopwatch;
  const OpenedCounters refused = open_refusing(gpu);
  CHECK_FALSE(refused.counters);
  const Measurement row = measure_launch({[&] { gpu.read(kMiB); }, nullptr}, MeasureOptions{}, stopwatch,
                                         [&]() -> const OpenedCounters& { return refused; });
  CHECK(*row.time_us.value == doctest::Approx(109.5 - 3));
  CHECK(*row.sm_clock_mhz.value == 1980);
  CHECK(all_unavailable(row));
  const std::string& reason = row.hbm_read_bytes.reason;
  CHECK(reason.find("no permission (host setting);") == 0);
  CHECK(reason.find("NVreg_RestrictProfilingToAdminUsers=0") != std::string::npos);
  CHECK(reason.find("CSV") != std::string::npos);
  CHECK(reason.find("35") == std::string::npos);
}

TEST_CASE("counters_lost_in_the_middle_become_reasons") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu, [](FakeBackend& b) { b.refuse_after_self_test = true; });
  REQUIRE(opened.counters);
  const CounterValues v = opened.counters->measure({[&] { gpu.write(kMiB); }, nullptr}, 0, {"accumulator"});
  for (const auto* m : {&v.sm_read_bytes, &v.sm_write_bytes, &v.hbm_read_bytes, &v.hbm_write_bytes,
                        &v.hbm_write_floor_bytes, &v.hbm_background_read_bytes, &v.hbm_background_write_bytes,
                        &v.hbm_write_undrained_bytes}) {
    CHECK_FALSE(m->value);
    CHECK(m->reason.find("HARDWARE_BUSY") != std::string::npos);
  }
  REQUIRE(v.extra.size() == 1);
  CHECK_FALSE(v.extra[0].value);
}

TEST_CASE("a_failing_launch_is_an_error_not_a_reason") {
  FakeGpu gpu;
  const OpenedCounters opened = open_fake(gpu);
  REQUIRE(opened.counters);
  const Workload broken{[] { throw Error(ErrorKind::internal, "illegal address"); }, nullptr};
  CHECK_THROWS_AS(opened.counters->measure(broken, 0), Error);
}

TEST_CASE("a_row_counts_only_when_asked_times_at_least_twenty_launches_and_can_be_cancelled") {
  FakeGpu gpu;
  FakeStopwatch stopwatch;
  const OpenedCounters opened = open_fake(gpu);
  int asked = 0;
  const auto counters = [&]() -> const OpenedCounters& { return ++asked, opened; };
  const Workload workload{[&] { gpu.write(3 * kMiB); }, nullptr};

  MeasureOptions options;
  options.counters = false;
  options.launches = 5;
  std::vector<double> shares;
  options.progress = [&](double share) { return shares.push_back(share), true; };
  Measurement row = measure_launch(workload, options, stopwatch, counters);
  CHECK(asked == 0);
  CHECK(row.launches == kMinLaunches);
  CHECK(all_unavailable(row));
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(shares.back() == 1);

  options.counters = true;
  options.launches = 30;
  row = measure_launch(workload, options, stopwatch, counters);
  CHECK(asked == 1);
  CHECK(row.launches == 30);
  CHECK(*row.hbm_write_bytes.value == 3 * kMiB);
  CHECK(row.time_spread_us > 0);

  options.progress = [](double) { return false; };
  CHECK_THROWS_WITH_AS(measure_launch(workload, options, stopwatch, counters), "cancelled", Error);
}

TEST_CASE("sectors_of_a_warp_request") {
  AccessPattern p;
  p.element_bytes = p.lane_stride = 2;
  CHECK(sector_bytes_by_instruction(p) == 2 * 32);  // 64 bytes
  p.offset = 4;
  CHECK(sector_bytes_by_instruction(p) == 3 * 32);
  p.offset = 0;
  p.element_bytes = 4, p.lane_stride = 0;
  CHECK(sector_bytes_by_instruction(p) == 32);  // broadcast
  p.lane_stride = 128;
  CHECK(sector_bytes_by_instruction(p) == 32 * 32);  // a row a lane
  p.element_bytes = p.lane_stride = 16, p.offset = 16;
  CHECK(sector_bytes_by_instruction(p) == 17 * 32);
  CHECK(sector_bytes_by_128(p) == 4 * 5 * 32);
  // Sixteen steps of 2 bytes inside one sector a lane.
  AccessPattern walk{2, 128, 0, 32, 16, 2, 4096};
  CHECK(sector_bytes_by_instruction(walk) == 16 * 32 * 32);
  CHECK(sector_bytes_once(walk) == 32 * 32);
  CHECK(named_bytes(walk) == 2 * 32 * 16);
}
