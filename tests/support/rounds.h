// How often a property test draws.
#pragma once

namespace flashscope {

/// `all` rounds; a quarter of them under sanitizers, where each takes eight times as long. Every run draws anew, and the
/// plain build takes all.
constexpr int rounds(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all / 4;
#else
  return all;
#endif
}

}  // namespace flashscope
