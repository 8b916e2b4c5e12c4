// The three passes of standard attention, for the rungs that run them on different units (three_pass.cpp,
// three_pass_tensor.cpp).
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

class ThreePass : public Schedule {
 public:
  enum Kernel { kScores, kSoftmax, kWeightedSum };

  ThreePass(const AttentionProblem& problem, TileShape tile);

  ClosedForm closed_form() const override;
  int score_block_rows() const override;
  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int kernel) const override;
  WarpWork warp_work(int kernel, const TileOp& op) const override;

 protected:
  ThreePass(std::string algorithm, const AttentionProblem& problem, TileShape tile);

  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const final;
  /// One tile of S: Q and K come, S goes.
  virtual void scores_cta(int i, int j, CtaProgram& cta) const;
  /// One query tile of O: P and V stream past.
  virtual void weighted_sum_cta(int i, CtaProgram& cta) const;

  /// The softmax pass is the same for all.
  KernelLaunch softmax_launch() const;
  WarpWork softmax_work(const TileOp& op) const;

 private:
  /// A block of rows (score_block_rows): many short CTAs leave no SM idle at the end.
  void softmax_cta(int part, CtaProgram& cta) const;
};

}  // namespace flashscope
