// The simulator's own speed, by generous bounds: tens of times what a free core takes, so that only a lost shortcut fails.
#include <doctest/doctest.h>

#include <chrono>

#include "sim/count/count.h"
#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

template <class F>
double seconds_of(F f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

AttentionProblem square(int heads, int seqlen, int head_dim) {
  AttentionProblem p;
  p.heads = p.kv_heads = heads;
  p.seqlen_q = p.seqlen_k = seqlen;
  p.head_dim = head_dim;
  return p;
}

TEST_CASE("a run takes as many steps as its budget allows, and so much time") {
  const Machine machine = load_machine("nvidia-h200");
  for (const char* name : {"flash_v2", "three_pass"}) {
    CAPTURE(name);
    CHECK(seconds_of([&] { simulate(*make_schedule(name, square(32, 4096, 64)), machine); }) < 10 * kSlower);
    Prediction run;
    const auto schedule = make_schedule(name, square(16, 131072, 128));
    CHECK(seconds_of([&] { run = simulate(*schedule, machine); }) < 30 * kSlower);
    CHECK(run.operations <= RunOptions{}.op_budget * 5 / 4);  // CTAs start and end in smaller steps
    for (bool causal : {false, true}) {
      AttentionProblem longest = square(16, 1 << 20, 128);
      longest.causal = causal;
      const auto far = make_schedule(name, longest);
      CHECK(seconds_of([&] { count(*far); }) < 0.05 * kSlower);
    }
  }
}

}  // namespace
}  // namespace flashscope
