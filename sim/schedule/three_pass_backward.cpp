// three_pass backward: the chain rule kernel by kernel, as eager frameworks run it (the paper's Algorithm 3).
//
// The forward pass has kept P; dP and dS are two more N × N matrices in global memory. Five kernels: dV = Pᵀ dO,
// dP = dO Vᵀ, dS = P ∘ (dP - rowsum(P ∘ dP)), dQ = dS K, dK = dSᵀ Q. Nothing is recomputed (four products instead of
// five), no tile is skipped: where the mask has taken a pair out, P is 0 and so is dS.
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_backward.h"
#include "sim/schedule/fma_work.h"

namespace flashscope {
namespace {

class ThreePassBackward final : public Schedule {
 public:
  enum Kernel { kValueGradient, kProbabilityGradient, kSoftmax, kQueryGradient, kKeyGradient };

  ThreePassBackward(const AttentionProblem& p, TileShape tile) : Schedule("three_pass", p, tile) {
    m_tensors = {Tensor::Q,  Tensor::K,  Tensor::V,  Tensor::P,  Tensor::dO,
                 Tensor::dQ, Tensor::dK, Tensor::dV, Tensor::dP, Tensor::dS};
    const std::int64_t tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const int width = fma_width(p.head_dim);
    const bool is_fp32 = p.dtype == DType::fp32;
    const auto sum = [&](bool by_key) {
      return CtaResources{kFmaThreads, gradient_sum_smem(tile.br, tile.bc, width, by_key).bytes(),
                          by_key ? key_sum_registers(width, is_fp32, p.dtype == DType::bf16) : query_sum_registers(width)};
    };
    const std::int64_t product_smem = three_pass_scores_smem(tile.br, tile.bc, width).bytes();
    m_kernels = {
        {"three_pass_backward_dv", tc, p.num_kv_heads(), sum(true), fma_thread_tile(tile.bc, width),
         kValueGradientCode},
        {"three_pass_backward_dp",
         tr * tc,
         p.num_heads(),
         {kFmaThreads, product_smem, d_probability_registers(is_fp32)},
         fma_thread_tile(tile.br, tile.bc),
         kProbabilityGradientCode},
        {"three_pass_backward_ds",
         tr,
         p.num_heads(),
         {kSoftmaxThreads, d_softmax_row_bytes(p.seqlen_k), kDSoftmaxRegisters},
         {},
         kDSoftmaxCode},
        {"three_pass_backward_dq", tr, p.num_heads(), sum(false), fma_thread_tile(tile.br, width), kQuerySumCode},
        {"three_pass_backward_dk", tc, p.num_kv_heads(), sum(true), fma_thread_tile(tile.bc, width), kKeyGradientCode},
    };
  }

  /// The paper's count: each kernel's operands once, 8Nd + 7N² elements (P, dP, P, dP, dS, dS, dS; dO, dV, dO, V, K, dQ,
  /// Q, dK).
  ClosedForm closed_form() const override {
    const AttentionProblem& p = problem();
    const std::int64_t e = element_bytes(p.dtype), h = p.num_heads();
    const std::int64_t q = e * p.seqlen_q * p.head_dim * h;                  // Q, dO or dQ
    const std::int64_t k = e * p.seqlen_k * p.head_dim * h;                  // K or V as the query heads see them
    const std::int64_t k_once = e * p.seqlen_k * p.head_dim * p.num_kv_heads();
    const std::int64_t s = e * p.seqlen_q * p.seqlen_k * h;                  // P, dP or dS
    const std::int64_t tr = num_tiles(p.seqlen_q, tile().br), tc = num_tiles(p.seqlen_k, tile().bc);
    const std::int64_t softmax_reads = d_softmax_rows_fit(p.seqlen_k) ? 2 : 4;
    const std::int64_t value = s + tc * q, probability = tc * q + tr * k, softmax = softmax_reads * s;
    const std::int64_t query = s + tr * k, key = s + tc * q;
    return {value + probability + softmax + query + key, 2 * s + q + 2 * k_once, 4 * q + 4 * k_once + 7 * s};
  }

  int score_block_rows() const override { return tile().br % kSoftmaxRows == 0 ? kSoftmaxRows : tile().br; }

  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const override {
    return kernel == kProbabilityGradient ? score_tile_classes() : Schedule::cta_classes(kernel);
  }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    if (kernel == kSoftmax) return softmax_work(op);
    if (op.op != Op::gradient_sum || op.tensor == Tensor::dQ) return Schedule::warp_work(kernel, op);
    const ThreadTile gradient = fma_thread_tile(tile().bc, fma_width(problem().head_dim));
    return product_down_work(gradient.rows, gradient.cols, tile().br);
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    const int tc = num_tiles(problem().seqlen_k, tile().bc), one = static_cast<int>(inner);
    switch (kernel) {
      case kValueGradient: return key_gradient(Tensor::dV, one, cta);
      case kProbabilityGradient: return probability_gradient(one / tc, one % tc, cta);
      case kSoftmax: return softmax(one, cta);
      case kQueryGradient: return query_gradient(one, cta);
      case kKeyGradient: return key_gradient(Tensor::dK, one, cta);
    }
  }

 private:
  /// A vector of dP is asked for right behind that of P: one round trip for both.
  WarpWork softmax_work(const TileOp& op) const {
    const SoftmaxRows rows{op.rows, problem().seqlen_k, static_cast<int>(element_bytes(problem().dtype))};
    switch (op.op) {
      case Op::load: return op.tensor == Tensor::P ? d_softmax_read_work(rows) : WarpWork{};
      case Op::row_dot: return d_softmax_dot_work(rows);
      case Op::d_scores: return d_softmax_rows_work(rows);
      default: return {};
    }
  }

  /// dV_j = Σ_i P_ijᵀ dO_i, or dK_j = softmax_scale · Σ_i dS_ijᵀ Q_i, over the query heads of the group.
  void key_gradient(Tensor gradient, int j, CtaProgram& cta) const {
    const int tr = num_tiles(problem().seqlen_q, tile().br);
    cta.clear_gradient(gradient, 0, j);
    cta.for_each_head_of_group([&] {
      cta.for_each_query_tile({0, tr}, whole_tiles(transposed(problem().mask()), tile().bc, tile().br, j), [&](int i) {
        cta.load(gradient == Tensor::dV ? Tensor::P : Tensor::dS, i, j);
        cta.load(gradient == Tensor::dV ? Tensor::dO : Tensor::Q, i, j);
        cta.barrier(i, j);
        cta.gradient_sum(gradient, i, j);
        cta.barrier(i, j);
      });
    });
    cta.barrier(0, j);  // the result is in shared memory, in the order of the copy
    cta.store(gradient, 0, j);
  }

  static void probability_gradient(int i, int j, CtaProgram& cta) {
    cta.load(Tensor::dO, i, j);
    cta.load(Tensor::V, i, j);
    cta.barrier(i, j);
    cta.d_probabilities(i, j);
    cta.barrier(i, j);  // dO and V have been read: their place takes dP
    cta.barrier(i, j);
    cta.store(Tensor::dP, i, j);
  }

  void softmax(int i, CtaProgram& cta) const {
    const Range tile_rows = cta.rows_of(i), keys = {0, problem().seqlen_k};
    for (int row = tile_rows.begin; row < tile_rows.end; row += kSoftmaxRows) {
      const Range rows = {row, min_int(row + kSoftmaxRows, tile_rows.end)};
      cta.in_turns({.rows = 1}, [&] {  // by all warps
        for (int scan = 0; scan < (d_softmax_rows_fit(problem().seqlen_k) ? 1 : 2); ++scan) {
          cta.move_region(Op::load, Tensor::P, i, 0, rows, keys, Access::copy_by_row);
          cta.move_region(Op::load, Tensor::dP, i, 0, rows, keys, Access::copy_by_row);
        }
        cta.row_dot(Tensor::P, i, rows);
        cta.d_scores(i, 0, rows, keys);
        cta.move_region(Op::store, Tensor::dS, i, 0, rows, keys, Access::whole_rows);
      });
    }
  }

  void query_gradient(int i, CtaProgram& cta) const {
    const int tc = num_tiles(problem().seqlen_k, tile().bc);
    cta.clear_gradient(Tensor::dQ, i, 0);
    cta.for_each_key_tile({0, tc}, whole_tiles(problem().mask(), tile().br, tile().bc, i), [&](int j) {
      cta.load(Tensor::dS, i, j);
      cta.load(Tensor::K, i, j);
      cta.barrier(i, j);
      cta.gradient_sum(Tensor::dQ, i, j);
      cta.barrier(i, j);
    });
    cta.barrier(i, 0);
    cta.store(Tensor::dQ, i, 0);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_three_pass_backward(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<ThreePassBackward>(problem, tile);
}

}  // namespace flashscope
