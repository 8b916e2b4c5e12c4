// Kernels that nobody here wrote: FlashAttention-2 and cuDNN as PyTorch runs them, counted on an H200
// (tests/data/h200_peers_counters.csv). Their bytes follow from tile, grid order and residency.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "sim/count/count.h"
#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/paths.h"
#include "viz/io/files.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

struct PeerRow {
  std::string peer, title;
  AttentionProblem problem;
  std::int64_t sm_read = 0, hbm_read = 0;

  bool is_cudnn() const { return peer == "cudnn"; }
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

/// Forward rows of the two libraries; eager's kernels are matrix products of a third.
std::vector<PeerRow> peer_rows() {
  std::vector<PeerRow> rows;
  std::istringstream text(read_text_file(test_data("h200_peers_counters.csv")));
  for (std::string line; std::getline(text, line);) {
    if (line[0] == '#' || line.rfind("peer,", 0) == 0) continue;
    const std::vector<std::string> f = fields_of(line);
    REQUIRE(f.size() == 14);
    if (f[0] == "eager") continue;
    PeerRow row;
    row.peer = f[0];
    row.problem.batch = std::stoi(f[1]);
    row.problem.heads = row.problem.kv_heads = std::stoi(f[2]);
    row.problem.seqlen_q = row.problem.seqlen_k = std::stoi(f[3]);
    row.problem.head_dim = std::stoi(f[4]);
    row.problem.causal = f[5] == "1";
    row.sm_read = std::stoll(f[9]);
    row.hbm_read = std::stoll(f[11]);
    row.title = f[0] + ", batch " + f[1] + ", heads " + f[2] + ", seqlen " + f[3] + ", head_dim " + f[4] +
                (row.problem.causal ? ", causal" : "");
    rows.push_back(row);
  }
  return rows;
}

/// Query tiles of 128 rows, for both. Key tiles of FlashAttention-2: 128 keys at head_dim 64, 64 at 128 (its source).
TileShape tile_of(const PeerRow& row) {
  TileShape tile{128, row.problem.head_dim == 64 ? 128 : 64, 1};
  tile.whole_tiles = row.is_cudnn();  // TMA
  return tile;
}

double error(std::int64_t predicted, std::int64_t measured) {
  return static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

TEST_CASE("SM reads of FlashAttention-2 and cuDNN follow from their tiles, within 0.5 %") {
  int rows = 0;
  for (const PeerRow& row : peer_rows()) {
    // FlashAttention-2 reads the rows that exist, so its count holds at 1,000 rows too.
    const auto schedule = make_schedule("flash_v2_tensor", row.problem, tile_of(row));
    CAPTURE(row.title);
    CHECK(std::fabs(error(count(*schedule).total.sm.sector_read, row.sm_read)) <= 0.005);
    TileShape narrow = tile_of(row);
    narrow.bc = 32;  // how the keys are cut does not matter where nothing is cut short
    if (row.problem.seqlen_k % 128 == 0 && !row.problem.causal)
      CHECK(count(*make_schedule("flash_v2_tensor", row.problem, narrow)).total.sm.sector_read ==
            count(*schedule).total.sm.sector_read);
    ++rows;
  }
  CHECK(rows == 26);
}

TEST_CASE("HBM reads of cuDNN and of FlashAttention-2 follow from grid order and residency, within 5 %") {
  const Machine h200 = load_machine("nvidia-h200");
  for (const PeerRow& row : peer_rows()) {
    // Two CTAs an SM; one, which stays and takes tile after tile. More than 16,384 rows take too long for a test.
    // FlashAttention-2 with a causal mask and head_dim 128 misses, by what nobody knows (docs/deviations.md).
    if (row.problem.seqlen_q > 16384 || (!row.is_cudnn() && row.problem.causal && row.problem.head_dim == 128)) continue;
    Machine machine = h200;
    machine.max_ctas_per_sm.value = row.is_cudnn() ? 1 : 2;
    const Prediction p = simulate(*make_schedule("flash_v2_tensor", row.problem, tile_of(row)), machine);
    CAPTURE(row.title);
    CHECK(p.kernels[0].ctas_per_sm == (row.is_cudnn() ? 1 : 2));
    CHECK(std::fabs(error(p.hbm.read, row.hbm_read)) <= 0.05);
  }
}

}  // namespace
}  // namespace flashscope
