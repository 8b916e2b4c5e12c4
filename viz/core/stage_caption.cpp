#include "viz/core/stage_caption.h"

#include "sim/schedule/algorithms.h"
#include "viz/core/app_state.h"
#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

std::string counted(std::int64_t count, const char* one, const char* many) {
  return count == 1 ? std::string("one ") + one : grouped(count) + " " + many;
}

std::string heads_drawn(const AttentionProblem& drawn, const AttentionProblem& whole) {
  if (drawn.num_heads() == whole.num_heads()) return counted(drawn.num_heads(), "head", "heads");
  return grouped(drawn.num_heads()) + " of " + grouped(whole.num_heads()) + " heads" +
         (whole.batch > 1 ? " (of " + grouped(whole.batch) + " batch entries)" : "");
}

/// "all 1,024 rows", "the first 1,024 of 8,192 rows and keys", "one row, the first 1,024 of 16,384 keys".
std::string rows_drawn(const AttentionProblem& drawn, const AttentionProblem& whole) {
  const auto part = [](std::int64_t some, std::int64_t all, const std::string& what) {
    return some < all  ? "the first " + grouped(some) + " of " + grouped(all) + " " + what
           : some == 1 ? "one " + what.substr(0, what.size() - 1)
                       : "all " + grouped(all) + " " + what;
  };
  if (drawn.seqlen_k == whole.seqlen_k) return part(drawn.seqlen_q, whole.seqlen_q, "rows");
  if (whole.seqlen_q == whole.seqlen_k && drawn.seqlen_q == drawn.seqlen_k)
    return part(drawn.seqlen_q, whole.seqlen_q, "rows and keys");
  return part(drawn.seqlen_q, whole.seqlen_q, "rows") + ", " + part(drawn.seqlen_k, whole.seqlen_k, "keys");
}

}  // namespace

std::string stage_caption(const Results& results, int level, bool both) {
  const AttentionProblem &whole = results.settings.problem, &drawn = results.stage_problem;
  std::string text = "Stage: " + heads_drawn(drawn, whole) + ", " + rows_drawn(drawn, whole) + ". Tiles " +
                     std::to_string(results.settings.tile.br) + " × " + std::to_string(results.settings.tile.bc) +
                     (both ? ", one clock." : ".");
  if (results.stage[0] && level < kWholeGpu)
    text += (level == 0 ? " SM 0" : " SM 0–1") +
            (" of " + grouped(static_cast<std::int64_t>(results.stage[0]->machine().num_sms.value))) +
            " (Z, Shift+Z).";
  return text;
}

std::string problem_caption(const Results& results) {
  const AttentionProblem &whole = results.settings.problem, &drawn = results.stage_problem;
  std::string text = describe(whole);
  if (results.stage[0]) text += " · " + results.stage[0]->machine().title;
  if (drawn.num_heads() < whole.num_heads() || drawn.seqlen_q < whole.seqlen_q || drawn.seqlen_k < whole.seqlen_k)
    text += " · drawn: " + heads_drawn(drawn, whole) + ", " + rows_drawn(drawn, whole);
  return text;
}

std::vector<std::string> not_its_tile(const Schedule& schedule) {
  const TileShape own = algorithm_named(schedule.algorithm(), schedule.problem().pass).default_tile(schedule.problem());
  if (own.br == schedule.tile().br && own.bc == schedule.tile().bc) return {};
  const std::string sides = std::to_string(own.br) + " × " + std::to_string(own.bc);
  return {"kernel built with tiles " + sides, "built with " + sides};
}

}  // namespace flashscope::viz
