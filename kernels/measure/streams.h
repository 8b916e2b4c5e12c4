// Three kernels that move a known number of bytes through memory, once each, with full sectors: the measure that the
// counters are held against, and the brush that cleans L2.
#pragma once
#include <cstdint>

namespace flashscope::kernels {

// bytes: a multiple of 16; pointers aligned to 16. On the default stream, not waited for. Throw Error.
void stream_read(const void* source, std::int64_t bytes);
void stream_write(void* target, std::int64_t bytes, std::uint32_t seed);  // no two words alike: not compressible
void stream_copy(void* target, const void* source, std::int64_t bytes);

/// A kernel that does nothing, in this many CTAs of one warp.
void empty_launch(int ctas);

}  // namespace flashscope::kernels
