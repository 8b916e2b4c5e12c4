#include "kernels/common/workspace.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "kernels/common/encode.h"
#include "kernels/common/in_parts.h"
#include "sim/compute/pages.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fp8_rung.h"

namespace flashscope::kernels {
namespace {

constexpr int kNan = 0xff;                // as every byte: NaN in fp32, fp16 and bf16
constexpr std::int64_t kAlignment = 256;  // of an allocation, kept by what lies behind its guard zone
constexpr int kGuardRows = 64;            // more than any tile that could be read past the end by mistake has

std::int64_t round_up(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
std::int64_t guard_bytes(const TensorShape& shape) {
  return round_up(std::max<std::int64_t>(1, kGuardRows * shape.pitch()));
}
bool is_input(Tensor tensor) {
  return tensor == Tensor::Q || tensor == Tensor::K || tensor == Tensor::V || tensor == Tensor::dO ||
         tensor == Tensor::block_table;
}

/// Of a backward pass also those that its forward pass needs, which runs first and leaves O and LSE.
std::vector<Tensor> tensors_of(const Schedule& schedule) {
  std::vector<Tensor> tensors = schedule.tensors();
  if (schedule.problem().pass == Pass::forward) return tensors;
  const auto forward = forward_before(schedule);
  for (Tensor tensor : forward->tensors())
    if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end()) tensors.push_back(tensor);
  return tensors;
}

/// K or V as its pages lie in memory; what is spare of the last one of a sequence is NaN.
std::vector<double> in_pages(const Array& array, const AttentionProblem& p, int page_size) {
  const Paging paging = paging_of(page_size);
  const std::vector<int> table = make_block_table(p, page_size);
  const int pages = num_tiles(p.seqlen_k, page_size);  // of a sequence
  std::vector<double> values(table.size() * static_cast<std::size_t>(p.kv_heads) * static_cast<std::size_t>(page_size) *
                                 static_cast<std::size_t>(array.cols),
                             std::numeric_limits<double>::quiet_NaN());
  for (int head = 0; head < array.heads; ++head)
    for (int row = 0; row < array.rows; ++row) {
      const int place = table[static_cast<std::size_t>(head / p.kv_heads * pages + paging.page_of(row))];
      const std::int64_t to = paging.row_of(place, head % p.kv_heads, p.kv_heads, row);
      for (int col = 0; col < array.cols; ++col)
        values[static_cast<std::size_t>(to * array.cols + col)] = array.at(head, row, col);
    }
  return values;
}

std::string out_of_memory(const Schedule& schedule, std::int64_t free_bytes) {
  // The largest sequence: of queries and keys when they are equally long, else of keys.
  const auto fits = [&](int seqlen) {
    AttentionProblem p = schedule.problem();
    if (p.seqlen_q == p.seqlen_k) p.seqlen_q = seqlen;
    p.seqlen_k = seqlen;
    return workspace_bytes(*make_schedule(schedule.algorithm(), p, schedule.tile())) <= free_bytes;
  };
  int lo = 0, hi = schedule.problem().seqlen_k;  // fits(lo), not fits(hi)
  while (hi - lo > 1) {
    const int middle = lo + (hi - lo) / 2;
    (fits(middle) ? lo : hi) = middle;
  }
  return schedule.algorithm() + " needs " + std::to_string(workspace_bytes(schedule)) + " B of GPU memory, " +
         std::to_string(free_bytes) + " B are free; the largest --seqlen that fits is " + std::to_string(lo);
}

void check_shape(const char* name, const Array& array, const TensorShape& shape) {
  if (array.heads == shape.heads && array.rows == shape.rows && array.cols == shape.cols &&
      array.values.size() == static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.rows) *
                                 static_cast<std::size_t>(shape.cols))
    return;
  const auto text = [](int heads, int rows, int cols) {
    return std::to_string(heads) + " x " + std::to_string(rows) + " x " + std::to_string(cols);
  };
  throw Error(ErrorKind::input, std::string(name) + ": found heads x rows x columns " +
                                    text(array.heads, array.rows, array.cols) + ", expected " +
                                    text(shape.heads, shape.rows, shape.cols));
}

}  // namespace

std::int64_t workspace_bytes(const Schedule& schedule) {
  std::int64_t bytes = 0;
  for (Tensor tensor : tensors_of(schedule)) {
    const TensorShape shape = shape_of(tensor, schedule.problem(), schedule.tile());
    bytes += 2 * guard_bytes(shape) + round_up(shape.bytes());
  }
  return bytes;
}

void check_memory(const Schedule& schedule, std::int64_t free_bytes) {
  if (workspace_bytes(schedule) > free_bytes) throw Error(ErrorKind::resource, out_of_memory(schedule, free_bytes));
}

Workspace::Buffer::Buffer(DeviceMemory& memory_, std::int64_t guard_, std::int64_t bytes_)
    : memory(&memory_), guard(guard_), bytes(bytes_) {
  whole = static_cast<unsigned char*>(memory->allocate(padded_bytes()));
}
Workspace::Buffer::~Buffer() {
  if (whole) memory->release(whole);
}
Workspace::Buffer& Workspace::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(memory, other.memory);
  std::swap(whole, other.whole);
  std::swap(guard, other.guard);
  std::swap(bytes, other.bytes);
  return *this;
}
std::int64_t Workspace::Buffer::padded_bytes() const { return 2 * guard + round_up(bytes); }

Workspace::Workspace(const Schedule& schedule, const AttentionInputs& inputs, DeviceMemory& memory)
    : m_memory(memory), m_problem(schedule.problem()), m_tile(schedule.tile()), m_tensors(tensors_of(schedule)) {
  check_shape("q", inputs.q, shape_of(Tensor::Q, m_problem));
  check_shape("k", inputs.k, shape_of(Tensor::K, m_problem));
  check_shape("v", inputs.v, shape_of(Tensor::V, m_problem));
  const bool is_backward = m_problem.pass == Pass::backward;
  if (is_backward) check_shape("d_out", inputs.d_out, shape_of(Tensor::dO, m_problem));
  check_memory(schedule, memory.free_bytes());
  for (Tensor tensor : m_tensors) {
    const TensorShape shape = shape_of(tensor, m_problem, schedule.tile());
    buffer(tensor) = Buffer(memory, guard_bytes(shape), shape.bytes());
    if (!buffer(tensor).whole) throw Error(ErrorKind::resource, out_of_memory(schedule, memory.free_bytes()));
    memory.fill(buffer(tensor).whole, kNan, buffer(tensor).padded_bytes());
  }
  const std::pair<Tensor, const Array*> sources[] = {
      {Tensor::Q, &inputs.q}, {Tensor::K, &inputs.k}, {Tensor::V, &inputs.v}, {Tensor::dO, &inputs.d_out}};
  for (const auto& [tensor, array] : sources) {
    if (tensor == Tensor::dO && !is_backward) continue;
    const bool is_paged = m_tile.page_size > 0 && (tensor == Tensor::K || tensor == Tensor::V);
    const std::vector<unsigned char> bytes =
        encode(m_problem.dtype, is_paged ? in_pages(*array, m_problem, m_tile.page_size) : array->values);
    if (!bytes.empty()) memory.copy_in(buffer(tensor).data(), bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
  m_params.q = address(Tensor::Q);
  m_params.k = address(Tensor::K);
  m_params.v = address(Tensor::V);
  m_params.o = address(Tensor::O);
  m_params.s = address(Tensor::S);
  m_params.p = address(Tensor::P);
  m_params.lse = static_cast<float*>(address(Tensor::LSE));
  m_params.m = static_cast<float*>(address(Tensor::M));
  m_params.l = static_cast<float*>(address(Tensor::L));
  m_params.d_o = address(Tensor::dO);
  m_params.d_q = address(Tensor::dQ);
  m_params.d_k = address(Tensor::dK);
  m_params.d_v = address(Tensor::dV);
  m_params.d = static_cast<float*>(address(Tensor::D));
  m_params.dq_sum = static_cast<float*>(address(Tensor::dQ_sum));
  m_params.d_p = address(Tensor::dP);
  m_params.d_s = address(Tensor::dS);
  m_params.o_split = static_cast<float*>(address(Tensor::O_split));
  m_params.lse_split = static_cast<float*>(address(Tensor::LSE_split));
  m_params.q_fp8 = static_cast<unsigned char*>(address(Tensor::Q_fp8));
  m_params.k_fp8 = static_cast<unsigned char*>(address(Tensor::K_fp8));
  m_params.v_fp8 = static_cast<unsigned char*>(address(Tensor::V_fp8));
  m_params.q_scale = static_cast<float*>(address(Tensor::Q_scale));
  m_params.k_scale = static_cast<float*>(address(Tensor::K_scale));
  m_params.v_scale = static_cast<float*>(address(Tensor::V_scale));
  m_params.splits = schedule.tile().splits;
  m_params.mask = m_problem.mask();
  m_params.sparse_mask = sparse_mask_on_gpu();
  if (m_tile.page_size > 0) m_params.pages = pages_on_gpu();
  m_params.heads = m_problem.heads;
  m_params.kv_heads = m_problem.kv_heads;
  m_params.head_dim = m_problem.head_dim;
  m_params.score_elements = shape_of(Tensor::S, m_problem).row_elements;
  m_params.softmax_scale = static_cast<float>(m_problem.scale());
}

SparseMask Workspace::sparse_mask_on_gpu() {
  SparseMask mask = m_problem.mask();
  const auto moved = [this](Buffer& buffer, const auto& array) {
    const auto bytes = static_cast<std::int64_t>(array.size() * sizeof array[0]);
    buffer = Buffer(m_memory, 0, bytes);
    if (!buffer.whole)
      throw Error(ErrorKind::resource, "the mask needs " + std::to_string(bytes) + " B of GPU memory more than are free");
    m_memory.copy_in(buffer.data(), array.data(), bytes);
    return buffer.data();
  };
  if (mask.sequences.count > 0) {
    mask.sequences.q = reinterpret_cast<const int*>(moved(m_mask_arrays[0], m_problem.cu_seqlens_q));
    mask.sequences.k = reinterpret_cast<const int*>(moved(m_mask_arrays[1], m_problem.cu_seqlens_k));
  }
  if (mask.blocks.words)
    mask.blocks.words = reinterpret_cast<const std::uint32_t*>(moved(m_mask_arrays[2], m_problem.block_mask.mask->words));
  return mask;
}

Pages Workspace::pages_on_gpu() {
  const TensorShape shape = shape_of(Tensor::block_table, m_problem, m_tile);
  const std::vector<int> table = make_block_table(m_problem, m_tile.page_size);
  const std::int64_t row_bytes = shape.rows * shape.pitch();
  for (int batch = 0; batch < m_problem.batch && row_bytes > 0; ++batch)
    m_memory.copy_in(buffer(Tensor::block_table).data() + batch * shape.head_bytes(),
                     table.data() + std::int64_t{batch} * shape.rows, row_bytes);
  return {static_cast<const int*>(address(Tensor::block_table)), shape.rows + shape.spare_rows,
          paging_of(m_tile.page_size)};
}

void Workspace::reset_outputs() {
  for (Tensor tensor : m_tensors)
    if (!is_input(tensor)) m_memory.fill(buffer(tensor).data(), kNan, buffer(tensor).bytes);
}

void Workspace::check_guards() const {
  for (Tensor tensor : m_tensors) {
    const Buffer& b = buffer(tensor);
    const std::int64_t after = b.guard + b.bytes;
    const std::pair<std::int64_t, std::int64_t> zones[] = {{0, b.guard}, {after, b.padded_bytes() - after}};
    for (const auto& [start, bytes] : zones) {
      std::vector<unsigned char> zone(static_cast<std::size_t>(bytes));
      m_memory.copy_out(zone.data(), b.whole + start, bytes);
      for (std::size_t n = 0; n < zone.size(); ++n)
        if (zone[n] != kNan)
          throw Error(ErrorKind::internal, std::string("a kernel wrote outside ") + name_of(tensor) + ": " +
                                               (start == 0 ? std::to_string(zone.size() - n) + " B before its start"
                                                           : std::to_string(n) + " B after its end") +
                                               "; its results cannot be trusted");
    }
  }
}

AttentionOutputs Workspace::outputs() const {
  const auto fetch = [&](Tensor tensor, DType dtype) {
    const TensorShape shape = shape_of(tensor, m_problem);
    Array array(shape.heads, shape.rows, shape.cols);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(shape.bytes()));
    if (!bytes.empty()) m_memory.copy_out(bytes.data(), buffer(tensor).data(), shape.bytes());
    array.values = decode(dtype, bytes.data(), array.values.size());
    return array;
  };
  AttentionOutputs outputs{fetch(Tensor::O, m_problem.dtype), fetch(Tensor::LSE, DType::fp32)};
  if (m_problem.pass == Pass::backward) {
    outputs.d_q = fetch(Tensor::dQ, m_problem.dtype);
    outputs.d_k = fetch(Tensor::dK, m_problem.dtype);
    outputs.d_v = fetch(Tensor::dV, m_problem.dtype);
  }
  return outputs;
}

AttentionInputs Workspace::quantized() const {
  std::array<double, 256> values;
  for (int bits = 0; bits < 256; ++bits)
    values[static_cast<std::size_t>(bits)] = value_of_e4m3(static_cast<unsigned char>(bits));
  // Tile by tile: `place_of(row, col)` says which byte of the tile an element is.
  const auto fetch = [&](Tensor tensor, Tensor scale, int rows, int tile_rows, const auto& place_of) {
    const TensorShape shape = shape_of(tensor, m_problem, m_tile);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(shape.bytes()));
    std::vector<float> scales(static_cast<std::size_t>(shape_of(scale, m_problem, m_tile).bytes()) / sizeof(float));
    if (!bytes.empty()) m_memory.copy_out(bytes.data(), buffer(tensor).data(), shape.bytes());
    if (!scales.empty())
      m_memory.copy_out(scales.data(), buffer(scale).data(), static_cast<std::int64_t>(scales.size() * sizeof(float)));
    Array array(shape.heads, rows, shape.cols);
    const int tiles = num_tiles(rows, tile_rows);
    in_parts(std::int64_t{shape.heads} * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const int head = static_cast<int>(n / tiles), first = static_cast<int>(n % tiles) * tile_rows;
        const std::int64_t start = (std::int64_t{head} * shape.rows + first) * shape.cols;
        for (int row = 0; row < std::min(tile_rows, rows - first); ++row)
          for (int col = 0; col < shape.cols; ++col)
            array.at(head, first + row, col) =
                values[bytes[static_cast<std::size_t>(start + place_of(row, col))]] * scales[static_cast<std::size_t>(n)];
      }
    });
    return array;
  };
  const int width = shape_of(Tensor::Q_fp8, m_problem, m_tile).cols, bc = m_tile.bc;
  const auto in_rows = [width](int row, int col) { return row * width + col; };
  std::vector<int> key_place(static_cast<std::size_t>(bc));
  for (int place = 0; place < bc; ++place)
    if (key_at(place) < bc) key_place[static_cast<std::size_t>(key_at(place))] = place;
  const auto transposed = [&](int key, int col) { return col * bc + key_place[static_cast<std::size_t>(key)]; };
  return {fetch(Tensor::Q_fp8, Tensor::Q_scale, m_problem.seqlen_q, m_tile.br, in_rows),
          fetch(Tensor::K_fp8, Tensor::K_scale, m_problem.seqlen_k, bc, in_rows),
          fetch(Tensor::V_fp8, Tensor::V_scale, m_problem.seqlen_k, bc, transposed),
          {}};
}

}  // namespace flashscope::kernels
