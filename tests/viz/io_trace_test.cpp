// The Chrome trace format (case F05): microseconds from integers, escaping, closing.
#include "viz/io/trace_export.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_machine.h"
#include "tests/support/throws_error.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

/// A schedule with a name of our choosing and no operations.
class NamedSchedule final : public Schedule {
 public:
  explicit NamedSchedule(const std::string& name) : Schedule(name, AttentionProblem{}, TileShape{}) {
    KernelLaunch kernel;
    kernel.name = name;
    m_kernels.push_back(kernel);
  }
  ClosedForm closed_form() const override { return {}; }

 private:
  void cta(int, std::int64_t, CtaProgram&) const override {}
};

OpSpan span_of(std::int64_t begin_ns, std::int64_t end_ns) {
  OpSpan span;
  span.begin = begin_ns * 1000;
  span.end = end_ns * 1000;
  span.reason = Reason::hbm;
  span.op.op = Op::load;
  span.op.tensor = Tensor::K;
  return span;
}

std::string trace_of(const Schedule& schedule, const std::vector<OpSpan>& spans) {
  std::string text;
  ChromeTraceWriter writer(schedule, "nvidia-h200", [&](std::string_view bytes) { text += bytes; });
  for (const OpSpan& span : spans) writer.span(span);
  writer.finish();
  return text;
}

/// The complete events ("X") of a trace that strict JSON accepts.
std::vector<Json> events_of(const std::string& text) {
  std::vector<Json> events;
  const Json document = parse_json(text, "trace");
  for (const Json& event : document["traceEvents"])
    if (event["ph"] == "X") events.push_back(event);
  return events;
}

TEST_CASE("microseconds keep three decimals at any size") {
  CHECK(trace_microseconds(1'236) == "1.236");
  CHECK(trace_microseconds(13'837'451) == "13837.451");
  CHECK(trace_microseconds(0) == "0.000");
  CHECK(trace_microseconds(7) == "0.007");
  CHECK(trace_microseconds(1'001) == "1.001");
  CHECK(trace_microseconds(1'666'382'280'874'284'123) == "1666382280874284.123");
  CHECK(trace_microseconds(-1'236) == "-1.236");
  CHECK(trace_microseconds(INT64_MIN) == "-9223372036854775.808");
}

TEST_CASE("begin and length are microseconds; neighbours touch") {
  const NamedSchedule schedule("k");
  const std::string text = trace_of(schedule, {span_of(1'236, 1'236 + 13'837'451), span_of(0, 1'001), span_of(1'001, 2'003)});
  CHECK(text.find("\"ts\":1.236,\"dur\":13837.451,") != std::string::npos);
  CHECK(text.find("\"ts\":0.000,\"dur\":1.001,") != std::string::npos);
  CHECK(text.find("\"ts\":1.001,\"dur\":1.002,") != std::string::npos);
  CHECK(events_of(text).size() == 3);
}

TEST_CASE("spans that touch in picoseconds touch in the file") {
  const NamedSchedule schedule("k");
  OpSpan first = span_of(0, 0), second = span_of(0, 0);
  first.end = second.begin = 1'000'999;  // 1000.999 ns
  second.end = 2'500'001;
  const std::string text = trace_of(schedule, {first, second});
  CHECK(text.find("\"ts\":0.000,\"dur\":1.000,") != std::string::npos);
  CHECK(text.find("\"ts\":1.000,\"dur\":1.500,") != std::string::npos);
}

TEST_CASE("any name is escaped") {
  const std::string name = "k<\"a\\b\">\x01\xC3\xA9";
  const std::vector<Json> events = events_of(trace_of(NamedSchedule(name), {span_of(0, 1)}));
  REQUIRE(events.size() == 1);
  CHECK(events[0]["args"]["kernel"] == name);
  CHECK(events_of(trace_of(NamedSchedule("bad \xFF byte"), {span_of(0, 1)})).size() == 1);
}

TEST_CASE("an empty run is a valid file without events") {
  const std::string text = trace_of(NamedSchedule("k"), {});
  const Json document = parse_json(text, "trace");
  CHECK(document["traceEvents"].is_array());
  CHECK(document["traceEvents"].empty());
  CHECK(document["otherData"]["gpu"] == "nvidia-h200");
  CHECK(document["otherData"].contains("commit"));
}

TEST_CASE("a whole run: one event a span, one named row a slot, times that add up") {
  AttentionProblem p;
  p.heads = p.kv_heads = 3;
  p.seqlen_q = p.seqlen_k = 257;
  const auto schedule = make_schedule("three_pass", p);
  TraceRecorder recorder(1 << 20, 1 << 20);
  std::string text;
  ChromeTraceWriter writer(*schedule, "test", [&](std::string_view bytes) { text += bytes; });
  struct Both final : TraceSink {
    TraceSink *a, *b;
    void span(const OpSpan& span) override {
      a->span(span);
      b->span(span);
    }
  } both;
  both.a = &recorder;
  both.b = &writer;
  RunOptions options;
  options.trace = &both;
  const Prediction run = simulate(*schedule, test_machine(), options);
  writer.finish();
  const std::vector<Json> events = events_of(text);
  REQUIRE(events.size() == recorder.spans().size());
  CHECK(writer.spans() == static_cast<std::int64_t>(events.size()));
  std::set<std::pair<int, std::int64_t>> rows;
  double last = 0;
  for (std::size_t e = 0; e < events.size(); ++e) {
    rows.insert({events[e]["pid"].get<int>(), events[e]["tid"].get<std::int64_t>()});
    CHECK(events[e]["cat"] == name_of(recorder.spans()[e].reason));
    last = std::max(last, events[e]["ts"].get<double>() + events[e]["dur"].get<double>());
  }
  CHECK(last <= run.time_us() + 1e-9);
  CHECK(last > run.time_us() - 0.0011);  // rounded down to a nanosecond
  std::size_t named = 0;
  const Json document = parse_json(text, "trace");
  for (const Json& event : document["traceEvents"])
    named += event["ph"] == "M" && event["name"] == "thread_name";
  CHECK(named == rows.size());
}

TEST_CASE("a run that is cancelled half-way leaves no file") {
  const TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  put_bytes(path, "good");
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 256;
  const auto schedule = make_schedule("flash_v2", p);
  const Thrown thrown = thrown_by([&] {
    OutputFile file(path);
    ChromeTraceWriter writer(*schedule, "test", [&](std::string_view bytes) { file.write(bytes); });
    writer.span(span_of(0, 1));
    throw Error(ErrorKind::internal, "cancelled");
  });
  CHECK(thrown.text == "cancelled");
  CHECK(bytes_of(path) == "good");
}

}  // namespace
}  // namespace flashscope
