// flash_v2_tensor backward: the three kernels of flash_v2's backward pass on tensor cores, with the next tiles under way
// while the CTA computes.
//
// Streamed tiles have `stages` places. With two, the next sets out once all warps have read what lay in its place, and
// has a whole tile's work to arrive in; with one, it sets out after that work.
#include <algorithm>
#include <deque>
#include <numeric>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/flash_v2.h"
#include "sim/schedule/mma_work.h"
#include "sim/schedule/tensor_backward.h"

namespace flashscope {
namespace {

/// A walk over tiles that are started before their turn.
struct Stream {
  Range visited;  // the tiles between the first and the last …
  int step;       // … from the first to the last, or back
  int ahead;      // turns from a tile's start to its own

  int first() const { return step > 0 ? visited.begin : visited.end - 1; }
  bool holds(int t) const { return visited.begin <= t && t < visited.end; }
  /// Of the whole tiles those that start a whole tile and wait alike. `full`: tiles before the one that is cut short.
  Range alike(Range whole, int full) const {
    const Range range = step > 0 ? Range{whole.begin, std::min({whole.end, visited.end - ahead, full - ahead})}
                                 : Range{std::max(whole.begin, visited.begin + ahead), whole.end};
    return range.begin < range.end ? range : Range{visited.end, visited.end};
  }
};

class FlashV2TensorBackward final : public Schedule {
 public:
  enum Kernel { kRowDot, kKeyGradients, kQueryGradient };

  FlashV2TensorBackward(const AttentionProblem& p, TileShape tile) : Schedule("flash_v2_tensor", p, tile) {
    m_tensors = {Tensor::Q,  Tensor::K,  Tensor::V,  Tensor::O,  Tensor::LSE,
                 Tensor::dO, Tensor::dQ, Tensor::dK, Tensor::dV, Tensor::D};
    const int width = fma_width(p.head_dim), tr = num_tiles(p.seqlen_q, tile.br), tc = num_tiles(p.seqlen_k, tile.bc);
    const int element = element_bytes(p.dtype);
    const auto launch = [&](const char* name, int tiles, int heads, std::int64_t smem, int registers, int code) {
      return KernelLaunch{
          std::string("flash_v2_tensor_backward_") + name, tiles, heads, {kMmaThreads, smem, registers}, {}, code,
          MatrixUnit::tensor};
    };
    const auto streaming_smem = [&](bool by_key) {
      return mma_backward_smem(tile.br, tile.bc, width, tile.stages, by_key).bytes(element);
    };
    m_kernels = {launch("row_dot", tr, p.num_heads(), mma_row_dot_smem_bytes(tile.br, width, element),
                        row_dot_tensor_registers(width), kRowDotTensorCode),
                 launch("dk_dv", tc, p.num_kv_heads(), streaming_smem(true), kKeyGradientsTensorRegisters,
                        kKeyGradientsTensorCode),
                 launch("dq", tr, p.num_heads(), streaming_smem(false), kQueryGradientTensorRegisters,
                        kQueryGradientTensorCode)};
  }

  ClosedForm closed_form() const override { return flash_v2_backward_closed_form(problem(), tile()); }

  WarpWork warp_work(int kernel, const TileOp& op) const override {
    const bool by_key = kernel == kKeyGradients;
    const int owned = by_key ? tile().bc : tile().br, streamed = by_key ? tile().br : tile().bc;
    return mma_backward_work(*this, op, copy_shape(kernel, op),
                             {owned, streamed, mma_backward_chunk(by_key), by_key, tile().stages});
  }

 protected:
  void cta(int kernel, std::int64_t inner, CtaProgram& cta) const override {
    const int owner = static_cast<int>(inner);
    switch (kernel) {
      case kRowDot: return row_dot(owner, cta);
      case kKeyGradients: return key_gradients(owner, cta);
      // The last first: under a causal mask it sees the most keys, and long CTAs should not be the last that run.
      case kQueryGradient: return query_gradient(num_tiles(problem().seqlen_q, tile().br) - 1 - owner, cta);
    }
  }

 private:
  static void row_dot(int i, CtaProgram& cta) {
    cta.start(Tensor::O, i, 0);
    cta.start(Tensor::dO, i, 0);
    cta.wait(i, 0);
    cta.barrier(i, 0);
    cta.row_dot(i);
    cta.barrier(i, 0);  // D is in shared memory, in the order of the copy
    cta.store(Tensor::D, i, 0);
  }

  /// K and V outside: dK and dV of key tile j stay in registers while query tiles come by, head after head of the group.
  void key_gradients(int j, CtaProgram& cta) const {
    const SparseMask by_key = transposed(problem().mask());
    const Stream stream = {visited_tiles(by_key, tile().bc, tile().br, j), 1, ahead()};
    const Range alike = stream.alike(whole_tiles(by_key, tile().bc, tile().br, j), problem().seqlen_q / tile().br);
    if (is_key_tile_seen(problem(), tile(), j)) {
      cta.start(Tensor::K, 0, j);
      cta.start(Tensor::V, 0, j);
    }
    cta.clear_gradient(Tensor::dK, 0, j);
    cta.clear_gradient(Tensor::dV, 0, j);
    cta.for_each_head_of_group([&] {
      std::deque<int> under_way;  // loads of each tile that was started
      const auto start = [&](int i) {
        under_way.push_back(cta.start(Tensor::Q, i, j) + cta.start(Tensor::dO, i, j) + cta.start(Tensor::LSE, i, j) +
                            cta.start(Tensor::D, i, j));
      };
      const auto is_seen = [&](int i) { return is_visited(problem(), tile(), i, j); };
      start_first(stream, is_seen, start);
      cta.for_each_query_tile(stream.visited, alike, [&](int i) {
        if (!is_seen(i)) return;
        take_turn(cta, i, j, under_way, [&] { start_next(stream, i, is_seen, start); }, [&] {
          recompute(i, j, cta);
          cta.gradient_sum(Tensor::dV, i, j);
          cta.gradient_sum(Tensor::dK, i, j);
        });
      });
    });
    cta.barrier(0, j);  // K and V have been read: their places take dK and dV, in the order of the copy
    cta.barrier(0, j);
    cta.store(Tensor::dK, 0, j);
    cta.store(Tensor::dV, 0, j);
  }

  /// Q outside, as in the forward pass: dQ of query tile i stays in registers while K and V stream by.
  void query_gradient(int i, CtaProgram& cta) const {
    const SparseMask mask = problem().mask();
    const Range visited = visited_tiles(mask, tile().br, tile().bc, i);
    const Stream stream = {visited, tile().backward_keys ? -1 : 1, ahead()};
    const Range alike = stream.alike(whole_tiles(mask, tile().br, tile().bc, i), problem().seqlen_k / tile().bc);
    for (Tensor tensor : {Tensor::Q, Tensor::dO, Tensor::LSE, Tensor::D}) cta.start(tensor, i, 0);
    cta.clear_gradient(Tensor::dQ, i, 0);
    std::deque<int> under_way;
    const auto start = [&](int j) { under_way.push_back(cta.start(Tensor::K, i, j) + cta.start(Tensor::V, i, j)); };
    const auto is_seen = [&](int j) { return is_visited(problem(), tile(), i, j); };
    start_first(stream, is_seen, start);
    cta.for_each_key_tile(visited, alike, [&](int j) {
      if (!is_seen(j)) return;
      take_turn(cta, i, j, under_way, [&] { start_next(stream, j, is_seen, start); }, [&] {
        recompute(i, j, cta);
        cta.gradient_sum(Tensor::dQ, i, j);
      });
    });
    cta.wait(i, 0);     // for Q, where no key tile is visited
    cta.barrier(i, 0);  // Q has been read: its place takes dQ, in the order of the copy
    cta.barrier(i, 0);
    cta.store(Tensor::dQ, i, 0);
  }

  static void recompute(int i, int j, CtaProgram& cta) {
    cta.scores(i, j);
    cta.mask(i, j);
    cta.probabilities(i, j);
    cta.d_probabilities(i, j);
    cta.d_scores(i, j);
  }

  int ahead() const { return std::max(1, tile().stages - 1); }

  /// The streamed tile (i, j), whose loads are the first of those under way.
  template <class StartNext, class Compute>
  void take_turn(CtaProgram& cta, int i, int j, std::deque<int>& under_way, StartNext start_next,
                 Compute compute) const {
    under_way.pop_front();
    cta.wait(i, j, std::accumulate(under_way.begin(), under_way.end(), 0));
    cta.barrier(i, j);  // this tile has arrived for all, and the one before has been read
    if (tile().stages > 1) start_next();
    compute();
    if (tile().stages > 1) return;
    cta.barrier(i, j);  // this tile has been read
    start_next();
  }

  /// The `count`-th visited tile from t on (0: t itself, if visited), or one outside of the stream.
  template <class IsSeen>
  static int advance(const Stream& stream, int t, int count, IsSeen is_seen) {
    for (; stream.holds(t); t += stream.step)
      if (is_seen(t) && count-- == 0) break;
    return t;
  }
  template <class IsSeen, class Start>
  static void start_first(const Stream& stream, IsSeen is_seen, Start start) {
    for (int n = 0; n < stream.ahead; ++n)
      if (const int t = advance(stream, stream.first(), n, is_seen); stream.holds(t)) start(t);
  }
  template <class IsSeen, class Start>
  static void start_next(const Stream& stream, int t, IsSeen is_seen, Start start) {
    if (const int next = advance(stream, t, stream.ahead, is_seen); stream.holds(next)) start(next);
  }
};

}  // namespace

std::unique_ptr<Schedule> make_flash_v2_tensor_backward(const AttentionProblem& problem, TileShape tile) {
  return std::make_unique<FlashV2TensorBackward>(problem, tile);
}

}  // namespace flashscope
