// The window's live run on a real GPU: in its worker, beside the simulation, as a press of the button starts it.
#include <chrono>
#include <thread>

#include "gpu_support.h"
#include "viz/core/session.h"
#include "viz/io/machine_io.h"

namespace flashscope::viz {
namespace {

/// The machine description of the GPU that is here; the H200's where none is.
Settings settings_here(int seqlen) {
  Settings s;
  const std::string here = kernels::device().info().name;
  for (const std::string& name : machine_names())
    if (load_machine(name).title.find(here) != std::string::npos) s.gpu = name;
  s.problem.batch = 1;
  s.problem.heads = s.problem.kv_heads = 8;
  set_lengths(s.problem, seqlen, seqlen);
  return s;
}

}  // namespace

TEST_CASE("a live run measures both algorithms in the worker, and the table shows them as measured just now") {
  const Settings s = settings_here(1024);
  Session session({load_machine(s.gpu)}, {}, {}, [] { return kernels::open_device(); });
  session.request(s);
  session.request_live({s, 1});
  const Results& results = session.wait();
  REQUIRE(results.live);
  REQUIRE(results.live->recording);
  CHECK(results.live_progress == 1);
  CHECK(results.live->recording->gpu == kernels::device().info().name);
  REQUIRE(results.live->recording->rows.size() == 2);
  for (std::size_t n = 0; n < 2; ++n) {
    const std::string& algorithm = s.algorithms[n];
    CAPTURE(algorithm);
    REQUIRE(results.whole[n]);
    const Comparison table = compare(s, algorithm, *results.whole[n], {*results.live->recording});
    CHECK(table.has_measurement);
    CHECK(table.measured_from.find("just now") != std::string::npos);
    for (const ComparisonRow& row : table.rows) {
      CAPTURE(row.label);
      CHECK((row.measured.value || !row.measured.reason.empty()));  // a number, or the reason why there is none
    }
    const kernels::Measurement& measured = results.live->recording->rows[n].measured;
    REQUIRE(measured.time_us.value);
    CHECK(*measured.time_us.value > 0);
    if (measured.sm_read_bytes.value) {
      const double predicted = static_cast<double>(results.whole[n]->count.value->sm.sector_read);
      CHECK(static_cast<double>(*measured.sm_read_bytes.value) == doctest::Approx(predicted).epsilon(0.01));
    }
  }
}

TEST_CASE("a live run can be cancelled while it measures, and begun again by another press") {
  const Settings s = settings_here(16'384);
  Session session({load_machine(s.gpu)}, {}, {}, [] { return kernels::open_device(); });
  session.request_live({s, 1});
  // Until it measures: the device is open.
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  while (session.poll().live_progress < 0.3 && seconds() < 60)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(seconds() < 60);
  session.cancel_live();
  CHECK(session.poll().live_progress == 1);
  const double pressed = seconds();
  session.wait();  // the worker lets go: a slice asks now and then whether it is still wanted
  CHECK(seconds() - pressed < 20);
  CHECK(session.poll().live->recording->rows.size() < 2);

  const Settings small = settings_here(256);
  session.request_live({small, 2});
  const Results& again = session.wait();
  REQUIRE(again.live->recording);
  CHECK(again.live->recording->rows.size() == 2);
}

}  // namespace flashscope::viz
