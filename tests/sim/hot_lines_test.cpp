// Lines that many SMs ask for at once: laws of the slices, and of the kernel that does so.
#include "sim/engine/hot_lines.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "sim/trace/trace.h"
#include "tests/support/test_machine.h"

namespace flashscope {
namespace {

TEST_CASE("lines of a block: each that a row's bytes touch, once") {
  std::mt19937 random(20261201);
  const auto draw = [&random](int first, int last) { return std::uniform_int_distribution<int>(first, last)(random); };
  for (int round = 0; round < 200; ++round) {
    const int pitch = 2 * draw(1, 300), first = 2 * draw(0, pitch / 2 - 1), bytes = 2 * draw(1, (pitch - first) / 2);
    const LinesOfBlock lines = {draw(1, 40), pitch, first, bytes};
    std::set<int> touched;
    for (int row = 0; row < lines.rows; ++row)
      for (int byte = 0; byte < bytes; ++byte) touched.insert((row * pitch + first + byte) / kLineBytes);
    std::set<int> named;
    lines.for_each([&named](int line) { CHECK(named.insert(line).second); });
    CHECK(named == touched);
    CHECK(lines.count() == static_cast<int>(touched.size()));
  }
}

TEST_CASE("slices answer one line after the other, and partitions beside each other") {
  const LinesOfBlock line = {1, kLineBytes, 0, kLineBytes}, many = {4096, kLineBytes, 0, kLineBytes};
  L2Slices slices(2);
  CHECK(slices.serve(0, 7, line, 100, 1000) == 1100);
  CHECK(slices.serve(0, 7, line, 100, 1000) == 1200);
  CHECK(slices.serve(1, 7, line, 100, 1000) == 1100);
  // The fuller the slices, the less uneven: the fullest has its share at least, and a third more at most.
  const double share = 4096.0 / (L2Slices::kSlices / 2),
               fullest = static_cast<double>(L2Slices(2).serve(0, 1, many, 1, 0));
  CHECK(fullest >= share);
  CHECK(fullest <= 4.0 / 3 * share);
}

/// Time of three_pass_naive's scores for each multiply-add, in picoseconds.
double each(int heads, int seqlen) {
  AttentionProblem p;
  p.heads = p.kv_heads = heads;
  p.seqlen_q = p.seqlen_k = seqlen;
  const auto schedule = make_schedule("three_pass_naive", p, {32, 32, 1});
  const KernelPrediction scores = simulate(*schedule, test_machine()).kernels.front();
  return static_cast<double>(scores.end - scores.begin) / (static_cast<double>(heads) * seqlen * seqlen * p.head_dim);
}

TEST_CASE("a head with few keys takes longer for a multiply-add than one with many") {
  const double few = each(64, 256), more = each(16, 512), many = each(1, 2048);
  CHECK(few > more);
  CHECK(more > many);
}

TEST_CASE("what loads in turns miss is in the trace, load by load") {
  AttentionProblem p;
  p.heads = p.kv_heads = 4;
  p.seqlen_q = p.seqlen_k = 200;
  Machine machine = test_machine();
  for (std::int64_t l2 : {std::int64_t{1} << 26, std::int64_t{200'000}}) {
    machine.l2_bytes.value = l2;
    const auto schedule = make_schedule("three_pass_naive", p, {32, 32, 1});
    TraceRecorder trace(1 << 20, std::int64_t{1} << 40);
    RunOptions options;
    options.trace = &trace;
    const Prediction prediction = simulate(*schedule, machine, options);
    std::int64_t missed = 0;
    for (const OpSpan& span : trace.spans())
      if (span.op.tensor == Tensor::K && span.op.op == Op::load) missed += span.hbm_bytes;
    CHECK(missed > 0);
    CHECK(missed == prediction.tensors[static_cast<std::size_t>(Tensor::K)].read);
  }
}

TEST_CASE("a column walk takes a clock of the SM's port for each line that a request touches") {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 2048;
  const Machine machine = test_machine();
  for (int head_dim : {64, 128}) {  // 128 bytes a row, and 256: 32 lines a request
    p.head_dim = head_dim;
    const KernelPrediction scores =
        simulate(*make_schedule("three_pass_naive", p, {32, 32, 1}), machine).kernels.front();
    const double requests = 2048.0 * 2048 * head_dim;  // one of K for each lane
    const double clocks = static_cast<double>(scores.end - scores.begin) * 1e-12 * machine.sm_clock_mhz.value * 1e6;
    CHECK(clocks * machine.num_sms.value >= requests);
  }
}

}  // namespace
}  // namespace flashscope
