#include "kernels/measure/counters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "kernels/measure/statistics.h"

namespace flashscope::kernels {
namespace {

constexpr double kSelfTestTolerance = 0.01;
constexpr int kFloorRepeats = 3;

Measured<std::int64_t> to_bytes(double value, const char* name) {
  // Above 2^53 a double no longer counts single bytes; no GPU moves that much in one call.
  if (!(value >= 0 && value < 9007199254740992.0))
    return Measured<std::int64_t>::unavailable(std::string("the hardware gave no value for ") + name);
  return Measured<std::int64_t>::of(std::llround(value));
}

std::string bytes_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

// Every quantity unavailable for one reason.
CounterValues without_values(const std::string& reason, std::size_t extra) {
  CounterValues values;
  values.sm_read_bytes = values.sm_write_bytes = values.hbm_read_bytes = values.hbm_write_bytes =
      values.hbm_write_floor_bytes = values.hbm_background_read_bytes = values.hbm_background_write_bytes =
          values.hbm_write_undrained_bytes = Measured<std::int64_t>::unavailable(reason);
  values.extra.assign(extra, Measured<double>::unavailable(reason));
  return values;
}

}  // namespace

std::string self_test_verdict(const SelfTest& test) {
  const auto expected = static_cast<double>(test.expected_bytes);
  // Written so that NaN fails.
  const auto right = [&](double counted) { return std::abs(counted - expected) <= kSelfTestTolerance * expected; };
  if (test.expected_bytes > 0 && right(test.hbm_read) && right(test.sm_read) && right(test.hbm_write)) return "";
  return "self-test failed; moving " + std::to_string(test.expected_bytes) + " B counted " + bytes_text(test.hbm_read) +
         " B of HBM reads, " + bytes_text(test.sm_read) + " B of SM reads and " + bytes_text(test.hbm_write) +
         " B of HBM writes, where each must be within 1 %. Another program may be using this GPU";
}

std::string explain(const CounterFault& fault) {
  if (fault.kind() == CounterFault::permission)
    return "no permission (host setting); times stay valid. Only the administrator of the host can allow counters, "
           "with the "
           "driver's module option NVreg_RestrictProfilingToAdminUsers=0 and a reload of the module; being root in a "
           "container does not help. Otherwise import counters taken elsewhere from a CSV file (ncu --csv)";
  return fault.what();
}

Counters::Counters(std::unique_ptr<CounterBackend> backend, MemoryWork work)
    : m_backend(std::move(backend)), m_work(std::move(work)) {}

OpenedCounters Counters::open(const std::function<std::unique_ptr<CounterBackend>()>& open_backend, MemoryWork work) {
  OpenedCounters opened;
  try {
    std::unique_ptr<Counters> counters(new Counters(open_backend(), std::move(work)));
    opened.self_test = counters->self_test();
    opened.reason = self_test_verdict(opened.self_test);
    if (opened.reason.empty()) {
      counters->measure_background();
      opened.counters = std::move(counters);
    }
  } catch (const CounterFault& fault) {
    opened.reason = explain(fault);
  }
  return opened;
}

SelfTest Counters::self_test() {
  std::vector<double> floors;
  for (int repeat = 0; repeat < kFloorRepeats; ++repeat)
    floors.push_back(m_backend->collect({metric::kHbmWrite}, m_work.evict, m_work.sweep)[0]);
  const double floor = median(floors);
  // A floor that is not a number makes the writes below NaN, which the verdict refuses.
  m_floor_bytes = to_bytes(floor, metric::kHbmWrite).value.value_or(0);

  SelfTest test;
  test.expected_bytes = m_work.test_bytes;
  const std::vector<double> read = m_backend->collect({metric::kHbmRead, metric::kSmRead}, m_work.evict, m_work.read);
  test.hbm_read = read[0];
  test.sm_read = read[1];
  test.hbm_write = drained_writes({m_work.copy, nullptr}) - floor;
  return test;
}

void Counters::measure_background() {
  if (!(m_work.idle_seconds > 0)) return;
  const std::vector<double> counted =
      m_backend->collect({metric::kHbmRead, metric::kHbmWrite}, m_work.evict, m_work.idle);
  const auto per_second = [&](double bytes) { return bytes >= 0 ? bytes / m_work.idle_seconds : 0; };  // NaN: none
  m_background_read = per_second(counted[0]);
  m_background_write = per_second(counted[1]);
}

std::vector<double> Counters::collect(const std::vector<std::string>& metrics, const Workload& workload,
                                      const std::function<void()>& body) {
  const auto before = [&] {
    workload.prepare();
    m_work.evict();
  };
  return m_backend->collect(metrics, before, body);
}

// Range two: without the sweep, written lines that still lie in L2 when the kernel ends would never be counted.
double Counters::drained_writes(const Workload& workload) {
  const auto body = [&] {
    workload.launch();
    m_work.sweep();
  };
  return collect({metric::kHbmWrite}, workload, body)[0];
}

CounterValues Counters::measure(const Workload& workload, double seconds,
                                const std::vector<std::string>& extra_metrics) {
  try {
    // Range one: the kernel alone. The sweep of range two would show up in its reads.
    std::vector<std::string> names = {metric::kSmRead, metric::kSmWrite, metric::kHbmRead, metric::kHbmWrite};
    const std::size_t own = names.size();
    names.insert(names.end(), extra_metrics.begin(), extra_metrics.end());
    const std::vector<double> alone = collect(names, workload, workload.launch);

    CounterValues values;
    values.sm_read_bytes = to_bytes(alone[0], metric::kSmRead);
    values.sm_write_bytes = to_bytes(alone[1], metric::kSmWrite);
    values.hbm_read_bytes = to_bytes(alone[2], metric::kHbmRead);
    values.hbm_write_undrained_bytes = to_bytes(alone[3], metric::kHbmWrite);
    for (std::size_t i = own; i < names.size(); ++i)
      values.extra.push_back(std::isfinite(alone[i])
                                 ? Measured<double>::of(alone[i])
                                 : Measured<double>::unavailable("the hardware gave no value for " + names[i]));

    values.hbm_write_floor_bytes = Measured<std::int64_t>::of(m_floor_bytes);
    values.hbm_write_bytes = to_bytes(drained_writes(workload), metric::kHbmWrite);
    // Floor and background vary from run to run, so a kernel that writes nothing may come out just below them.
    const auto less = [](Measured<std::int64_t>& counted, std::int64_t bytes) {
      if (counted.value) counted.value = std::max<std::int64_t>(0, *counted.value - bytes);
    };
    const std::int64_t reads = std::llround(m_background_read * seconds),
                       writes = std::llround(m_background_write * seconds);
    values.hbm_background_read_bytes = Measured<std::int64_t>::of(reads);
    values.hbm_background_write_bytes = Measured<std::int64_t>::of(writes);
    less(values.hbm_read_bytes, reads);
    less(values.hbm_write_bytes, m_floor_bytes + writes);
    return values;
  } catch (const CounterFault& fault) {
    return without_values(explain(fault), extra_metrics.size());
  }
}

}  // namespace flashscope::kernels
