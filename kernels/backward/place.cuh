// Where a CTA of a backward kernel stands, and the tiles that it may name beyond those of the forward pass.
#pragma once
#include "kernels/common/tile.cuh"

namespace flashscope::kernels {

template <class T>
struct BackwardPlace : CtaPlace<T> {
  BackwardParams p;

  __device__ explicit BackwardPlace(const BackwardParams& params) : CtaPlace<T>(params), p(params) {}

  /// Of a CTA that owns keys, in a grid over KV heads. `head` is the first of the query heads that share its KV head.
  static __device__ BackwardPlace of_keys(const BackwardParams& params) {
    BackwardPlace at(params);
    at.kv_head = at.head;
    at.head = at.kv_head * at.group();
    return at;
  }
  __device__ int group() const { return p.heads / p.kv_heads; }

  __device__ GlobalTile<T> d_o(Range rows) const { return by_query(Tensor::dO, p.d_o, rows); }
  __device__ GlobalTile<T> d_q(Range rows) const { return by_query(Tensor::dQ, p.d_q, rows); }
  __device__ GlobalTile<T> d_k(Range keys) const { return by_key(Tensor::dK, p.d_k, keys); }
  __device__ GlobalTile<T> d_v(Range keys) const { return by_key(Tensor::dV, p.d_v, keys); }
  __device__ GlobalTile<T> d_p(Range rows, Range keys) const { return this->square(Tensor::dP, p.d_p, rows, keys); }
  __device__ GlobalTile<T> d_s(Range rows, Range keys) const { return this->square(Tensor::dS, p.d_s, rows, keys); }
  __device__ GlobalTile<float> d(Range rows) const { return this->statistic(Tensor::D, p.d, rows); }

 private:
  __device__ GlobalTile<T> by_query(Tensor tensor, const void* base, Range rows) const {
    return this->matrix(tensor, base, this->head, p.mask.seqlen_q, rows);
  }
  __device__ GlobalTile<T> by_key(Tensor tensor, const void* base, Range keys) const {
    return this->matrix(tensor, base, this->kv_head, p.mask.seqlen_k, keys);
  }
};

}  // namespace flashscope::kernels
