// Long loops over independent elements, by all cores.
#pragma once
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace flashscope::kernels {

inline constexpr std::int64_t kSmallestPart = 1 << 16;  // elements that are worth a thread

/// Calls body(begin, end) for parts of 0 … count-1, side by side, each of at least `smallest` items (the last may be
/// shorter). Few items are one part, on this thread; so is the rest when no more threads are to be had. The body must
/// not throw.
template <class Body>
void in_parts(std::int64_t count, std::int64_t smallest, const Body& body) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t part = std::max({std::int64_t{1}, smallest, (count + cores - 1) / cores});
  std::vector<std::thread> others;
  std::int64_t begin = part;
  try {
    for (; begin < count; begin += part)
      others.emplace_back([&body, begin, end = std::min(count, begin + part)] { body(begin, end); });
  } catch (const std::system_error&) {
    body(begin, count);
  }
  body(std::int64_t{0}, std::min(count, part));
  for (std::thread& other : others) other.join();
}

}  // namespace flashscope::kernels
