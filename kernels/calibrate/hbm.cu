// HBM: bytes a second, reading, writing and both, in several access patterns over a buffer much larger than L2. The best
// pattern is what the memory can do; the others show what it costs to ask less well. To keep 4.8 TB/s coming over a
// latency of some 700 ns, 3.4 MB must be under way at all times, 25 KB for each SM: so what counts is how many bytes
// every SM has asked for before it needs the first.
#include <algorithm>
#include <string>

#include "kernels/calibrate/rig.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr int kThreads = 256;

__device__ unsigned never_written;  // see arithmetic.cu

// ---- registers: each thread asks for several vectors of 16 bytes before it uses the first ---------------------------

/// Which tiles a CTA takes: every grid-th, so that all SMs sweep through memory together, or a stretch of its own.
enum class Order { strided, stretches };

struct Tiles {
  std::int64_t first, last, step;
};

template <Order kOrder>
__device__ Tiles tiles_of_cta(std::int64_t tiles) {
  if constexpr (kOrder == Order::strided) return {blockIdx.x, tiles, gridDim.x};
  return {blockIdx.x * tiles / gridDim.x, (blockIdx.x + 1) * tiles / gridDim.x, 1};
}

// Not kept in L1, and the first to leave L2: nobody comes back for it.
__device__ uint4 load_once(const uint4* at) {
  uint4 x;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(at));
  return x;
}

__device__ void store_once(uint4* at, const uint4& x) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}

/// A tile is kLoads vectors a thread; kReads buffers are read and, with kWrites, one is written from them.
template <int kLoads, Order kOrder, int kReads, bool kWrites>
__global__ void __launch_bounds__(kThreads)
    move_tiles(const uint4* in, const uint4* in2, uint4* out, std::int64_t tiles) {
  constexpr int kTile = kLoads * kThreads;
  const Tiles mine = tiles_of_cta<kOrder>(tiles);
  unsigned sum = threadIdx.x * 2654435761u;
#pragma unroll 1
  for (std::int64_t tile = mine.first; tile < mine.last; tile += mine.step) {
    const std::int64_t at = tile * kTile + threadIdx.x;
    uint4 x[kLoads], y[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if constexpr (kReads >= 1) x[n] = load_once(in + at + n * kThreads);
      if constexpr (kReads >= 2) y[n] = load_once(in2 + at + n * kThreads);
    }
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if constexpr (kReads == 0) x[n] = make_uint4(sum, static_cast<unsigned>(at) ^ sum, n, ~sum);
      if constexpr (kReads >= 2) x[n] = make_uint4(x[n].x ^ y[n].x, x[n].y ^ y[n].y, x[n].z ^ y[n].z, x[n].w ^ y[n].w);
      if constexpr (kWrites)
        store_once(out + at + n * kThreads, x[n]);
      else
        sum ^= x[n].x ^ x[n].y ^ x[n].z ^ x[n].w;
    }
  }
  if (sum == 0x9e3779b9u) never_written = sum;
}

// ---- shared memory: copies that run by themselves (sm_80) -----------------------------------------------------------

[[maybe_unused]] constexpr int kAsyncStages = 4;
constexpr int kAsyncVectors = 2;  // 8 KB a stage, 32 KB under way for a CTA

__global__ void __launch_bounds__(kThreads) read_async([[maybe_unused]] const uint4* in,
                                                       [[maybe_unused]] std::int64_t tiles) {
#if __CUDA_ARCH__ >= 800
  __shared__ uint4 ring[kAsyncStages][kAsyncVectors * kThreads];
  constexpr int kTile = kAsyncVectors * kThreads;
  const auto ask = [&](std::int64_t tile, int stage) {
    if (tile < tiles)
#pragma unroll
      for (int n = 0; n < kAsyncVectors; ++n) {
        const int at = threadIdx.x + n * kThreads;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         static_cast<unsigned>(__cvta_generic_to_shared(&ring[stage][at]))),
                     "l"(in + tile * kTile + at)
                     : "memory");
      }
    asm volatile("cp.async.commit_group;" ::: "memory");  // empty groups keep the count
  };
  unsigned sum = 0;
  for (int stage = 0; stage < kAsyncStages - 1; ++stage) ask(blockIdx.x + std::int64_t{stage} * gridDim.x, stage);
  int stage = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    ask(tile + std::int64_t{kAsyncStages - 1} * gridDim.x, (stage + kAsyncStages - 1) % kAsyncStages);
    asm volatile("cp.async.wait_group %0;" ::"n"(kAsyncStages - 1) : "memory");
    sum ^= ring[stage][threadIdx.x].x;  // each thread looks at what it asked for itself: no barrier
    stage = (stage + 1) % kAsyncStages;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (sum == 0x9e3779b9u) never_written = sum;
#endif
}

// ---- bulk copies: one thread asks for 16 KB at a time (sm_90) -------------------------------------------------------

constexpr int kBulkBytes = 16384, kBulkStages = 12;  // 192 KB under way for the one CTA of an SM

__global__ void read_bulk([[maybe_unused]] const char* in, [[maybe_unused]] std::int64_t tiles) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char ring[];
  __shared__ unsigned long long arrived[kBulkStages];  // an mbarrier a stage
  if (threadIdx.x != 0) return;
  const auto address = [](const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); };
  const auto ask = [&](std::int64_t tile, int stage) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&arrived[stage])), "r"(kBulkBytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     address(ring + stage * kBulkBytes)),
                 "l"(in + tile * kBulkBytes), "r"(kBulkBytes), "r"(address(&arrived[stage]))
                 : "memory");
  };
  const auto wait = [&](int stage, unsigned phase) {
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(address(&arrived[stage])), "r"(phase)
                   : "memory");
  };
  for (int stage = 0; stage < kBulkStages; ++stage)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&arrived[stage])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  std::int64_t next = blockIdx.x;
  for (int stage = 0; stage < kBulkStages && next < tiles; ++stage, next += gridDim.x) ask(next, stage);
  int stage = 0;
  unsigned phase = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    wait(stage, phase);
    if (next < tiles) ask(next, stage);  // nobody read the stage, so it is free at once
    next += gridDim.x;
    if (++stage == kBulkStages) {
      stage = 0;
      phase ^= 1;
    }
  }
#endif
}

// ---- what is timed --------------------------------------------------------------------------------------------------

constexpr const char* kGroup = "HBM";

/// The CTAs of a grid that all fit at once, at most `per_sm` on an SM: a CTA that had to wait would sweep behind the others.
template <class Kernel>
unsigned resident_ctas(const Rig& rig, Kernel kernel, int per_sm) {
  int fit = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, kThreads, 0), "asking what fits on an SM");
  return static_cast<unsigned>(rig.sms() * std::min(fit, per_sm));
}

class Memory {
 public:
  /// Three buffers; the size leaves room on small GPUs, and is large enough that the L2 full of dirty lines at the end of
  /// a write is a few percent of it at most.
  static std::int64_t bytes_for(const Rig& rig) {
    std::size_t free_bytes = 0, all_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
    constexpr std::int64_t kStep = std::int64_t{64} << 20;
    const std::int64_t bytes =
        std::min<std::int64_t>(std::int64_t{4} << 30, static_cast<std::int64_t>(free_bytes) / 4) / kStep * kStep;
    if (bytes < 8 * rig.l2_bytes())
      throw Error(ErrorKind::resource, "measuring HBM needs three buffers of " + std::to_string(8 * rig.l2_bytes()) +
                                           " B or more, eight times the L2; " + std::to_string(free_bytes) +
                                           " B are free on the GPU");
    return bytes;
  }

  explicit Memory(Rig& rig)
      : m_rig(rig), m_bytes(bytes_for(rig)), m_a(m_bytes, kWhat), m_b(m_bytes, kWhat), m_c(m_bytes, kWhat) {
    // Pages that nobody wrote may be served without HBM.
    stream_write(m_a.data(), m_bytes, 31);
    stream_write(m_b.data(), m_bytes, 32);
    stream_write(m_c.data(), m_bytes, 33);
  }

  template <int kLoads, Order kOrder, int kReads, bool kWrites>
  void tiles(const char* name, int ctas_per_sm, const char* method) {
    const std::int64_t count = m_bytes / (16 * kLoads * kThreads);
    const auto kernel = move_tiles<kLoads, kOrder, kReads, kWrites>;
    const unsigned ctas = ctas_per_sm ? resident_ctas(m_rig, kernel, ctas_per_sm) : static_cast<unsigned>(count);
    const TimingResult time = m_rig.time_cold([&] {
      kernel<<<ctas, kThreads>>>(vectors(m_a), vectors(m_b), vectors(m_c), count);
      check_cuda(cudaGetLastError(), "launching a move of memory");
    });
    add(name, kReads + (kWrites ? 1 : 0), time, method);
  }

  void plain(const char* name, int buffers, const std::function<void(Memory&)>& launch, const char* method) {
    add(name, buffers, m_rig.time_cold([&] { launch(*this); }), method);
  }

  void bulk(const char* name, const char* method) {
    constexpr int kSmem = kBulkBytes * kBulkStages;
    check_cuda(cudaFuncSetAttribute(read_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem), "bulk copies");
    const auto launch = [&] {
      read_bulk<<<static_cast<unsigned>(m_rig.sms()), 32, kSmem>>>(m_a.data(), m_bytes / kBulkBytes);
      check_cuda(cudaGetLastError(), "launching bulk copies");
    };
    add(name, 1, m_rig.time_cold(launch), method);
  }

  void async(const char* name, const char* method) {
    const unsigned ctas = resident_ctas(m_rig, read_async, 6);
    const auto launch = [&] {
      read_async<<<ctas, kThreads>>>(vectors(m_a), m_bytes / (16 * kAsyncVectors * kThreads));
      check_cuda(cudaGetLastError(), "launching asynchronous copies");
    };
    add(name, 1, m_rig.time_cold(launch), method);
  }

  char* a() const { return m_a.data(); }
  char* c() const { return m_c.data(); }
  std::int64_t bytes() const { return m_bytes; }

 private:
  static constexpr const char* kWhat = "measuring HBM";
  static uint4* vectors(const DeviceBuffer& buffer) {
    return static_cast<uint4*>(static_cast<void*>(buffer.data()));
  }
  void add(const char* name, int buffers, const TimingResult& time, const char* method) {
    m_rig.add(m_rig.bandwidth(kGroup, name, static_cast<double>(buffers) * static_cast<double>(m_bytes), time,
                              std::to_string(m_bytes >> 20) + " MiB a buffer, " + method));
    m_rig.check_cancelled();
  }

  Rig& m_rig;
  const std::int64_t m_bytes;
  const DeviceBuffer m_a, m_b, m_c;
};

/// The PTX version tells what the kernel was compiled for: an older one than the GPU's leaves its newer paths out.
template <class Kernel>
bool built_for(const Rig& rig, Kernel kernel, int capability) {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "asking for a copy kernel");
  return rig.capability() >= capability && attributes.ptxVersion >= capability;
}

}  // namespace

void measure_hbm(Rig& rig) {
  Memory memory(rig);
  std::size_t first = rig.readings.size();
  memory.plain(
      "read, one vector a thread", 1, [](Memory& m) { stream_read(m.a(), m.bytes()); },
      "16 B a thread at a time, 8 CTAs an SM, in strides of the grid");
  memory.tiles<4, Order::strided, 1, false>("read, 4 vectors a thread", 8,
                                            "4 × 16 B under way in each thread, up to 8 CTAs an SM, in strides of the grid");
  memory.tiles<8, Order::strided, 1, false>("read, 8 vectors a thread", 6,
                                            "8 × 16 B under way in each thread, up to 6 CTAs an SM, in strides of the grid");
  memory.tiles<8, Order::stretches, 1, false>("read, a stretch a CTA", 6,
                                              "8 × 16 B under way in each thread, every CTA a stretch of its own");
  memory.tiles<8, Order::strided, 1, false>("read, a tile a CTA", 0, "8 × 16 B a thread, one tile of 32 KB for each CTA");
  if (built_for(rig, read_async, 80))
    memory.async("read, cp.async", "16 B a thread into shared memory, 4 stages of 8 KB a CTA, up to 6 CTAs an SM");
  if (built_for(rig, read_bulk, 90))
    memory.bulk("read, cp.async.bulk", "one thread an SM asks for 16 KB at a time into 12 stages");
  take_largest(rig.readings, first, "hbm_read_gb_per_s");

  first = rig.readings.size();
  memory.plain(
      "write, one vector a thread", 1, [](Memory& m) { stream_write(m.c(), m.bytes(), 41); },
      "16 B a thread at a time, 8 CTAs an SM; the last L2 full may still be on its way");
  memory.tiles<4, Order::strided, 0, true>("write, 4 vectors a thread", 8,
                                           "4 × 16 B streaming stores in a row, up to 8 CTAs an SM, in strides of the grid");
  memory.tiles<4, Order::stretches, 0, true>("write, a stretch a CTA", 8,
                                             "4 × 16 B streaming stores in a row, every CTA a stretch of its own");
  take_largest(rig.readings, first, "hbm_write_gb_per_s");

  memory.plain(
      "copy, one vector a thread", 2, [](Memory& m) { stream_copy(m.c(), m.a(), m.bytes()); },
      "16 B a thread at a time; bytes read and written, half each");
  memory.tiles<8, Order::strided, 1, true>("copy, 8 vectors a thread", 4, "bytes read and written, half each");
  memory.tiles<8, Order::strided, 2, true>("two reads a write", 4, "bytes read and written, two thirds and one third");
}

}  // namespace flashscope::kernels
