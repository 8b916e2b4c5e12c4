// flashscope_l2_state_probe: which lines does L2 hold after reads and writes in a known order? The facts behind the
// replacement policy of the simulator's L2. No attention kernel takes part.
//
//   flashscope_l2_state_probe     tables on standard output; exit code 0, or 4 where there is no GPU
//
// A kernel reads or writes a buffer piece after piece in the order of one ticket counter, so that the age of each line
// is known to within what is under way. Then one lane on an SM of either half of L2 samples lines across the buffer and
// takes the clocks of each: the near half of L2, the far half and HBM answer at different times. The sampling itself
// brings in 2,048 lines of 128 bytes. Dirty bytes and fetched sectors come from the hardware counters.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/measure/bench.h"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/probe/probe_main.h"
#include "kernels/measure/scan_pieces.cuh"
#include "kernels/measure/scans.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr int kSamples = 2048, kAges = 8, kLine = 128, kTickets = 1 << 16;
constexpr double kSecondsAllowed = 50;
constexpr std::int64_t kMib = 1 << 20;

__device__ void keep(unsigned sum, unsigned* sink) {
  if (sum == 0x5eed) *sink = sum;  // never, but the compiler cannot know
}

/// The next piece in the order of `ticket`, the same for all threads of the CTA.
__device__ std::int64_t next_piece(unsigned* ticket) {
  __shared__ unsigned mine;
  __syncthreads();
  if (threadIdx.x == 0) mine = atomicAdd(ticket, 1);
  __syncthreads();
  return mine;
}

__global__ void ordered_read(const char* data, std::int64_t pieces, bool backwards, unsigned* ticket, unsigned* sink) {
  unsigned sum = 0;
  for (std::int64_t piece = next_piece(ticket); piece < pieces; piece = next_piece(ticket))
    sum ^= read_piece(data, backwards ? pieces - 1 - piece : piece);
  keep(sum, sink);
}

__global__ void ordered_write(char* data, std::int64_t pieces, unsigned value, unsigned* ticket) {
  for (std::int64_t piece = next_piece(ticket); piece < pieces; piece = next_piece(ticket))
    write_piece(data, piece, value);
}

/// The same with st.global.cg, as the rungs store.
__global__ void ordered_write_cg(char* data, std::int64_t pieces, unsigned value, unsigned* ticket) {
  for (std::int64_t piece = next_piece(ticket); piece < pieces; piece = next_piece(ticket))
    for (int at = threadIdx.x * 16; at < kPieceBytes; at += kScanThreads * 16)
      __stcg(reinterpret_cast<uint4*>(data + piece * kPieceBytes + at), make_uint4(value, at, piece, 1));
}

/// S in, P out.
__global__ void ordered_copy(const char* in, char* out, std::int64_t pieces, unsigned* ticket, unsigned* sink) {
  for (std::int64_t piece = next_piece(ticket); piece < pieces; piece = next_piece(ticket)) {
    keep(read_piece(in, piece), sink);
    write_piece(out, piece, 9);
  }
}

/// Each CTA has its pieces, one grid apart, and its own pace.
__global__ void own_write(char* data, std::int64_t pieces, unsigned value) {
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) write_piece(data, piece, value);
}

/// 16 bytes of a sector each `stride` bytes.
__global__ void half_sectors(char* data, std::int64_t sectors, std::int64_t stride, int half, unsigned value) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < sectors; n += step)
    *reinterpret_cast<uint4*>(data + n * stride + 16 * half) = make_uint4(value, 1, 2, 3);
}

/// 32 bytes each `stride` bytes.
__global__ void read_sectors(const char* data, std::int64_t sectors, std::int64_t stride, unsigned* sink) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  unsigned sum = 0;
  for (std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < sectors; n += step) {
    const uint4 x = load_past_l1(data + n * stride), y = load_past_l1(data + n * stride + 16);
    sum ^= x.x ^ y.y;
  }
  keep(sum, sink);
}

__device__ unsigned own_sm() {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

/// The first CTA that finds itself on SM `sm` reads a line of each `stride` bytes, one after the other; clocks of each.
__global__ void sample(unsigned sm, const char* data, std::int64_t stride, int lines, unsigned* ticket,
                       unsigned* clocks) {
  if (own_sm() != sm || threadIdx.x != 0 || atomicAdd(ticket, 1) != 0) return;
  unsigned chain = 0;
  for (int line = 0; line < lines; ++line) {
    const std::int64_t own_lines = stride / kLine, hashed = (line * 2654435761u) >> 8;  // Knuth's multiplicative hash
    const char* address = data + line * stride + hashed % own_lines * kLine;
    const long long begin = clock64();
    unsigned x;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(address + (chain & 0)) : "memory");
    chain ^= x;
    asm volatile("" ::"r"(chain) : "memory");
    const long long end = clock64() + (chain == 0x12345 ? 1 : 0);
    clocks[line] = static_cast<unsigned>(end - begin);
  }
}

class StateProbe {
 public:
  StateProbe(Bench& bench, char* a, char* b, unsigned* tickets, unsigned* sink, int sms)
      : m_bench(bench), m_a(a), m_b(b), m_tickets(tickets), m_sink(sink), m_sms(sms) {
    try {
      m_backend = open_cupti();
    } catch (const CounterFault& fault) {
      std::printf("no counters: %s\n", fault.what());
    }
  }

  void run() {
    find_halves();
    histograms();
    ages();
    if (!m_backend) return;
    dirty();
    rescans();
    partial_sectors();
    std::printf("%.1f s\n", seconds());
  }

 private:
  using Work = std::function<void()>;

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_begin).count(); }
  bool is_late() const { return seconds() > kSecondsAllowed; }

  unsigned* ticket() {
    if (m_next == kTickets) {
      check_cuda(cudaMemset(m_tickets, 0, kTickets * sizeof(unsigned)), "clearing tickets");
      m_next = 0;
    }
    return m_tickets + m_next++;
  }

  // ---- what a state is made of; sizes in MiB ----
  void read(const char* data, int mib, bool backwards = false) {
    ordered_read<<<2 * m_sms, kScanThreads>>>(data, mib * kMib / kPieceBytes, backwards, ticket(), m_sink);
  }
  void write(char* data, int mib) {
    ordered_write<<<2 * m_sms, kScanThreads>>>(data, mib * kMib / kPieceBytes, ++m_value, ticket());
  }
  void write_cg(char* data, int mib) {
    ordered_write_cg<<<2 * m_sms, kScanThreads>>>(data, mib * kMib / kPieceBytes, ++m_value, ticket());
  }
  void copy(const char* in, char* out, int mib) {
    ordered_copy<<<2 * m_sms, kScanThreads>>>(in, out, mib * kMib / kPieceBytes, ticket(), m_sink);
  }
  void plain_write(char* data, int mib) {
    own_write<<<4 * m_sms, kScanThreads>>>(data, mib * kMib / kPieceBytes, ++m_value);
  }
  void all_read(const char* data, int mib) { shared_scan(data, mib * kMib, 2 * m_sms); }

  std::vector<unsigned> clocks_on(int sm, const char* data, std::int64_t stride, int lines) {
    std::vector<unsigned> clocks(static_cast<std::size_t>(lines));
    unsigned* const out = m_sink + 4096;
    sample<<<8 * m_sms, 32>>>(static_cast<unsigned>(sm), data, stride, lines, ticket(), out);
    check_cuda(cudaMemcpy(clocks.data(), out, sizeof(unsigned) * clocks.size(), cudaMemcpyDeviceToHost),
               "reading clocks");
    return clocks;
  }

  void find_halves() {
    std::vector<double> mean(static_cast<std::size_t>(m_sms));
    for (int sm = 0; sm < m_sms; ++sm) {
      const char* lines = m_a + std::int64_t{sm} * 64 * kLine;
      clocks_on(0, lines, kLine, 64);
      double sum = 0;
      for (unsigned c : clocks_on(sm, lines, kLine, 64)) sum += c;
      mean[static_cast<std::size_t>(sm)] = sum / 64;
    }
    const double near = *std::min_element(mean.begin(), mean.end()), far = *std::max_element(mean.begin(), mean.end());
    for (int sm = m_sms - 1; sm > 0; --sm) {
      if (mean[static_cast<std::size_t>(sm)] > (near + far) / 2) m_sm_b = sm;
    }
    m_near_limit = static_cast<unsigned>((near + far) / 2);
    m_far_limit = static_cast<unsigned>(far + (far - near));
    std::printf("halves of L2: SM 0 in A, SM %d in B; clocks %.0f near, %.0f far; near below %u, far below %u\n",
                m_sm_b, near, far, m_near_limit, m_far_limit);
  }

  void print_histogram(const char* name, const std::vector<unsigned>& clocks) {
    constexpr int kBins = 40, kWidth = 25;
    std::vector<int> bins(kBins);
    for (unsigned c : clocks) ++bins[std::min<std::size_t>(kBins - 1, c / kWidth)];
    std::printf("%-28s", name);
    for (int n = 0; n < kBins; ++n)
      if (bins[static_cast<std::size_t>(n)]) std::printf(" %d:%d", n * kWidth, bins[static_cast<std::size_t>(n)]);
    std::printf("\n");
  }

  void histograms() {
    std::printf("\nclocks of %d lines in 8 MiB, by 25\n", kSamples);
    m_bench.cleaner().evict();
    const std::int64_t stride = 8 * kMib / kSamples;
    print_histogram("A, from HBM", clocks_on(0, m_a, stride, kSamples));
    print_histogram("B, after A", clocks_on(m_sm_b, m_a, stride, kSamples));
    print_histogram("A again", clocks_on(0, m_a, stride, kSamples));
    m_bench.cleaner().evict();
    print_histogram("B, from HBM", clocks_on(m_sm_b, m_a, stride, kSamples));
    print_histogram("B again", clocks_on(m_sm_b, m_a, stride, kSamples));
    m_bench.cleaner().evict();
    write(m_a, 8);
    print_histogram("A, after writes", clocks_on(0, m_a, stride, kSamples));
    m_bench.cleaner().evict();
    write(m_a, 8);
    print_histogram("B, after writes", clocks_on(m_sm_b, m_a, stride, kSamples));
  }

  int kind_of(unsigned clocks) const { return clocks < m_near_limit ? 0 : clocks < m_far_limit ? 1 : 2; }

  /// Of the first `mib` of buffer a, after `make`: per eighth of the buffer what A finds (near far HBM), then B; then
  /// how often each pair was found.
  void state(const std::string& name, int mib, const Work& make) {
    if (is_late()) return;
    m_bench.cleaner().evict();
    make();
    const std::int64_t stride = mib * kMib / kSamples;
    const std::vector<unsigned> by_a = clocks_on(0, m_a, stride, kSamples),
                                by_b = clocks_on(m_sm_b, m_a, stride, kSamples);
    int found[2][kAges][3] = {}, pairs[3][3] = {};
    for (int n = 0; n < kSamples; ++n) {
      const int age = n * kAges / kSamples, x = kind_of(by_a[static_cast<std::size_t>(n)]),
                y = kind_of(by_b[static_cast<std::size_t>(n)]);
      ++found[0][age][x];
      ++found[1][age][y];
      ++pairs[x][y];
    }
    std::printf("%-26s", name.c_str());
    for (int age = 0; age < kAges; ++age) {
      const auto percent = [&](int side, int kind) {
        return (found[side][age][kind] * 100 * kAges + kSamples / 2) / kSamples;
      };
      std::printf(" |%3d %3d %3d,%3d %3d %3d", percent(0, 0), percent(0, 1), percent(0, 2), percent(1, 0),
                  percent(1, 1), percent(1, 2));
    }
    std::printf(" || nn %d nf %d nm %d fn %d ff %d fm %d mn %d mf %d mm %d\n", pairs[0][0], pairs[0][1], pairs[0][2],
                pairs[1][0], pairs[1][1], pairs[1][2], pairs[2][0], pairs[2][1], pairs[2][2]);
    std::fflush(stdout);
  }

  void ages() {
    std::printf(
        "\nWhat is where, oldest eighth of the buffer first: %% near, far, HBM seen from A, then from B; then pairs of "
        "lines\n");
    const auto mib = [](const char* text, int n) { return std::string(text) + " " + std::to_string(n); };
    for (int x : {16, 24, 32, 40, 48, 56, 64, 80, 96}) state(mib("read", x), x, [=, this] { read(m_a, x); });
    for (int x : {16, 24, 28, 32, 40, 48, 56, 64, 80, 96}) state(mib("write", x), x, [=, this] { write(m_a, x); });
    for (int x : {48, 64, 96}) state(mib("write unordered", x), x, [=, this] { plain_write(m_a, x); });
    for (int x : {16, 24, 28, 32, 36, 48}) state(mib("read by all", x), x, [=, this] { all_read(m_a, x); });
    for (int y : {8, 16, 24, 32, 40, 56, 80, 120})
      state(mib("read 24, read", y), 24, [=, this] { read(m_a, 24), read(m_b, y); });
    for (int y : {8, 16, 24, 32, 40, 56, 80, 120})
      state(mib("write 24, read", y), 24, [=, this] { write(m_a, 24), read(m_b, y); });
    for (int y : {8, 16, 24, 32, 40, 56, 80})
      state(mib("read 24, write", y), 24, [=, this] { read(m_a, 24), write(m_b, y); });
    for (int y : {8, 16, 24, 32, 40, 56, 80})
      state(mib("write 24, write", y), 24, [=, this] { write(m_a, 24), write(m_b, y); });
    for (int y : {8, 16, 24, 32, 40})
      state(mib("read 24 twice, read", y), 24, [=, this] { read(m_a, 24), read(m_a, 24), read(m_b, y); });
    for (int y : {8, 16, 24, 32, 40, 56})
      state(mib("write+read 24, read", y), 24, [=, this] { write(m_a, 24), read(m_a, 24), read(m_b, y); });
    for (int y : {8, 16, 24, 32, 40, 56})
      state(mib("read+write 24, read", y), 24, [=, this] { read(m_a, 24), write(m_a, 24), read(m_b, y); });
    for (int y : {8, 16, 24, 32, 40})
      state(mib("all read 12, read", y), 12, [=, this] { all_read(m_a, 12), read(m_b, y); });
    for (int y : {8, 16, 20, 24, 28, 32})
      state(mib("read 24, all read", y), 24, [=, this] { read(m_a, 24), all_read(m_b, y); });
    for (int x : {40, 48, 64, 96}) state(mib("write, read half", x), x, [=, this] { write(m_a, x), read(m_a, x / 2); });
    for (int x : {40, 48, 64}) state(mib("read, read half", x), x, [=, this] { read(m_a, x), read(m_a, x / 2); });
    for (int x : {24, 40, 64}) state(mib("write cg", x), x, [=, this] { write_cg(m_a, x); });
    for (int x : {16, 20, 24, 28, 32, 48})
      state(mib("S after S > P", x), x, [=, this] { write(m_a, x), copy(m_a, m_b, x); });
    for (int x : {16, 20, 24, 28, 32, 48})
      state(mib("P after S > P", x), x, [=, this] { write(m_b, x), copy(m_b, m_a, x); });
    for (int y : {8, 16, 24, 32})
      state(mib("read 24, quarter, read", y), 24, [=, this] { read(m_a, 24), read(m_a, 6), read(m_b, y); });
    for (int y : {8, 16, 24, 32})
      state(mib("write 24, quarter, write", y), 24, [=, this] { write(m_a, 24), write(m_a, 6), write(m_b, y); });
    std::printf("%.1f s\n", seconds());
  }

  double counted(const char* metric, const Work& before, const Work& body) {
    return m_backend->collect(
               {metric}, [&] { m_bench.cleaner().evict(), before(); }, body)[0] /
           kMib;
  }
  double dirty_after(const Work& make) {
    return counted(metric::kHbmWrite, make, [&] { m_bench.cleaner().sweep(); });
  }

  void dirty() {
    std::printf("\nMiB dirty, by counters\n");
    std::printf("nothing written          %.2f\n", dirty_after([] {}));
    for (int x : {16, 24, 28, 32, 36, 40, 48, 64, 96})
      std::printf("write %3d                %.2f\n", x, dirty_after([=, this] { write(m_a, x); }));
    for (int x : {32, 64})
      std::printf("write unordered %3d      %.2f\n", x, dirty_after([=, this] { plain_write(m_a, x); }));
    for (int y : {8, 16, 24, 32, 48, 64, 96})
      std::printf("write 24, read %3d       %.2f\n", y, dirty_after([=, this] { write(m_a, 24), read(m_b, y); }));
    for (int y : {16, 32, 48, 96})
      std::printf("write 64, read %3d       %.2f\n", y, dirty_after([=, this] { write(m_a, 64), read(m_b, y); }));
    for (int y : {16, 32})
      std::printf("read %3d, write 24       %.2f\n", y, dirty_after([=, this] { read(m_b, y), write(m_a, 24); }));
    std::fflush(stdout);
  }

  void rescans() {
    std::printf(
        "\nMiB from HBM of a second scan, in order: after a read, after a write; backwards: after a read, after a "
        "write; after an unordered write\n");
    for (int x : {32, 36, 40, 44, 48, 56, 64, 80, 96}) {
      if (is_late()) return;
      const auto second = [&](const Work& first, bool backwards) {
        return counted(metric::kHbmRead, first, [&] { read(m_a, x, backwards); });
      };
      const double rr = second([&] { read(m_a, x); }, false), wr = second([&] { write(m_a, x); }, false);
      const double rb = second([&] { read(m_a, x); }, true), wb = second([&] { write(m_a, x); }, true);
      std::printf("%3d %8.2f %8.2f %8.2f %8.2f %8.2f\n", x, rr, wr, rb, wb,
                  second([&] { plain_write(m_a, x); }, false));
      std::fflush(stdout);
    }
  }

  void partial_sectors() {
    std::printf(
        "\nHalves of sectors, one sector each 2 KiB: MiB of sectors, MiB of whole lines written in between; then over "
        "the sectors: HBM "
        "reads of the first halves, of the lines between, of the second halves; read instead of the second halves; "
        "dirty of all\n");
    constexpr std::int64_t kStride = 2048;
    for (double mib : {0.25, 1.0, 2.0, 4.0})
      for (int between : {0, 4, 16, 32, 64}) {
        if (is_late()) return;
        const std::int64_t sectors = static_cast<std::int64_t>(mib * kMib) / 32;
        const auto half = [&](int which) {
          half_sectors<<<2 * m_sms, kScanThreads>>>(m_a, sectors, kStride, which, ++m_value);
        };
        const auto lines = [&] {
          if (between) write(m_b, between);
        };
        const double first = counted(
                                 metric::kHbmRead, [] {}, [&] { half(0); }) /
                             mib;
        const double middle = counted(
                                  metric::kHbmRead, [&] { half(0); }, lines) /
                              mib;
        const double second = counted(
                                  metric::kHbmRead, [&] { half(0), lines(); }, [&] { half(1); }) /
                              mib;
        const double read_back =
            counted(
                metric::kHbmRead, [&] { half(0), lines(); },
                [&] { read_sectors<<<2 * m_sms, kScanThreads>>>(m_a, sectors, kStride, m_sink); }) /
            mib;
        const double left = dirty_after([&] { half(0), lines(), half(1); });
        std::printf("%5.2f %3d: %6.3f %6.3f %6.3f %6.3f | %.2f\n", mib, between, first, middle, second, read_back,
                    left);
        std::fflush(stdout);
      }
  }

  Bench& m_bench;
  char* m_a;
  char* m_b;
  unsigned* m_tickets;
  unsigned* m_sink;
  int m_sms, m_sm_b = 0, m_next = 0;
  unsigned m_near_limit = 0, m_far_limit = 0, m_value = 1;
  std::unique_ptr<CounterBackend> m_backend;
  std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
};

int run() {
  Bench bench;
  int device = 0, sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  std::printf("L2 %lld B, %d SMs\n", static_cast<long long>(bench.cleaner().l2_bytes()), sms);
  constexpr std::int64_t kBufferBytes = 256 * kMib;
  const DeviceBuffer a(kBufferBytes, "the probe"), b(kBufferBytes, "the probe"), sink(1 << 20, "the probe");
  const DeviceBuffer tickets(kTickets * sizeof(unsigned), "the probe");
  check_cuda(cudaMemset(tickets.data(), 0, kTickets * sizeof(unsigned)), "clearing tickets");
  stream_write(a.data(), kBufferBytes, 3);
  stream_write(b.data(), kBufferBytes, 4);
  const auto words = [](const DeviceBuffer& buffer) {
    return static_cast<unsigned*>(static_cast<void*>(buffer.data()));
  };
  StateProbe(bench, static_cast<char*>(a.data()), static_cast<char*>(b.data()), words(tickets), words(sink), sms).run();
  return 0;
}

}  // namespace
}  // namespace flashscope::kernels

int main() { return flashscope::kernels::probe_main("flashscope_l2_state_probe", flashscope::kernels::run); }
