// What is seen, as text: the table or plot of the inspector as CSV, the state with its numbers as JSON.
#pragma once
#include <string>

#include "viz/core/app_state.h"

namespace flashscope::viz {

/// The inspector in front (or the Validate view) as CSV. "" when its numbers are not there yet.
std::string seen_as_csv(const AppState& state, const Results& results, const Session& session);

/// State token, clock, scenes in numbers and the comparison, as one JSON object. Two states that look alike have equal
/// snapshots, so scripts and tests compare these.
std::string snapshot_json(const AppState& state, const Results& results, const Session& session);

/// The stage that `state.side` names in the Chrome trace format. "" while it is being computed.
std::string stage_as_trace(const AppState& state, const Results& results);

}  // namespace flashscope::viz
