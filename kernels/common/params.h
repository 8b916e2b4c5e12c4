// What a kernel is told: where the tensors lie and the problem's sizes. Plain data, passed by value.
#pragma once
#include "sim/schedule/sparse_mask.h"

namespace flashscope::kernels {

struct KernelParams {
  static constexpr bool kIsSparse = false;
  const void* q = nullptr;  // (batch · heads, seqlen_q, head_dim)
  const void* k = nullptr;  // (batch · kv_heads, seqlen_k, head_dim)
  const void* v = nullptr;  // like k
  void* o = nullptr;        // like q
  void* s = nullptr;        // (batch · heads, seqlen_q, score_elements), three-pass rungs
  void* p = nullptr;        // like s
  float* lse = nullptr;     // (batch · heads, seqlen_q)
  float* m = nullptr;       // like lse, flash_v1
  float* l = nullptr;       // like lse, flash_v1
  MaskShape mask;           // holds seqlen_q and seqlen_k
  int heads = 1;            // per batch entry
  int kv_heads = 1;
  int head_dim = 0;
  int score_elements = 0;  // from one row of S or P to the next: score_pitch() in walk.h
  int ctas_per_head = 1;  // cta = head · ctas_per_head + inner (KernelLaunch)
  float softmax_scale = 1;
};

/// And those of the backward pass, for which o and lse are inputs. (Apart, because the layout of its parameters changes
/// how many registers the compiler gives a kernel.)
struct BackwardParams : KernelParams {
  const void* d_o = nullptr;  // like q
  void* d_q = nullptr;        // like q
  void* d_k = nullptr;        // like k
  void* d_v = nullptr;        // like k
  float* d = nullptr;         // like lse
  void* d_p = nullptr;        // like s, three-pass rungs
  void* d_s = nullptr;        // like s, three-pass rungs
};

/// And those of split_kv.
struct DecodeParams : BackwardParams {
  static constexpr bool kIsPaged = false;
  float* o_split = nullptr;    // (batch · heads, splits, seqlen_q, head_dim)
  float* lse_split = nullptr;  // (batch · heads, splits, seqlen_q)
  int splits = 1;
};

/// Where the pages of K and V lie, which are (all pages, kv_heads, page size, head_dim).
struct Pages {
  const int* table = nullptr;  // (batch, pitch), the first entries of each row are those of its pages
  int pitch = 0;
  Paging paging;
};

/// And those of flash_v3_fp8: now all that a workspace has, for whichever kernel. Shapes: Tensor in sim/schedule/op.h.
struct WorkspaceParams : DecodeParams {
  unsigned char* q_fp8 = nullptr;
  unsigned char* k_fp8 = nullptr;
  unsigned char* v_fp8 = nullptr;
  float* q_scale = nullptr;
  float* k_scale = nullptr;
  float* v_scale = nullptr;
  SparseMask sparse_mask;  // its arrays lie on the GPU
  Pages pages;             // of split_kv with K and V in pages
  float* dq_sum = nullptr;  // like q: flash_v3's backward pass
};

/// What an instance for packed sequences and block masks is told: the parameters of the rung, and in the place of their
/// band the whole mask. (An instance of its own, because the others would pay for it in registers.)
template <class Params>
struct SparseParams : Params {
  static constexpr bool kIsSparse = true;
  SparseMask mask;

  SparseParams(const Params& params, const SparseMask& sparse) : Params(params), mask(sparse) {}
};

/// What an instance of split_kv for K and V in pages is told.
struct PagedParams : DecodeParams {
  static constexpr bool kIsPaged = true;
  Pages pages;

  PagedParams(const DecodeParams& params, const Pages& pages_) : DecodeParams(params), pages(pages_) {}
};

}  // namespace flashscope::kernels
