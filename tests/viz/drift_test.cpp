// Predictions do not move unseen: those for the shipped recording's rows are kept in tests/data/predictions.json, and a
// change of more than 0.5 % fails here until the file is written anew (tests/data/README.md says how, and when).
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "sim/count/count.h"
#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/paths.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"

namespace flashscope {
namespace {

/// Longer rows would take minutes with sanitizers; the short ones go through the same code.
constexpr std::int64_t kMostOperations = 350'000;
const std::string kFile = test_data("predictions.json");

std::string key_of(const RecordingRow& row) {
  const AttentionProblem& p = row.problem;
  const Json written = problem_to_json(p);
  const auto sparse = [&](const char* member) {
    return written.contains(member) && !written[member].is_null() ? ", " + written[member].dump() : std::string();
  };
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  return row.algorithm + " " + name_of(p.pass) + " " + text(row.tile.br) + "x" + text(row.tile.bc) +
         (row.tile.splits > 0 ? ", splits " + text(row.tile.splits) : "") +
         (row.tile.page_size > 0 ? ", pages of " + text(row.tile.page_size) : "") +
         (row.start == Start::warm ? ", warm" : "") + ", batch " + text(p.batch) + ", heads " +
         text(p.heads) + "/" + text(p.kv_heads) + ", seqlen " + text(p.seqlen_q) + "x" + text(p.seqlen_k) +
         ", head_dim " + text(p.head_dim) + ", " + name_of(p.dtype) + ", window " + text(p.mask().left) + "," +
         text(p.mask().right) + sparse("block_mask") + sparse("cu_seqlens_q");
}

Json predictions() {
  const Recording recording = shipped_recording("nvidia-h200");
  const Machine machine = load_machine(recording.machine);
  Json rows = Json::object();
  for (const RecordingRow& row : recording.rows) {
    const auto schedule = make_schedule(row.algorithm, row.problem, row.tile);
    std::int64_t operations = 0;
    for (const KernelCount& kernel : count(*schedule).kernels) operations += kernel.ops;
    if (operations > kMostOperations) continue;
    const Prediction p = simulate(*schedule, machine);
    REQUIRE_FALSE(rows.contains(key_of(row)));  // or one would hide the other
    rows[key_of(row)] = {{"time_ps", p.time},
                         {"hbm_read_bytes", p.hbm.read},
                         {"hbm_write_bytes", p.hbm.write + p.hbm_dirty_bytes}};
  }
  return rows;
}

TEST_CASE("predictions for the recorded rows have not moved by more than 0.5 %") {
  const Json now = predictions();
  if (std::getenv("FLASHSCOPE_UPDATE_PREDICTIONS")) {
    write_file_atomically(kFile, now.dump(1) + "\n");
    return;
  }
  const Json kept = parse_json(read_text_file(kFile), kFile);
  CHECK(now.size() == kept.size());
  for (const auto& [row, quantities] : kept.items()) {
    INFO(row);
    REQUIRE(now.contains(row));
    for (const auto& [quantity, value] : quantities.items()) {
      INFO(quantity);
      const double before = value.get<double>(), after = now[row][quantity].get<double>();
      CHECK(std::abs(after - before) <= kMayMove * before);
    }
  }
}

}  // namespace
}  // namespace flashscope
