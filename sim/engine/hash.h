#pragma once
#include <cstdint>

namespace flashscope {

/// Bits of `x` mixed so that neighbours land far apart (the finaliser of splitmix64, Steele and others, OOPSLA 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace flashscope
