// One parameter swept, everything else as it is set: bytes, time and memory of both algorithms, with the recording's
// points on the predicted lines.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/background.h"
#include "viz/core/figure.h"
#include "viz/core/settings.h"
#include "viz/core/views.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// `smem`: the largest tile Br = Bc whose CTAs fit into so much shared memory; `density`: kept blocks of a mask.
enum class SweepOver : std::uint8_t { seqlen, br, bc, smem, heads, head_dim, density };
enum class SweepShow : std::uint8_t { sm_bytes, hbm_bytes, time, memory };
const std::vector<Entry<SweepOver>>& sweep_overs();
const std::vector<Entry<SweepShow>>& sweep_shows();

struct SweepChoice {
  SweepOver over = SweepOver::seqlen;
  SweepShow show = SweepShow::hbm_bytes;
  bool operator==(const SweepChoice&) const = default;
};

/// What is computed does not depend on what is shown of it: changing `show` costs nothing.
struct SweepRequest {
  Settings settings;
  SweepOver over = SweepOver::seqlen;
  bool operator==(const SweepRequest&) const = default;
};

/// One algorithm at one value of the parameter.
struct SweepPoint {
  int value = 0;
  std::optional<Settings> settings;  // with the parameter at this value, once it was counted
  std::string note;                  // beside the values: the tile, where the value chooses it
  std::string refusal;  // why there is nothing: a tile that does not fit, a run that is too long
  std::optional<std::int64_t> sm_bytes, memory_bytes;
  std::optional<std::int64_t> hbm_bytes;  // read, written and dirty at the end
  std::optional<double> time_us;
};

struct SweepResult {
  SweepRequest request;
  std::array<std::vector<SweepPoint>, 2> sides;  // in order of value; those still to come have nothing
  std::size_t to_come = 0;                       // slices
};

/// The values of a sweep, and those of recorded rows that differ from the settings in nothing else.
std::vector<int> sweep_values(const SweepRequest& request, const std::vector<Recording>& recordings);

/// Score tiles of one head above which a point is not timed in a sweep.
inline constexpr std::int64_t kSweepTiles = 70'000;

/// Cheap points first: each slice is one point counted, then one point timed. The job refers to both lists.
std::unique_ptr<SlicedJob<SweepResult>> make_sweep(const SweepRequest& request, const std::vector<Machine>& machines,
                                                   const std::vector<Recording>& recordings);

Figure sweep_figure(const SweepResult& result, SweepShow show, const std::vector<Recording>& recordings);

}  // namespace flashscope::viz
