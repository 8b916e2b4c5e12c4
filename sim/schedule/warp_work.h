// What the warps of a CTA execute for one tile operation: instructions by the unit that takes them, bank by bank and
// wavefront by wavefront. The schedule says how much; sim/engine/sm_model says how long.
//
// A warp issues in order. Its work is cut into stretches between the points where it waits for results that do not
// come after a fixed time (shared memory, shuffles, special functions): such a wait is what other warps can fill.
#pragma once
#include <cstdint>
#include <vector>

namespace flashscope {

/// When a warpgroup's product is issued, and whether its warps wait for it.
enum class Product : std::uint8_t {
  waited,      // here, and waited for
  left,        // here; the warps go on
  after_next,  // behind the next one; the warps go on, and wait for it before they come to another of these
  with_last,   // behind the one before, when that is issued; waited for here
};

/// Of one warp. Counts are warp instructions.
struct Stretch {
  int instructions = 0;     // issue slots, whatever the unit
  int clocks = 0;           // least time for one warp alone: the compiler's stall counts between dependent instructions
  int fma = 0;              // multiply, add, multiply-add on the float32 units
  int alu = 0;              // integer, compare, select, convert
  int mufu = 0;             // exponential, reciprocal
  int mma = 0;              // products of 16 × 8, 16 deep, on the tensor cores
  int wgmma = 0;            // such products of a warpgroup's instruction: the tensor cores work on them beside the warp
  Product product = Product::waited;  // of wgmma
  int bank_reads = 0;       // operands read from the busier of the two register banks
  int wavefronts = 0;       // shared memory and shuffles: passes of 128 bytes; a quarter of what a warpgroup's product reads
  int waits = 0;            // times that it waits, one after the other, for such results
  bool prefetches = false;  // its shared-memory reads are for the stretch after the next: nothing waits here
  bool meets = false;       // goes on when all warps of its CTA have come to it
};

/// `stretches` one after the other, `times` times.
struct Phase {
  std::vector<Stretch> stretches;
  int times = 1;
};

struct WarpWork {
  std::vector<Phase> phases;
  /// Reads of global memory that follow one another, each waiting for the one before (load).
  int round_trips = 1;

  WarpWork& then(Stretch stretch, int times = 1) {
    if (times > 0) phases.push_back({{stretch}, times});
    return *this;
  }
  WarpWork& then(const WarpWork& other) {
    phases.insert(phases.end(), other.phases.begin(), other.phases.end());
    return *this;
  }
};

}  // namespace flashscope
