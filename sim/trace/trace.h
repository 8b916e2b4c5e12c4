// What a timed run did: spans with one reason each, and the tiles that moved. Plain values; a picture of any instant is
// a function of these and the time.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/schedule/op.h"

namespace flashscope {

/// Simulated time in picoseconds from the start of the run. Integer, so that equal inputs give equal bytes everywhere.
using Picoseconds = std::int64_t;

/// Why a CTA spent a span of time: the unit or link it used or waited for.
enum class Reason : std::uint8_t { hbm, l2, smem, tensor, fma, exp, barrier, launch, idle };
inline constexpr int kNumReasons = 9;
const char* name_of(Reason reason);

/// One tile operation in time. The spans of a CTA follow each other without gap or overlap from its start to its end.
struct OpSpan {
  Picoseconds begin = 0, end = 0;
  Reason reason = Reason::idle;
  int kernel = 0;
  std::int64_t cta = 0;
  int sm = 0, slot = 0;        // where the CTA is resident
  TileOp op;                   // op.op == barrier with reason launch: the CTA's start
  std::int64_t hbm_bytes = 0;  // load: part that L2 did not hold; store: 0 (L2 is write-back)
  Picoseconds arrival = 0;     // of a load that was started (TileOp::starts): the CTA went on at `end`

  /// When what moves has arrived.
  Picoseconds there() const { return op.starts && arrival > end ? arrival : end; }
};

/// Receives the spans of a run in the order in which they were scheduled (ends are not sorted). Reads, never changes.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void span(const OpSpan& span) = 0;
};

/// Keeps the spans of the SMs [0, sm_limit), at most `span_limit` of them; says whether that was all.
class TraceRecorder final : public TraceSink {
 public:
  explicit TraceRecorder(int sm_limit, std::int64_t span_limit) : m_sm_limit(sm_limit), m_span_limit(span_limit) {}
  void span(const OpSpan& span) override {
    if (span.sm >= m_sm_limit) return;
    if (static_cast<std::int64_t>(m_spans.size()) < m_span_limit)
      m_spans.push_back(span);
    else
      m_complete = false;
  }
  const std::vector<OpSpan>& spans() const { return m_spans; }
  bool complete() const { return m_complete; }

 private:
  int m_sm_limit;
  std::int64_t m_span_limit;
  bool m_complete = true;
  std::vector<OpSpan> m_spans;
};

}  // namespace flashscope
