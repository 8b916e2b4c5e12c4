#include "viz/io/attend_io.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/error.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

constexpr std::int64_t kUnknown = -1;  // a size below an empty list, which nobody wrote down

[[noreturn]] void bad_input(const std::string& text) { throw Error(ErrorKind::input, text); }

/// A tensor as the user gave it: batch, head, row, column.
struct UserTensor {
  std::string place;  // "file: q"
  std::int64_t batch = kUnknown, heads = kUnknown, rows = kUnknown, cols = kUnknown;
  std::vector<double> values;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + ")";
}

/// Names the sizes of a shape with two or four levels; `ended_empty`: an empty list ended it early, so `levels` says
/// how many there would have been.
UserTensor tensor_of(const std::string& place, std::vector<std::int64_t> shape, bool ended_empty, std::size_t levels) {
  if (ended_empty && shape.size() < levels) shape.resize(levels, kUnknown);
  if (shape.size() != 2 && shape.size() != 4)
    bad_input(place + ": " + std::to_string(shape.size()) +
              " levels; four are needed (batch, head, row, column), or two for one batch and one head");
  for (std::int64_t size : shape)
    if (size > INT32_MAX) bad_input(place + ": the shape " + shape_text(shape) + " is too large");
  UserTensor tensor;
  tensor.place = place;
  const std::size_t rows = shape.size() - 2;
  tensor.batch = rows == 2 ? shape[0] : 1;
  tensor.heads = rows == 2 ? shape[1] : 1;
  tensor.rows = shape[rows];
  tensor.cols = shape[rows + 1];
  return tensor;
}

/// Sizes along the first element of each list.
std::vector<std::int64_t> shape_of_lists(const Json& list) {
  std::vector<std::int64_t> shape;
  const Json* node = &list;
  while (node->is_array()) {
    shape.push_back(static_cast<std::int64_t>(node->size()));
    if (node->empty()) break;
    node = &node->front();
  }
  return shape;
}

/// Collects the numbers and checks on the way that every list is as long as the first of its level.
class ListReader {
 public:
  ListReader(std::string place, const std::vector<std::int64_t>& shape, std::vector<double>& values)
      : m_place(std::move(place)), m_shape(shape), m_values(values), m_index(shape.size(), 0) {}

  void read(const Json& node, std::size_t level = 0) {
    if (level == m_shape.size()) {
      if (node.is_array()) bad_input(here(level) + ": a list where a number is expected");
      m_values.push_back(node.is_boolean()  ? static_cast<double>(node.get<bool>())
                         : node.is_number() ? node.get<double>()
                                            : number_from_json(node, here(level)));
      return;
    }
    if (!node.is_array()) bad_input(here(level) + ": expected a list");
    if (static_cast<std::int64_t>(node.size()) != m_shape[level])
      bad_input(here(level) + ": a list of " + std::to_string(node.size()) + " where the first of its level has " +
                std::to_string(m_shape[level]));
    for (std::size_t i = 0; i < node.size(); ++i) {
      m_index[level] = i;
      read(node[i], level + 1);
    }
  }

 private:
  std::string here(std::size_t levels) const {
    std::string text = m_place;
    for (std::size_t level = 0; level < levels; ++level) text += "[" + std::to_string(m_index[level]) + "]";
    return text;
  }

  std::string m_place;
  const std::vector<std::int64_t>& m_shape;
  std::vector<double>& m_values;
  std::vector<std::size_t> m_index;
};

/// `levels`: what an empty list is taken to have.
UserTensor tensor_from_lists(const Json& document, const char* key, const std::string& file, std::size_t levels) {
  const std::string place = file + ": " + key;
  const Json& list = required_member(document, key, file);
  if (!list.is_array()) bad_input(place + ": expected nested lists of numbers");
  const std::vector<std::int64_t> shape = shape_of_lists(list);
  UserTensor tensor = tensor_of(place, shape, shape.back() == 0, levels);
  ListReader(place, shape, tensor.values).read(list);
  return tensor;
}

/// The size that all who know it agree on.
int agreed(const char* what, std::initializer_list<std::pair<const UserTensor*, std::int64_t>> sizes) {
  const UserTensor* first = nullptr;
  std::int64_t size = kUnknown;
  for (const auto& [tensor, value] : sizes) {
    if (value == kUnknown) continue;
    if (first && value != size)
      bad_input(tensor->place + ": " + what + " is " + std::to_string(value) + ", but " + std::to_string(size) + " in " +
                first->place.substr(first->place.rfind(' ') + 1));
    first = tensor;
    size = value;
  }
  if (size == kUnknown) bad_input(sizes.begin()->first->place + ": " + what + " cannot be told from empty lists");
  return static_cast<int>(size);
}

Array array_of(UserTensor& tensor, int heads, int rows, int cols) {
  Array array;
  array.heads = heads;
  array.rows = rows;
  array.cols = cols;
  array.values = std::move(tensor.values);
  return array;
}

Array keep_of(const UserTensor& mask, const AttentionProblem& problem) {
  const auto fits = [&](const char* what, std::int64_t value, int wanted, bool broadcasts) {
    if (value == kUnknown || value == wanted || (broadcasts && value == 1)) return;
    bad_input(mask.place + ": " + what + " is " + std::to_string(value) + " where q and k need " +
              std::to_string(wanted) + (broadcasts && wanted != 1 ? " or 1" : ""));
  };
  fits("batch", mask.batch, problem.batch, true);
  fits("heads", mask.heads, problem.heads, true);
  fits("rows", mask.rows, problem.seqlen_q, false);
  fits("columns", mask.cols, problem.seqlen_k, false);
  for (std::size_t i = 0; i < mask.values.size(); ++i)
    if (mask.values[i] != 0 && mask.values[i] != 1)
      bad_input(mask.place + ": element " + std::to_string(i) + " is " + number_text(mask.values[i]) +
                "; a mask holds 1 (keep) and 0, or true and false");
  if (mask.values.empty() || (mask.batch == 1 && mask.heads == 1)) {
    Array keep(1, problem.seqlen_q, problem.seqlen_k);
    keep.values = mask.values;
    return keep;
  }
  Array keep(problem.num_heads(), problem.seqlen_q, problem.seqlen_k);
  const std::int64_t size = std::int64_t{problem.seqlen_q} * problem.seqlen_k;
  for (int batch = 0; batch < problem.batch; ++batch)
    for (int head = 0; head < problem.heads; ++head) {
      const std::int64_t from = (mask.batch == 1 ? 0 : batch) * mask.heads + (mask.heads == 1 ? 0 : head);
      const std::int64_t to = std::int64_t{batch} * problem.heads + head;
      std::copy_n(mask.values.begin() + from * size, size, keep.values.begin() + to * size);
    }
  return keep;
}

/// d_out, which is like q.
Array d_out_of(UserTensor& tensor, const AttentionProblem& problem) {
  const auto fits = [&](const char* what, std::int64_t value, int wanted) {
    if (value != kUnknown && value != wanted)
      bad_input(tensor.place + ": " + what + " is " + std::to_string(value) + ", but " + std::to_string(wanted) +
                " in q");
  };
  fits("batch", tensor.batch, problem.batch);
  fits("heads", tensor.heads, problem.heads);
  fits("rows", tensor.rows, problem.seqlen_q);
  fits("columns", tensor.cols, problem.head_dim);
  return array_of(tensor, problem.num_heads(), problem.seqlen_q, problem.head_dim);
}

AttendInput assembled(UserTensor q, UserTensor k, UserTensor v, const UserTensor* mask, UserTensor* d_out,
                      double scale) {
  AttendInput input;
  AttentionProblem& p = input.problem;
  p.dtype = DType::fp64;
  p.batch = agreed("batch", {{&q, q.batch}, {&k, k.batch}, {&v, v.batch}});
  p.heads = agreed("heads", {{&q, q.heads}});
  p.kv_heads = agreed("heads", {{&k, k.heads}, {&v, v.heads}});
  p.seqlen_q = agreed("rows", {{&q, q.rows}});
  p.seqlen_k = agreed("rows", {{&k, k.rows}, {&v, v.rows}});
  p.head_dim = agreed("columns", {{&q, q.cols}, {&k, k.cols}, {&v, v.cols}});
  p.softmax_scale = scale;
  validate(p);
  input.inputs.q = array_of(q, p.num_heads(), p.seqlen_q, p.head_dim);
  input.inputs.k = array_of(k, p.num_kv_heads(), p.seqlen_k, p.head_dim);
  input.inputs.v = array_of(v, p.num_kv_heads(), p.seqlen_k, p.head_dim);
  p.dense_mask = mask != nullptr;
  if (mask) input.inputs.keep = keep_of(*mask, p);
  if (d_out) {
    p.pass = Pass::backward;
    input.inputs.d_out = d_out_of(*d_out, p);
  }
  return input;
}

bool present(const Json& document, const char* key) { return document.contains(key) && !document[key].is_null(); }

UserTensor tensor_from_npy(const std::string& path, const char* key, OpaqueItems opaque) {
  NpyArray array = read_npy(path, opaque);
  UserTensor tensor = tensor_of(path + ": " + key, array.shape, false, 0);
  tensor.values = std::move(array.values);
  return tensor;
}

std::vector<std::int64_t> array_shape(const Array& array, int batch, int heads) {
  if (array.heads != batch * heads)
    throw Error(ErrorKind::internal, "an array of " + std::to_string(array.heads) + " heads is not " +
                                         std::to_string(batch) + " × " + std::to_string(heads));
  return {batch, heads, array.rows, array.cols};
}

/// Lists over the levels of `shape`; `next` walks the values.
Json lists(const std::vector<std::int64_t>& shape, std::size_t level, std::vector<double>::const_iterator& next) {
  if (level == shape.size()) return json_number(*next++);
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[level]; ++i) list.push_back(lists(shape, level + 1, next));
  return list;
}

}  // namespace

AttendInput attend_input_from_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  if (!document.is_object()) bad_input(file + ": expected an object with q, k and v");
  double scale = 0;
  if (present(document, "scale")) {
    scale = number_member(document, "scale", file);
    if (!std::isfinite(scale) || scale == 0) bad_input(file + ": scale: needs a finite number other than 0");
  }
  // Empty lists are taken to have as many levels as the deepest of the three tensors.
  std::size_t levels = 2;
  for (const char* key : {"q", "k", "v"})
    if (shape_of_lists(required_member(document, key, file)).size() > 2) levels = 4;
  UserTensor q = tensor_from_lists(document, "q", file, levels);
  UserTensor k = tensor_from_lists(document, "k", file, levels);
  UserTensor v = tensor_from_lists(document, "v", file, levels);
  UserTensor mask, d_out;
  const bool has_mask = present(document, "mask"), has_d_out = present(document, "d_out");
  if (has_mask) mask = tensor_from_lists(document, "mask", file, 2);
  if (has_d_out) d_out = tensor_from_lists(document, "d_out", file, levels);
  return assembled(std::move(q), std::move(k), std::move(v), has_mask ? &mask : nullptr, has_d_out ? &d_out : nullptr,
                   scale);
}

AttendInput read_attend_json(const std::string& path) { return attend_input_from_json(read_text_file(path), path); }

AttendInput read_attend_npy(const AttendNpyPaths& paths, double scale, OpaqueItems opaque) {
  UserTensor q = tensor_from_npy(paths.q, "q", opaque);
  UserTensor k = tensor_from_npy(paths.k, "k", opaque);
  UserTensor v = tensor_from_npy(paths.v, "v", opaque);
  UserTensor mask, d_out;
  if (!paths.mask.empty()) mask = tensor_from_npy(paths.mask, "mask", OpaqueItems::refused);
  if (!paths.d_out.empty()) d_out = tensor_from_npy(paths.d_out, "d_out", opaque);
  return assembled(std::move(q), std::move(k), std::move(v), paths.mask.empty() ? nullptr : &mask,
                   paths.d_out.empty() ? nullptr : &d_out, scale);
}

Json nested_lists(const Array& array, int batch, int heads) {
  auto next = array.values.begin();
  return lists(array_shape(array, batch, heads), 0, next);
}

Json nested_row_lists(const Array& array, int batch, int heads) {
  std::vector<std::int64_t> shape = array_shape(array, batch, heads);
  if (array.cols != 1) throw Error(ErrorKind::internal, "nested_row_lists: not one column");
  shape.pop_back();
  auto next = array.values.begin();
  return lists(shape, 0, next);
}

NpyArray npy_array(const Array& array, int batch, int heads) { return {array_shape(array, batch, heads), array.values}; }

NpyArray npy_row_array(const Array& array, int batch, int heads) {
  NpyArray result = npy_array(array, batch, heads);
  if (array.cols != 1) throw Error(ErrorKind::internal, "npy_row_array: not one column");
  result.shape.pop_back();
  return result;
}

OutputError error_of(const Array& values, const Array& reference) {
  OutputError error;
  std::int64_t finite = 0;
  for (std::size_t k = 0; k < values.values.size(); ++k) {
    const double a = values.values[k], b = reference.values[k];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      ++finite;
    } else if (!std::isfinite(a) || !std::isfinite(b)) {
      ++error.nonfinite;
    } else {
      ++finite;
      error.max_abs = std::max(error.max_abs, std::abs(a - b));
      error.mean_abs += std::abs(a - b);
    }
  }
  if (finite > 0) error.mean_abs /= static_cast<double>(finite);
  return error;
}

namespace {

Json list_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(json_number(value));
  return list;
}

}  // namespace

Json tile_state_to_json(const TileState& state) {
  Json acc = Json::array();
  for (int row = 0; row < state.acc.rows; ++row) {
    Json line = Json::array();
    for (int col = 0; col < state.acc.cols; ++col) line.push_back(json_number(state.acc.at(0, row, col)));
    acc.push_back(std::move(line));
  }
  return {{"cta", state.cta},      {"tile", state.j},       {"m", list_of(state.m)},
          {"l", list_of(state.l)}, {"acc", std::move(acc)}, {"rescale", list_of(state.rescale)},
          {"head", state.head},    {"query_tile", state.i}};
}

}  // namespace flashscope
