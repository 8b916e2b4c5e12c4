// A kernel with a ring of tiles as in rungs 07 and 08, and one wait left out on request: can compute-sanitizer see a race
// between TMA, the warp that loads and the warps that read?
//
//   compute-sanitizer --tool racecheck planted_race none | full | empty | beside
//
// One warp loads tiles of 64 × 64 numbers by TMA into two slots and writes a number of its own beside each; four warps add up
// what they find. What may be left out:
//   full     the readers wait for a tile to have been asked for, not for it to have arrived
//   empty    TMA waits for the readers to have begun with a slot, not for them to have read it
//   beside   the number that the loading warp writes itself waits for nothing
// Leaves with 0 where the sums are right, 1 where they are wrong, 77 where the GPU has no TMA. docs/deviations.md says what
// racecheck reports.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/common/mma.cuh"
#include "kernels/hopper/tensor_map.h"
#include "kernels/hopper/warpgroup.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/measure/cuda_check.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

enum class LeftOut { none, full, empty, beside };

constexpr int kRows = 64, kTileBytes = kRows * kAtomRowBytes, kSlots = 2, kTiles = 200, kReaders = 4 * kWarpSize;

struct RingSmem {
  static constexpr int kBeside = kSlots * kTileBytes, kBarriers = kBeside + 4 * kSlots;
  static constexpr int kBytes = kBarriers + 4 * 8 * kSlots + kAtomAlignment;
};

__global__ void add_up(const __grid_constant__ CUtensorMap map, LeftOut left_out, float* sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char shared_bytes[];
  const unsigned base = smem_address(shared_bytes), smem = (base + kAtomAlignment - 1) / kAtomAlignment * kAtomAlignment;
  unsigned char* const aligned = shared_bytes + (smem - base);
  float* const beside = reinterpret_cast<float*>(aligned + RingSmem::kBeside);
  const auto barrier = [smem](int kind, int slot) { return Mbarrier(smem + RingSmem::kBarriers + 8 * (kSlots * kind + slot)); };
  const auto full = [&](int slot) { return barrier(0, slot); };
  const auto empty = [&](int slot) { return barrier(1, slot); };
  // What is waited for instead; to wait for nothing would let one side run ahead by rounds, and the parities say no more.
  const auto asked = [&](int slot) { return barrier(2, slot); };
  const auto begun = [&](int slot) { return barrier(3, slot); };
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < kSlots; ++slot) {
      full(slot).init(1), asked(slot).init(1);
      empty(slot).init(kReaders), begun(slot).init(kReaders);
    }
    fence_inits();
  }
  __syncthreads();

  if (threadIdx.x < kWarpSize) {
    auto place = RingPlace<kSlots>::of_producer();
    for (int tile = 0; tile < kTiles && is_first_lane(); ++tile, place.advance()) {
      const int slot = place.slot();
      if (left_out == LeftOut::beside) beside[slot] = static_cast<float>(tile);
      (left_out == LeftOut::empty ? begun(slot) : empty(slot)).wait(place.parity());
      if (left_out != LeftOut::beside) beside[slot] = static_cast<float>(tile);
      full(slot).wait(place.parity());  // the copy before has arrived, whoever has read it
      full(slot).arrive_expecting(kTileBytes);
      load_box(smem + slot * kTileBytes, &map, 0, tile * kRows, 0, full(slot));
      asked(slot).arrive();
    }
    for (int n = 0; n < kSlots && is_first_lane(); ++n, place.advance())  // no copy may outlive the CTA
      full(place.slot()).wait(place.parity());
    return;
  }
  const int reader = static_cast<int>(threadIdx.x) - kWarpSize;
  auto place = RingPlace<kSlots>::of_consumer();
  float sum = 0;
  for (int tile = 0; tile < kTiles; ++tile, place.advance()) {
    const int slot = place.slot();
    (left_out == LeftOut::full ? asked(slot) : full(slot)).wait(place.parity());
    begun(slot).arrive();
    const __half* const numbers = reinterpret_cast<const __half*>(aligned + slot * kTileBytes);
    for (int n = reader; n < kRows * kAtomColumns; n += kReaders) sum += __half2float(numbers[n]);
    sum += beside[slot];
    empty(slot).arrive();
  }
  sums[reader] = sum;
#endif
}

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt

int run(LeftOut left_out) {
  int device = 0, major = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for its capability");
  if (major != 9) {
    std::printf("skipped: TMA and this build of it are for compute capability 9.0\n");
    return kSkipped;
  }
  // Tile t holds the number t mod 8: a sum is exact, and wrong where a tile was read too early or too late.
  std::vector<__half> numbers(static_cast<std::size_t>(kTiles) * kRows * kAtomColumns);
  float right = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::size_t size = std::size_t{kRows} * kAtomColumns;
    std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(tile) * size), size,
                __float2half(static_cast<float>(tile % 8)));
    right += static_cast<float>(tile % 8 * kRows * kAtomColumns / kReaders + tile);
  }
  __half* source = nullptr;
  float* sums = nullptr;
  check_cuda(cudaMalloc(&source, numbers.size() * sizeof(__half)), "allocating the tiles");
  check_cuda(cudaMalloc(&sums, kReaders * sizeof(float)), "allocating the sums");
  check_cuda(cudaMemcpy(source, numbers.data(), numbers.size() * sizeof(__half), cudaMemcpyHostToDevice), "copying the tiles");
  const CUtensorMap map = make_tensor_map(DType::fp16, source, 1, kTiles * kRows, kAtomColumns, kRows);
  add_up<<<1, kWarpSize + kReaders, RingSmem::kBytes>>>(map, left_out, sums);
  check_cuda(cudaGetLastError(), "add_up");
  check_cuda(cudaDeviceSynchronize(), "add_up");
  std::vector<float> found(kReaders);
  check_cuda(cudaMemcpy(found.data(), sums, kReaders * sizeof(float), cudaMemcpyDeviceToHost), "reading the sums");
  check_cuda(cudaFree(source), "freeing the tiles");
  check_cuda(cudaFree(sums), "freeing the sums");
  int wrong = 0;
  for (float sum : found) wrong += sum != right;
  std::printf("%d of %d sums are wrong\n", wrong, kReaders);
  return wrong > 0 ? 1 : 0;
}

}  // namespace
}  // namespace flashscope::kernels

int main(int argc, char** argv) {
  using flashscope::kernels::LeftOut;
  const std::string name = argc == 2 ? argv[1] : "";
  const char* const names[] = {"none", "full", "empty", "beside"};
  for (int n = 0; n < 4; ++n)
    if (name == names[n]) try {
        return flashscope::kernels::run(static_cast<LeftOut>(n));
      } catch (const flashscope::Error& error) {
        if (error.kind() == flashscope::ErrorKind::env) {  // no GPU, or no driver for it
          std::printf("skipped: %s\n", error.what());
          return flashscope::kernels::kSkipped;
        }
        std::fprintf(stderr, "planted_race: %s\n", error.what());
        return 6;
      }
  std::fprintf(stderr, "usage: planted_race none | full | empty | beside   (the wait that is left out)\n");
  return 2;
}
