// Memory in pieces that one CTA reads or writes at once: what scans of L2 are made of.
#pragma once
#include <cstdint>

namespace flashscope::kernels {

inline constexpr int kScanThreads = 256;
inline constexpr int kPieceBytes = 8192;  // a tile of 64 × 64 two-byte elements

__device__ inline uint4 load_past_l1(const char* address) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(address));
  return x;
}

/// A value that depends on every byte of the piece, different in every thread.
__device__ inline unsigned read_piece(const char* data, std::int64_t piece) {
  unsigned sum = 0;
  for (int at = threadIdx.x * 16; at < kPieceBytes; at += kScanThreads * 16) {
    const uint4 x = load_past_l1(data + piece * kPieceBytes + at);
    sum ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  return sum;
}

__device__ inline void write_piece(char* data, std::int64_t piece, unsigned value) {
  for (int at = threadIdx.x * 16; at < kPieceBytes; at += kScanThreads * 16)
    *reinterpret_cast<uint4*>(data + piece * kPieceBytes + at) = make_uint4(value, at, piece, 1);
}

}  // namespace flashscope::kernels
