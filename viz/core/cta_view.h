// One CTA at one instant: what it does and what it holds.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/trace/trace.h"

namespace flashscope::viz {

class StageTrace;

/// A tile held by a CTA.
struct HeldTile {
  Tensor tensor = Tensor::Q;
  std::string name;     // "K[3]", "S[2,5]", "P[2,:]"
  double filled = 1;    // share that has arrived
  bool in_use = false;  // read or written by the operation under way
  bool spent = false;   // the last operation that reads it has ended
  bool in_registers = false;
  bool operator==(const HeldTile&) const = default;
};

/// A CTA and what it holds.
struct CtaView {
  int slot = 0;
  std::int64_t cta = 0;
  int head = 0, i = 0, j = 0;
  Op op = Op::barrier;
  Reason reason = Reason::idle;
  std::string doing;            // "S = Q·Kᵀ", "load K[3]"
  double progress = 0;          // of the operation
  std::vector<HeldTile> tiles;  // in the order in which they came
  bool has_smem = true;         // false: it keeps nothing there, operands come straight through L1
  bool has_acc = false;         // this CTA accumulates
  double acc_done = 0;          // key tiles added to acc, the one under way in part …
  int acc_total = 0;            // … of all that it will add
  bool has_rows = false;        // this CTA keeps m and l
  int rows_updates = 0;         // how often m and l were brought up to date, and …
  double rows_progress = 0;     // … the share of the rows that the update under way has reached
  bool operator==(const CtaView&) const = default;
};

/// The CTA that does `now` at time t, found by following its operations from its start.
CtaView follow_cta(const StageTrace& trace, const OpSpan& now, Picoseconds t);
/// The CTA whose last operation is `last` at its end, with the tiles of the moment at which it held most.
CtaView fullest_moment(const StageTrace& trace, const OpSpan& last);

}  // namespace flashscope::viz
