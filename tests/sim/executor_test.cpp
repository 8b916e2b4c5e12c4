// The executor against schedules that are wrong on purpose: what was not loaded or written must show.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>

#include "attention_cases.h"
#include "sim/error.h"
#include "sim/schedule/schedule.h"

namespace flashscope {
namespace {

using Program = std::function<void(CtaProgram&)>;

/// One kernel of one CTA a head that does what it is told.
class Scripted final : public Schedule {
 public:
  Scripted(const AttentionProblem& p, TileShape tile, Program program)
      : Schedule("scripted", p, tile), m_program(std::move(program)) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::P, Tensor::O, Tensor::LSE};
    m_kernels = {{"scripted", 1, p.num_heads(), {}, {}}};
  }
  ClosedForm closed_form() const override { return {}; }

 protected:
  void cta(int, std::int64_t, CtaProgram& program) const override { m_program(program); }

 private:
  Program m_program;
};

AttentionInputs ones(const AttentionProblem& p) {
  AttentionInputs inputs{Array(p.num_heads(), p.seqlen_q, p.head_dim), Array(p.num_kv_heads(), p.seqlen_k, p.head_dim),
                         Array(p.num_kv_heads(), p.seqlen_k, p.head_dim), {}};
  for (Array* array : {&inputs.q, &inputs.k, &inputs.v}) array->values.assign(array->values.size(), 1.0);
  return inputs;
}

AttentionOutputs run(const AttentionProblem& p, TileShape tile, Program program) {
  return compute(Scripted(p, tile, std::move(program)), ones(p));
}

/// The text of the Error(internal) that the program must end in.
std::string complaint(const AttentionProblem& p, TileShape tile, Program program) {
  try {
    run(p, tile, std::move(program));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    return error.what();
  }
  return "no complaint";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("what a schedule never stores stays NaN") {
  const AttentionOutputs out = run(small_problem(2, 2, 1), {2, 2, 1}, [](CtaProgram& cta) {
    cta.clear_state(0);
    cta.log_sum_exp(0);
    cta.store(Tensor::LSE, 0, 0);
  });
  for (double value : out.o.values) CHECK(std::isnan(value));
  for (double value : out.lse.values) CHECK(value == -INFINITY);
}

TEST_CASE("what nobody wrote is NaN when it is loaded") {
  const AttentionOutputs out = run(small_problem(2, 2, 1), {2, 2, 1}, [](CtaProgram& cta) {
    cta.clear_state(0);
    cta.load(Tensor::P, 0, 0);
    cta.load(Tensor::V, 0, 0);
    cta.weighted_sum(0, 0);
    cta.store(Tensor::O, 0, 0);
  });
  for (double value : out.o.values) CHECK(std::isnan(value));
}

TEST_CASE("a tile that was not loaded, or is the one before, is refused by name") {
  const AttentionProblem p = small_problem(2, 4, 1);
  const TileShape tile{2, 2, 1};
  const std::string missing = complaint(p, tile, [](CtaProgram& cta) {
    cta.load(Tensor::Q, 0, 0);
    cta.scores(0, 0);
  });
  CHECK(contains(missing, "scores of tile (0, 0)"));
  CHECK(contains(missing, "of K"));
  const std::string stale = complaint(p, tile, [](CtaProgram& cta) {
    cta.load(Tensor::Q, 0, 0);
    cta.load(Tensor::K, 0, 0);
    cta.scores(0, 0);
    cta.scores(0, 1);
  });
  CHECK(contains(stale, "scores of tile (0, 1)"));
  CHECK(contains(stale, "rows [2, 4)"));
}

TEST_CASE("a CTA does not inherit the chip of the one before") {
  AttentionProblem p = small_problem(1, 1, 1);
  p.heads = p.kv_heads = 2;
  int calls = 0;
  const std::string text = complaint(p, {1, 1, 1}, [&](CtaProgram& cta) {
    if (calls++ == 0) cta.load(Tensor::Q, 0, 0);
    cta.load(Tensor::K, 0, 0);
    cta.scores(0, 0);
  });
  CHECK(calls == 2);
  CHECK(contains(text, "of Q"));
}

TEST_CASE("state that was not cleared is refused") {
  const std::string text = complaint(small_problem(1, 1, 1), {1, 1, 1}, [](CtaProgram& cta) {
    cta.load(Tensor::Q, 0, 0);
    cta.load(Tensor::K, 0, 0);
    cta.scores(0, 0);
    cta.online_softmax(0, 0);
  });
  CHECK(contains(text, "online_softmax"));
}

}  // namespace
}  // namespace flashscope
