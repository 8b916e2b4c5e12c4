// Reads of one buffer by the whole GPU, in the orders that tell what L2 keeps. Past L1, on the default stream, not waited
// for; bytes are a multiple of 8,192. Throw Error.
#pragma once
#include <cstdint>

namespace flashscope::kernels {

/// Every CTA reads the whole buffer, all from its start: what all SMs share, as K and V are. They meet at the same lines
/// at the same time, so what falls out of L2 comes back once for all of them.
void shared_scan(const char* data, std::int64_t bytes, int ctas);

/// CTA c takes pieces c + shift, c + shift + ctas, …: each piece is read by one SM only.
void own_scan(const char* data, std::int64_t bytes, int shift, int ctas);

/// Every CTA reads bytes / parts from a start of its own, the starts spread evenly: every line is read by many SMs, but at
/// different times, so what falls out of L2 comes back for each of them. Reads ctas × bytes / parts in all.
void staggered_scan(const char* data, std::int64_t bytes, int parts, int ctas);
/// As many of its CTAs as an SM holds.
int staggered_ctas_per_sm();

}  // namespace flashscope::kernels
