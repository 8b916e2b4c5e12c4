// A schedule: kernels, their CTAs, and for each CTA the sequence of tile operations. It is written once per algorithm
// and read five ways: counted (sim/count), executed with numbers (sim/compute), timed (sim/engine), drawn
// (viz/core/scene) and launched (the kernels share walk.h with it, and log their operations for comparison).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/problem.h"
#include "sim/schedule/op.h"
#include "sim/schedule/warp_work.h"

namespace flashscope {

/// Rows of a query tile, rows of a key tile, slots of the K/V ring (1: load, wait, compute), order of the key tiles.
struct TileShape {
  int br = 64;
  int bc = 64;
  int stages = 1;
  bool backward_keys = false;  // key tiles are visited last to first: same bytes, other rescales
  int splits = 1;              // split_kv: parts of the keys, each a CTA's
  bool whole_tiles = false;    // flash_v2*, of somebody else: loads move whole tiles past the ends of Q, K and V too (TMA)
  int page_size = 0;           // split_kv: keys of a page of K and V, found through a block table; 0: K and V lie in one piece
  bool any_order = false;      // flash_v3, backward: parts of dQ add up as they come, not in the order of key tiles
  bool operator==(const TileShape&) const = default;
};

/// What one CTA of a kernel occupies on an SM.
struct CtaResources {
  int threads = 128;
  std::int64_t smem_bytes = 0;
  int registers_per_thread = 128;
};

/// The per-thread register tile of a rung's matrix products on the FMA units: each step of the contraction reads
/// rows + cols operands from SMEM for rows · cols multiply-adds. Zero: operands come straight from global memory.
struct ThreadTile {
  int rows = 0;
  int cols = 0;
};

/// The unit that a kernel's matrix products run on. With wgmma the tensor cores work beside the warps: those of one
/// warpgroup multiply while another computes exponentials, each at its own pace.
enum class MatrixUnit { fma, tensor, wgmma };
constexpr bool on_tensor_cores(MatrixUnit unit) { return unit != MatrixUnit::fma; }

/// One kernel launch. CTAs are numbered linearly, head by head: cta = head · ctas_per_head + inner; the launch grid is
/// one-dimensional because grid.y and grid.z stop at 65,535.
struct KernelLaunch {
  std::string name;
  std::int64_t ctas_per_head = 0;
  int heads = 0;  // batch · heads; batch · kv_heads where a CTA works for query heads that share a KV head
  CtaResources resources;
  ThreadTile thread_tile;
  int code_instructions = 0;  // of the compiled kernel; 0: not known
  MatrixUnit matrix_unit = MatrixUnit::fma;
  /// No more CTAs are launched than run at once; each does the work of one of those numbered here after the other
  /// (Schedule::taken), and the loads that one begins with are under way before the one before has ended.
  bool persistent = false;
  int loading_threads = 0;  // of resources.threads: these only load

  std::int64_t ctas() const { return ctas_per_head * heads; }
};

/// How a tensor lies in global memory: row-major per head, heads one after the other. Rows of inputs and outputs follow
/// each other directly; those of S and P start on sectors (score_pitch in walk.h). Of K and V in pages, a head's rows are
/// those of its pages in their order: where each page lies changes no count, because pages are whole sectors.
struct TensorShape {
  int rows = 0;
  int cols = 0;
  int heads = 0;
  int element_bytes = 0;
  int row_elements = 0;  // from one row to the next: cols, or more
  int spare_rows = 0;    // behind the rows of each head: the last page to its end
  std::int64_t pitch() const { return std::int64_t{row_elements} * element_bytes; }
  std::int64_t head_bytes() const { return pitch() * (std::int64_t{rows} + spare_rows); }
  std::int64_t bytes() const { return head_bytes() * heads; }
};

/// `tile` says how many splits there are of O_split and LSE_split, and of which pages K, V and block_table are; other
/// tensors do not ask.
TensorShape shape_of(Tensor tensor, const AttentionProblem& problem, const TileShape& tile = {});

/// Of the tiles between the first and the last that visited_tiles gives, those in which some pair is kept: a tiled
/// algorithm loads these and no other. Always true of a band.
bool is_visited(const AttentionProblem& problem, const TileShape& tile, int i, int j);
/// True when any query tile visits key tile j.
bool is_key_tile_seen(const AttentionProblem& problem, const TileShape& tile, int j);

/// How the warps of a CTA touch a tile.
enum class Access {
  copy,          // once, consecutive vectors on consecutive lanes, row-major over the tile (walk.h copy_width)
  async_copy,     // cp.async: the halves of a sector are one request where they stay together (in start())
  copy_by_row,    // as copy, one row after another: rows do not share requests
  whole_rows,    // of S or P, by vectors to the end of each row's last sector: a store leaves none half written
  row_per_warp,  // one element a lane, a warp on up to 32 columns of one row
  row_per_lane,  // one element a lane, lanes on consecutive rows: a naive column walk
  by_eight_rows,  // the same, one lane in four: what a warp's accumulator has of eight rows
  box,            // TMA: the rows of boxes as large as the tile, also where they reach beyond the tensor
  eight_rows,     // eight whole rows at once, each sector in one request: what a warp's accumulator has of an output
  copy_by_8_bytes,  // as copy, by vectors of half the size
  broadcast,     // all lanes of a warp read the same element
};

class CtaProgram;
struct CopyShape;

/// Exact SM traffic written down as a formula, independently of the walk: what counting must give.
struct ClosedForm {
  std::int64_t sm_read_bytes = 0;
  std::int64_t sm_write_bytes = 0;
  std::int64_t paper_bytes = 0;  // the paper's two-level count (docs/glossary.md)
};

/// Of an FMA rung (fma_rungs.h), for a product whose result has `rows` rows and `cols` columns.
ThreadTile fma_thread_tile(int rows, int cols);

class Schedule {
 public:
  Schedule(std::string algorithm, const AttentionProblem& problem, TileShape tile)
      : m_algorithm(std::move(algorithm)), m_problem(problem), m_tile(tile) {}
  virtual ~Schedule() = default;

  const std::string& algorithm() const { return m_algorithm; }
  const AttentionProblem& problem() const { return m_problem; }
  const TileShape& tile() const { return m_tile; }
  /// In launch order; each starts when the one before has ended. Empty when there is nothing to compute.
  const std::vector<KernelLaunch>& kernels() const { return m_kernels; }

  /// Tensors this algorithm keeps in global memory, inputs and outputs included. What a backward pass reads of O, LSE
  /// and P is what the forward pass of the same algorithm left there.
  const std::vector<Tensor>& tensors() const { return m_tensors; }
  std::int64_t peak_memory_bytes() const;

  /// The first query head (batch · heads + head) that a CTA works for.
  int first_head(int kernel, std::int64_t cta) const;
  /// Sends the operations of one CTA to `sink`, in program order.
  void walk(int kernel, std::int64_t cta, OpSink& sink) const;

  virtual ClosedForm closed_form() const = 0;

  /// Rows of S, P and the row statistics that are moved together: what L2 keeps or loses of them as one.
  virtual int score_block_rows() const { return m_tile.br; }

  /// CTAs of one head that between them stand for all: (inner, for how many). The default is each once. Exact: bytes,
  /// sectors, FLOPs and exponentials are those of all, because CTAs are equal, or because they grow by a constant from one
  /// to the next and the middle one stands for them.
  virtual std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const;

  /// The CTA that is started (or taken, where CTAs are persistent) as the n-th.
  virtual std::int64_t taken(int /*kernel*/, std::int64_t n) const { return n; }

  /// What each warp of a CTA executes for an operation (global memory apart): counts, not times. The default is the
  /// tiled FMA rungs' way (fma_work.h) for kernels with a thread tile, and plain arithmetic on each element for others.
  virtual WarpWork warp_work(int kernel, const TileOp& op) const;
  /// And before its first operation.
  virtual WarpWork prologue_work(int kernel) const;

  /// True when the byte addresses of all tiles and heads are multiples of a sector, so that tiles of one size have
  /// equal sector counts and counting may visit one of them for all.
  bool sector_aligned() const { return tiles_aligned() && heads_aligned(); }
  /// The same for the tiles of one head, which may start inside a sector.
  bool tiles_aligned() const;

 protected:
  /// How the threads of `kernel` copy the region of a load or store, by the width that walk.h allows.
  CopyShape copy_shape(int kernel, const TileOp& op) const;

  /// cta_classes of a kernel whose CTAs own one query tile each, in order.
  std::vector<std::pair<std::int64_t, std::int64_t>> query_tile_classes() const { return row_classes(m_tile.br); }
  /// The same for so many rows each.
  std::vector<std::pair<std::int64_t, std::int64_t>> row_classes(int rows) const;
  /// cta_classes of a kernel whose CTAs own one tile of scores each, row by row.
  std::vector<std::pair<std::int64_t, std::int64_t>> score_tile_classes() const;

  /// The algorithm itself: one CTA of one kernel. `inner` counts CTAs within the head.
  virtual void cta(int kernel, std::int64_t inner, CtaProgram& program) const = 0;

  std::vector<KernelLaunch> m_kernels;
  std::vector<Tensor> m_tensors;

 private:
  bool heads_aligned() const;

  std::string m_algorithm;
  AttentionProblem m_problem;
  TileShape m_tile;
};

/// The pen with which a schedule writes one CTA's operations. It knows sizes and addresses, so that the schedule reads
/// like the algorithm.
class CtaProgram {
 public:
  CtaProgram(const Schedule& schedule, int head, OpSink& sink) : m_schedule(schedule), m_head(head), m_sink(sink) {}

  /// Query heads of the KV head that the CTA belongs to, one after the other; what follows is of that head. For kernels
  /// whose CTAs own keys: dK and dV add up over the group, in this order in every run.
  template <class Body>
  void for_each_head_of_group(Body body) {
    const int group = problem().heads / problem().kv_heads, first = m_head;
    for (m_head = first; m_head < first + group; ++m_head) body();
    m_head = first;
  }

  /// What follows is of `count` heads of the group at once, from its head `first` on: their rows lie one below the
  /// other in every tile that goes by query.
  void select_heads(int first, int count) {
    m_head += first;
    m_heads = count;
  }
  /// Tile i of this split, head by head of those selected.
  void store_split(Tensor tensor, int i, int split);
  /// Tile i of all splits of the head.
  void load_splits(Tensor tensor, int i);

  /// What `body` loads, computes and stores of rows of scores goes through the CTA in turns.
  template <class Body>
  void in_turns(const Turns& turns, Body body) {
    m_sink.begin_turns(turns);
    body();
    m_sink.end_turns();
  }

  // Tiles by the paper's indices, as layout_of says: by query and statistics: tile i, by key: tile j, scores: (i, j).
  void load(Tensor tensor, int i, int j) { move(Op::load, tensor, i, j); }
  void store(Tensor tensor, int i, int j, Access access = Access::copy) { move(Op::store, tensor, i, j, access); }
  /// Adds the tile to what lies in global memory. Counted as a write.
  void add(Tensor tensor, int i, int j);
  /// Starts to load a tile and goes on (cp.async, TMA). Copies of single elements go through registers instead and have
  /// arrived at once: a plain load. But statistics, a row a thread, wait in the register that they come to. Returns how
  /// many loads are now under way because of it: 1 or 0.
  int start(Tensor tensor, int i, int j, Access access = Access::copy);
  /// Until at most `pending` of the started loads are under way.
  void wait(int i, int j, int pending = 0);
  /// The same for any region.
  void move_region(Op op, Tensor tensor, int i, int j, Range rows, Range cols, Access access);
  /// Loads of a naive kernel: the warps send the requests of the region `warp_times` times, and each element is asked
  /// for by `lane_times` threads (a broadcast serves many lanes with one request).
  void request(Tensor tensor, int i, int j, Range rows, Range cols, Access access, std::int64_t warp_times,
               std::int64_t lane_times);

  void clear_state(int i) { compute(Op::clear_state, i, 0, rows_of(i), {0, head_dim()}, 0); }
  void scores(int i, int j) { compute(Op::scores, i, j, rows_of(i), keys_of(j), head_dim()); }
  /// Emits a mask operation only where a pair of the tile is not kept, or may not be (dense mask).
  void mask(int i, int j);
  void softmax(int i, Range rows) { compute(Op::softmax, i, 0, rows, {0, problem().seqlen_k}, 0); }
  void online_softmax(int i, int j) { compute(Op::online_softmax, i, j, rows_of(i), keys_of(j), 0); }
  void weighted_sum(int i, int j) { weighted_sum(i, j, {0, head_dim()}); }
  void weighted_sum(int i, int j, Range columns) {
    const Range keys = keys_of(j);
    compute(Op::weighted_sum, i, j, rows_of(i), columns, keys.end - keys.begin);
  }
  void undo_normalize(int i) { compute(Op::undo_normalize, i, 0, rows_of(i), {0, head_dim()}, 0); }
  void normalize(int i) { compute(Op::normalize, i, 0, rows_of(i), {0, head_dim()}, 0); }
  void log_sum_exp(int i) { log_sum_exp(i, rows_of(i)); }
  void log_sum_exp(int i, Range rows) { compute(Op::log_sum_exp, i, 0, rows, {0, 1}, 0); }
  void combine(int i) { compute(Op::combine, i, 0, rows_of(i), {0, head_dim()}, 0); }
  void barrier(int i, int j) { compute(Op::barrier, i, j, {0, 0}, {0, 0}, 0); }
  /// Q_fp8 from Q, K_fp8 from K, V_fp8 from V.
  void quantize(Tensor tensor, int i, int j) {
    compute(Op::quantize, i, j, tile_rows_of(tensor, i, j), tile_cols_of(tensor, j), 0, tensor);
  }

  void clear_gradient(Tensor tensor, int i, int j) {
    compute(Op::clear_gradient, i, j, owner_rows(tensor, i, j), {0, head_dim()}, 0, tensor);
  }
  /// Rows of O and dO, or with `tensor` P whole rows of P and dP.
  void row_dot(Tensor tensor, int i, Range rows) {
    const bool of_scores = tensor == Tensor::P;
    compute(Op::row_dot, i, 0, rows, {0, of_scores ? problem().seqlen_k : head_dim()}, 0, tensor);
  }
  void row_dot(int i) { row_dot(Tensor::O, i, rows_of(i)); }
  void probabilities(int i, int j) { compute(Op::probabilities, i, j, rows_of(i), keys_of(j), 0); }
  void d_probabilities(int i, int j) { compute(Op::d_probabilities, i, j, rows_of(i), keys_of(j), head_dim()); }
  void d_scores(int i, int j) { d_scores(i, j, rows_of(i), keys_of(j)); }
  void d_scores(int i, int j, Range rows, Range keys) { compute(Op::d_scores, i, j, rows, keys, 0); }
  void gradient_sum(Tensor tensor, int i, int j) {
    const Range along = tensor == Tensor::dQ ? keys_of(j) : rows_of(i);
    compute(Op::gradient_sum, i, j, owner_rows(tensor, i, j), {0, head_dim()}, along.end - along.begin, tensor);
  }

  /// Calls body(i) for every query tile of `all`, in order. Tiles in `like` differ in nothing but their position, so a
  /// sink that can do with one of them sees that one, repeated.
  template <class Body>
  void for_each_query_tile(Range all, Range like, Body body) {
    walk_tiles(Axis::i, false, all, like, body);
  }
  /// The same for key tiles, in the order that the tile shape asks for.
  template <class Body>
  void for_each_key_tile(Range all, Range like, Body body) {
    walk_tiles(Axis::j, m_schedule.tile().backward_keys, all, like, body);
  }

  Range rows_of(int i) const;
  Range keys_of(int j) const;

 private:
  const AttentionProblem& problem() const { return m_schedule.problem(); }
  int head_dim() const { return problem().head_dim; }
  Range tile_rows_of(Tensor tensor, int i, int j) const;
  Range tile_cols_of(Tensor tensor, int j) const;
  Range owner_rows(Tensor tensor, int i, int j) const {
    return layout_of(tensor) == Layout::by_key ? keys_of(j) : rows_of(i);
  }

  template <class Body>
  void walk_tiles(Axis axis, bool backward, Range all, Range like, Body& body) {
    const bool are_alike = m_sink.only_counts() ? m_schedule.tiles_aligned() : m_schedule.sector_aligned();
    const bool is_even = !problem().is_sparse() && m_schedule.tile().page_size == 0;  // tiles lie alike in no two pages
    const bool collapse = is_even && m_sink.collapses() && like.end - like.begin > 1 && are_alike;
    if (!collapse) like = {all.end, all.end};
    const auto walk = [&](Range tiles) {
      for (int n = 0; n < tiles.end - tiles.begin; ++n) body(backward ? tiles.end - 1 - n : tiles.begin + n);
    };
    const Range before = {all.begin, like.begin}, after = {like.end, all.end};
    walk(backward ? after : before);
    if (collapse) {
      m_sink.begin_repeat({like.end - like.begin, axis, backward ? -1 : 1});
      body(backward ? like.end - 1 : like.begin);
      m_sink.end_repeat();
    }
    walk(backward ? before : after);
  }

  void move(Op op, Tensor tensor, int i, int j, Access access = Access::copy);
  std::int64_t line_requests(const TileOp& op) const;
  TileOp moved(Op op, Tensor tensor, int i, int j, Range rows, Range cols, Access access) const;
  void compute(Op op, int i, int j, Range rows, Range cols, int depth, Tensor tensor = Tensor::Q);

  const Schedule& m_schedule;
  int m_head;
  int m_heads = 1;
  int m_split = 0;  // of the tensors that have one a split
  OpSink& m_sink;
};

/// 32-byte sectors that the warps of a CTA request for a tile. `first_byte` is the tile's offset in its tensor.
std::int64_t count_sectors(Access access, std::int64_t first_byte, std::int64_t pitch, int rows, int cols, int element);

}  // namespace flashscope
