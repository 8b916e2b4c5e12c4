#include "sim/problem.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sim/error.h"

namespace flashscope {

int element_bytes(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 8;
    case DType::fp32: return 4;
    case DType::fp16:
    case DType::bf16: return 2;
    case DType::fp8: return 1;
  }
  throw Error(ErrorKind::internal, "element_bytes: unknown dtype");
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return "fp64";
    case DType::fp32: return "fp32";
    case DType::fp16: return "fp16";
    case DType::bf16: return "bf16";
    case DType::fp8: return "fp8";
  }
  throw Error(ErrorKind::internal, "name_of: unknown dtype");
}

DType dtype_from_name(const std::string& name) {
  for (DType dtype : {DType::fp64, DType::fp32, DType::fp16, DType::bf16, DType::fp8})
    if (name == name_of(dtype)) return dtype;
  throw Error(ErrorKind::usage, "--dtype: '" + name + "' is not one of fp32, fp16, bf16, fp8, fp64");
}

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

Pass pass_from_name(const std::string& name) {
  for (Pass pass : {Pass::forward, Pass::backward})
    if (name == name_of(pass)) return pass;
  throw Error(ErrorKind::usage, "--pass: '" + name + "' is not one of forward, backward");
}

SparseMask AttentionProblem::mask() const {
  SparseMask mask;
  static_cast<MaskShape&>(mask) = {seqlen_q, seqlen_k, window_left, causal ? 0 : window_right};
  if (!cu_seqlens_q.empty())
    mask.sequences = {cu_seqlens_q.data(), cu_seqlens_k.data(), static_cast<int>(cu_seqlens_q.size()) - 1};
  if (block_mask) mask.blocks = block_mask.mask->bits();
  return mask;
}

double AttentionProblem::scale() const {
  return softmax_scale != 0 ? softmax_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

namespace {

void check_range(const char* option, std::int64_t value, std::int64_t lo, std::int64_t hi) {
  if (value < lo || value > hi)
    throw Error(ErrorKind::usage, std::string(option) + ": " + std::to_string(value) + " is outside " +
                                      std::to_string(lo) + " … " + std::to_string(hi));
}

/// Product of non-negative factors; Error(resource) when it does not fit in 62 bits.
std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (std::int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product) || product > (std::int64_t{1} << 62))
      throw Error(ErrorKind::resource,
                  "the problem is too large to count in 64-bit integers; reduce batch, heads, seqlen or head_dim");
  return product;
}

void check_offsets(const char* option, const std::vector<int>& offsets, int length) {
  bool valid = offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == length;
  for (std::size_t s = 1; valid && s < offsets.size(); ++s) valid = offsets[s - 1] <= offsets[s];
  if (!valid)
    throw Error(ErrorKind::usage, std::string(option) + ": needs offsets that start at 0, do not fall, and end at the " +
                                      std::to_string(length) + " rows there are");
}

void check_sparsity(const AttentionProblem& p) {
  if (!p.cu_seqlens_q.empty() || !p.cu_seqlens_k.empty()) {
    check_offsets("--cu-seqlens", p.cu_seqlens_q, p.seqlen_q);
    check_offsets("--cu-seqlens-k", p.cu_seqlens_k, p.seqlen_k);
    if (p.cu_seqlens_q.size() != p.cu_seqlens_k.size())
      throw Error(ErrorKind::usage, "--cu-seqlens names " + std::to_string(p.cu_seqlens_q.size() - 1) +
                                        " sequences and --cu-seqlens-k " + std::to_string(p.cu_seqlens_k.size() - 1));
    if (p.batch > 1)
      throw Error(ErrorKind::usage, "--cu-seqlens: packed sequences are the batch; --batch must be 1, not " +
                                        std::to_string(p.batch));
  }
  if (!p.block_mask) return;
  const BlockMask& mask = *p.block_mask.mask;
  const int rows = num_tiles(p.seqlen_q, mask.block_q), cols = num_tiles(p.seqlen_k, mask.block_k);
  if (mask.rows != rows || mask.cols != cols)
    throw Error(ErrorKind::usage, "--block-mask: " + std::to_string(mask.rows) + " × " + std::to_string(mask.cols) +
                                      " blocks of " + std::to_string(mask.block_q) + " × " +
                                      std::to_string(mask.block_k) + "; these lengths need " + std::to_string(rows) +
                                      " × " + std::to_string(cols));
}

}  // namespace

void validate(const AttentionProblem& p) {
  check_range("--batch", p.batch, 0, kMaxHeads);
  // One text for every fault of the two counts, before either divides anything.
  const bool in_range = p.heads >= 1 && p.heads <= kMaxHeads && p.kv_heads >= 1 && p.kv_heads <= kMaxHeads;
  if (!in_range || p.heads % p.kv_heads != 0)
    throw Error(ErrorKind::usage, "--heads " + std::to_string(p.heads) + " and --kv-heads " +
                                      std::to_string(p.kv_heads) + ": both must be in 1 … " +
                                      std::to_string(kMaxHeads) + ", and --heads a multiple of --kv-heads");
  check_range("--seqlen-q", p.seqlen_q, 0, kMaxSeqlen);
  check_range("--seqlen-k", p.seqlen_k, 0, kMaxSeqlen);
  check_range("--head-dim", p.head_dim, 1, kMaxHeadDim);
  check_range("--window left", p.window_left, -1, INT32_MAX);
  check_range("--window right", p.window_right, -1, INT32_MAX);
  check_sparsity(p);
  if (!std::isfinite(p.softmax_scale)) throw Error(ErrorKind::usage, "--scale: must be a finite number");
  const std::int64_t all_heads = checked_product({p.batch, p.heads});
  check_range("--batch × --heads", all_heads, 0, INT32_MAX);
  // The largest number anything below forms is a small multiple of FLOPs or of the score matrix in 32-byte sectors.
  checked_product({all_heads, std::max(1, p.seqlen_q), std::max(1, p.seqlen_k), p.head_dim, 64});
}

namespace {

/// Sum of clamp(row + shift, lo, hi) over the rows.
std::int64_t sum_of_clamped(Range rows, std::int64_t shift, std::int64_t lo, std::int64_t hi) {
  const auto row_at = [&](std::int64_t value) {
    return std::clamp<std::int64_t>(value - shift, rows.begin, rows.end);
  };
  const std::int64_t leaves_lo = row_at(lo), meets_hi = row_at(hi), between = meets_hi - leaves_lo;
  return (leaves_lo - rows.begin) * lo + between * (leaves_lo + meets_hi - 1 + 2 * shift) / 2 + (rows.end - meets_hi) * hi;
}

/// The same for the rows of a band.
std::int64_t kept_pairs_of_band(const MaskShape& mask, Range rows, Range keys) {
  const std::int64_t diagonal = std::int64_t{mask.seqlen_k} - mask.seqlen_q, n = rows.end - rows.begin;
  const auto up_to = [&](std::int64_t end) { return sum_of_clamped(rows, diagonal + end, keys.begin, keys.end); };
  return (mask.right < 0 ? n * keys.end : up_to(std::int64_t{mask.right} + 1)) -
         (mask.left < 0 ? n * keys.begin : up_to(-std::int64_t{mask.left}));
}

}  // namespace

std::int64_t kept_pairs_in(const SparseMask& mask, Range rows, Range keys) {
  if (rows.begin >= rows.end || keys.begin >= keys.end) return 0;
  if (mask.is_band()) return kept_pairs_of_band(mask, rows, keys);
  std::int64_t pairs = 0;
  for (int row = rows.begin; row < rows.end; ++row) {
    Range kept = kept_keys(mask, row);
    kept = {std::max(kept.begin, keys.begin), std::min(kept.end, keys.end)};
    if (!mask.blocks.words) {
      pairs += std::max(0, kept.end - kept.begin);
      continue;
    }
    const int width = mask.block_columns();
    for (int key = kept.begin; key < kept.end;) {  // block by block
      const int end = std::min(kept.end, (key / width + 1) * width);
      if (mask.block_kept(row / mask.block_rows(), key / width)) pairs += end - key;
      key = end;
    }
  }
  return pairs;
}

std::int64_t kept_pairs(const AttentionProblem& p) {
  const SparseMask mask = p.mask();
  const bool all = mask.is_band() && mask.left < 0 && mask.right < 0;
  const std::int64_t per_head = all ? std::int64_t{p.seqlen_q} * p.seqlen_k
                                    : kept_pairs_in(mask, {0, p.seqlen_q}, {0, p.seqlen_k});
  return per_head * p.num_heads();
}

std::int64_t attention_flops(const AttentionProblem& p) {
  const int products = p.pass == Pass::forward ? 2 : 5;
  return 2 * products * std::int64_t{p.head_dim} * kept_pairs(p);
}

std::int64_t compulsory_read_bytes(const AttentionProblem& p) {
  if (p.seqlen_q == 0 && p.pass == Pass::forward) return 0;
  // Rows with at least one kept key, and keys that at least one row keeps.
  const auto used = [](const SparseMask& mask) {
    std::int64_t rows = 0;
    for (int row = 0; row < mask.seqlen_q; ++row) {
      const Range keys = kept_keys(mask, row);
      rows += keys.end > keys.begin && any_kept(mask, {row, row + 1}, keys);
    }
    return rows;
  };
  const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
  const std::int64_t queries = used(p.mask()) * p.num_heads();
  const std::int64_t keys = used(transposed(p.mask())) * p.num_kv_heads();
  return ((p.pass == Pass::forward ? 1 : 2) * queries + 2 * keys) * row_bytes;
}

std::int64_t compulsory_bytes(const AttentionProblem& p) {
  const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
  const std::int64_t query_rows = std::int64_t{p.seqlen_q} * p.num_heads();
  const std::int64_t key_rows = std::int64_t{p.seqlen_k} * p.num_kv_heads();
  const std::int64_t written = (p.pass == Pass::forward ? query_rows : query_rows + 2 * key_rows) * row_bytes;
  return compulsory_read_bytes(p) + written;
}

}  // namespace flashscope
