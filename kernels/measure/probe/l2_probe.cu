// flashscope_l2_probe: what does this GPU's L2 keep? Scans of known size, repeated, and the bytes that reached HBM: the
// facts from which the simulator's L2 model comes. No attention kernel takes part.
//
//   flashscope_l2_probe         tables on standard output; exit code 0, or 4 where there is no GPU or no counter
//
// All columns are HBM bytes over the size of the buffer, from a cold and clean L2. A cache that keeps the buffer gives
// 1 for any number of rounds; one that keeps nothing gives the number of rounds.
#include <cstdio>
#include <functional>
#include <vector>

#include "kernels/measure/bench.h"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/probe/probe_main.h"
#include "kernels/measure/scan_pieces.cuh"
#include "kernels/measure/scans.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr int kRounds = 8;

__device__ void keep(unsigned sum, unsigned* sink) {
  if (sum == 0x5eed) *sink = sum;  // never, but the compiler cannot know
}

__global__ void own_write(char* data, std::int64_t pieces, unsigned value) {
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) write_piece(data, piece, value);
}

/// Reads each piece and writes it back: an output that is rewritten every round.
__global__ void own_rewrite(char* data, std::int64_t pieces, unsigned* sink) {
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    keep(read_piece(data, piece), sink);
    __syncthreads();
    write_piece(data, piece, 7);
  }
}

/// Reads one buffer while writing another of the same size: S in, P out.
__global__ void read_and_write(const char* in, char* out, std::int64_t pieces, unsigned* sink) {
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    keep(read_piece(in, piece), sink);
    write_piece(out, piece, 9);
  }
}

/// Groups of `group` CTAs read the same chunks: as the CTAs of a head read its K and V.
__global__ void group_read(const char* data, std::int64_t pieces, int group, int shift, unsigned* sink) {
  const int groups = gridDim.x / group, own = (blockIdx.x + shift) % gridDim.x / group;
  unsigned sum = 0;
  for (std::int64_t piece = own; piece < pieces; piece += groups) sum ^= read_piece(data, piece);
  keep(sum, sink);
}

__device__ unsigned own_sm() {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

__global__ void sm_of_cta(unsigned* sms) {
  if (threadIdx.x == 0) sms[blockIdx.x] = own_sm();
}

constexpr int kMapLines = 64, kLine = 128;

/// The CTA on SM `sm` reads lines one after the other; clocks of each. One warp, one lane.
__global__ void read_lines_on(unsigned sm, const char* data, int lines, unsigned* clocks) {
  if (own_sm() != sm || threadIdx.x != 0) return;
  unsigned chain = 0;
  for (int line = 0; line < lines; ++line) {
    const long long begin = clock64();
    unsigned x;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(data + line * kLine + (chain & 0)) : "memory");
    chain ^= x;
    asm volatile("" ::"r"(chain) : "memory");
    const long long end = clock64() + (chain == 0x12345 ? 1 : 0);
    clocks[line] = static_cast<unsigned>(end - begin);
  }
}

/// One thread a row: it writes its row element after element, so that a sector is complete only after 32 / element
/// steps, while `rows` sectors are being written at once.
template <class Element>
__global__ void write_rows(Element* data, int rows, int row_elements) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  volatile Element* out = data + static_cast<std::int64_t>(row) * row_elements;
  for (int column = 0; column < row_elements; ++column) out[column] = static_cast<Element>(column);
}

double over(const Measured<std::int64_t>& bytes, std::int64_t size) {
  return bytes.value ? static_cast<double>(*bytes.value) / static_cast<double>(size) : -1;
}

struct Probe {
  Counters& counters;
  char* a;
  char* b;
  unsigned* sink;
  int sms;

  CounterValues count(const std::function<void()>& launch) { return counters.measure({launch, nullptr}, 0); }

  void scans() {
    std::printf("\nHBM reads over buffer size, %d rounds (rw: reads and drained writes)\n", kRounds);
    std::printf("%8s %8s %8s %8s %8s %8s %8s | %8s %8s | %8s %8s %8s %8s\n", "MiB", "shared", "2 apart", "own", "own moved",
                "rewrite", "writes", "wr-rd", "moved", "3 pass r", "3 pass w", "pass r", "pass w");
    for (int mib : {8, 16, 20, 24, 26, 28, 30, 32, 34, 36, 38, 40, 44, 48, 52, 56, 60, 64, 72, 80, 96}) {
      const std::int64_t bytes = std::int64_t{mib} << 20, pieces = bytes / kPieceBytes;
      const int grid = 4 * sms;
      const CounterValues shared = count([&] {
        for (int round = 0; round < kRounds; ++round) shared_scan(a, bytes, 2 * sms);
      });
      // Two halves, each read by every other CTA only: all SMs of both kinds, but half of the buffer each.
      const CounterValues apart = count([&] {
        for (int round = 0; round < kRounds; ++round) {
          shared_scan(a, bytes / 2, 2 * sms);
          shared_scan(a + bytes / 2, bytes / 2, 2 * sms);
        }
      });
      const CounterValues own = count([&] {
        for (int round = 0; round < kRounds; ++round) own_scan(a, bytes, 0, grid);
      });
      const CounterValues moved = count([&] {
        for (int round = 0; round < kRounds; ++round) own_scan(a, bytes, 7 * round, grid);
      });
      const CounterValues rewrite = count([&] {
        for (int round = 0; round < kRounds; ++round) own_rewrite<<<grid, kScanThreads>>>(a, pieces, sink);
      });
      const CounterValues write_read = count([&] {
        own_write<<<grid, kScanThreads>>>(a, pieces, 3);
        own_scan(a, bytes, 0, grid);
      });
      const CounterValues write_read_moved = count([&] {
        own_write<<<grid, kScanThreads>>>(a, pieces, 3);
        own_scan(a, bytes, 7, grid);
      });
      // The buffer is S and P together: S written, S read and P written, P read.
      const CounterValues three_pass = count([&] {
        own_write<<<grid, kScanThreads>>>(a, pieces / 2, 3);
        read_and_write<<<grid, kScanThreads>>>(a, b, pieces / 2, sink);
        own_scan(b, bytes / 2, 0, grid);
      });
      const CounterValues pass = count([&] {
        own_write<<<grid, kScanThreads>>>(a, pieces / 2, 3);
        read_and_write<<<grid, kScanThreads>>>(a, b, pieces / 2, sink);
      });
      std::printf("%8d %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f | %8.3f %8.3f | %8.3f %8.3f %8.3f %8.3f\n", mib,
                  over(shared.hbm_read_bytes, bytes), over(apart.hbm_read_bytes, bytes), over(own.hbm_read_bytes, bytes),
                  over(moved.hbm_read_bytes, bytes), over(rewrite.hbm_read_bytes, bytes),
                  over(rewrite.hbm_write_bytes, bytes), over(write_read.hbm_read_bytes, bytes),
                  over(write_read_moved.hbm_read_bytes, bytes), over(three_pass.hbm_read_bytes, bytes),
                  over(three_pass.hbm_write_bytes, bytes), over(pass.hbm_read_bytes, bytes), over(pass.hbm_write_bytes, bytes));
      std::fflush(stdout);
    }
  }

  /// What of a buffer A is still there when a second kernel reads it, after B was read or written in between.
  void between() {
    struct Case {
      const char* name;
      int group, read_mib, write_mib;
    };
    std::printf("\nHBM reads of A's second scan over A: each piece read by one CTA of a group (group, MiB of B read, MiB written)\n%8s", "A MiB");
    constexpr Case kCases[] = {{"1", 1, 0, 0},   {"1 r8", 1, 8, 0},   {"1 r16", 1, 16, 0},  {"1 w8", 1, 0, 8},   {"1 w16", 1, 0, 16},
                               {"1 w24", 1, 0, 24}, {"2", 2, 0, 0},   {"16", 16, 0, 0},  {"16 r8", 16, 8, 0}, {"16 w8", 16, 0, 8},
                               {"16 w16", 16, 0, 16}, {"16 w24", 16, 0, 24}};
    for (const Case& c : kCases) std::printf(" %8s", c.name);
    std::printf("\n");
    for (int mib : {4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80}) {
      std::printf("%8d", mib);
      for (const Case& c : kCases) {
        const std::int64_t bytes = std::int64_t{mib} << 20, pieces = bytes / kPieceBytes;
        const int grid = 4 * sms;
        const CounterValues v = count([&] {
          group_read<<<grid, kScanThreads>>>(a, pieces, c.group, 0, sink);
          const std::int64_t read = std::int64_t{c.read_mib} << 20, write = std::int64_t{c.write_mib} << 20;
          if (read) group_read<<<grid, kScanThreads>>>(b, read / kPieceBytes, c.group, 0, sink);
          if (write) own_write<<<grid, kScanThreads>>>(b, write / kPieceBytes, 5);
          group_read<<<grid, kScanThreads>>>(a, pieces, c.group, 7, sink);
        });
        const double first = 1 + static_cast<double>(c.read_mib) / mib;
        std::printf(" %8.3f", over(v.hbm_read_bytes, bytes) - first);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }

  /// Which SMs share a partition, and on which SM the CTAs of a grid start. SM 0 reads lines: those at home in the other
  /// partition are copied into its own. An SM of its partition then finds all of them near, one of the other half of
  /// them far.
  void map() {
    std::vector<unsigned> clocks(kMapLines), cta_sms(static_cast<std::size_t>(4 * sms));
    std::printf("\nMean clocks to 64 lines that SM 0 has read, by SM\n");
    for (int sm = 0; sm < sms; ++sm) {
      const char* lines = a + std::int64_t{sm} * kMapLines * kLine;
      unsigned* const out = sink + 4096;
      read_lines_on<<<4 * sms, 32>>>(0, lines, kMapLines, out);
      read_lines_on<<<4 * sms, 32>>>(static_cast<unsigned>(sm), lines, kMapLines, out);
      check_cuda(cudaMemcpy(clocks.data(), out, sizeof(unsigned) * kMapLines, cudaMemcpyDeviceToHost), "reading clocks");
      double sum = 0;
      for (unsigned c : clocks) sum += c;
      std::printf("%s%d:%.0f", sm % 12 ? "  " : "\n", sm, sum / kMapLines);
    }
    for (int grid : {4, 8, 12, 16, 24, 32, 48, 64, 96, 4 * sms}) {
      std::printf("\nSMs of the CTAs of a grid of %d, in order", grid);
      sm_of_cta<<<grid, kScanThreads>>>(sink);
      cta_sms.resize(static_cast<std::size_t>(grid));
      check_cuda(cudaMemcpy(cta_sms.data(), sink, cta_sms.size() * sizeof(unsigned), cudaMemcpyDeviceToHost), "reading SMs");
      for (std::size_t n = 0; n < cta_sms.size(); ++n) std::printf("%s%u", n % 33 ? " " : "\n", cta_sms[n]);
    }
    std::printf("\n");
  }

  template <class Element>
  void partial_rows(const char* name) {
    constexpr int kRowBytes = 2048;
    for (int rows : {4096, 8192, 16384, 32768, 65536, 98304, 131072, 262144}) {
      for (int threads : {32, 128}) {
        const std::int64_t bytes = std::int64_t{rows} * kRowBytes;
        const CounterValues v = count([&] {
          write_rows<<<rows / threads, threads>>>(reinterpret_cast<Element*>(a), rows,
                                                  kRowBytes / static_cast<int>(sizeof(Element)));
        });
        std::printf("%-6s %8d rows %4d threads a CTA: HBM reads %.3f, writes %.3f (undrained %.3f)\n", name, rows, threads,
                    over(v.hbm_read_bytes, bytes), over(v.hbm_write_bytes, bytes), over(v.hbm_write_undrained_bytes, bytes));
        std::fflush(stdout);
      }
    }
  }
};

int run() {
  Bench bench;
  int device = 0, sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  std::printf("L2 %lld B, %d SMs\n", static_cast<long long>(bench.cleaner().l2_bytes()), sms);
  const OpenedCounters& opened = bench.counters();
  if (!opened.counters) {
    std::printf("counters unavailable: %s\n", opened.reason.c_str());
    return 4;
  }
  constexpr std::int64_t kBufferBytes = std::int64_t{1} << 30;
  const DeviceBuffer a(kBufferBytes, "the probe"), b(kBufferBytes, "the probe"), sink(1 << 20, "the probe");
  stream_write(a.data(), kBufferBytes, 3);
  stream_write(b.data(), kBufferBytes, 4);
  Probe probe{*opened.counters, static_cast<char*>(a.data()), static_cast<char*>(b.data()),
              static_cast<unsigned*>(static_cast<void*>(sink.data())), sms};
  probe.map();
  probe.between();
  probe.scans();
  std::printf("\nRows written one element a thread; bytes over those of the rows, %d B each\n", 2048);
  probe.partial_rows<unsigned short>("2 B");
  probe.partial_rows<unsigned>("4 B");
  return 0;
}

}  // namespace
}  // namespace flashscope::kernels

int main() { return flashscope::kernels::probe_main("flashscope_l2_probe", flashscope::kernels::run); }
