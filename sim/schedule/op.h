// The vocabulary of a schedule: tensors in global memory and the operations that a CTA performs on their tiles.
#pragma once
#include <cstdint>

namespace flashscope {

/// Tensors in global memory. (rows × columns) per head:
enum class Tensor : std::uint8_t {
  Q,    // seqlen_q × head_dim
  K,    // seqlen_k × head_dim
  V,    // seqlen_k × head_dim
  S,    // seqlen_q × seqlen_k, scores
  P,    // seqlen_q × seqlen_k, probabilities
  O,    // seqlen_q × head_dim
  LSE,  // seqlen_q × 1, float32
  M,    // seqlen_q × 1, float32, running row maximum (flash_v1 keeps it in global memory)
  L,    // seqlen_q × 1, float32, running row sum (likewise)
  dO,   // seqlen_q × head_dim, the gradient that the backward pass starts from
  dQ,   // seqlen_q × head_dim
  dK,   // seqlen_k × head_dim
  dV,   // seqlen_k × head_dim
  dP,   // seqlen_q × seqlen_k, gradient of the probabilities
  dS,   // seqlen_q × seqlen_k, gradient of the scores
  D,    // seqlen_q × 1, float32, rowsum(dO ∘ O)
  dQ_sum,  // seqlen_q × head_dim, float32: CTAs add their parts of dQ to it
  // Of one of several parts of the keys (split_kv); one head a query head and split: head · splits + split
  O_split,    // seqlen_q × head_dim, float32
  LSE_split,  // seqlen_q × 1, float32
  // Rounded to e4m3, divided by one scale a tile (flash_v3_fp8); the columns are those of the compiled width
  Q_fp8,    // seqlen_q × width, rotated
  K_fp8,    // seqlen_k × width, rotated likewise
  V_fp8,    // seqlen_k, in whole tiles × width; in memory each tile lies transposed: width rows of Bc keys
  Q_scale,  // one float32 a query tile
  K_scale,  // one float32 a key tile
  V_scale,  // likewise
  block_table,  // one int32 a page of K and V (split_kv with TileShape::page_size): where in memory the page lies
};
inline constexpr int kNumTensors = static_cast<int>(Tensor::block_table) + 1;
const char* name_of(Tensor tensor);

/// What a tensor's rows and columns follow: that decides its tiles, its head and its bytes.
enum class Layout : std::uint8_t {
  by_query,   // rows are queries, columns head_dim; one head a query head
  by_key,     // rows are keys, columns head_dim; one head a KV head
  scores,     // queries × keys
  statistic,  // one float32 a query
  query_tile,  // one float32 a query tile
  key_tile,    // one float32 a key tile; one head a KV head
  page,        // one int32 a page of keys; one head a batch entry
};
/// Rows of such tensors follow keys; their heads are KV heads, or batch entries.
constexpr bool is_of_keys(Layout layout) {
  return layout == Layout::by_key || layout == Layout::key_tile || layout == Layout::page;
}
constexpr bool is_scale(Layout layout) { return layout == Layout::query_tile || layout == Layout::key_tile; }
constexpr bool is_split(Tensor tensor) { return tensor == Tensor::O_split || tensor == Tensor::LSE_split; }
constexpr bool is_fp8(Tensor tensor) {
  return tensor == Tensor::Q_fp8 || tensor == Tensor::K_fp8 || tensor == Tensor::V_fp8;
}
constexpr Layout layout_of(Tensor tensor) {
  switch (tensor) {
    case Tensor::Q:
    case Tensor::O:
    case Tensor::dO:
    case Tensor::dQ:
    case Tensor::dQ_sum:
    case Tensor::Q_fp8:
    case Tensor::O_split: return Layout::by_query;
    case Tensor::K:
    case Tensor::V:
    case Tensor::dK:
    case Tensor::K_fp8:
    case Tensor::V_fp8:
    case Tensor::dV: return Layout::by_key;
    case Tensor::Q_scale: return Layout::query_tile;
    case Tensor::K_scale:
    case Tensor::V_scale: return Layout::key_tile;
    case Tensor::block_table: return Layout::page;
    case Tensor::S:
    case Tensor::P:
    case Tensor::dP:
    case Tensor::dS: return Layout::scores;
    case Tensor::LSE:
    case Tensor::M:
    case Tensor::L:
    case Tensor::D:
    case Tensor::LSE_split: break;
  }
  return Layout::statistic;
}

inline constexpr int kLineBytes = 128;  // a line of L2, four sectors: what one request of an SM asks of

/// What one operation does. The on-chip state of a CTA is: one tile of each tensor it loaded, S (scores, later the
/// softmax numerators P), acc (Br × head_dim), and per row m (maximum), l (sum); of each query head that it works for. In the backward pass also dP (later
/// dS), D, and the gradients dQ (Br × head_dim), dK, dV (Bc × head_dim).
enum class Op : std::uint8_t {
  load,            // tensor tile: global memory → chip
  store,           // tensor tile: chip → global memory
  clear_state,     // acc = 0, m = -inf, l = 0
  scores,          // S = softmax_scale · Q Kᵀ
  mask,            // S = -inf where the pair is not kept
  softmax,         // whole rows: m = rowmax(S), l = rowsum(exp(S - m)), P = exp(S - m) / l   (0 in empty rows)
  online_softmax,  // m' = max(m, rowmax S); S ← exp(S - m'); l ← exp(m - m') l + rowsum S; acc ← exp(m - m') acc
  weighted_sum,    // acc += P V (or S V after online_softmax)
  undo_normalize,  // acc = diag(l) O: takes a stored O back into the running form (flash_v1)
  normalize,       // O = diag(1/l) acc   (0 where l = 0)
  log_sum_exp,     // LSE = m + log l     (-inf where l = 0)
  barrier,         // all threads of the CTA meet
  wait,            // until at most `pending` of the loads that were started are still under way
  // Backward (FlashAttention, Algorithm 4)
  clear_gradient,   // `tensor` (dQ, dK or dV) = 0 on chip
  row_dot,          // D = rowsum(dO ∘ O); with `tensor` P the same number from scores: D = rowsum(dP ∘ P)
  probabilities,    // P = exp(S - LSE): recomputed, not stored   (0 in empty rows)
  d_probabilities,  // dP = dO Vᵀ
  d_scores,         // dS = P ∘ (dP - D)
  gradient_sum,     // by `tensor`: dV += Pᵀ dO, dK += softmax_scale · dSᵀ Q, dQ += softmax_scale · dS K
  // Decode
  combine,  // O and LSE of all splits: m = max LSE; l = Σ exp(LSE - m); acc = Σ exp(LSE - m) O
  // Low precision
  quantize,  // `tensor` (Q_fp8, K_fp8 or V_fp8) and its scale from the tile of Q, K or V; Q and K are rotated first
};
inline constexpr int kNumOps = 21;
const char* name_of(Op op);

/// One operation on one tile. A value: it names tiles, never pointers.
struct TileOp {
  Op op = Op::barrier;
  Tensor tensor = Tensor::Q;  // load, store; clear_gradient, row_dot, gradient_sum, quantize
  int head = 0;               // batch · heads + head; of a moved tensor by key: batch · kv_heads + kv_head, by page: batch;
                              // of a split's tensor: (batch · heads + head) · splits + split
  int heads = 1;              // heads that it covers, from `head` on, the region in each of them
  int i = 0, j = 0;           // query tile and key tile that the CTA works on (the paper's indices)
  int row = 0, rows = 0;      // region: load/store: of `tensor`; computing operations: query rows (dK, dV: keys) …
  int col = 0, cols = 0;      //                                  … × keys (scores, softmax) or × head_dim columns
  int depth = 0;              // length of the contraction (scores: head_dim; weighted_sum: keys; dK, dV: queries)
  std::int64_t bytes = 0;     // load, store: requested of global memory, as the schedule names them
  std::int64_t sectors = 0;   // load, store: the same in 32-byte sectors, counted warp request by warp request
  /// load of a naive kernel: requests that the SM sends to L2, each for sectors of one line, where those are more than
  /// the sectors make wait; and warps that send the same ones.
  std::int64_t requests = 0, warps = 1;
  std::int64_t fill_bytes = 0;  // store: what L2 must have before it writes: the rest of sectors covered in part, and what is added to
  /// load: the CTA goes on at once (cp.async); the tile may be used after a wait. Loads arrive in the order of their
  /// start.
  bool starts = false;
  int pending = 0;  // wait
  bool adds = false;  // store: added to what lies there, element by element, in L2 (atomics, TMA)

  bool operator==(const TileOp&) const = default;
};

/// A run of tiles that differ in nothing but their position: `times` of them, one `step` (1 or -1) apart in i or j.
enum class Axis : std::uint8_t { i, j };
struct Repeat {
  std::int64_t times = 1;
  Axis axis = Axis::j;
  int step = 1;
};

/// How a CTA takes operations on rows of scores that it names as a whole: it loads, computes and stores `rows` of them
/// before it asks for the next; or, with `key_tiles`, so many tiles of all rows before the next.
struct Turns {
  int rows = 0, key_tiles = 0;
};

/// Receives a CTA's operations in program order. It may read, never change the schedule.
class OpSink {
 public:
  virtual ~OpSink() = default;
  virtual void op(const TileOp& op) = 0;
  /// True when the sink can do with one tile of a run of like ones: it is then walked once, between begin_repeat() and
  /// end_repeat(). Repeats do not nest.
  virtual bool collapses() const { return false; }
  /// True when it only adds up bytes and work: runs are then walked once also where heads start inside sectors.
  virtual bool only_counts() const { return false; }
  virtual void begin_repeat(const Repeat&) {}
  virtual void end_repeat() {}
  /// What comes in between is taken in turns: who only counts need not ask.
  virtual void begin_turns(const Turns&) {}
  virtual void end_turns() {}
};

}  // namespace flashscope
