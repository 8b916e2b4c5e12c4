// What the kernels of split_kv share: where a CTA stands, and which rows of which heads it has.
#pragma once
#include "kernels/common/tile.cuh"
#include "sim/schedule/decode_rung.h"

namespace flashscope::kernels {

/// CTA = ((KV head · query tiles + m_block) · chunks of heads + chunk) · splits + split, as sim/schedule/split_kv.cpp has
/// it. Row r of the tile is row r % block_m of the query tile, of head first_head + r / block_m.
template <class T>
struct DecodePlace {
  DecodeParams p;
  int kv_head;      // batch · kv_heads + kv_head
  int first_head;   // batch · heads + head
  int heads;        // of this CTA
  int block_m;      // rows a head
  int m_block, split;
  Range rows;  // of the queries

  __device__ explicit DecodePlace(const DecodeParams& params) : p(params) {
    const int group = p.heads / p.kv_heads;
    block_m = decode_block_m(group);
    const int at_once = decode_heads(block_m, group), chunks = decode_chunks(block_m, group);
    kv_head = blockIdx.x / p.ctas_per_head;
    const int inner = blockIdx.x % p.ctas_per_head, chunk = inner / p.splits % chunks;
    split = inner % p.splits;
    m_block = inner / p.splits / chunks;
    first_head = kv_head * group + chunk * at_once;
    heads = min_int(at_once, group - chunk * at_once);
    rows = rows_of_tile(p.mask.seqlen_q, block_m, m_block);
  }

  __device__ Range dims() const { return {0, p.head_dim}; }
  /// Key tiles of this split.
  __device__ Range key_tiles(int block_n) const {
    return split_of(visited_tiles(p.mask, block_m, block_n, m_block), split, p.splits);
  }
  /// Row of the queries that row r of the tile is; r may be one that does not exist.
  __device__ int query_of(int r) const { return rows.begin + r % block_m; }
  __device__ bool exists(int r) const { return r / block_m < heads && r % block_m < size_of(rows); }

  __device__ GlobalTile<T> q(int n) const {
    return {Tensor::Q, static_cast<T*>(const_cast<void*>(p.q)), first_head + n, p.mask.seqlen_q, p.head_dim, rows, dims()};
  }
  __device__ GlobalTile<T> k(Range keys) const { return of_keys(Tensor::K, p.k, keys); }
  __device__ GlobalTile<T> v(Range keys) const { return of_keys(Tensor::V, p.v, keys); }
  __device__ GlobalTile<float> o_split(int n) const {
    return {Tensor::O_split, p.o_split, (first_head + n) * p.splits + split, p.mask.seqlen_q, p.head_dim, rows, dims()};
  }
  __device__ GlobalTile<float> lse_split(int n) const {
    return {Tensor::LSE_split, p.lse_split, (first_head + n) * p.splits + split, p.mask.seqlen_q, 1, rows, {0, 1}};
  }

 private:
  __device__ GlobalTile<T> of_keys(Tensor tensor, const void* base, Range keys) const {
    return {tensor, static_cast<T*>(const_cast<void*>(base)), kv_head, p.mask.seqlen_k, p.head_dim, keys, dims()};
  }
};

}  // namespace flashscope::kernels
