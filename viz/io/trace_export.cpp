#include "viz/io/trace_export.h"

#include "sim/error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr Picoseconds kPicosecondsPerNanosecond = 1000;
/// Row numbers are unique over the whole file, because viewers differ on whether equal ones in two processes are one row.
constexpr std::int64_t kMaxSlots = 4096;

/// A JSON string, quotes included; bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string row_ids(int sm, int slot) {
  // Both from 1: viewers take process or thread 0 for the idle task.
  return "\"pid\":" + std::to_string(sm + 1) + ",\"tid\":" + std::to_string(sm * kMaxSlots + slot + 1);
}

std::string name_of_span(const OpSpan& span) {
  if (span.op.op == Op::barrier && span.reason == Reason::launch) return "CTA start";
  std::string name = (span.op.starts ? "start " : "") + std::string(name_of(span.op.op));
  if (span.op.op == Op::load || span.op.op == Op::store) name += std::string(" ") + name_of(span.op.tensor);
  return name;
}

}  // namespace

std::string trace_microseconds(std::int64_t nanoseconds) {
  const std::uint64_t size = nanoseconds < 0 ? -static_cast<std::uint64_t>(nanoseconds) : nanoseconds;
  std::string decimals = std::to_string(size % 1000);
  decimals.insert(0, 3 - decimals.size(), '0');
  return (nanoseconds < 0 ? "-" : "") + std::to_string(size / 1000) + "." + decimals;
}

ChromeTraceWriter::ChromeTraceWriter(const Schedule& schedule, const std::string& machine, Output output)
    : m_output(std::move(output)) {
  for (const KernelLaunch& kernel : schedule.kernels()) m_kernels.push_back(quoted(kernel.name));
  m_metadata = "\"displayTimeUnit\":\"ns\",\"otherData\":{\"algorithm\":" + quoted(schedule.algorithm()) +
               ",\"gpu\":" + quoted(machine) + ",\"version\":" + quoted(version()) + ",\"commit\":" + quoted(commit()) +
               "}";
  m_buffer = "{\"traceEvents\":[";
}

void ChromeTraceWriter::span(const OpSpan& span) {
  if (m_rows.insert({span.sm, span.slot}).second) name_row(span.sm, span.slot);
  const std::int64_t begin = span.begin / kPicosecondsPerNanosecond, end = span.end / kPicosecondsPerNanosecond;
  std::string fields = "\"name\":" + quoted(name_of_span(span)) + ",\"cat\":" + quoted(name_of(span.reason)) +
                       ",\"ph\":\"X\",\"ts\":" + trace_microseconds(begin) + ",\"dur\":" + trace_microseconds(end - begin) +
                       "," + row_ids(span.sm, span.slot) + ",\"args\":{\"kernel\":" + m_kernels.at(span.kernel) +
                       ",\"cta\":" + std::to_string(span.cta) + ",\"i\":" + std::to_string(span.op.i) +
                       ",\"j\":" + std::to_string(span.op.j);
  if (span.op.op == Op::load || span.op.op == Op::store)
    fields += ",\"bytes\":" + std::to_string(span.op.bytes) + ",\"hbm_bytes\":" + std::to_string(span.hbm_bytes);
  if (span.op.starts)
    fields += ",\"arrives\":" + trace_microseconds(span.there() / kPicosecondsPerNanosecond);
  event(fields + "}");
  ++m_spans;
}

void ChromeTraceWriter::finish() {
  m_buffer += "\n]," + m_metadata + "}\n";
  m_output(m_buffer);
  m_buffer.clear();
}

void ChromeTraceWriter::name_row(int sm, int slot) {
  const auto name = [&](const char* what, const std::string& text) {
    event("\"name\":" + quoted(what) + ",\"ph\":\"M\"," + row_ids(sm, slot) + ",\"args\":{\"name\":" + quoted(text) + "}");
  };
  name("process_name", "SM " + std::to_string(sm));
  name("thread_name", "slot " + std::to_string(slot));
}

void ChromeTraceWriter::event(const std::string& fields) {
  m_buffer += m_first ? "\n{" : ",\n{";
  m_first = false;
  m_buffer += fields + "}";
  if (m_buffer.size() < kBufferBytes) return;
  m_output(m_buffer);
  m_buffer.clear();
}

}  // namespace flashscope
