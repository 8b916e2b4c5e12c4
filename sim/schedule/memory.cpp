#include "sim/schedule/memory.h"

namespace flashscope {

int largest_seqlen(const Schedule& schedule, std::int64_t memory_bytes) {
  const auto fits = [&](int seqlen) {
    AttentionProblem p = schedule.problem();
    if (p.seqlen_q == p.seqlen_k) p.seqlen_q = seqlen;
    p.seqlen_k = seqlen;
    double bytes = 0;  // exact where it matters: memories are far below 2^53 bytes, N² of a long sequence is not
    for (Tensor tensor : schedule.tensors()) {
      const TensorShape shape = shape_of(tensor, p, schedule.tile());
      bytes += static_cast<double>(shape.head_bytes()) * shape.heads;
    }
    return bytes <= static_cast<double>(memory_bytes);
  };
  int lo = 0, hi = kMaxSeqlen + 1;  // fits(lo) or lo = 0; not fits(hi), or hi is out of range
  while (hi - lo > 1) {
    const int middle = lo + (hi - lo) / 2;
    (fits(middle) ? lo : hi) = middle;
  }
  return lo;
}

}  // namespace flashscope
