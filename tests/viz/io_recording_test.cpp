// Recordings: what is written reads back, and what was not measured stays unavailable.
#include "viz/io/recording.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"
#include "viz/io/block_mask_io.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

using kernels::Measured;

RecordingRow row_of(const char* algorithm, int seqlen) {
  RecordingRow row;
  row.problem.seqlen_q = row.problem.seqlen_k = seqlen;
  row.algorithm = algorithm;
  row.tile = {64, 32, 2};
  row.measured.o = {true, 1e-3, 1e-4, 0.75, 0, ""};
  row.measured.lse = {false, std::nan(""), std::numeric_limits<double>::infinity(), 2.5, 3, "head 3, row 17"};
  row.measured.time_us = Measured<double>::of(123.456);
  row.measured.time_spread_us = 0.25;
  row.measured.launches = 20;
  row.measured.sm_clock_mhz = Measured<double>::of(1980);
  row.measured.sm_read_bytes = Measured<std::int64_t>::of(9007199254740993);
  row.measured.sm_write_bytes = Measured<std::int64_t>::of(0);
  row.measured.hbm_read_bytes = Measured<std::int64_t>::unavailable("no permission (host setting)");
  row.measured.hbm_write_bytes = Measured<std::int64_t>::unavailable("no permission (host setting)");
  row.measured.hbm_write_floor_bytes = Measured<std::int64_t>::unavailable("");
  row.measured.hbm_background_write_bytes = Measured<std::int64_t>::of(262144);
  return row;
}

Recording some_recording() {
  Recording recording;
  recording.gpu = "NVIDIA H200";
  recording.machine = "nvidia-h200";
  recording.driver = "580.159.04";
  recording.cuda = "13.0";
  recording.sm_clock_mhz = Measured<double>::of(1980);
  recording.memory_clock_mhz = Measured<double>::unavailable("NVML was not found");
  recording.date = "2026-11-29";
  recording.protocol = "20 launches, L2 flushed before each";
  set_writer(recording);
  recording.rows = {row_of("flash_v2", 4096), row_of("three_pass", 4096)};
  return recording;
}

TEST_CASE("a recording written and read again is the same, byte for byte") {
  const TemporaryFolder folder;
  const Recording recording = some_recording();
  save_recording(folder.path("r.json"), recording);
  const Recording again = load_recording(folder.path("r.json"));
  CHECK(json_text(recording_to_json(again)) == json_text(recording_to_json(recording)));
  CHECK(again.version == version());
  CHECK(again.commit == commit());
  REQUIRE(again.rows.size() == 2);
  const kernels::Measurement& m = again.rows[0].measured;
  CHECK(m.time_us.value == 123.456);
  CHECK(m.sm_read_bytes.value == 9007199254740993);
  CHECK(m.sm_write_bytes.value == 0);
  CHECK_FALSE(m.hbm_read_bytes.value.has_value());
  CHECK(m.hbm_read_bytes.reason == "no permission (host setting)");
  CHECK(m.hbm_write_floor_bytes.reason == "not measured");
  CHECK(m.hbm_background_read_bytes.reason == "not measured");
  CHECK(m.hbm_background_write_bytes.value == 262144);
  CHECK(std::isnan(m.lse.max_abs));
  CHECK(std::isinf(m.lse.mean_abs));
  CHECK(m.lse.worst == "head 3, row 17");
  CHECK(recording_to_json(again)["memory_clock_mhz"].dump() == "{\"unavailable\":\"NVML was not found\"}");
}

TEST_CASE("a recording of before the background was measured says so") {
  Json old = recording_to_json(some_recording());
  for (Json& row : old["rows"]) row.erase("hbm_background_read_bytes"), row.erase("hbm_background_write_bytes");
  const TemporaryFolder folder;
  put_bytes(folder.path("old.json"), json_text(old));
  const kernels::Measurement m = load_recording(folder.path("old.json")).rows[0].measured;
  CHECK(m.hbm_background_write_bytes.reason == "not measured; not subtracted");
  CHECK_FALSE(m.hbm_background_read_bytes.value.has_value());
}

TEST_CASE("a row keeps what the model said when it was measured, and knows whether the model says so still") {
  Recording recording = some_recording();
  CHECK_FALSE(recording_to_json(recording)["rows"][0].contains("predicted"));
  const PredictedQuantities then = {9007199254740993, 0, 1'000'000, 200'000, 12.5};
  recording.rows[0].predicted = then;
  const Recording again = recording_from_json(json_text(recording_to_json(recording)), "r.json");
  REQUIRE(again.rows[0].predicted.has_value());
  CHECK_FALSE(again.rows[1].predicted.has_value());
  CHECK(again.rows[0].predicted->sm_read_bytes == 9007199254740993);
  CHECK(again.rows[0].predicted->time_us == 12.5);
  CHECK(is_unmoved(then, *again.rows[0].predicted));

  const auto moved = [&](auto change) {
    PredictedQuantities now = then;
    change(now);
    return !is_unmoved(then, now);
  };
  CHECK_FALSE(moved([](PredictedQuantities& p) { p.hbm_read_bytes = 1'005'000; }));
  CHECK(moved([](PredictedQuantities& p) { p.hbm_read_bytes = 1'005'001; }));
  CHECK(moved([](PredictedQuantities& p) { p.hbm_read_bytes = 994'999; }));
  CHECK(moved([](PredictedQuantities& p) { p.sm_write_bytes = 1; }));
  CHECK(moved([](PredictedQuantities& p) { p.hbm_write_bytes = 0; }));
  CHECK(moved([](PredictedQuantities& p) { p.time_us = 12.6; }));
  CHECK(moved([](PredictedQuantities& p) { p.time_us = std::nan(""); }));
}

TEST_CASE("a row of the same run is replaced, any other is added") {
  Recording recording = some_recording();
  RecordingRow better = row_of("flash_v2", 4096);
  better.measured.time_us = Measured<double>::of(100);
  put_row(recording, better);
  REQUIRE(recording.rows.size() == 2);
  CHECK(recording.rows[0].measured.time_us.value == 100);
  put_row(recording, row_of("flash_v2", 8192));
  RecordingRow other_tile = row_of("flash_v2", 4096);
  other_tile.tile.bc = 64;
  put_row(recording, other_tile);
  RecordingRow warm = row_of("flash_v2", 4096);
  warm.start = Start::warm;
  put_row(recording, warm);
  RecordingRow backward = row_of("flash_v2", 4096);
  backward.problem.pass = Pass::backward;
  backward.measured.d_q = backward.measured.d_v = {true, 1e-2, 1e-3, 0.5, 0, ""};
  backward.measured.d_k = {false, 1, 0.1, 7, 2, "head 1, row 2, column 3"};
  put_row(recording, backward);
  RecordingRow other_order = row_of("flash_v2", 4096);
  other_order.tile.backward_keys = true;
  put_row(recording, other_order);
  CHECK(recording.rows.size() == 7);
  const Recording again = recording_from_json(json_text(recording_to_json(recording)), "r.json");
  CHECK(json_text(recording_to_json(again)) == json_text(recording_to_json(recording)));
  CHECK(again.rows[5].measured.d_q.tolerance_used == 0.5);
  CHECK(again.rows[5].measured.d_k.worst == "head 1, row 2, column 3");
  CHECK_FALSE(recording_to_json(recording)["rows"][0].contains("d_q"));
  CHECK(again.rows.back().tile == other_order.tile);
  CHECK(again.rows.front().tile == recording.rows.front().tile);
}

TEST_CASE("a row is found by problem, algorithm and tile, however the problem is spelt") {
  Recording recording = some_recording();
  RecordingRow causal = row_of("flash_v2", 2048);
  causal.problem.causal = true;
  put_row(recording, causal);
  const auto found = [&](AttentionProblem p, const char* algorithm, TileShape tile) {
    return find_row(recording, p, algorithm, tile) != nullptr;
  };
  const AttentionProblem plain = row_of("flash_v2", 4096).problem;
  CHECK(found(plain, "flash_v2", {64, 32, 2}));
  CHECK_FALSE(found(plain, "flash_v2", {64, 64, 2}));
  CHECK_FALSE(found(plain, "flash_v1", {64, 32, 2}));
  CHECK(find_row(recording, plain, "flash_v2", {64, 32, 2}, Start::warm) == nullptr);
  AttentionProblem window = row_of("flash_v2", 2048).problem;
  CHECK_FALSE(found(window, "flash_v2", {64, 32, 2}));
  window.window_right = 0;
  CHECK(found(window, "flash_v2", {64, 32, 2}));
  window.softmax_scale = 0.125;
  CHECK(found(window, "flash_v2", {64, 32, 2}));
  window.softmax_scale = 0.25;
  CHECK_FALSE(found(window, "flash_v2", {64, 32, 2}));
}

TEST_CASE("faults are named with file and row") {
  const auto refused = [](auto change) {
    Json bad = recording_to_json(some_recording());
    change(bad);
    return thrown_by([&] { recording_from_json(json_text(bad), "r.json"); });
  };
  CHECK(refused([](Json& d) { d.erase("protocol"); }).says("r.json: \"protocol\" is missing"));
  CHECK(refused([](Json& d) { d["rows"] = 3; }).says("r.json: rows: expected a list"));
  CHECK(refused([](Json& d) { d["rows"][1]["sm_read_bytes"] = -1; }).says("r.json: rows[1].sm_read_bytes: -1 is outside"));
  CHECK(refused([](Json& d) { d["rows"][1]["sm_read_bytes"] = 1.5; }).says("rows[1].sm_read_bytes: expected an integer"));
  CHECK(refused([](Json& d) { d["rows"][0]["hbm_read_bytes"] = nullptr; }).says("rows[0].hbm_read_bytes"));
  CHECK(refused([](Json& d) { d["rows"][0]["hbm_read_bytes"] = {{"unavailable", ""}}; }).says("the reason is empty"));
  CHECK(refused([](Json& d) { d["rows"][0]["start"] = "tepid"; }).says("rows[0].start"));
  for (const Json& impossible : {Json(-1), Json("nan"), Json("inf"), Json("12"), Json(nullptr)}) {
    CHECK(refused([&](Json& d) { d["rows"][0]["time_spread_us"] = impossible; }).says("rows[0].time_spread_us"));
    CHECK(refused([&](Json& d) { d["rows"][0]["time_us"] = impossible; }).says("rows[0].time_us"));
    CHECK(refused([&](Json& d) { d["sm_clock_mhz"] = impossible; }).says("sm_clock_mhz"));
  }
  CHECK(refused([](Json& d) { d["rows"].push_back(d["rows"][0]); }).says("r.json: rows[2]: rows[0] is the same run"));
  CHECK(refused([](Json& d) {  // the same problem, said in other words
          Json row = d["rows"][0];
          d["rows"][0]["problem"]["causal"] = true;
          row["problem"]["window"] = {-1, 0};
          d["rows"].push_back(row);
        }).says("rows[2]: rows[0] is the same run"));
  CHECK(refused([](Json& d) { d["rows"][1]["predicted"] = 3; }).says("rows[1].predicted"));
  const Json predicted = {
      {"sm_read_bytes", 1}, {"sm_write_bytes", 1}, {"hbm_read_bytes", 1}, {"hbm_write_bytes", 1}, {"time_us", 1.5}};
  for (const char* key : {"sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes", "time_us"}) {
    CHECK(refused([&](Json& d) { (d["rows"][1]["predicted"] = predicted)[key] = -1; }).says(key));
    CHECK(refused([&](Json& d) { (d["rows"][1]["predicted"] = predicted).erase(key); }).says(key));
  }
  CHECK(refused([](Json& d) { d["rows"][0]["tile"]["br"] = 0; }).says("rows[0].tile.br"));
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["heads"] = 0; }).says("rows[0].problem.heads"));
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["kv_heads"] = 3; }).kind == ErrorKind::input);
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["dtype"] = "int4"; }).kind == ErrorKind::input);
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["window"] = {1}; }).says("problem.window"));
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["block_mask"] = "x"; }).says("block_mask: expected null or"));
  const Json a_file = {{"name", "mine.json"}, {"block", {1, 1}}, {"blocks", {1, 1}}, {"kept", 1}};
  CHECK(refused([&](Json& d) { d["rows"][0]["problem"]["block_mask"] = a_file; }).kind == ErrorKind::unsupported);
  const Json other = {{"name", "local:0.5:0"}, {"block", {64, 64}}, {"blocks", {1, 1}}, {"kept", 999}};
  CHECK(refused([&](Json& d) { d["rows"][0]["problem"]["block_mask"] = other; }).says("makes"));
  CHECK(refused([](Json& d) { d["rows"][0]["problem"]["cu_seqlens_q"] = {0, "x"}; }).says("cu_seqlens_q: expected a list"));
  CHECK(refused([](Json& d) { d["rows"][0]["tile"]["page_size"] = 24; }).says("page_size: 24 is no power of two"));
  CHECK(refused([](Json& d) { d["rows"][0]["tile"]["page_size"] = 8; }).says("page_size"));
}

TEST_CASE("packed sequences and preset block masks are read back as they were written") {
  AttentionProblem packed;
  packed.cu_seqlens_q = {0, 5, 5, packed.seqlen_q};
  packed.cu_seqlens_k = {0, 0, 9, packed.seqlen_k};
  AttentionProblem blocks;
  blocks.block_mask.mask = std::make_shared<const BlockMask>(
      load_block_mask("--block-mask", "random:0.3:7:48", blocks.seqlen_q, blocks.seqlen_k));
  for (AttentionProblem p : {packed, blocks}) {
    p.softmax_scale = p.scale();
    CHECK(problem_from_json(problem_to_json(p), "problem") == p);
  }
}

TEST_CASE("a recording that cannot be read is not overwritten by saving another") {
  const TemporaryFolder folder;
  put_bytes(folder.path("r.json"), "{ half a reco");
  CHECK(thrown_by([&] { load_recording(folder.path("r.json")); }).kind == ErrorKind::input);
  CHECK(bytes_of(folder.path("r.json")) == "{ half a reco");
  CHECK(thrown_by([&] { save_recording(folder.path("no/r.json"), some_recording()); }).kind == ErrorKind::io);
}

TEST_CASE("every shipped recording loads, and names a shipped machine") {
  for (const std::string& name : recording_names()) {
    CAPTURE(name);
    const Recording recording = shipped_recording(name);
    CHECK_FALSE(recording.rows.empty());
    CHECK_FALSE(recording.gpu.empty());
    CHECK_FALSE(recording.commit.empty());
  }
  CHECK(thrown_by([] { shipped_recording("abacus"); }).kind == ErrorKind::usage);
}

}  // namespace
}  // namespace flashscope
