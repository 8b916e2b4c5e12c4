// The user's own tensors for `attend`: one JSON file, or .npy files (docs/file-formats.md).
#pragma once
#include <string>
#include <string_view>

#include "sim/compute/compute.h"
#include "viz/io/json_fwd.h"
#include "viz/io/npy.h"

namespace flashscope {

/// Sizes and softmax_scale in `problem` come from the file; its mask is none and its dtype fp64 until the command line
/// says otherwise.
struct AttendInput {
  AttentionProblem problem;
  AttentionInputs inputs;
};

/// Object with q, k, v, and maybe mask, d_out and scale; other keys are ignored. d_out (like q) makes the pass backward. Lists nest as batch, head, row, column; two levels
/// mean one batch and one head (a mask of two levels holds for every head). Throws Error(input) with file and place.
AttendInput attend_input_from_json(std::string_view text, const std::string& file);
AttendInput read_attend_json(const std::string& path);

/// Paths of arrays with shape (batch, head, row, column) or (row, column). Empty mask or d_out: none.
struct AttendNpyPaths {
  std::string q, k, v, mask;
  std::string d_out = {};
};
/// `scale` 0: 1 / sqrt(head_dim).
AttendInput read_attend_npy(const AttendNpyPaths& paths, double scale = 0, OpaqueItems opaque = OpaqueItems::refused);

/// The array as nested lists: batch, head, row, column.
Json nested_lists(const Array& array, int batch, int heads);
/// An array of one column (LSE) without its last level: batch, head, row.
Json nested_row_lists(const Array& array, int batch, int heads);
/// The same two shapes for .npy files.
NpyArray npy_array(const Array& array, int batch, int heads);
NpyArray npy_row_array(const Array& array, int batch, int heads);

/// Distance from the float64 reference over the elements that are finite in both; the others are counted.
struct OutputError {
  double max_abs = 0, mean_abs = 0;
  std::int64_t nonfinite = 0;  // not finite where the reference is, or another infinity than the reference has
};
OutputError error_of(const Array& values, const Array& reference);

/// {"cta", "tile", "m", "l", "acc", "rescale", "head", "query_tile"}: one of `attend --steps`.
Json tile_state_to_json(const TileState& state);

}  // namespace flashscope
