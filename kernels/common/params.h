// What a kernel is told: where the tensors lie and the problem's sizes. Plain data, passed by value.
#pragma once
#include "sim/schedule/walk.h"

namespace flashscope::kernels {

struct KernelParams {
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
};

/// And those of split_kv: all that a workspace has.
struct DecodeParams : BackwardParams {
  float* o_split = nullptr;    // (batch · heads, splits, seqlen_q, head_dim)
  float* lse_split = nullptr;  // (batch · heads, splits, seqlen_q)
  int splits = 1;
};

}  // namespace flashscope::kernels
