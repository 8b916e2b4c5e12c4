#include "sim/schedule/algorithms.h"

#include "sim/error.h"

namespace flashscope {
namespace {

TileShape patch_tile(const AttentionProblem&) { return {32, 32, 1}; }

/// Tiles of the FMA rungs: float32 operands on chip. Wider heads take shorter tiles, so that the CTA stays within the
/// shared memory of the large GPUs up to head_dim 256. (flash_v1 holds Q, K, V and O at once: 87 KB at head_dim 64,
/// more than a T4 has; the request is then refused with both numbers.)
TileShape fma_tile(const AttentionProblem& p) {
  return p.head_dim <= 64 ? TileShape{64, 64, 1} : p.head_dim <= 128 ? TileShape{64, 32, 1} : TileShape{32, 32, 1};
}

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> list = {
      {"three_pass_naive", "01", "S, softmax, PV as three kernels, one thread an output element", patch_tile,
       make_three_pass_naive},
      {"three_pass", "02", "three kernels over shared-memory tiles; S and P go through HBM", fma_tile, make_three_pass},
      {"flash_v1", "04", "K/V outside, O rewritten for every key tile (FlashAttention)", fma_tile, make_flash_v1},
      {"flash_v2", "05", "Q outside, K/V streamed, O kept on chip (FlashAttention-2)", fma_tile, make_flash_v2},
  };
  return list;
}

const Algorithm& algorithm_named(const std::string& name) {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == name) return algorithm;
    names += (names.empty() ? "" : ", ") + algorithm.name;
  }
  throw Error(ErrorKind::usage, "--algorithm: '" + name + "' is not one of " + names);
}

std::unique_ptr<Schedule> make_schedule(const std::string& name, const AttentionProblem& problem, TileShape tile) {
  const Algorithm& algorithm = algorithm_named(name);
  validate(problem);
  const TileShape built = algorithm.default_tile(problem);
  if (tile.br == 0) tile.br = built.br;
  if (tile.bc == 0) tile.bc = built.bc;
  if (tile.stages == 0) tile.stages = built.stages;
  const auto check = [](const char* option, int value, int hi) {
    if (value < 1 || value > hi)
      throw Error(ErrorKind::usage,
                  std::string(option) + ": " + std::to_string(value) + " is outside 1 … " + std::to_string(hi));
  };
  check("--br", tile.br, 1024);
  check("--bc", tile.bc, 1024);
  check("--stages", tile.stages, 8);
  return algorithm.make(problem, tile);
}

}  // namespace flashscope
