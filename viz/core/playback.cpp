#include "viz/core/playback.h"

#include <algorithm>
#include <cmath>

namespace flashscope::viz {

double pace(const Playback& playback, Picoseconds duration) {
  return static_cast<double>(duration) / kWholeRunSeconds * std::ldexp(1.0, playback.speed);
}

Playback advance(Playback playback, double seconds, Picoseconds duration) {
  if (!playback.playing || !(seconds > 0)) return playback;
  const double moved = std::min(pace(playback, duration) * seconds, static_cast<double>(duration));
  playback = scrub(playback, playback.t + std::max<Picoseconds>(1, static_cast<Picoseconds>(moved)), duration);
  if (playback.t >= duration) playback.playing = false;
  return playback;
}

Playback scrub(Playback playback, Picoseconds t, Picoseconds duration) {
  playback.t = std::clamp<Picoseconds>(t, 0, std::max<Picoseconds>(0, duration));
  return playback;
}

Playback change_speed(Playback playback, int by) {
  playback.speed = std::clamp(playback.speed + by, kSlowest, kFastest);
  return playback;
}

Playback toggle(Playback playback, Picoseconds duration) {
  playback.playing = !playback.playing;
  if (playback.playing && playback.t >= duration) playback.t = 0;
  return playback;
}

Playback step_forward(Playback playback, const std::vector<Picoseconds>& times) {
  playback.playing = false;
  const auto next = std::upper_bound(times.begin(), times.end(), playback.t);
  if (next != times.end()) playback.t = *next;
  return playback;
}

Playback step_back(Playback playback, const std::vector<Picoseconds>& times) {
  playback.playing = false;
  const auto here = std::lower_bound(times.begin(), times.end(), playback.t);
  if (here != times.begin()) playback.t = *(here - 1);
  return playback;
}

}  // namespace flashscope::viz
