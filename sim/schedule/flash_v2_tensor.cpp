// flash_v2_tensor: the loops of flash_v2 on tensor cores, with loads under way while the CTA computes.
//
// K and V have a place each. V of this key tile travels while its scores are computed, K of the next while the softmax
// and the weighted sum are.
#include "sim/schedule/algorithms.h"
#include "sim/schedule/closed_forms.h"
#include "sim/schedule/flash_v2.h"
#include "sim/schedule/key_walk.h"
#include "sim/schedule/mma_work.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope {
namespace {

class FlashV2Tensor final : public Schedule {
 public:
  FlashV2Tensor(const AttentionProblem& p, TileShape tile) : Schedule("flash_v2_tensor", p, tile) {
    m_tensors = {Tensor::Q, Tensor::K, Tensor::V, Tensor::O, Tensor::LSE};
    const int width = fma_width(p.head_dim);
    const std::int64_t smem_bytes =
        std::int64_t{element_bytes(p.dtype)} * flash_v2_tensor_smem(tile.br, tile.bc, width).elements +
        tile_walk_bytes(p.is_sparse());
    m_kernels = {{"flash_v2_tensor",
                  num_tiles(p.seqlen_q, tile.br),
                  p.num_heads(),
                  {kMmaThreads, smem_bytes, flash_v2_tensor_registers(width, tile.bc, p.is_sparse())},
                  {},
                  kFlashV2TensorCode,
                  MatrixUnit::tensor}};
  }

  ClosedForm closed_form() const override { return flash_v2_closed_form(problem(), tile()); }
  std::vector<std::pair<std::int64_t, std::int64_t>> cta_classes(int) const override { return query_tile_classes(); }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    const CopyShape copy = copy_shape(kernel, op);
    if (op.op == Op::load)
      return mma_load_work(op, copy, layout_of(op.tensor) == Layout::by_key ? tile().bc : tile().br,
                           fma_width(problem().head_dim),
                           layout_of(op.tensor) == Layout::by_key ? RowCheck::none : RowCheck::each);
    const WarpWork work = mma_warp_work(*this, op, copy);
    if (op.op != Op::clear_state) return work;
    return WarpWork(work).then(zero_columns_work(problem(), tile().br + 2 * tile().bc));  // Q, K, V
  }

 protected:
  void cta(int, std::int64_t inner, CtaProgram& cta) const override {
    const int i = static_cast<int>(inner);
    const KeyWalk keys(*this, i);
    cta.start(Tensor::Q, i, 0);
    cta.clear_state(i);
    if (keys.first() >= 0) cta.start(Tensor::K, i, keys.first());
    cta.for_each_key_tile(keys.tiles(), keys.like(), [&](int j) {
      if (!keys.visits(j)) return;
      const int next = keys.next(j);
      cta.wait(i, j);
      cta.barrier(i, j);  // K has arrived for all, and the V before has been read
      cta.start(Tensor::V, i, j);
      cta.scores(i, j);
      cta.mask(i, j);
      cta.wait(i, j);
      cta.barrier(i, j);  // V has arrived, and K has been read
      if (next >= 0) cta.start(Tensor::K, i, next);
      cta.online_softmax(i, j);
      cta.weighted_sum(i, j);
    });
    cta.wait(i, 0);     // for Q, where no key tile is visited
    cta.barrier(i, 0);  // Q has been read: its place takes O
    cta.normalize(i);
    cta.log_sum_exp(i);
    cta.barrier(i, 0);  // O is in shared memory, in the order of the copy
    cta.store(Tensor::O, i, 0);
    cta.store(Tensor::LSE, i, 0);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v2_tensor(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV2Tensor>(problem, tile);
}

}  // namespace flashscope
