// What the kernels of split_kv share: where a CTA stands, and which rows of which heads it has.
#pragma once
#include "kernels/common/tile.cuh"
#include "sim/schedule/decode_rung.h"

namespace flashscope::kernels {

/// CTA = ((KV head · query tiles + m_block) · chunks of heads + chunk) · splits + split, as sim/schedule/split_kv.cpp has
/// it. Row r of the tile is row r % block_m of the query tile, of head first_head + r / block_m.
template <class T, class Params>
struct DecodePlace {
  Params p;
  int kv_head;      // batch · kv_heads + kv_head
  int first_head;   // batch · heads + head
  int heads;        // of this CTA
  int block_m;      // rows a head
  int m_block, split;
  Range rows;  // of the queries

  __device__ explicit DecodePlace(const Params& params) : p(params) {
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
  /// Entries of the block table for a key tile.
  __device__ GlobalTile<int> pages(Range keys) const {
    return {Tensor::block_table, const_cast<int*>(p.pages.table), kv_head / p.kv_heads, p.pages.pitch, 1,
            p.pages.paging.pages_of(keys), {0, 1}};
  }
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

/// Where the rows of a tile of K or V lie whose pages the CTA has looked up.
template <class T>
struct PagedRows {
  template <class Params>
  __device__ PagedRows(const DecodePlace<T, Params>& at, const GlobalTile<T>& tile, const int* smem_pages)
      : base(tile.base),
        places(smem_pages - at.p.pages.paging.page_of(tile.rows.begin)),
        paging(at.p.pages.paging),
        first_key(tile.rows.begin),
        kv_head(at.kv_head % at.p.kv_heads),
        kv_heads(at.p.kv_heads),
        row_elements(tile.row_elements) {}

  __device__ const T* operator()(int row) const {
    const int key = first_key + row;
    return base + paging.row_of(places[paging.page_of(key)], kv_head, kv_heads, key) * row_elements;
  }

  const T* base;
  const int* places;  // in shared memory, by page of the sequence
  Paging paging;
  int first_key, kv_head, kv_heads, row_elements;
};

/// This thread's entry of the block table, for the tile to come: on its way, while other loads are.
template <class Observer>
__device__ __forceinline__ int load_page(const GlobalTile<int>& pages, Observer& log) {
  log.load(pages);
  return static_cast<int>(threadIdx.x) < pages.num_rows() ? __ldcg(pages.base + pages.first() + threadIdx.x) : 0;
}
__device__ __forceinline__ void keep_page(int* smem_pages, const GlobalTile<int>& pages, int place) {
  if (static_cast<int>(threadIdx.x) < pages.num_rows()) smem_pages[threadIdx.x] = place;
}

}  // namespace flashscope::kernels
