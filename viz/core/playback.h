// The clock of the stage: one time for both algorithms. A value; nothing else in the window moves.
#pragma once
#include <vector>

#include "sim/trace/trace.h"

namespace flashscope::viz {

struct Playback {
  Picoseconds t = 0;
  bool playing = false;
  int speed = 0;  // power of two on top of the pace that plays the longer run in kWholeRunSeconds

  bool operator==(const Playback&) const = default;
};
inline constexpr double kWholeRunSeconds = 40;
inline constexpr int kSlowest = -6, kFastest = 4;

/// Simulated picoseconds that pass in one second of the viewer's.
double pace(const Playback& playback, Picoseconds duration);
/// The clock after `seconds` of the viewer's time; stops at `duration`.
Playback advance(Playback playback, double seconds, Picoseconds duration);
/// To any time; clamped to 0 … duration.
Playback scrub(Playback playback, Picoseconds t, Picoseconds duration);
Playback change_speed(Playback playback, int by);
/// Play from the start when at the end.
Playback toggle(Playback playback, Picoseconds duration);

/// Moves to the next or previous of the sorted `times`, and pauses. Stays where there is none.
/// From a member of `times`, k steps back and k steps forward return to it.
Playback step_forward(Playback playback, const std::vector<Picoseconds>& times);
Playback step_back(Playback playback, const std::vector<Picoseconds>& times);

}  // namespace flashscope::viz
