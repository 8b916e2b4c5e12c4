// What a span of the timeline is called, in as many words as there is room for.
#pragma once
#include <string>
#include <vector>

#include "viz/core/stage_trace.h"

namespace flashscope::viz {

/// From the longest to the shortest: "load K[3] from HBM", "load K[3]", "K[3]"; "S[2,5] = Q·Kᵀ", "S[2,5]". What none of
/// fits has no name there: half a word says nothing. `doing`: as what_happens() says it.
std::vector<std::string> span_names(const std::string& doing);

/// "HBM", "L2", "SMEM", "FMA", as the boxes of the stage are called; "tensor", "exp", …
std::string title_of(Reason reason);

/// What time of this reason was spent on: the legend's tips. Lines of a tip's width.
std::string meaning_of(Reason reason);
/// The reason of one span in a word. The schedulers that feed the FMA units also issue the instructions of loads and
/// stores; a load that takes as long as that has the units' colour, but nothing was multiplied: "issue".
std::string title_of(const OpSpan& span);
/// One sentence more where the word needs it; else "".
std::string remark_on(const OpSpan& span);

/// Warpgroups of a CTA that compute at their own pace; 1 where the CTA goes as one. The engine gives such a CTA one row
/// of spans: what holds the CTA as a whole.
int folded_warpgroups(const KernelLaunch& launch);
int folded_warpgroups(const Schedule& schedule);  // the most of any of its kernels

/// "1.230 of 4.560 ms": both in the unit that an axis so long has.
std::string clock_text(double t_us, double duration_us);

}  // namespace flashscope::viz
