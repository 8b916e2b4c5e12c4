#include "sim/schedule/algorithms.h"

#include "sim/error.h"
#include "sim/schedule/decode_rung.h"
#include "sim/schedule/flash_v3.h"
#include "sim/schedule/flash_v3_fp8.h"
#include "sim/schedule/hopper_backward.h"
#include "sim/schedule/tensor_backward.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope {
namespace {

TileShape patch_tile(const AttentionProblem&) { return {32, 32, 1}; }

/// Tiles of the FMA rungs: float32 operands on chip. Wider heads take shorter tiles, so that the CTA stays within the
/// shared memory of the large GPUs up to head_dim 256. (flash_v1 holds Q, K, V and O at once: 87 KB at head_dim 64,
/// more than a T4 has; the request is then refused with both numbers.)
TileShape fma_tile(const AttentionProblem& p) {
  return p.head_dim <= 64 ? TileShape{64, 64, 1} : p.head_dim <= 128 ? TileShape{64, 32, 1} : TileShape{32, 32, 1};
}

/// Tiles of the tensor-core rungs (tensor_rungs.h).
TileShape three_pass_tensor_tile(const AttentionProblem& p) {
  return {mma_block_m(fma_width(p.head_dim)), kThreePassTensorKeys, kThreePassTensorStages};
}
TileShape flash_v2_tensor_tile(const AttentionProblem& p) {
  return {mma_block_m(fma_width(p.head_dim)), mma_block_n(fma_width(p.head_dim), p.seqlen_k, p.is_sparse()), 1};
}

/// Rows of the heads that share a KV head fill a tile of 16 together (decode_rung.h).
TileShape decode_tile(const AttentionProblem& p) {
  return {decode_block_m(p.heads / p.kv_heads), decode_block_n(element_bytes(p.dtype)), 1};
}

/// Backward holds more tiles at once (fma_backward.h): two CTAs an SM of 227 KiB up to head_dim 128, one at 256, except
/// flash_v1, which has one above head_dim 64.
TileShape fma_backward_tile(const AttentionProblem& p) {
  return p.head_dim <= 64 ? TileShape{64, 64, 1} : p.head_dim <= 128 ? TileShape{32, 64, 1} : TileShape{32, 32, 1};
}

TileShape tensor_backward_tile(const AttentionProblem& p) {
  const int side = mma_backward_block(fma_width(p.head_dim));
  return {side, side, kMmaBackwardStages};
}

TileShape hopper_backward_tile(const AttentionProblem& p) {
  return {hopper_backward_queries(hopper_width(p.head_dim)), kHopperBackwardKeys, kHopperBackwardSlots};
}

/// The list. Add a line here.
const std::vector<Algorithm>& all_algorithms() {
  static const std::vector<Algorithm> list = {
      {"three_pass_naive", Pass::forward, "01", "S, softmax, PV as three kernels, one thread an output element",
       patch_tile, make_three_pass_naive},
      {"three_pass", Pass::forward, "02", "three kernels over shared-memory tiles; S and P go through HBM", fma_tile,
       make_three_pass},
      {"three_pass_tensor", Pass::forward, "03", "the same on tensor cores, loads under way while it computes",
       three_pass_tensor_tile, make_three_pass_tensor},
      {"flash_v1", Pass::forward, "04", "K/V outside, O rewritten for every key tile (FlashAttention)", fma_tile,
       make_flash_v1},
      {"flash_v2", Pass::forward, "05", "Q outside, K/V streamed, O kept on chip (FlashAttention-2)", fma_tile,
       make_flash_v2},
      {"flash_v2_tensor", Pass::forward, "06", "the same on tensor cores, loads under way while it computes",
       flash_v2_tensor_tile, make_flash_v2_tensor},
      {"flash_v3", Pass::forward, "07", "Hopper: TMA, wgmma, warps that load and warps that compute (FlashAttention-3)",
       flash_v3_tile, make_flash_v3},
      {"flash_v3_fp8", Pass::forward, "08", "the same on e4m3: rotated, rounded with a scale a tile, then multiplied",
       flash_v3_fp8_tile, make_flash_v3_fp8, true},
      {"split_kv", Pass::forward, "decode", "decode: few rows, K/V split over CTAs, results combined (Flash-Decoding)",
       decode_tile, make_split_kv},
      {"three_pass", Pass::backward, "02", "P as the forward pass stored it; dP and dS go through HBM", fma_backward_tile,
       make_three_pass_backward},
      {"flash_v1", Pass::backward, "04", "S and P recomputed; K/V outside, dQ rewritten for every key tile",
       fma_backward_tile, make_flash_v1_backward},
      {"flash_v2", Pass::backward, "05", "S and P recomputed, twice: a kernel for dK and dV, one for dQ",
       fma_backward_tile, make_flash_v2_backward},
      {"flash_v2_tensor", Pass::backward, "06", "the same on tensor cores, loads under way while it computes",
       tensor_backward_tile, make_flash_v2_tensor_backward},
      {"flash_v3", Pass::backward, "07", "Hopper: S and P recomputed once; CTAs add up dQ in global memory, by TMA",
       hopper_backward_tile, make_flash_v3_backward},
  };
  return list;
}

std::vector<Algorithm> of_pass(Pass pass) {
  std::vector<Algorithm> some;
  for (const Algorithm& algorithm : all_algorithms())
    if (algorithm.pass == pass) some.push_back(algorithm);
  return some;
}

}  // namespace

const std::vector<Algorithm>& algorithms(Pass pass) {
  static const std::vector<Algorithm> forward = of_pass(Pass::forward), backward = of_pass(Pass::backward);
  return pass == Pass::forward ? forward : backward;
}

const Algorithm& algorithm_named(const std::string& name, Pass pass) {
  std::string names;
  for (const Algorithm& algorithm : algorithms(pass)) {
    if (algorithm.name == name) return algorithm;
    names += (names.empty() ? "" : ", ") + algorithm.name;
  }
  for (const Algorithm& algorithm : all_algorithms())
    if (algorithm.name == name)
      throw Error(ErrorKind::usage, "--algorithm: '" + name + "' has no " + name_of(pass) + " pass; " + names + " have");
  throw Error(ErrorKind::usage, "--algorithm: '" + name + "' is not one of " + names);
}

namespace {

void check_page_size(const AttentionProblem& p, int page_size) {
  const std::string given = "--page-size: " + std::to_string(page_size);
  if (page_size < kMinPageSize || page_size > kMaxPageSize || (page_size & (page_size - 1)) != 0)
    throw Error(ErrorKind::usage, given + " is no power of two in " + std::to_string(kMinPageSize) + " … " +
                                      std::to_string(kMaxPageSize));
  const int row_bytes = p.head_dim * element_bytes(p.dtype);
  if (page_size * std::int64_t{row_bytes} % kSectorBytes != 0)
    throw Error(ErrorKind::usage, given + " rows of " + std::to_string(row_bytes) + " B are no whole sectors of " +
                                      std::to_string(kSectorBytes) + " B; twice as many are");
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(const std::string& name, const AttentionProblem& problem, TileShape tile) {
  const Algorithm& algorithm = algorithm_named(name, problem.pass);
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
  if (tile.splits == 0 || name != "split_kv") tile.splits = 1;
  check("--splits", tile.splits, kMaxSplits);
  if (name != "split_kv") tile.page_size = 0;
  if (tile.page_size != 0) check_page_size(problem, tile.page_size);
  if (tile.whole_tiles && !(problem.pass == Pass::forward && (name == "flash_v2" || name == "flash_v2_tensor")))
    throw Error(ErrorKind::unsupported,
                "--whole-tiles: described for the forward pass of flash_v2 and flash_v2_tensor only");
  if (tile.any_order && !(problem.pass == Pass::backward && name == "flash_v3"))
    throw Error(ErrorKind::unsupported,
                "--any-order: only the backward pass of flash_v3 has sums whose order can be given up");
  return algorithm.make(problem, tile);
}

std::unique_ptr<Schedule> forward_before(const Schedule& backward) {
  AttentionProblem problem = backward.problem();
  problem.pass = Pass::forward;
  return make_schedule(backward.algorithm(), problem);
}

}  // namespace flashscope
