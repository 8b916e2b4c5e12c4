#include "viz/core/settings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "sim/count/count.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"
#include "viz/io/block_mask_io.h"

namespace flashscope::viz {
namespace {

/// The first blocks of a mask: what it says of the first rows and keys.
SharedBlockMask first_part(const BlockMask& mask, int seqlen_q, int seqlen_k) {
  auto part = std::make_shared<BlockMask>(mask.block_q, mask.block_k,
                                          std::min(mask.rows, num_tiles(seqlen_q, mask.block_q)),
                                          std::min(mask.cols, num_tiles(seqlen_k, mask.block_k)));
  part->name = mask.name;
  for (int row = 0; row < part->rows; ++row)
    for (int col = 0; col < part->cols; ++col)
      if (mask.kept(row, col)) part->keep(row, col);
  return {part};
}

void take_first_rows(AttentionProblem& p, int seqlen_q, int seqlen_k) {
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  for (int& row : p.cu_seqlens_q) row = std::min(row, seqlen_q);
  for (int& row : p.cu_seqlens_k) row = std::min(row, seqlen_k);
  if (p.block_mask) p.block_mask = first_part(*p.block_mask.mask, seqlen_q, seqlen_k);
}

/// Offsets of that many sequences in so many rows. Short of rows, some are empty.
std::vector<int> offsets(int sequences, int rows) {
  constexpr int kParts[] = {3, 1, 4, 2};
  std::vector<std::int64_t> parts = {0};
  for (int s = 0; s < sequences; ++s) parts.push_back(parts.back() + kParts[s % 4]);
  std::vector<int> list;
  for (const std::int64_t part : parts) list.push_back(static_cast<int>(part * rows / parts.back()));
  return list;
}

/// Offsets of other lengths: as many sequences in these. What is no list of offsets at all: unpacked.
void fit_sequences(AttentionProblem& p) {
  const auto good = [](const std::vector<int>& list, int rows) {
    return !list.empty() && list.front() == 0 && list.back() == rows && std::is_sorted(list.begin(), list.end());
  };
  const int sequences = packed_sequences(p);
  if (sequences == 1 && p.cu_seqlens_q.empty() && p.cu_seqlens_k.empty()) return;
  p.batch = 1;
  if (sequences > kSequencesRange.hi || p.cu_seqlens_q.size() != p.cu_seqlens_k.size() || !good(p.cu_seqlens_q, p.seqlen_q) ||
      !good(p.cu_seqlens_k, p.seqlen_k))
    pack_sequences(p, sequences);
}

/// A mask of another length's: made again for this one.
void fit_block_mask(AttentionProblem& p) {
  if (!p.block_mask) return;
  const BlockMask& mask = *p.block_mask.mask;
  if (mask.rows == num_tiles(p.seqlen_q, mask.block_q) && mask.cols == num_tiles(p.seqlen_k, mask.block_k)) return;
  if (block_mask_choice(p).pattern.empty())
    p.block_mask = {};  // a file's is of one length
  else
    p.block_mask.mask =
        std::make_shared<const BlockMask>(load_block_mask("--block-mask", mask.name, p.seqlen_q, p.seqlen_k));
}

}  // namespace

const std::vector<std::string>& block_mask_patterns() {
  static const std::vector<std::string> names = {"local", "strided", "butterfly", "random"};
  return names;
}

BlockMaskChoice block_mask_choice(const AttentionProblem& problem) {
  if (!problem.block_mask) return {};
  std::istringstream text(problem.block_mask.mask->name);
  std::string pattern, density, seed, block;
  std::getline(text, pattern, ':');
  std::getline(text, density, ':');
  std::getline(text, seed, ':');
  std::getline(text, block, ':');
  const auto& known = block_mask_patterns();
  BlockMaskChoice choice;
  if (std::find(known.begin(), known.end(), pattern) == known.end()) return choice;
  choice.pattern = pattern;
  choice.percent = clamp_to(kDensityRange, std::round(100 * std::atof(density.c_str())));
  choice.seed = clamp_to(kSeedRange, std::atof(seed.c_str()));
  if (!block.empty()) choice.block = clamp_to(kBlockRange, std::atof(block.c_str()));
  return choice;
}

void set_block_mask(AttentionProblem& problem, const BlockMaskChoice& choice) {
  problem.block_mask = {};
  if (choice.pattern.empty()) return;
  const std::string percent = std::to_string(clamp_to(kDensityRange, choice.percent));
  const std::string density =
      percent == "100" ? "1" : "0." + std::string(percent.size() < 2 ? "0" : "") + percent;
  const std::string text = choice.pattern + ":" + density + ":" + std::to_string(choice.seed) + ":" +
                           std::to_string(choice.block);
  problem.block_mask.mask = std::make_shared<const BlockMask>(
      load_block_mask("--block-mask", text, problem.seqlen_q, problem.seqlen_k));
}

/// The largest that the schedule takes up to `size`: a power of two of whole sectors, or none.
int fitting_page_size(const AttentionProblem& p, int size) {
  if (size < kMinPageSize) return 0;
  int fits = kMinPageSize;
  while (2 * fits <= std::min(size, kMaxPageSize)) fits *= 2;
  const int row_bytes = p.head_dim * element_bytes(p.dtype);
  return std::int64_t{fits} * row_bytes % kSectorBytes == 0 ? fits : 2 * fits;
}

void set_lengths(AttentionProblem& problem, int seqlen_q, int seqlen_k) {
  problem.seqlen_q = seqlen_q;
  problem.seqlen_k = seqlen_k;
  fit_block_mask(problem);
  fit_sequences(problem);
}

int packed_sequences(const AttentionProblem& problem) {
  return std::max(1, static_cast<int>(problem.cu_seqlens_q.size()) - 1);
}

void pack_sequences(AttentionProblem& problem, int sequences) {
  sequences = clamp_to(kSequencesRange, sequences);
  problem.cu_seqlens_q.clear();
  problem.cu_seqlens_k.clear();
  if (sequences == 1) return;
  problem.batch = 1;
  problem.cu_seqlens_q = offsets(sequences, problem.seqlen_q);
  problem.cu_seqlens_k = offsets(sequences, problem.seqlen_k);
}

int clamp_to(IntRange range, double value) {
  if (!(value > range.lo)) return range.lo;  // NaN as well
  return value >= range.hi ? range.hi : static_cast<int>(value);
}

Settings clamp(Settings settings) {
  AttentionProblem& p = settings.problem;
  p.batch = clamp_to(kBatchRange, p.batch);
  p.heads = clamp_to(kHeadsRange, p.heads);
  if (p.kv_heads < 1 || p.kv_heads > p.heads || p.heads % p.kv_heads != 0) p.kv_heads = p.heads;
  p.head_dim = clamp_to(kHeadDimRange, p.head_dim);
  p.window_left = clamp_to(kWindowRange, p.window_left);
  p.window_right = clamp_to(kWindowRange, p.window_right);
  if (p.causal && p.window_right > 0) p.window_right = 0;
  if (!std::isfinite(p.softmax_scale)) p.softmax_scale = 0;
  set_lengths(p, clamp_to(kSeqlenRange, p.seqlen_q), clamp_to(kSeqlenRange, p.seqlen_k));
  settings.tile.br = clamp_to(kTileRange, settings.tile.br);
  settings.tile.bc = clamp_to(kTileRange, settings.tile.bc);
  settings.tile.stages = clamp_to(kStagesRange, settings.tile.stages);
  settings.tile.splits = clamp_to(kSplitsRange, settings.tile.splits);
  settings.tile.page_size = fitting_page_size(p, settings.tile.page_size);
  settings.stage_seqlen = clamp_to(kStageSeqlenRange, settings.stage_seqlen);
  const Settings defaults;
  for (std::size_t which = 0; which < settings.algorithms.size(); ++which) {
    const auto known = [&](const Algorithm& a) { return a.name == settings.algorithms[which]; };
    const auto& list = algorithms(p.pass);
    if (std::none_of(list.begin(), list.end(), known)) settings.algorithms[which] = defaults.algorithms[which];
  }
  return settings;
}

AttentionProblem stage_problem(const Settings& settings, std::int64_t max_ops) {
  AttentionProblem p = settings.problem;
  const int group = p.heads / p.kv_heads;
  p.batch = 1;
  take_first_rows(p, std::min(p.seqlen_q, settings.stage_seqlen), std::min(p.seqlen_k, settings.stage_seqlen));
  const int all_kv_heads = p.kv_heads;
  p.kv_heads = 1;
  p.heads = group;
  // Where scores are stored, all of them are computed; else what the mask leaves.
  const bool all_pairs = std::any_of(settings.algorithms.begin(), settings.algorithms.end(), [&](const std::string& name) {
    const auto schedule = make_schedule(name, p, settings.tile);
    const auto& tensors = schedule->tensors();
    return std::find(tensors.begin(), tensors.end(), Tensor::S) != tensors.end();
  });
  const auto tiles = [&] {  // a bound that costs nothing, before anything is counted
    const std::int64_t pairs = all_pairs ? std::int64_t{p.seqlen_q} * p.seqlen_k * group : kept_pairs(p);
    return pairs / (std::int64_t{settings.tile.br} * settings.tile.bc);
  };
  const auto ops = [&] {  // of one group of heads
    std::int64_t most = 1;
    for (const std::string& name : settings.algorithms)
      most = std::max(most, count(*make_schedule(name, p, settings.tile)).total.ops);
    return most;
  };
  while (std::max(p.seqlen_q, p.seqlen_k) > 1 && (tiles() > max_ops || ops() > max_ops)) {
    take_first_rows(p, (p.seqlen_q + 1) / 2, (p.seqlen_k + 1) / 2);
  }
  p.kv_heads = static_cast<int>(std::clamp<std::int64_t>(max_ops / ops(), 1, all_kv_heads));
  p.heads = p.kv_heads * group;
  return p;
}

std::string describe(const AttentionProblem& p) {
  std::string text;
  if (p.batch > 1) text += "batch " + std::to_string(p.batch) + " · ";
  text += grouped(p.heads) + (p.heads == 1 ? " head" : " heads");
  if (p.kv_heads != p.heads) text += " (" + std::to_string(p.kv_heads) + " KV)";
  text += " · " + grouped(p.seqlen_q) + " × " + grouped(p.seqlen_k) + " · d " + std::to_string(p.head_dim) + " · " +
          name_of(p.dtype);
  if (p.causal) text += " · causal";
  const auto side = [](int keys) { return keys < 0 ? std::string("all") : grouped(keys); };
  if (p.window_left >= 0 || (p.window_right >= 0 && !p.causal))
    text += " · window " + side(p.window_left) + ", " + side(p.causal ? 0 : p.window_right);  // causal: to the diagonal
  if (p.block_mask) {
    const BlockMaskChoice mask = block_mask_choice(p);
    text += " · " + (mask.pattern.empty() ? p.block_mask.mask->name
                                          : mask.pattern + " blocks " + std::to_string(mask.percent) + " %");
  }
  if (!p.cu_seqlens_q.empty()) text += " · " + grouped(static_cast<std::int64_t>(p.cu_seqlens_q.size()) - 1) + " sequences";
  if (p.pass == Pass::backward) text += " · backward";
  return text;
}

}  // namespace flashscope::viz
