#include "sim/compute/compute.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"

namespace flashscope {
namespace {

std::string shape_text(std::int64_t heads, std::int64_t rows, std::int64_t cols) {
  return "(" + std::to_string(heads) + ", " + std::to_string(rows) + ", " + std::to_string(cols) + ")";
}

void check_shape(const char* name, const Array& array, int heads, int rows, int cols) {
  const std::size_t size = static_cast<std::size_t>(heads) * rows * cols;
  if (array.heads == heads && array.rows == rows && array.cols == cols && array.values.size() == size) return;
  throw Error(ErrorKind::input, std::string(name) + ": found (heads, rows, columns) " +
                                    shape_text(array.heads, array.rows, array.cols) + " with " +
                                    std::to_string(array.values.size()) + " values, expected " +
                                    shape_text(heads, rows, cols));
}

}  // namespace

void validate(const AttentionProblem& problem, const AttentionInputs& inputs) {
  validate(problem);
  check_shape("q", inputs.q, problem.num_heads(), problem.seqlen_q, problem.head_dim);
  check_shape("k", inputs.k, problem.num_kv_heads(), problem.seqlen_k, problem.head_dim);
  check_shape("v", inputs.v, problem.num_kv_heads(), problem.seqlen_k, problem.head_dim);
  if (problem.pass == Pass::backward)
    check_shape("d_out", inputs.d_out, problem.num_heads(), problem.seqlen_q, problem.head_dim);
  const bool has_keep = inputs.keep.heads != 0 || !inputs.keep.values.empty();
  if (problem.dense_mask) {
    const int mask_heads = inputs.keep.heads == 1 ? 1 : problem.num_heads();
    check_shape("mask", inputs.keep, mask_heads, problem.seqlen_q, problem.seqlen_k);
  } else if (has_keep) {
    throw Error(ErrorKind::input, "mask: given, but the problem is not marked as having one (dense_mask)");
  }
}

AttentionInputs rounded(const AttentionInputs& inputs, DType dtype) {
  AttentionInputs result = inputs;
  for (Array* array : {&result.q, &result.k, &result.v, &result.d_out})
    for (double& value : array->values) value = round_to(dtype, value);
  return result;
}

}  // namespace flashscope
