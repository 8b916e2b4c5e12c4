// mbarrier: how the warps that load and the warps that compute wait for each other (PTX manual, "mbarrier").
//
// A barrier lies in shared memory and goes through phases. A phase ends when all arrivals that it was made for have come
// and, where bytes were announced, all of them have been written by copies. Who waits names the parity of the phase that
// must have ended: 0, 1, 0, …; a new barrier behaves as if a phase of parity 1 had just ended.
#pragma once
#include <cstdint>

namespace flashscope::kernels {

class Mbarrier {
 public:
  /// `smem`: address in shared memory of eight bytes, aligned to eight.
  __device__ explicit Mbarrier(unsigned smem) : m_smem(smem) {}

  /// By one thread, before all others use it: then fence_inits() and __syncthreads().
  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(m_smem), "r"(arrivals) : "memory");
  }
  /// What this thread has read or written before is done for those who see the phase end.
  __device__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(m_smem) : "memory");
  }
  /// Arrives, and announces bytes that copies will write: the phase does not end before they have.
  __device__ void arrive_expecting(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(m_smem), "r"(bytes) : "memory");
  }
  __device__ void wait(unsigned parity) const {
    while (!has_ended(parity)) {
    }
  }
  __device__ unsigned smem() const { return m_smem; }

 private:
  /// Waits for a time that the hardware chooses, then says whether the phase has ended.
  __device__ bool has_ended(unsigned parity) const {
    unsigned ended;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(m_smem), "r"(parity)
        : "memory");
    return ended != 0;
  }

  unsigned m_smem;
};

/// Makes fresh barriers known to the unit that copies.
__device__ inline void fence_inits() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Where a warp stands in a ring of kSlots tiles, and the parity that goes with the round: one number, because registers
/// are few. Consumers start with parity 0; the producer waits for slots to be empty, which they are at first: parity 1.
template <int kSlots>
class RingPlace {
 public:
  __device__ static RingPlace of_consumer() { return RingPlace(0); }
  __device__ static RingPlace of_producer() { return RingPlace(kSlots); }
  __device__ int slot() const { return static_cast<int>(m_tiles % kSlots); }
  __device__ unsigned parity() const { return m_tiles / kSlots & 1; }
  __device__ void advance() { ++m_tiles; }

 private:
  __device__ explicit RingPlace(unsigned tiles) : m_tiles(tiles) {}
  unsigned m_tiles;
};

}  // namespace flashscope::kernels
