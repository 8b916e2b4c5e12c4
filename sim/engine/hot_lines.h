// Lines of L2 that all warps of a CTA ask for at the same time, and CTAs of other SMs with them (three_pass_naive).
//
// A line lies in one slice of a partition, and a slice answers one request after the other. Where many lines are asked
// for once, slices have about as much to do as each other, and L2 is one link with the rate of them all. A few lines
// that are asked for thousands of times lie unevenly: a slice that has twice its share takes twice as long, and who
// asks waits for the last of his lines.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/hash.h"
#include "sim/engine/server.h"
#include "sim/schedule/op.h"

namespace flashscope {

/// What a load asks of each block of a tensor: rows `pitch` bytes apart, of each the bytes from `first` on.
struct LinesOfBlock {
  int rows = 0, pitch = 0, first = 0, bytes = 0;

  /// f(line) for each of them, numbered within the block.
  template <class F>
  void for_each(F f) const {
    for (int row = 0, next = 0; row < rows; ++row) {
      const int begin = (row * pitch + first) / kLineBytes, last = (row * pitch + first + bytes - 1) / kLineBytes;
      for (int line = std::max(begin, next); line <= last; ++line) f(line);
      next = last + 1;
    }
  }
  int count() const {
    int lines = 0;
    for_each([&lines](int) { ++lines; });
    return lines;
  }
};

class L2Slices {
 public:
  /// Of all partitions. Eight slices belong to each 512-bit memory controller (NVIDIA A100 whitepaper: 40 a partition);
  /// an H200 has twelve. Other GPUs are taken to be alike.
  static constexpr int kSlices = 96;

  explicit L2Slices(int partitions) : m_each(kSlices / partitions), m_slices(kSlices) {}

  /// When the slices of `partition` have answered what is asked of the lines of `block`, `cost` of a slice's time a
  /// line.
  Picoseconds serve(int partition, std::int64_t block, const LinesOfBlock& lines, Picoseconds cost, Picoseconds now) {
    Picoseconds end = now;
    lines.for_each([&](int line) {
      const std::uint64_t name = static_cast<std::uint64_t>(block) << 20 | static_cast<std::uint64_t>(line);
      const std::size_t slice = (mixed(name) >> 32) * static_cast<std::uint64_t>(m_each) >> 32;
      end = std::max(end, m_slices[static_cast<std::size_t>(partition * m_each) + slice].serve(now, cost));
    });
    return end;
  }
  void put_off(Picoseconds by) {
    for (Server& slice : m_slices) slice.put_off(by);
  }

 private:
  int m_each;
  std::vector<Server> m_slices;
};

}  // namespace flashscope
