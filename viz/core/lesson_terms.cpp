#include "viz/core/lesson_terms.h"

namespace flashscope::viz {

const std::vector<Term>& terms() {
  using Thing = Term::Thing;
  const auto word = [](const char* name, const char* meaning) { return Term{name, meaning, Thing::word, {}, {}}; };
  const auto tensor = [](const char* name, Tensor which, const char* meaning) {
    return Term{name, meaning, Thing::tensor, which, {}};
  };
  const auto reason = [](const char* name, Reason which, const char* meaning) {
    return Term{name, meaning, Thing::reason, {}, which};
  };
  static const std::vector<Term> list = {
      tensor("Q", Tensor::Q, "The queries: one row of head_dim numbers for each query."),
      tensor("K", Tensor::K, "The keys: one row of head_dim numbers for each key."),
      tensor("V", Tensor::V, "The values: one row of head_dim numbers for each key; the output mixes them."),
      tensor("S", Tensor::S, "The scores QKᵀ, scaled: one number for each pair of a query and a key."),
      tensor("P", Tensor::P, "The softmax of the scores: weights between 0 and 1, or their numerators."),
      tensor("O", Tensor::O, "The output PV: for each query, the values mixed by their weights."),
      tensor("LSE", Tensor::LSE,
             "Log-sum-exp of a row of scores, m + log l: one number a row that summarises its softmax."),
      tensor("dO", Tensor::dO, "The gradient of O: what the backward pass starts from."),
      tensor("dQ", Tensor::dQ, "The gradient of Q: for each query, a sum over all keys."),
      tensor("dK", Tensor::dK, "The gradient of K: for each key, a sum over all queries."),
      tensor("dV", Tensor::dV, "The gradient of V: for each key, a sum over all queries."),
      tensor("dP", Tensor::dP, "The gradient of P, dO Vᵀ."),
      tensor("dS", Tensor::dS, "The gradient of S, P ∘ (dP − D)."),
      tensor("m", Tensor::M, "Running maximum of a row's scores, over the keys seen so far."),
      tensor("l", Tensor::L, "Running sum of exp(score − m) of a row, over the keys seen so far."),
      reason("HBM", Reason::hbm, "The GPU's off-chip memory: tens of GB, the slowest level."),
      reason("L2", Reason::l2, "The cache that all SMs share, between them and HBM: tens of MB."),
      reason("SMEM", Reason::smem, "Shared memory of one SM: about 200 KB, as fast as the SM computes."),
      reason("tensor core", Reason::tensor, "The unit of an SM that multiplies small matrices."),
      reason("FMA", Reason::fma, "Multiply-add: the arithmetic unit that does one a × b + c a lane and clock."),
      reason("exp", Reason::exp, "Exponentials, done by a special unit of each SM, a few a clock."),
      reason("barrier", Reason::barrier, "A point where all threads of a CTA wait for each other."),
      reason("launch", Reason::launch, "The start of a kernel or of a CTA."),
      word("SRAM", "The papers' word for all memory on the chip: SMEM and registers."),
      word("registers", "The memory closest to the arithmetic: 64 K numbers of 32 bits in each SM."),
      word("SM", "Streaming multiprocessor: a GPU has dozens, each with its own arithmetic and SMEM."),
      word("CTA", "A thread block: threads that run on one SM and share its SMEM."),
      word("warp", "32 threads that execute together."),
      word("kernel", "A program that the GPU runs; it is started once, and all SMs take a share of it."),
      word("tile", "A block of a matrix that is held on chip."),
      word("acc", "The accumulator of a row: Σ exp(score − m) · v so far, not yet divided by l."),
      word("rescale", "Multiplying l and acc by exp(m_old − m_new) when a larger score turns up."),
      word("head_dim", "Columns of Q, K, V and O; d in formulas."),
      word("head", "One of several attentions computed side by side, each with its own Q, K and V."),
      word("occupancy", "How many CTAs one SM holds at a time."),
      word("wave", "One round of CTAs over all SMs."),
      word("arithmetic intensity", "FLOPs done for each byte of HBM traffic."),
      word("roofline",
           "The least time the machine's rates allow: FLOPs ÷ rate or bytes ÷ bandwidth, whichever is longer."),
      word("memory-bound", "Limited by the bytes that must be moved: the arithmetic units wait."),
      word("compute-bound", "Limited by arithmetic: the memory waits."),
      word("SM traffic", "Bytes that the SMs ask of, and send to, global memory; caches may serve them."),
      word("HBM traffic", "Bytes that really reach HBM, after L2 has served what it holds."),
      word("paper's count", "The FlashAttention paper's model: two levels of memory, no L2."),
      word("compulsory", "What no algorithm can avoid: Q, K and V read once, O written once."),
      word("sector", "32 bytes: the smallest piece of memory that is moved."),
      word("FLOP", "One floating-point operation; a multiply-add is two."),
      word("KV cache", "The rows of K and V of all tokens so far, kept in memory while a model writes."),
      word("decode", "Writing text token by token: one new query row a head, and all keys so far."),
      word("GQA", "Grouped-query attention: several query heads share one head of K and V."),
      word("split", "A part of the keys that has a CTA of its own; the parts are combined by their LSE."),
      word("warpgroup", "Four warps, 128 threads, that work together."),
      word("ping-pong", "Two groups of warps in turn: one multiplies while the other takes exponentials."),
      word("thread", "One of the many small workers that run a kernel: 32 of them are a warp."),
      word("causal", "A mask under which a query sees only keys up to its own position."),
      word("window", "A mask under which a query sees only keys near its own position."),
      word("write-back", "A cache that keeps written data and passes it on only when it needs the room."),
      word("dirty", "Written, and not yet passed on to HBM."),
  };
  return list;
}

const Term* find_term(const std::string& name) {
  for (const Term& term : terms())
    if (name == term.name) return &term;
  return nullptr;
}

}  // namespace flashscope::viz
