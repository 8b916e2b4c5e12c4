// A prediction as JSON and CSV: what `simulate --json` prints, what lessons read, what sweeps are plotted from.
#pragma once
#include <string>

#include "sim/engine/engine.h"
#include "viz/io/json_fwd.h"

namespace flashscope {

/// {"batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "dtype", "causal", "window", "block_mask", "scale"}
Json problem_to_json(const AttentionProblem& problem);
/// The inverse. Validates the problem; Error(input) beginning with `place`.
AttentionProblem problem_from_json(const Json& object, const std::string& place);

/// {"br", "bc", "stages"}, and "kv_order": "backward" where key tiles are visited last to first.
Json tile_to_json(const TileShape& tile);

/// The document of `simulate --json`, keys in the order of docs/file-formats.md. Bytes and counts are exact integers.
/// tile.ctas_per_sm is that of the kernel with the fewest.
Json prediction_to_json(const Schedule& schedule, const Machine& machine, Start start, const Prediction& prediction);

/// Column names, with a final newline.
std::string prediction_csv_header();
/// One line for the whole run (column kernel: "all"), and with `kernels` one for each kernel below it.
std::string prediction_csv_rows(const Schedule& schedule, const Machine& machine, Start start,
                                const Prediction& prediction, bool kernels = false);

/// A CSV field: quoted when it holds a comma, a quote or a line end.
std::string csv_field(const std::string& text);

}  // namespace flashscope
