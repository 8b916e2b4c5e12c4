// The whole state as one short line of text, to copy, share and restore: "fs1,left=flash_v1,seqlen=8192,t=59908334".
// Only what differs from the default is written. Only letters, digits and -._~,=%: it can stand after the # of an
// address.
#pragma once
#include <string>
#include <string_view>

#include "viz/core/app_state.h"

namespace flashscope::viz {

std::string token_of(const AppState& state);
/// The names that tokens have for what differs.
std::vector<std::string> different_fields(const AppState& a, const AppState& b);

/// The state of a token; what it does not name is as in `base`'s looks and otherwise the default. Numbers outside their
/// range are clamped, as controls do. Throws Error(usage) that names the part that is not understood.
AppState state_of_token(std::string_view token, const AppState& base = {});

/// The looks alone, for the file of remembered settings: the same fields as in the token.
std::string looks_token(const Looks& looks);
Looks looks_of_token(std::string_view token);
/// Likewise for what is in front: view, inspector, how close the stage is, what is swept.
std::string layout_token(const AppState& state);
AppState with_layout(AppState state, std::string_view token);

}  // namespace flashscope::viz
