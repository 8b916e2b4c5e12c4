// Bytes that the hardware counted for one call, by the protocol of docs/measuring.md: two ranges, a cold and clean L2
// before each, HBM writes drained, and nothing at all unless a read and a copy of known size came back right.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/measure/counter_backend.h"
#include "kernels/measure/workload.h"

namespace flashscope::kernels {

/// Quantities below this are shown and marked "below counter resolution": a profiled range always moves some bytes of
/// its own (about 20 KB of HBM reads on an H200).
inline constexpr std::int64_t kCounterResolutionBytes = std::int64_t{2} << 20;

namespace metric {
inline constexpr const char* kSmRead = "l1tex__m_xbar2l1tex_read_bytes.sum";
inline constexpr const char* kSmWrite = "l1tex__m_l1tex2xbar_write_bytes.sum";
inline constexpr const char* kHbmRead = "dram__bytes_read.sum";
inline constexpr const char* kHbmWrite = "dram__bytes_write.sum";
}  // namespace metric

/// The memory traffic that the protocol itself makes, on the default stream. On a GPU: memory_work.cu.
struct MemoryWork {
  std::function<void()> evict;  // afterwards L2 holds no line of the problem, and nothing dirty
  std::function<void()> sweep;  // reads a clean buffer twice the size of L2: pushes dirty lines out, writes nothing
  std::function<void()> read;   // self-test: reads `test_bytes`
  std::function<void()> copy;   // self-test: reads and writes `test_bytes`
  std::int64_t test_bytes = 0;
  std::function<void()> idle;  // a kernel that touches nothing for `idle_seconds`
  double idle_seconds = 0;
};

struct CounterValues {
  Measured<std::int64_t> sm_read_bytes, sm_write_bytes;  // kernel alone
  Measured<std::int64_t> hbm_read_bytes;                 // kernel alone, less the background
  Measured<std::int64_t> hbm_write_bytes;                // kernel and drain, less the floor and the background
  Measured<std::int64_t> hbm_write_floor_bytes;          // what the drain writes when nothing is dirty
  Measured<std::int64_t> hbm_background_read_bytes, hbm_background_write_bytes;  // what the GPU moves by itself meanwhile
  Measured<std::int64_t> hbm_write_undrained_bytes;      // kernel alone: misses what still lies dirty in L2
  std::vector<Measured<double>> extra;                   // as asked, kernel alone
};

/// What a read and a copy of `expected_bytes` counted.
struct SelfTest {
  std::int64_t expected_bytes = 0;
  double hbm_read = 0, sm_read = 0;  // of the read
  double hbm_write = 0;              // of the copy, drained, less the floor
};
/// "" when all three are within 1 % of what was moved, else the numbers seen.
std::string self_test_verdict(const SelfTest& test);

/// The text for a person: a refusal names the one remedy that works. Up to the first ';' it fits in a table cell.
std::string explain(const CounterFault& fault);

class Counters;
struct OpenedCounters {
  std::unique_ptr<Counters> counters;  // null exactly when reason is set
  std::string reason;
  SelfTest self_test;  // all zero when it did not get that far
};

class Counters {
 public:
  /// `open_backend` may throw CounterFault; runs the self-test. Lets Error of the device through.
  static OpenedCounters open(const std::function<std::unique_ptr<CounterBackend>()>& open_backend, MemoryWork work);

  /// Counts one call. `seconds`: how long it takes, for the background that is subtracted (0: none). Values that cannot
  /// be had carry their reason; only Error of the device is thrown.
  CounterValues measure(const Workload& workload, double seconds, const std::vector<std::string>& extra_metrics = {});

  std::int64_t floor_bytes() const { return m_floor_bytes; }

 private:
  Counters(std::unique_ptr<CounterBackend> backend, MemoryWork work);
  /// What is counted of `body`, outputs reset and L2 cold and clean before each pass.
  std::vector<double> collect(const std::vector<std::string>& metrics, const Workload& workload,
                              const std::function<void()>& body);
  double drained_writes(const Workload& workload);
  SelfTest self_test();
  void measure_background();

  std::unique_ptr<CounterBackend> m_backend;
  MemoryWork m_work;
  double m_background_read = 0, m_background_write = 0;  // bytes a second
  std::int64_t m_floor_bytes = 0;
};

}  // namespace flashscope::kernels
