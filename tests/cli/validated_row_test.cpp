// How a recorded row is judged, and which rows are summed up together: the same for the command line and the window.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "sim/schedule/algorithms.h"
#include "tests/cli/support.h"
#include "viz/core/error_summary.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

using kernels::Measured;
using viz::MeasuredQuantity;
using viz::Standing;
using viz::validated_row;
using viz::ValidatedRow;

const Machine& h200() {
  static const Machine machine = load_machine("nvidia-h200");
  return machine;
}

/// A row that measured exactly what is predicted, and kept the prediction. Small: 2 MB of Q, K, V and O, S of 8 MiB.
RecordingRow right_row(const char* algorithm = "flash_v2", int seqlen = 1024, int heads = 4) {
  RecordingRow row;
  row.problem.heads = row.problem.kv_heads = heads;
  row.problem.seqlen_q = row.problem.seqlen_k = seqlen;
  row.algorithm = algorithm;
  const auto schedule = make_schedule(algorithm, row.problem);
  row.tile = schedule->tile();
  const PredictedQuantities p = quantities_of(simulate(*schedule, h200()));
  row.predicted = p;
  kernels::Measurement& m = row.measured;
  for (kernels::Verification* v : {&m.o, &m.lse, &m.d_q, &m.d_k, &m.d_v}) v->passed = true;
  m.time_us = Measured<double>::of(p.time_us);
  m.launches = 20;
  m.sm_clock_mhz = Measured<double>::of(h200().sm_clock_mhz.value);
  m.sm_read_bytes = Measured<std::int64_t>::of(p.sm_read_bytes);
  m.sm_write_bytes = Measured<std::int64_t>::of(p.sm_write_bytes);
  m.hbm_read_bytes = Measured<std::int64_t>::of(p.hbm_read_bytes);
  m.hbm_write_bytes = Measured<std::int64_t>::of(p.hbm_write_bytes);
  m.hbm_write_floor_bytes = Measured<std::int64_t>::of(0);
  return row;
}

Standing standing(const RecordingRow& row, MeasuredQuantity quantity) {
  return validated_row(row, h200()).value(quantity).standing;
}

TEST_CASE("what is right is counted with no error, and what is too small to count is said to be") {
  const ValidatedRow row = validated_row(right_row(), h200());
  CHECK(row.refusal == "");
  CHECK(row.wrong_output == "");
  CHECK(row.value(MeasuredQuantity::time).standing == Standing::counted);
  CHECK(row.value(MeasuredQuantity::sm_read).standing == Standing::within_bytes);
  CHECK(row.value(MeasuredQuantity::sm_write).standing == Standing::below_resolution);
  CHECK(row.value(MeasuredQuantity::hbm_read).standing == Standing::below_resolution);
  for (const viz::ValidatedValue& value : row.values) CHECK(std::fabs(*value.error()) < 1e-9);
}

TEST_CASE("allowances: 64 KiB, and 1.5 µs below 10 µs") {
  RecordingRow row = right_row();
  auto& bytes = *row.measured.sm_read_bytes.value;
  bytes += 64 << 10;
  CHECK(standing(row, MeasuredQuantity::sm_read) == Standing::within_bytes);
  bytes += 1;
  CHECK(standing(row, MeasuredQuantity::sm_read) == Standing::counted);

  RecordingRow brief = right_row("flash_v3", 32, 1);
  auto& time = *brief.measured.time_us.value;
  REQUIRE(time < 8);
  time += 1.4;
  CHECK(standing(brief, MeasuredQuantity::time) == Standing::within_short);
  time += 0.2;
  CHECK(standing(brief, MeasuredQuantity::time) == Standing::over_short);
  time = 10;
  CHECK(standing(brief, MeasuredQuantity::time) == Standing::counted);
}

TEST_CASE("a counted zero where something is predicted is an infinite error, and is not left out") {
  RecordingRow row = right_row();
  row.measured.sm_read_bytes = Measured<std::int64_t>::of(0);
  const ValidatedRow judged = validated_row(row, h200());
  CHECK(judged.value(MeasuredQuantity::sm_read).is_counted());
  CHECK(judged.value(MeasuredQuantity::sm_read).error() == std::numeric_limits<double>::infinity());
}

TEST_CASE("C04: HBM bytes of a warm run are no error of the model; its SM bytes and time are judged") {
  RecordingRow row = right_row();
  row.start = Start::warm;
  CHECK(standing(row, MeasuredQuantity::hbm_read) == Standing::warm);
  CHECK(standing(row, MeasuredQuantity::hbm_write) == Standing::warm);
  CHECK(standing(row, MeasuredQuantity::sm_read) == Standing::within_bytes);
}

TEST_CASE("a wrong output is never agreement, whatever was counted; of a backward row the gradients count too") {
  for (kernels::Verification kernels::Measurement::*part : {&kernels::Measurement::o, &kernels::Measurement::lse}) {
    RecordingRow row = right_row();
    (row.measured.*part).passed = false;
    (row.measured.*part).worst = "head 3, row 17";
    const ValidatedRow judged = validated_row(row, h200());
    CHECK(contains(judged.wrong_output, " at head 3, row 17"));
    for (const viz::ValidatedValue& value : judged.values) {
      CHECK(value.standing == Standing::wrong_output);
      CHECK_FALSE(value.is_counted());
    }
  }
  RecordingRow forward = right_row();
  forward.measured.d_k.passed = false;  // says nothing: there is none
  CHECK(validated_row(forward, h200()).wrong_output == "");
  forward.problem.pass = Pass::backward;
  forward.tile = make_schedule("flash_v2", forward.problem)->tile();
  CHECK(validated_row(forward, h200()).wrong_output == "dK");
}

TEST_CASE("what the machine cannot run is not predicted: it keeps what was measured and is in no summary") {
  RecordingRow row = right_row();
  row.tile = {1024, 1024, 1};
  const ValidatedRow judged = validated_row(row, h200());
  CHECK(judged.refusal != "");
  CHECK(judged.value(MeasuredQuantity::time).measured.value == row.measured.time_us.value);
  CHECK(judged.value(MeasuredQuantity::time).standing == Standing::not_predicted);
  CHECK_FALSE(judged.value(MeasuredQuantity::time).error().has_value());
  CHECK_FALSE(judged.after_freeze);
}

TEST_CASE("hard: S about as large as L2, or more read from HBM than must be") {
  const auto l2 = static_cast<int>(h200().l2_bytes.value);
  RecordingRow row;
  row.problem.heads = row.problem.kv_heads = 1;
  row.problem.head_dim = 64;
  const auto hard = [&](int keys, int queries = 1024) {  // S in bf16: 2 KiB a key
    row.problem.seqlen_q = queries;
    row.problem.seqlen_k = keys;
    return viz::is_hard_row(row, h200());
  };
  CHECK_FALSE(hard(l2 / 4 / 2048 - 1));
  CHECK(hard(l2 / 4 / 2048));
  CHECK(hard(4 * (l2 / 2048)));
  CHECK_FALSE(hard(4 * (l2 / 2048) + 1));

  constexpr std::int64_t kMust = 3 * 64 * 64 * 2;  // Q, K and V of 64 rows
  const auto hard_reads = [&](std::int64_t bytes, int scale) {
    row.problem.heads = row.problem.kv_heads = scale;
    row.measured.hbm_read_bytes = Measured<std::int64_t>::of(bytes);
    return hard(64, 64);
  };
  CHECK_FALSE(hard_reads(kMust + 65'536, 1));  // 64 KiB are no difference
  CHECK(hard_reads(kMust + 65'537, 1));
  CHECK_FALSE(hard_reads(1000 * kMust * 105 / 100, 1000));
  CHECK(hard_reads(1000 * kMust * 105 / 100 + 1, 1000));
  row.measured.hbm_read_bytes = Measured<std::int64_t>::unavailable("not asked for");
  CHECK_FALSE(hard(64, 64));
}

TEST_CASE("after the freeze: the row's own prediction is still the model's; else, or without one, before") {
  RecordingRow row = right_row();
  CHECK(validated_row(row, h200()).after_freeze);
  row.predicted->hbm_read_bytes += row.predicted->hbm_read_bytes / 250;  // 0.4 %
  CHECK(validated_row(row, h200()).after_freeze);
  row.predicted->hbm_read_bytes += row.predicted->hbm_read_bytes / 250;
  CHECK_FALSE(validated_row(row, h200()).after_freeze);
  row.predicted.reset();
  CHECK_FALSE(validated_row(row, h200()).after_freeze);
  // Another machine is another model.
  CHECK_FALSE(validated_row(right_row(), load_machine("nvidia-a100-80gb-sxm")).after_freeze);
}

TEST_CASE("summaries count every row once: as an error, or with the reason why not") {
  std::vector<RecordingRow> recorded(4, right_row());
  *recorded[1].measured.time_us.value *= 2;                  // -50 %
  *recorded[2].measured.time_us.value /= 1.25;               // +25 %
  recorded[3].measured.o.passed = false;
  recorded.push_back(right_row());
  recorded.back().tile = {1024, 1024, 1};
  recorded.push_back(right_row());
  recorded.back().measured.time_us = Measured<double>::unavailable("no clock");
  std::vector<ValidatedRow> rows;
  for (const RecordingRow& row : recorded) rows.push_back(validated_row(row, h200()));
  const viz::RowGroup& all = viz::row_sets().front();
  const viz::ErrorSummary time = viz::summary_of(rows, MeasuredQuantity::time, all);
  CHECK(time.rows == 3);
  CHECK(time.median == doctest::Approx(0.25));
  CHECK(time.mean == doctest::Approx(0.25));
  CHECK(time.worst == doctest::Approx(0.5));
  CHECK(time.wrong_output == 1);
  CHECK(time.not_predicted == 1);
  CHECK(time.unavailable == 1);
  const viz::ErrorSummary reads = viz::summary_of(rows, MeasuredQuantity::sm_read, all);
  CHECK(reads.rows == 4);
  CHECK(reads.within_allowance == 4);
  for (const viz::RowGroup& set : viz::row_sets())
    CHECK(viz::rows_in(rows, set) == (set.key == "all" ? 6 : set.key == "hard" ? 0 : 5));
}

Recording recording_of(std::vector<RecordingRow> rows) {
  Recording recording;
  recording.gpu = "NVIDIA H200";
  recording.machine = "nvidia-h200";
  recording.date = "2026-11-30";
  recording.sm_clock_mhz = recording.memory_clock_mhz = Measured<double>::of(1980);
  set_writer(recording);
  recording.rows = std::move(rows);
  return recording;
}

TEST_CASE("validate reports all rows, hard rows, and rows recorded after the freeze apart") {
  const Folder folder;
  Recording recording = recording_of({right_row("flash_v2"), right_row("three_pass"), right_row("flash_v2", 2048)});
  *recording.rows[1].measured.time_us.value *= 2;
  recording.rows[2].predicted.reset();  // S of 32 MiB: hard
  const std::string path = folder / "r.json";
  save_recording(path, recording);

  const Json report = Json::parse(run_here({"validate", path, "--json"}).out);
  CHECK(report["summary"]["rows"] == 3);
  CHECK(report["summary"]["time_us"]["worst_error"].get<double>() == doctest::Approx(0.5));
  CHECK(report["summary_hard"]["rows"] == 1);
  CHECK(report["summary_hard"]["time_us"]["worst_error"].get<double>() < 1e-9);
  CHECK(report["summary_after_freeze"]["rows"] == 2);
  CHECK(report["rows"][2]["hard"] == true);
  CHECK(report["rows"][2]["after_freeze"] == false);
  CHECK(report["rows"][0]["after_freeze"] == true);

  const std::string csv = run_here({"validate", path, "--csv"}).out;
  CHECK(contains(csv, "algorithm,problem,br,bc,hard,after_freeze,quantity,"));
  CHECK(contains(csv, ",64,64,1,0,time_us,"));
  CHECK(contains(csv, ",64,64,0,1,time_us,"));

  const std::string text = run_here({"validate", path}).out;
  CHECK(contains(text, "all rows: 3 of 3"));
  CHECK(contains(text, "hard rows: 1 of 3"));
  CHECK(contains(text, "rows recorded after the model was frozen: 2 of 3"));
  CHECK(contains(run_here({"validate", "--help"}).out, "after the model was frozen"));
}

TEST_CASE("a recorded wrong output is listed, not compared, and exit 8") {
  const Folder folder;
  Recording recording = recording_of({right_row("flash_v2"), right_row("three_pass")});
  recording.rows[1].measured.lse = {false, 1, 0.5, 7, 2, "head 0, row 9"};
  const std::string path = folder / "r.json";
  save_recording(path, recording);
  for (const char* format : {"", "--json", "--csv"}) {
    std::vector<std::string> arguments = {"validate", path};
    if (*format) arguments.push_back(format);
    const RunResult result = run_here(arguments);
    CHECK(result.code == 8);
    CHECK(contains(result.out, "wrong output"));
    CHECK(contains(result.err, "1 of 2 recorded rows have a wrong output"));
    CHECK(contains(result.err, "rows[1] (three_pass: LSE at head 0, row 9)"));
  }
  const Json report = Json::parse(run_here({"validate", path, "--json"}).out);
  CHECK(report["rows"][1]["wrong_output"] == "LSE at head 0, row 9");
  CHECK(report["summary"]["time_us"]["rows"] == 1);
  CHECK(report["summary"]["time_us"]["wrong_output"] == 1);
}

TEST_CASE("a recording of an unknown machine is exit 3 with the known ones, unless --gpu says what to predict for") {
  const Folder folder;
  Recording recording = recording_of({right_row()});
  const std::string path = folder / "r.json";
  for (const char* name : {"abacus", "", "../nvidia-h200.json", "/etc/passwd"}) {
    recording.machine = name;
    save_recording(path, recording);
    const RunResult result = run_here({"validate", path});
    CHECK(result.code == 3);
    CHECK(is_one_line_error(result));
    CHECK(contains(result.err, "r.json: machine: '"));
    CHECK(contains(result.err, "nvidia-a100-80gb-sxm, nvidia-h100-sxm, nvidia-h200"));
    CHECK(run_here({"validate", path, "--gpu", "nvidia-h200"}).code == 0);
  }
}

TEST_CASE("a recording with two rows of the same run is exit 3") {
  const Folder folder;
  const std::string path = folder / "r.json";
  save_recording(path, recording_of({right_row(), right_row()}));
  const RunResult result = run_here({"validate", path});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "rows[1]: rows[0] is the same run"));
}

}  // namespace
}  // namespace flashscope
