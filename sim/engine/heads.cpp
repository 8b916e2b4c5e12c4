#include "sim/engine/heads.h"

#include <algorithm>
#include <cmath>

namespace flashscope {
namespace {

/// Heads, or groups of them, are alike when their CTAs differ by less than this: in time, and in bytes of all that they
/// move. Dirty bytes come and go with the waves; a trend would be more.
constexpr double kTimeDiffers = 0.001, kBytesDiffer = 0.001, kDirtyBytesDiffer = 0.05;

/// Where CTAs read more than once what they need, as many heads, or groups, are compared with as many.
constexpr double kReadsAgain = 1.1;
constexpr std::size_t kFewestWhereReadAgain = 2;

/// Only multiplied and divided: equal on every machine (server.h).
std::int64_t scaled(std::int64_t n, double times) { return std::llround(static_cast<double>(n) * times); }

}  // namespace

std::int64_t Done::read() const {
  std::int64_t bytes = 0;
  for (const HbmTraffic& tensor : tensors) bytes += tensor.read;
  return bytes;
}

std::int64_t Done::produced() const {
  std::int64_t bytes = dirty_bytes;
  for (const HbmTraffic& tensor : tensors) bytes += tensor.write;
  return bytes;
}

double Done::work() const {
  Picoseconds time = 0;
  for (const Picoseconds reason : reasons) time += reason;
  return static_cast<double>(time) / time_each();
}

Done Done::operator-(const Done& before) const {
  Done between = *this;
  for (std::size_t t = 0; t < kNumTensors; ++t) {
    between.tensors[t].read -= before.tensors[t].read;
    between.tensors[t].write -= before.tensors[t].write;
  }
  between.dirty_bytes -= before.dirty_bytes;
  between.l2_read_hit_bytes -= before.l2_read_hit_bytes;
  for (std::size_t r = 0; r < kNumReasons; ++r) between.reasons[r] -= before.reasons[r];
  between.ctas -= before.ctas;
  between.cta_time -= before.cta_time;
  between.cta_read -= before.cta_read;
  return between;
}

bool HeadsSeen::repeat(double needed) const {
  if (half() == 0) return false;
  const Done last = last_half(), before = m_seen[m_seen.size() - 1 - half()] - m_seen[m_seen.size() - 1 - 2 * half()];
  if (last.ctas == 0 || before.ctas == 0) return false;
  if (last.read_each() > kReadsAgain * needed && half() < kFewestWhereReadAgain) return false;
  const double moved = static_cast<double>(last.read() + last.produced());
  const auto alike = [](double one, double other, double most) { return std::abs(one - other) <= most; };
  return alike(before.read_each(), last.read_each(), kBytesDiffer * moved / last.work()) &&
         alike(before.time_each(), last.time_each(), kTimeDiffers * last.time_each()) &&
         alike(static_cast<double>(last.dirty_bytes), 0, kDirtyBytesDiffer * moved);
}

Done HeadsSeen::next(std::int64_t ctas, std::int64_t produced) const {
  const Done last = last_half();
  const double all = static_cast<double>(ctas), share = all / last.work();
  const double reads = last.read() == 0 ? 0 : last.read_each() * all / static_cast<double>(last.read());
  const double writes = static_cast<double>(produced) / static_cast<double>(std::max<std::int64_t>(1, last.produced()));
  Done next;
  next.ctas = ctas;
  for (std::size_t t = 0; t < kNumTensors; ++t)
    next.tensors[t] = {scaled(last.tensors[t].read, reads), scaled(last.tensors[t].write, writes)};
  next.dirty_bytes = produced - next.produced();
  next.l2_read_hit_bytes = scaled(last.l2_read_hit_bytes, share);
  for (std::size_t r = 0; r < kNumReasons; ++r) next.cta_time += next.reasons[r] = scaled(last.reasons[r], share);
  return next;
}

}  // namespace flashscope
