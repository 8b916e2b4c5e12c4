// The table: predictions are the counts, recorded values the recording's, and what is missing says why.
#include <doctest/doctest.h>

#include "sim/count/count.h"
#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/core/comparison.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

const ComparisonRow& row(const Comparison& table, const std::string& label) {
  for (const ComparisonRow& r : table.rows)
    if (r.label == label) return r;
  FAIL("no row " << label);
  return table.rows.front();
}

struct Fixture {
  Settings settings;
  WholeRun run;
  Prediction prediction;
  Fixture() {
    settings.problem = small_problem(256, 2);
    const auto schedule = make_schedule("flash_v2", settings.problem, settings.tile);
    prediction = simulate(*schedule, load_machine("nvidia-h200"));
    run = {kernels::Measured<KernelCount>::of(count(*schedule).total), schedule->closed_form(),
           compulsory_bytes(settings.problem), kernels::Measured<Prediction>::of(prediction)};
  }
  Recording recording() const {
    Recording r;
    r.gpu = "NVIDIA H200";
    r.machine = "nvidia-h200";
    r.date = "2026-11-29";
    RecordingRow measured;
    measured.problem = settings.problem;
    measured.algorithm = "flash_v2";
    measured.tile = settings.tile;
    measured.measured.time_us = kernels::Measured<double>::of(2 * prediction.time_us());
    measured.measured.sm_read_bytes = kernels::Measured<std::int64_t>::of(run.count.value->sm.sector_read);
    measured.measured.sm_write_bytes = kernels::Measured<std::int64_t>::of(run.count.value->sm.sector_write);
    measured.measured.hbm_read_bytes = kernels::Measured<std::int64_t>::unavailable("no permission (host setting)");
    measured.measured.hbm_write_bytes = kernels::Measured<std::int64_t>::of(0);
    r.rows.push_back(measured);
    return r;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "predicted values are those of count, closed form and engine") {
  const Comparison table = compare(settings, "flash_v2", run, {});
  CHECK(row(table, "SM read").predicted.value == static_cast<double>(run.count.value->sm.sector_read));
  CHECK(row(table, "HBM read").predicted.value == static_cast<double>(prediction.hbm.read));
  CHECK(row(table, "HBM write").predicted.value ==
        static_cast<double>(prediction.hbm.write + prediction.hbm_dirty_bytes));
  CHECK(row(table, "paper's count").predicted.value == static_cast<double>(run.closed_form.paper_bytes));
  CHECK(row(table, "compulsory").predicted.value == static_cast<double>(compulsory_bytes(settings.problem)));
  CHECK(row(table, "time").predicted.value == prediction.time_us());
}

TEST_CASE_FIXTURE(Fixture, "without a recording every measurement is unavailable, with the reason") {
  const Comparison table = compare(settings, "flash_v2", run, {});
  CHECK_FALSE(table.has_measurement);
  for (const ComparisonRow& r : table.rows) {
    CHECK_FALSE(r.measured.value);
    CHECK_FALSE(r.measured.reason.empty());
    CHECK_FALSE(r.ratio());
  }
}

TEST_CASE_FIXTURE(Fixture, "a recorded row is shown as recorded, with its GPU and date") {
  const Comparison table = compare(settings, "flash_v2", run, {recording()});
  CHECK(table.measured_from == "recorded on NVIDIA H200, 2026-11-29");
  CHECK(row(table, "SM read").ratio() == 1.0);
  CHECK(*row(table, "time").ratio() == doctest::Approx(0.5));
  CHECK(row(table, "HBM read").measured.reason == "no permission (host setting)");
  CHECK_FALSE(row(table, "HBM read").ratio());
  CHECK_FALSE(row(table, "HBM write").ratio());  // measured 0: no ratio, not infinity
  CHECK(row(table, "SM read").note.find("below counter resolution") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a recording of another problem, tile, algorithm or GPU is not shown for this one") {
  for (int other = 0; other < 4; ++other) {
    Settings s = settings;
    std::string algorithm = "flash_v2";
    if (other == 0) s.problem.causal = true;
    if (other == 1) s.tile.bc = 32;
    if (other == 2) algorithm = "three_pass";
    if (other == 3) s.gpu = "nvidia-t4";
    const Comparison table = compare(s, algorithm, run, {recording()});
    CHECK_FALSE(table.has_measurement);
    CHECK_FALSE(row(table, "time").measured.value);
  }
}

TEST_CASE_FIXTURE(Fixture, "while the timed run is under way, counts are there and the rest says so") {
  run.prediction = kernels::Measured<Prediction>::unavailable("simulating …");
  const Comparison table = compare(settings, "flash_v2", run, {recording()});
  CHECK(row(table, "SM read").predicted.value);
  CHECK(row(table, "time").predicted.reason == "simulating …");
  CHECK_FALSE(row(table, "time").ratio());
}
