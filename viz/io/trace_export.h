// A timed run in the Chrome trace format ("Trace Event Format", JSON object form), which chrome://tracing and Perfetto
// open: a process for each SM, a row for each CTA slot on it, one complete event for each span.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.h"
#include "sim/trace/trace.h"

namespace flashscope {

/// The format's times are microseconds. Three decimals, written from integers: a double would drop digits of long runs.
std::string trace_microseconds(std::int64_t nanoseconds);

/// Writes the events as they come, in constant memory. Begin and end of a span are rounded down to nanoseconds each, so
/// that spans that touch still touch. Nothing is valid before finish().
class ChromeTraceWriter final : public TraceSink {
 public:
  using Output = std::function<void(std::string_view)>;
  /// Copies the names it needs. `output` may throw; then nothing more may be called.
  ChromeTraceWriter(const Schedule& schedule, const std::string& machine, Output output);

  void span(const OpSpan& span) override;
  void finish();
  std::int64_t spans() const { return m_spans; }

 private:
  void event(const std::string& fields);
  void name_row(int sm, int slot);

  Output m_output;
  std::string m_buffer;
  std::string m_metadata;                // the closing members
  std::vector<std::string> m_kernels;    // names as JSON strings
  std::set<std::pair<int, int>> m_rows;  // (sm, slot) already named
  bool m_first = true;
  std::int64_t m_spans = 0;
};

}  // namespace flashscope
