#include "viz/core/settings.h"

#include <algorithm>
#include <cmath>

#include "sim/count/count.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"

namespace flashscope::viz {

int clamp_to(IntRange range, double value) {
  if (!(value > range.lo)) return range.lo;  // NaN as well
  return value >= range.hi ? range.hi : static_cast<int>(value);
}

Settings clamp(Settings settings) {
  AttentionProblem& p = settings.problem;
  p.batch = clamp_to(kBatchRange, p.batch);
  p.heads = clamp_to(kHeadsRange, p.heads);
  if (p.kv_heads < 1 || p.kv_heads > p.heads || p.heads % p.kv_heads != 0) p.kv_heads = p.heads;
  p.seqlen_q = clamp_to(kSeqlenRange, p.seqlen_q);
  p.seqlen_k = clamp_to(kSeqlenRange, p.seqlen_k);
  p.head_dim = clamp_to(kHeadDimRange, p.head_dim);
  if (!std::isfinite(p.softmax_scale)) p.softmax_scale = 0;
  settings.tile.br = clamp_to(kTileRange, settings.tile.br);
  settings.tile.bc = clamp_to(kTileRange, settings.tile.bc);
  settings.tile.stages = std::clamp(settings.tile.stages, 1, 8);
  settings.tile.splits = clamp_to(kSplitsRange, settings.tile.splits);
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
  p.seqlen_q = std::min(p.seqlen_q, settings.stage_seqlen);
  p.seqlen_k = std::min(p.seqlen_k, settings.stage_seqlen);
  const int all_kv_heads = p.kv_heads;
  p.kv_heads = 1;
  p.heads = group;
  const auto tiles = [&] {  // a bound that costs nothing, before anything is counted
    return std::int64_t{num_tiles(p.seqlen_q, settings.tile.br)} * num_tiles(p.seqlen_k, settings.tile.bc) * group;
  };
  const auto ops = [&] {  // of one group of heads
    std::int64_t most = 1;
    for (const std::string& name : settings.algorithms)
      most = std::max(most, count(*make_schedule(name, p, settings.tile)).total.ops);
    return most;
  };
  while (std::max(p.seqlen_q, p.seqlen_k) > 1 && (tiles() > max_ops || ops() > max_ops)) {
    p.seqlen_q = (p.seqlen_q + 1) / 2;
    p.seqlen_k = (p.seqlen_k + 1) / 2;
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
  if (p.pass == Pass::backward) text += " · backward";
  return text;
}

}  // namespace flashscope::viz
