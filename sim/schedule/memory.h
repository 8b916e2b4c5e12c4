// How long a sequence may be before its tensors no longer fit in memory.
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

/// The largest seqlen_k (and seqlen_q, where the two are equal) for which peak_memory_bytes() is at most `memory_bytes`,
/// everything else as in `schedule`; at most kMaxSeqlen. 0 when not even one key fits.
int largest_seqlen(const Schedule& schedule, std::int64_t memory_bytes);

}  // namespace flashscope
