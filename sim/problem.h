// The attention problem: sizes, data type, mask, scale. A value; everything else in sim/ is a function of it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/block_mask.h"
#include "sim/schedule/sparse_mask.h"

namespace flashscope {

enum class DType { fp64, fp32, fp16, bf16, fp8 };

/// Size of one stored element in bytes.
int element_bytes(DType dtype);
const char* name_of(DType dtype);
/// Throws Error(usage) that lists the accepted names.
DType dtype_from_name(const std::string& name);

enum class Pass { forward, backward };
const char* name_of(Pass pass);
/// Throws Error(usage) that lists the accepted names.
Pass pass_from_name(const std::string& name);

/// O = softmax(softmax_scale · Q Kᵀ + mask) V for every batch entry and head.
///   Q: (batch, heads, seqlen_q, head_dim)    K, V: (batch, kv_heads, seqlen_k, head_dim)
///   O: like Q                                 LSE: (batch, heads, seqlen_q), float32, natural log
/// A row that sees no key has O = 0 and LSE = -inf.
/// Backward: the gradients dQ, dK, dV of sum(O ∘ dO), each like its tensor, from dO (like O). Query heads that share a
/// KV head add up in its dK and dV. A row that sees no key, and a key that no row sees, have gradients 0.
struct AttentionProblem {
  int batch = 1;
  int heads = 16;
  int kv_heads = 16;  // heads: MHA; fewer: GQA; 1: MQA
  int seqlen_q = 4096;
  int seqlen_k = 4096;
  int head_dim = 64;
  DType dtype = DType::bf16;
  bool causal = false;       // the same as window_right = 0
  int window_left = -1;      // keys before the diagonal that a query sees; -1: all
  int window_right = -1;     // keys after the diagonal; -1: all
  double softmax_scale = 0;  // 0: 1 / sqrt(head_dim)
  Pass pass = Pass::forward;
  SharedBlockMask block_mask;  // of what causal and window leave, the blocks that are kept; none: all
  /// Packed sequences (a batch of sequences of various lengths, one after the other along the rows; then batch = 1):
  /// sequence s has queries [cu_seqlens_q[s], cu_seqlens_q[s + 1]) and keys likewise, and causal and window hold within
  /// it. Both start at 0, do not fall, and end at seqlen_q and seqlen_k. Empty: one sequence a batch entry.
  std::vector<int> cu_seqlens_q, cu_seqlens_k;
  /// A keep mask of any form comes with the inputs (AttentionInputs::keep), on top of the geometry above. Its contents
  /// are not part of the problem: every tile that the geometry visits is visited and masked; kept pairs, FLOPs and
  /// exponentials are those of the geometry alone; the bytes of the mask itself are not counted.
  bool dense_mask = false;

  bool operator==(const AttentionProblem&) const = default;

  /// Points into this problem, which must outlive it.
  SparseMask mask() const;
  /// Tiles of one head need not be alike even where no band cuts them: packed sequences or blocks.
  bool is_sparse() const { return block_mask || !cu_seqlens_q.empty(); }
  double scale() const;
  int num_heads() const { return batch * heads; }        // query heads over the batch
  int num_kv_heads() const { return batch * kv_heads; }  // KV heads over the batch
};

inline constexpr int kMaxHeadDim = 4096;
inline constexpr int kMaxHeads = 1 << 20;

/// Checks every size before any arithmetic. Throws Error(usage) naming the option and its range, or Error(resource)
/// when the byte or FLOP counts would not fit in 62 bits.
void validate(const AttentionProblem& problem);

/// Pairs (query, key) that causal, window, sequences and blocks keep, over batch and heads. Exact; a dense mask is not looked at.
std::int64_t kept_pairs(const AttentionProblem& problem);
/// Pairs kept inside rows [row_begin, row_end) × keys [key_begin, key_end) of one head.
std::int64_t kept_pairs_in(const SparseMask& mask, Range rows, Range keys);

/// 4 · head_dim · kept pairs: the two matrix products, a multiply-add counted as 2. Backward: 2.5 times that, the five
/// products S, dP, dV, dK, dQ, whether an algorithm recomputes S or has stored P.
std::int64_t attention_flops(const AttentionProblem& problem);

/// Bytes every algorithm must move at least once: the rows of Q, K, V that a kept pair needs, and O. Backward: the rows
/// of Q, K, V, dO, and dQ, dK, dV. No statistics, and nothing that could be computed again (O, P).
std::int64_t compulsory_bytes(const AttentionProblem& problem);
/// What of them is read: Q, K, V, backward also dO.
std::int64_t compulsory_read_bytes(const AttentionProblem& problem);

}  // namespace flashscope
