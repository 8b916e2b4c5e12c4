#include "sim/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/error.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"
#include "sim/schedule/hopper_rungs.h"

namespace flashscope {

const char* name_of(Tensor tensor) {
  static constexpr const char* names[kNumTensors] = {"Q",   "K", "V", "S",  "P",  "O",  "LSE", "M",
                                                      "L",   "dO", "dQ", "dK", "dV", "dP", "dS",  "D",
                                                      "dQ_sum",
                                                      "O_split", "LSE_split",
                                                      "Q_fp8", "K_fp8", "V_fp8", "Q_scale", "K_scale", "V_scale",
                                                      "block_table"};
  return names[static_cast<int>(tensor)];
}

const char* name_of(Op op) {
  static constexpr const char* names[kNumOps] = {"load",           "store",     "clear_state",    "scores",
                                                 "mask",           "softmax",   "online_softmax", "weighted_sum",
                                                 "undo_normalize", "normalize", "log_sum_exp",    "barrier",
                                                 "wait",
                                                 "clear_gradient", "row_dot",   "probabilities",  "d_probabilities",
                                                 "d_scores",       "gradient_sum", "combine",        "quantize"};
  return names[static_cast<int>(op)];
}

TensorShape shape_of(Tensor tensor, const AttentionProblem& p, const TileShape& tile) {
  const int element = element_bytes(p.dtype);
  if (is_split(tensor))
    return tensor == Tensor::O_split ? TensorShape{p.seqlen_q, p.head_dim, p.num_heads() * tile.splits, 4, p.head_dim}
                                     : TensorShape{p.seqlen_q, 1, p.num_heads() * tile.splits, 4, 1};
  if (is_fp8(tensor)) {
    const int width = hopper_width(p.head_dim);
    if (tensor == Tensor::Q_fp8) return {p.seqlen_q, width, p.num_heads(), 1, width};
    const int rows = tensor == Tensor::K_fp8 ? p.seqlen_k : num_tiles(p.seqlen_k, tile.bc) * tile.bc;
    return {rows, width, p.num_kv_heads(), 1, width};
  }
  if (tensor == Tensor::dQ_sum) return {p.seqlen_q, p.head_dim, p.num_heads(), 4, p.head_dim};
  switch (layout_of(tensor)) {
    case Layout::by_query: return {p.seqlen_q, p.head_dim, p.num_heads(), element, p.head_dim};
    case Layout::by_key: {
      const int spare_rows = tile.page_size > 0 ? num_tiles(p.seqlen_k, tile.page_size) * tile.page_size - p.seqlen_k : 0;
      return {p.seqlen_k, p.head_dim, p.num_kv_heads(), element, p.head_dim, spare_rows};
    }
    case Layout::scores: return {p.seqlen_q, p.seqlen_k, p.num_heads(), element, score_pitch(p.seqlen_k, element)};
    case Layout::statistic: return {p.seqlen_q, 1, p.num_heads(), 4, 1};
    case Layout::query_tile: return {num_tiles(p.seqlen_q, tile.br), 1, p.num_heads(), 4, 1};
    case Layout::key_tile: return {num_tiles(p.seqlen_k, tile.bc), 1, p.num_kv_heads(), 4, 1};
    case Layout::page: {  // the entries of each sequence start on a sector
      const int pages = tile.page_size > 0 ? num_tiles(p.seqlen_k, tile.page_size) : 0;
      return {pages, 1, p.batch, 4, 1, num_tiles(pages, kSectorBytes / 4) * (kSectorBytes / 4) - pages};
    }
  }
  throw Error(ErrorKind::internal, "shape_of: unknown tensor");
}

ThreadTile fma_thread_tile(int rows, int cols) {
  return {std::max(1, rows / kFmaThreadRows), std::max(1, cols / kFmaThreadCols)};
}

std::int64_t Schedule::peak_memory_bytes() const {
  std::int64_t bytes = 0;
  for (Tensor tensor : m_tensors) bytes += shape_of(tensor, m_problem, m_tile).bytes();
  return bytes;
}

int Schedule::first_head(int kernel, std::int64_t cta_index) const {
  const KernelLaunch& launch = m_kernels[static_cast<std::size_t>(kernel)];
  const int heads_each = launch.heads < m_problem.num_heads() ? m_problem.heads / m_problem.kv_heads : 1;
  return static_cast<int>(cta_index / launch.ctas_per_head) * heads_each;
}

void Schedule::walk(int kernel, std::int64_t cta_index, OpSink& sink) const {
  const KernelLaunch& launch = m_kernels[static_cast<std::size_t>(kernel)];
  CtaProgram program(*this, first_head(kernel, cta_index), sink);
  cta(kernel, cta_index % launch.ctas_per_head, program);
}

std::vector<std::pair<std::int64_t, std::int64_t>> Schedule::cta_classes(int kernel) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> classes;
  for (std::int64_t inner = 0; inner < m_kernels[static_cast<std::size_t>(kernel)].ctas_per_head; ++inner)
    classes.emplace_back(inner, 1);
  return classes;
}

namespace {

/// Where the first and the last row of query tile i stand in a band with each of their two ends: before the keys, among
/// those of whole tiles, of the partial tile, or behind. Tiles that agree in it see as many tiles and pairs more, from one
/// period to the next.
struct Standing {
  std::array<int, 4> ends;
  bool operator==(const Standing&) const = default;
};

Standing standing_of(const MaskShape& mask, int br, int bc, int i) {
  const int whole = mask.seqlen_k / bc * bc;
  Standing standing{};
  std::size_t n = 0;
  for (int row : {i * br, i * br + br - 1}) {
    const Range keys = kept_keys(mask, row);
    for (int end : {keys.begin, keys.end}) standing.ends[n++] = (end > 0) + (end > whole) + (end >= mask.seqlen_k);
  }
  return standing;
}

/// The first tile after `i` that stands elsewhere: standings only ever move on.
int end_of_standing(const MaskShape& mask, int br, int bc, int i, int tiles) {
  const Standing standing = standing_of(mask, br, bc, i);
  int lo = i, hi = tiles;  // stands the same; does not, or is behind the last
  while (hi - lo > 1) {
    const int middle = lo + (hi - lo) / 2;
    (standing_of(mask, br, bc, middle) == standing ? lo : hi) = middle;
  }
  return hi;
}

}  // namespace

/// Under a band, what the query tiles of one standing and one place in the period of tile sides need grows by a constant
/// from one to the next: the middle one stands for an odd number of them.
std::vector<std::pair<std::int64_t, std::int64_t>> Schedule::row_classes(int rows) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> classes;
  const int whole = m_problem.seqlen_q / rows, all = num_tiles(m_problem.seqlen_q, rows);
  if (!tiles_aligned() || m_problem.is_sparse()) {
    for (int i = 0; i < all; ++i) classes.emplace_back(i, 1);
    return classes;
  }
  const MaskShape mask = m_problem.mask();
  const bool is_banded = mask.left >= 0 || mask.right >= 0;
  const int period = is_banded ? m_tile.bc / std::gcd(rows, m_tile.bc) : 1;
  for (int begin = 0, end = 0; begin < whole; begin = end) {
    end = is_banded ? end_of_standing(mask, rows, m_tile.bc, begin, whole) : whole;
    for (int first = begin; first < std::min(begin + period, end); ++first) {
      const int number = num_tiles(end - first, period), odd = number - 1 + number % 2;
      classes.emplace_back(first + odd / 2 * period, odd);
      if (odd < number) classes.emplace_back(first + odd * period, 1);
    }
  }
  if (whole < all) classes.emplace_back(whole, 1);
  return classes;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Schedule::score_tile_classes() const {
  const AttentionProblem& p = m_problem;
  const int tr = num_tiles(p.seqlen_q, m_tile.br), tc = num_tiles(p.seqlen_k, m_tile.bc);
  std::vector<std::pair<std::int64_t, std::int64_t>> classes;
  if (!tiles_aligned() || p.is_sparse()) {
    for (std::int64_t inner = 0; inner < std::int64_t{tr} * tc; ++inner) classes.emplace_back(inner, 1);
    return classes;
  }
  // Of a row of tiles: those that keep all pairs, those that keep none, each that is cut, and a partial one at its end.
  const MaskShape mask = p.mask();
  for (const auto& [i, rows] : query_tile_classes()) {
    const std::int64_t row = i * tc;
    const Range seen = visited_tiles(mask, m_tile.br, m_tile.bc, static_cast<int>(i));
    const Range whole = whole_tiles(mask, m_tile.br, m_tile.bc, static_cast<int>(i));
    for (int j = seen.begin; j < whole.begin; ++j) classes.emplace_back(row + j, rows);
    if (whole.begin < whole.end) classes.emplace_back(row + whole.begin, rows * (whole.end - whole.begin));
    for (int j = whole.end; j < seen.end; ++j) classes.emplace_back(row + j, rows);
    const int full = p.seqlen_k / m_tile.bc;  // of Bc keys
    const std::int64_t before = std::min(seen.begin, full), behind = std::max(0, full - seen.end);
    if (before > 0) classes.emplace_back(row, rows * before);
    if (behind > 0) classes.emplace_back(row + full - 1, rows * behind);
    if (full < tc && (seen.end < tc || seen.begin == seen.end)) classes.emplace_back(row + full, rows);
  }
  return classes;
}

bool Schedule::tiles_aligned() const {
  for (Tensor tensor : m_tensors) {
    const TensorShape shape = shape_of(tensor, m_problem, m_tile);
    const Layout layout = layout_of(tensor);
    if (is_scale(layout)) continue;  // one element a request: one sector, wherever it lies
    if (layout == Layout::page) continue;  // no two tiles are taken for alike there
    const std::int64_t tile_step = layout == Layout::statistic ? std::int64_t{m_tile.br} * shape.element_bytes : shape.pitch();
    if (tile_step % kSectorBytes != 0) return false;
    if (layout == Layout::scores && m_tile.bc * shape.element_bytes % kSectorBytes != 0) return false;
  }
  return true;
}

bool Schedule::heads_aligned() const {
  return std::all_of(m_tensors.begin(), m_tensors.end(), [this](Tensor tensor) {
    return is_scale(layout_of(tensor)) || shape_of(tensor, m_problem, m_tile).head_bytes() % kSectorBytes == 0;
  });
}

CopyShape Schedule::copy_shape(int kernel, const TileOp& op) const {
  const TensorShape shape = shape_of(op.tensor, m_problem, m_tile);
  const std::int64_t first =
      op.head * shape.head_bytes() + op.row * shape.pitch() + std::int64_t{op.col} * shape.element_bytes;
  const int width = copy_width(first, shape.pitch(), std::int64_t{op.cols} * shape.element_bytes, shape.element_bytes);
  return {op.rows, op.cols, width / shape.element_bytes, shape.element_bytes,
          m_kernels[static_cast<std::size_t>(kernel)].resources.threads};
}

WarpWork Schedule::prologue_work(int) const { return flashscope::prologue_work(); }

WarpWork Schedule::warp_work(int kernel, const TileOp& op) const {
  const KernelLaunch& launch = m_kernels[static_cast<std::size_t>(kernel)];
  const int threads = std::max(1, launch.resources.threads);
  if (launch.thread_tile.rows == 0) {  // elements in registers
    const std::int64_t elements = (std::int64_t{op.rows} * op.cols * std::max(1, op.depth) + threads - 1) / threads;
    return op.op == Op::load || op.op == Op::store || op.op == Op::barrier || op.op == Op::wait
               ? WarpWork{}
               : arithmetic_work(static_cast<int>(std::min<std::int64_t>(elements, 1 << 20)));
  }
  // A register tile is computed whole, whatever part of it exists: rows of the query tile, keys, columns of the output.
  const int width = fma_width(m_problem.head_dim);
  const ThreadTile scores = fma_thread_tile(m_tile.br, m_tile.bc), output = fma_thread_tile(m_tile.br, width);
  const bool by_key = layout_of(op.tensor) == Layout::by_key;  // dK, dV
  const ThreadTile gradient = fma_thread_tile(by_key ? m_tile.bc : m_tile.br, width);
  switch (op.op) {
    case Op::load: {
      const CopyShape copy = copy_shape(kernel, op);
      const Layout layout = layout_of(op.tensor);
      WarpWork work = copy_in_work(copy);
      if (layout != Layout::statistic)
        work.then(zero_rest_work(copy, layout == Layout::by_key ? m_tile.bc : m_tile.br,
                                 layout == Layout::scores ? m_tile.bc : width));
      return work;
    }
    case Op::store: return copy_out_work(copy_shape(kernel, op));
    case Op::scores:
      return product_transposed_work(scores.rows, scores.cols, op.depth)
          .then(arithmetic_work(scores.rows * scores.cols));
    case Op::weighted_sum: return product_work(output.rows, output.cols, m_tile.bc);
    case Op::mask: return mask_work(scores.rows, scores.cols);
    case Op::online_softmax: return online_softmax_work(scores.rows, scores.cols, output.cols);
    case Op::softmax: return online_softmax_work(scores.rows, scores.cols, 0);
    case Op::clear_state: return arithmetic_work(output.rows * output.cols);
    case Op::undo_normalize:
    case Op::normalize: return arithmetic_work(output.rows * output.cols).then(stage_work(output.rows, output.cols));
    case Op::log_sum_exp: return row_end_work(output.rows);
    case Op::barrier:
    case Op::wait: return {};
    // Backward. Sums over queries read P and dS down their columns in three_pass and flash_v1 (docs/deviations.md).
    case Op::clear_gradient: return arithmetic_work(gradient.rows * gradient.cols);
    case Op::row_dot: return arithmetic_work(output.rows * output.cols).then(row_end_work(output.rows));
    case Op::probabilities:
      return probabilities_work(scores.rows, scores.cols).then(stage_scores_work(scores.rows, scores.cols));
    case Op::d_probabilities: return product_transposed_work(scores.rows, scores.cols, op.depth);
    case Op::d_scores:
      return arithmetic_work(2 * scores.rows * scores.cols).then(stage_scores_work(scores.rows, scores.cols));
    case Op::combine: return arithmetic_work(2 * m_tile.splits * output.rows * output.cols);
    case Op::gradient_sum: return product_work(gradient.rows, gradient.cols, by_key ? m_tile.br : m_tile.bc);
    case Op::quantize: break;  // no rung on FMA units
  }
  throw Error(ErrorKind::internal, "warp_work: unknown operation");
}

Range CtaProgram::rows_of(int i) const {
  const int br = m_schedule.tile().br;
  return {i * br, i * br + tile_rows(problem().seqlen_q, br, i)};
}

Range CtaProgram::keys_of(int j) const {
  const int bc = m_schedule.tile().bc;
  return {j * bc, j * bc + tile_rows(problem().seqlen_k, bc, j)};
}

bool is_visited(const AttentionProblem& p, const TileShape& tile, int i, int j) {
  if (!p.is_sparse()) return true;
  const int row = i * tile.br, key = j * tile.bc;
  return any_kept(p.mask(), {row, row + tile_rows(p.seqlen_q, tile.br, i)},
                  {key, key + tile_rows(p.seqlen_k, tile.bc, j)});
}

bool is_key_tile_seen(const AttentionProblem& p, const TileShape& tile, int j) {
  const Range visited = visited_tiles(transposed(p.mask()), tile.bc, tile.br, j);
  for (int i = visited.begin; i < visited.end; ++i)
    if (is_visited(p, tile, i, j)) return true;
  return false;
}

Range CtaProgram::tile_rows_of(Tensor tensor, int i, int j) const {
  switch (layout_of(tensor)) {
    case Layout::by_key:  // V_fp8 is kept in whole tiles
      return tensor == Tensor::V_fp8 ? Range{j * m_schedule.tile().bc, (j + 1) * m_schedule.tile().bc} : keys_of(j);
    case Layout::query_tile: return {i, i + 1};
    case Layout::key_tile: return {j, j + 1};
    case Layout::page: return paging_of(m_schedule.tile().page_size).pages_of(keys_of(j));
    case Layout::by_query:
    case Layout::scores:
    case Layout::statistic: break;
  }
  return rows_of(i);
}

Range CtaProgram::tile_cols_of(Tensor tensor, int j) const {
  if (layout_of(tensor) == Layout::scores) return keys_of(j);
  return {0, shape_of(tensor, problem()).cols};
}

void CtaProgram::move(Op op, Tensor tensor, int i, int j, Access access) {
  move_region(op, tensor, i, j, tile_rows_of(tensor, i, j), tile_cols_of(tensor, j), access);
}

namespace {

std::int64_t sectors_spanned(std::int64_t first_byte, std::int64_t bytes) {
  return (first_byte + bytes + kSectorBytes - 1) / kSectorBytes - first_byte / kSectorBytes;
}

/// Bytes that L2 must fetch for a store: rows of S and P end inside a sector that nobody ever writes in full. (Where
/// rows follow each other directly the neighbour's bytes come at about the same time and are merged.)
std::int64_t fill_bytes(const TensorShape& shape, int rows, int end_col) {
  const bool ends_inside_sector = std::int64_t{shape.cols} * shape.element_bytes % kSectorBytes != 0;
  const bool padded = shape.row_elements > shape.cols;
  return padded && ends_inside_sector && end_col == shape.cols ? std::int64_t{rows} * kSectorBytes : 0;
}

/// What TMA asks L2 for: each row of its boxes in pieces of 64 bytes. A piece with anything of the tensor in it is asked
/// for whole, two sectors, or three where it does not start on one; so is, as two sectors, a piece beside the tensor, which
/// comes as zeros. `rows` of the `box_rows`, and `row_bytes` of the `box_row_bytes`, are of the tensor. Found with
/// counters on an H200, to 0.02 %: docs/deviations.md.
std::int64_t box_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, int box_rows, std::int64_t row_bytes,
                         std::int64_t box_row_bytes) {
  constexpr std::int64_t kPieceBytes = 64, kPieceSectors = kPieceBytes / kSectorBytes;
  const std::int64_t pieces = (row_bytes + kPieceBytes - 1) / kPieceBytes;  // of a row, that the tensor has part in
  std::int64_t sectors = box_rows * (box_row_bytes / kPieceBytes) * kPieceSectors;
  for (int row = 0; row < rows; ++row)
    if ((first_byte + row * pitch) % kSectorBytes != 0) sectors += pieces;
  return sectors;
}

}  // namespace

TileOp CtaProgram::moved(Op op, Tensor tensor, int i, int j, Range rows, Range cols, Access access) const {
  const AttentionProblem& p = problem();
  const TensorShape shape = shape_of(tensor, p, m_schedule.tile());
  TileOp t;
  t.op = op;
  t.tensor = tensor;
  t.head = m_head;
  if (layout_of(tensor) == Layout::page)
    t.head = m_head / p.heads;
  else if (is_of_keys(layout_of(tensor)))
    t.head = m_head / p.heads * p.kv_heads + kv_head_of(m_head % p.heads, p.heads, p.kv_heads);
  else if (is_split(tensor))
    t.head = m_head * m_schedule.tile().splits + m_split;
  if (!is_of_keys(layout_of(tensor))) t.heads = m_heads;
  t.i = i;
  t.j = j;
  t.row = rows.begin;
  t.rows = rows.end - rows.begin;
  t.col = cols.begin;
  t.cols = cols.end - cols.begin;
  // What a TMA box moves does not end where the rows do; what is kept of it does.
  const Layout layout = layout_of(tensor);
  const bool whole = op == Op::load && m_schedule.tile().whole_tiles &&
                     (layout == Layout::by_query || layout == Layout::by_key);
  const int moved_rows = !whole ? t.rows : layout == Layout::by_key ? m_schedule.tile().bc : m_schedule.tile().br;
  t.bytes = std::int64_t{t.heads} * moved_rows * t.cols * shape.element_bytes;
  if (access == Access::box) {  // one head; its columns are all of head_dim
    const int box_rows = layout == Layout::by_key ? m_schedule.tile().bc : m_schedule.tile().br;
    t.sectors = box_sectors(t.head * shape.head_bytes() + rows.begin * shape.pitch(), shape.pitch(), t.rows, box_rows,
                            std::int64_t{t.cols} * shape.element_bytes,
                            std::int64_t{hopper_width(t.cols)} * shape.element_bytes);
    return t;
  }
  const std::int64_t first_byte =
      t.head * shape.head_bytes() + rows.begin * shape.pitch() + std::int64_t{cols.begin} * shape.element_bytes;
  if (op == Op::store && access != Access::whole_rows) t.fill_bytes = t.heads * fill_bytes(shape, t.rows, cols.end);
  for (int head = 0; head < t.heads; ++head)  // each is a copy of its own
    t.sectors += count_sectors(access, first_byte + head * shape.head_bytes(), shape.pitch(), moved_rows, t.cols,
                               shape.element_bytes);
  return t;
}

void CtaProgram::add(Tensor tensor, int i, int j) {
  TileOp t = moved(Op::store, tensor, i, j, tile_rows_of(tensor, i, j), tile_cols_of(tensor, j), Access::copy);
  t.adds = true;
  t.fill_bytes = t.bytes;  // L2 adds to what lies there, so it has to have it
  m_sink.op(t);
}

int CtaProgram::start(Tensor tensor, int i, int j, Access access) {
  const Range rows = tile_rows_of(tensor, i, j), cols = tile_cols_of(tensor, j);
  const Layout layout = layout_of(tensor);
  const bool is_statistic = layout == Layout::statistic || layout == Layout::page || is_scale(layout);
  if (access == Access::copy && !is_statistic) access = Access::async_copy;
  TileOp t = moved(Op::load, tensor, i, j, rows, cols, access);
  const TensorShape shape = shape_of(tensor, problem(), m_schedule.tile());
  const std::int64_t first_byte =
      t.head * shape.head_bytes() + t.row * shape.pitch() + std::int64_t{t.col} * shape.element_bytes;
  const std::int64_t row_bytes = std::int64_t{t.cols} * shape.element_bytes;
  t.starts = is_statistic || copy_width(first_byte, shape.pitch(), row_bytes, shape.element_bytes) == kVectorBytes;
  m_sink.op(t);
  return t.starts ? 1 : 0;
}

void CtaProgram::wait(int i, int j, int pending) {
  TileOp t;
  t.op = Op::wait;
  t.head = m_head;
  t.i = i;
  t.j = j;
  t.pending = pending;
  m_sink.op(t);
}

void CtaProgram::move_region(Op op, Tensor tensor, int i, int j, Range rows, Range cols, Access access) {
  m_sink.op(moved(op, tensor, i, j, rows, cols, access));
}

void CtaProgram::store_split(Tensor tensor, int i, int split) {
  const int first = m_head, heads = m_heads;
  m_split = split;
  m_heads = 1;
  for (m_head = first; m_head < first + heads; ++m_head) move(Op::store, tensor, i, 0);
  m_head = first;
  m_heads = heads;
}

void CtaProgram::load_splits(Tensor tensor, int i) {
  m_split = 0;
  m_heads = m_schedule.tile().splits;
  const Range rows = rows_of(i), cols = {0, tensor == Tensor::O_split ? head_dim() : 1};
  TileOp t = moved(Op::load, tensor, i, 0, rows, cols, Access::copy_by_row);
  if (tensor == Tensor::LSE_split) {  // neighbouring lanes take neighbouring splits
    const TensorShape shape = shape_of(tensor, problem(), m_schedule.tile());
    t.sectors = count_sectors(Access::row_per_lane, t.head * shape.head_bytes() + rows.begin * shape.pitch(),
                              shape.head_bytes(), m_heads, t.rows, shape.element_bytes);
  }
  m_sink.op(t);
  m_heads = 1;
}

void CtaProgram::request(Tensor tensor, int i, int j, Range rows, Range cols, Access access, std::int64_t warp_times,
                         std::int64_t lane_times) {
  TileOp t = moved(Op::load, tensor, i, j, rows, cols, access);
  t.bytes *= lane_times;
  t.sectors *= warp_times;
  t.requests = warp_times * (access == Access::row_per_lane ? line_requests(t) : 0);
  t.warps = warp_times;
  m_sink.op(t);
}

void CtaProgram::mask(int i, int j) {
  const Range rows = rows_of(i), keys = keys_of(j);
  if (!all_kept(problem().mask(), rows, keys) || problem().dense_mask) compute(Op::mask, i, j, rows, keys, 0);
}

void CtaProgram::compute(Op op, int i, int j, Range rows, Range cols, int depth, Tensor tensor) {
  TileOp t;
  t.op = op;
  t.tensor = tensor;
  t.head = m_head;
  t.heads = m_heads;
  t.i = i;
  t.j = j;
  t.row = rows.begin;
  t.rows = rows.end - rows.begin;
  t.col = cols.begin;
  t.cols = cols.end - cols.begin;
  t.depth = depth;
  m_sink.op(t);
}

namespace {

/// A warp on 32 columns of one row: rows do not share requests. The requests of a row are whole sectors apart, so that all
/// but the last span as many.
std::int64_t row_per_warp_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, int cols, int element) {
  const std::int64_t request_bytes = std::int64_t{kWarpSize} * element, requests = cols / kWarpSize;
  const std::int64_t last_bytes = std::int64_t{cols % kWarpSize} * element;
  const auto of_row = [&](std::int64_t first) {
    return requests * sectors_spanned(first, request_bytes) +
           (last_bytes > 0 ? sectors_spanned(first + requests * request_bytes, last_bytes) : 0);
  };
  if (pitch % kSectorBytes == 0) return rows * of_row(first_byte);
  std::int64_t sectors = 0;
  for (int row = 0; row < rows; ++row) sectors += of_row(first_byte + row * pitch);
  return sectors;
}

/// cp.async, 16 bytes a lane, into tiles whose chunks of 16 bytes are swizzled in pairs. The two halves of a sector move
/// together where they land beside each other: in rows that start on a sector. In others each is asked for by itself.
/// (Counters on an H200, head_dim 40 and 72: exact to 0.1 %.)
std::int64_t async_copy_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, std::int64_t row_bytes) {
  const std::int64_t chunks = (row_bytes + kVectorBytes - 1) / kVectorBytes;
  std::int64_t sectors = 0;
  for (int row = 0; row < rows; ++row)
    sectors += (first_byte + row * pitch) % kSectorBytes == 0 ? (chunks + 1) / 2 : chunks;
  return sectors;
}

/// Requests of a CTA copy: lane after lane takes the next vector of the tile, row-major; 32 lanes are one request.
std::int64_t copy_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, int cols, int element,
                          int widest = kVectorBytes) {
  std::int64_t row_bytes = std::int64_t{cols} * element;
  const int width = std::min(widest, copy_width(first_byte, pitch, row_bytes, element));
  if (row_bytes == pitch) {  // whole rows: one contiguous piece
    row_bytes *= rows;
    pitch = row_bytes;
    rows = 1;
  }
  if (first_byte % kSectorBytes == 0 && pitch % kSectorBytes == 0 && row_bytes % kSectorBytes == 0)
    return rows * (row_bytes / kSectorBytes);
  const std::int64_t request_bytes = std::int64_t{kWarpSize} * width;
  std::int64_t sectors = 0;
  std::int64_t room = request_bytes;  // left in the request being filled
  std::int64_t last_sector = -1;      // neighbouring rows may share a sector within one request
  for (int row = 0; row < rows; ++row) {
    std::int64_t at = first_byte + row * pitch;
    for (std::int64_t left = row_bytes; left > 0;) {
      const std::int64_t piece = std::min(left, room);
      sectors += sectors_spanned(at, piece) - (at / kSectorBytes == last_sector ? 1 : 0);
      last_sector = (at + piece - 1) / kSectorBytes;
      at += piece;
      left -= piece;
      room -= piece;
      if (room == 0) {
        room = request_bytes;
        last_sector = -1;
      }
    }
  }
  return sectors;
}

/// Eight rows after each other are one piece; what it shares with the next is asked for by both.
std::int64_t eight_rows_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, std::int64_t row_bytes) {
  if (row_bytes != pitch) throw Error(ErrorKind::internal, "Access::eight_rows: rows that do not follow each other");
  constexpr int kRows = 8;
  if (first_byte % kSectorBytes == 0) return sectors_spanned(first_byte, rows * pitch);
  std::int64_t sectors = 0;
  for (int row = 0; row < rows; row += kRows)
    sectors += sectors_spanned(first_byte + row * pitch, std::min(kRows, rows - row) * pitch);
  return sectors;
}

/// `lanes` on consecutive rows, one element each, column after column.
std::int64_t row_per_lane_pieces(std::int64_t first_byte, std::int64_t pitch, int rows, int cols, int element,
                                 int lanes, int piece) {
  if (pitch >= piece) return std::int64_t{rows} * cols;  // every lane its own
  std::int64_t pieces = 0;
  for (int col = 0; col < cols; ++col)
    for (int row = 0; row < rows; row += lanes) {
      const std::int64_t first = first_byte + row * pitch + std::int64_t{col} * element;
      const std::int64_t last = first + (std::min(lanes, rows - row) - 1) * pitch;
      pieces += last / piece - first / piece + 1;
    }
  return pieces;
}

std::int64_t row_per_lane_sectors(std::int64_t first_byte, std::int64_t pitch, int rows, int cols, int element,
                                  int lanes = kWarpSize) {
  return row_per_lane_pieces(first_byte, pitch, rows, cols, element, lanes, kSectorBytes);
}

}  // namespace

/// Of a column walk: the lines that each warp request touches.
std::int64_t CtaProgram::line_requests(const TileOp& op) const {
  const TensorShape shape = shape_of(op.tensor, problem(), m_schedule.tile());
  const std::int64_t first_byte =
      op.head * shape.head_bytes() + op.row * shape.pitch() + std::int64_t{op.col} * shape.element_bytes;
  return row_per_lane_pieces(first_byte, shape.pitch(), op.rows, op.cols, shape.element_bytes, kWarpSize, kLineBytes);
}

std::int64_t count_sectors(Access access, std::int64_t first_byte, std::int64_t pitch, int rows, int cols,
                           int element) {
  switch (access) {
    case Access::copy: return copy_sectors(first_byte, pitch, rows, cols, element);
    case Access::async_copy:
      return copy_width(first_byte, pitch, std::int64_t{cols} * element, element) == kVectorBytes
                 ? async_copy_sectors(first_byte, pitch, rows, std::int64_t{cols} * element)
                 : copy_sectors(first_byte, pitch, rows, cols, element);  // by elements, through registers
    case Access::copy_by_row: {
      std::int64_t sectors = 0;
      for (int row = 0; row < rows; ++row) sectors += copy_sectors(first_byte + row * pitch, pitch, 1, cols, element);
      return sectors;
    }
    case Access::whole_rows: return rows * sectors_spanned(first_byte, std::int64_t{cols} * element);
    case Access::row_per_warp: return row_per_warp_sectors(first_byte, pitch, rows, cols, element);
    case Access::row_per_lane: return row_per_lane_sectors(first_byte, pitch, rows, cols, element);
    case Access::by_eight_rows: return row_per_lane_sectors(first_byte, pitch, rows, cols, element, 8);
    case Access::eight_rows: return eight_rows_sectors(first_byte, pitch, rows, std::int64_t{cols} * element);
    case Access::copy_by_8_bytes: return copy_sectors(first_byte, pitch, rows, cols, element, kVectorBytes / 2);
    case Access::box: break;  // box_sectors(): what lies beside the tensor counts too
    case Access::broadcast: return std::int64_t{rows} * cols;
  }
  throw Error(ErrorKind::internal, "count_sectors: unknown access");
}

}  // namespace flashscope
