// The run loop, from the top: simulate() runs the kernels one after the other; Run::kernel() keeps a queue of CTAs by
// the time at which they can go on, takes the earliest, performs its next operation on the shared units and links, and
// puts it back with the time that operation ends.
#include "sim/engine/engine.h"

#include <algorithm>
#include <queue>

#include "sim/engine/blocks.h"
#include "sim/engine/l2.h"
#include "sim/engine/program.h"
#include "sim/engine/server.h"
#include "sim/error.h"

namespace flashscope {

const char* name_of(Start start) {
  static constexpr const char* names[] = {"cold", "warm", "cold-each-kernel"};
  return names[static_cast<int>(start)];
}

Start start_from_name(const std::string& name) {
  for (Start start : {Start::cold, Start::warm, Start::cold_each_kernel})
    if (name == name_of(start)) return start;
  throw Error(ErrorKind::usage, "--start: '" + name + "' is not one of cold, warm, cold-each-kernel");
}

namespace {

Picoseconds from_ns(const Quantity& q) { return std::llround(q.value * 1e3); }
Picoseconds from_us(const Quantity& q) { return std::llround(q.value * 1e6); }

/// Rates and delays of a machine in the engine's integer units.
struct Speeds {
  explicit Speeds(const Machine& m)
      : l2(Rate::per_second(m.l2_gb_per_s.value * 1e9)),
        hbm_read(Rate::per_second(m.hbm_read_gb_per_s.value * 1e9)),
        hbm_write(Rate::per_second(m.hbm_write_gb_per_s.value * 1e9)),
        port(per_clock(m, m.l2_bytes_per_clk_per_sm)),
        smem(per_clock(m, m.smem_bytes_per_clk)),
        fma(per_clock(m, m.fma_flops_per_clk)),
        exp(per_clock(m, m.exps_per_clk)),
        l2_latency(from_ns(m.l2_latency_ns)),
        hbm_latency(from_ns(m.hbm_latency_ns)),
        cta_start(from_ns(m.cta_start_ns)),
        barrier(from_ns(m.barrier_ns)),
        launch_gap(from_us(m.launch_gap_us)) {}

  static Rate per_clock(const Machine& m, const Quantity& units) {
    return Rate::per_second(units.value * m.sm_clock_mhz.value * 1e6);
  }

  Rate l2, hbm_read, hbm_write, port, smem, fma, exp;
  Picoseconds l2_latency, hbm_latency, cta_start, barrier, launch_gap;
};

/// Multiply-adds and comparisons that an operation spends on an element besides its matrix product and exponentials:
/// subtract the maximum, compare, add to the sum, scale. On FMA units.
constexpr int kFlopsPerScore = 8;

struct Sm {
  Server port, smem, fma, exp;
};

/// A CTA in one slot of an SM, and where it is in its program.
struct Resident {
  int sm = 0, slot = 0;
  std::int64_t cta = 0;
  Program program;
  std::size_t segment = 0, op = 0;
  std::int64_t iteration = 0;
  Picoseconds began = 0;
};

/// When a resident can go on. Ties go to the resident that was placed first: the order is total, so runs repeat
/// exactly.
struct Ready {
  Picoseconds at;
  int resident;
  bool operator>(const Ready& other) const { return at != other.at ? at > other.at : resident > other.resident; }
};

class Run {
 public:
  Run(const Schedule& schedule, const Machine& machine)
      : m_schedule(schedule),
        m_machine(machine),
        m_speeds(machine),
        m_blocks(schedule),
        m_partitions(static_cast<int>(machine.l2_partitions.value)),
        m_l2(static_cast<std::int64_t>(machine.l2_bytes.value), m_partitions) {}

  /// One run; L2 keeps what it holds at the end for the next.
  Prediction run(const RunOptions& options) {
    m_options = &options;
    m_hbm = m_l2_link = Server();
    Prediction prediction;
    const Count counted = count(m_schedule);
    m_total_ctas = 0;
    for (const KernelLaunch& launch : m_schedule.kernels()) m_total_ctas += launch.ctas();
    m_done_ctas = 0;
    Picoseconds now = 0;
    bool first = true;
    for (int k = 0; k < static_cast<int>(m_schedule.kernels().size()); ++k) {
      KernelPrediction result;
      result.count = counted.kernels[static_cast<std::size_t>(k)];
      if (m_schedule.kernels()[static_cast<std::size_t>(k)].ctas() > 0) {
        if (!first) now += m_speeds.launch_gap;
        if (!first && m_options->start == Start::cold_each_kernel) m_l2.clear();
        now = kernel(k, now, result);
        first = false;
      }
      prediction.kernels.push_back(std::move(result));
    }
    prediction.count = counted.total;
    for (const KernelPrediction& k : prediction.kernels) {
      prediction.hbm.read += k.hbm.read;
      prediction.hbm.write += k.hbm.write;
      for (int t = 0; t < kNumTensors; ++t) {
        prediction.tensors[t].read += k.tensors[t].read;
        prediction.tensors[t].write += k.tensors[t].write;
      }
    }
    prediction.hbm_dirty_bytes = m_l2.dirty_bytes();
    prediction.time = now;
    return prediction;
  }

 private:
  Picoseconds kernel(int k, Picoseconds start, KernelPrediction& result) {
    const KernelLaunch& launch = m_schedule.kernels()[static_cast<std::size_t>(k)];
    const Occupancy fit = occupancy(launch.resources, m_machine);
    if (fit.ctas_per_sm == 0)
      throw Error(ErrorKind::unsupported,
                  launch.name + ": one CTA needs " + std::to_string(launch.resources.smem_bytes) +
                      " B of shared memory and " + std::to_string(launch.resources.threads) + " threads; " +
                      m_machine.name + " allows " +
                      std::to_string(static_cast<std::int64_t>(m_machine.smem_bytes_per_cta.value)) + " B and " +
                      std::to_string(static_cast<std::int64_t>(m_machine.max_threads_per_sm.value)) +
                      " threads; choose a smaller --br, --bc or --head-dim");
    result.ctas_per_sm = fit.ctas_per_sm;
    result.occupancy_limit = fit.limit;
    result.begin = result.end = start;
    m_kernel = k;
    m_launch = &launch;
    m_result = &result;

    const int num_sms = static_cast<int>(m_machine.num_sms.value);
    m_sms.assign(static_cast<std::size_t>(num_sms),
                 {Server(m_speeds.port), Server(m_speeds.smem), Server(m_speeds.fma), Server(m_speeds.exp)});
    m_residents.clear();
    m_queue = {};
    std::int64_t next_cta = 0;
    // Grid order, one CTA to each SM in turn, until all slots are taken.
    for (int slot = 0; slot < fit.ctas_per_sm; ++slot)
      for (int sm = 0; sm < num_sms && next_cta < launch.ctas(); ++sm) {
        m_residents.push_back({sm, slot, 0, {}, 0, 0, 0, 0});
        place(static_cast<int>(m_residents.size()) - 1, next_cta++, start);
      }
    while (!m_queue.empty()) {
      const Ready ready = m_queue.top();
      m_queue.pop();
      Resident& resident = m_residents[static_cast<std::size_t>(ready.resident)];
      if (resident.segment < resident.program.size()) {
        m_queue.push({step(resident, ready.at), ready.resident});
        continue;
      }
      result.cta_time += ready.at - resident.began;
      result.end = std::max(result.end, ready.at);
      report_progress();
      if (next_cta < launch.ctas()) place(ready.resident, next_cta++, ready.at);
    }
    result.hbm_dirty_bytes = m_l2.dirty_bytes();
    return result.end;
  }

  void place(int index, std::int64_t cta, Picoseconds now) {
    Resident& resident = m_residents[static_cast<std::size_t>(index)];
    resident.cta = cta;
    resident.program = program_of(m_schedule, m_kernel, cta);
    resident.segment = resident.op = 0;
    resident.iteration = 0;
    resident.began = now;
    skip_empty_segments(resident);
    TileOp start;
    start.op = Op::barrier;
    record(resident, start, {now, now + m_speeds.cta_start}, Reason::launch, 0);
    m_queue.push({now + m_speeds.cta_start, index});
  }

  /// Performs the resident's next operation from `now`; returns when it ends.
  Picoseconds step(Resident& resident, Picoseconds now) {
    const Segment& segment = resident.program[resident.segment];
    const TileOp op = resident.iteration == 0 ? segment.ops[resident.op]
                                              : advanced(segment.ops[resident.op], segment.repeat.axis,
                                                         resident.iteration, m_schedule.tile());
    if (++resident.op == segment.ops.size()) {
      resident.op = 0;
      if (++resident.iteration == segment.repeat.times) {
        resident.iteration = 0;
        ++resident.segment;
        skip_empty_segments(resident);
      }
    }
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    Picoseconds end = now;
    Reason reason = Reason::barrier;
    std::int64_t hbm_bytes = 0;
    switch (op.op) {
      case Op::load: load(resident, op, now, end, reason, hbm_bytes); break;
      case Op::store: store(resident, op, now, end, reason); break;
      case Op::scores:
      case Op::weighted_sum: product(sm, op, now, end, reason); break;
      case Op::softmax:
      case Op::online_softmax: {
        const std::int64_t scores = std::int64_t{op.rows} * op.cols;
        const std::int64_t rescales = op.op == Op::online_softmax ? op.rows : 0;
        latest(sm.exp.serve(now, scores + rescales), Reason::exp, end, reason);
        latest(sm.fma.serve(now, kFlopsPerScore * scores), Reason::fma, end, reason);
        break;
      }
      case Op::mask:
      case Op::clear_state:
      case Op::undo_normalize:
      case Op::normalize:
        latest(sm.fma.serve(now, std::int64_t{op.rows} * op.cols * 2), Reason::fma, end, reason);
        break;
      case Op::log_sum_exp: latest(sm.exp.serve(now, op.rows), Reason::exp, end, reason); break;
      case Op::barrier: latest(now + m_speeds.barrier, Reason::barrier, end, reason); break;
    }
    record(resident, op, {now, end}, reason, hbm_bytes);
    return end;
  }

  /// L2 answers with what it holds, HBM with the rest; both through the SM's port.
  void load(const Resident& resident, const TileOp& op, Picoseconds now, Picoseconds& end, Reason& reason,
            std::int64_t& hbm_bytes) {
    std::int64_t miss = 0, evicted = 0;
    m_blocks.for_each(op, [&](std::int64_t block, std::int64_t bytes) {
      const L2Cache::Access access = m_l2.read(block, bytes, resident.sm % m_partitions);
      miss += access.miss_bytes;
      evicted += access.write_bytes;
      m_result->l2_read_hit_bytes += access.hit_bytes;
      count_evictions();
    });
    m_result->hbm.read += miss;
    m_result->tensors[static_cast<std::size_t>(op.tensor)].read += miss;
    hbm_bytes = miss;
    const std::int64_t wire = op.sectors * kSectorBytes;
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    if (evicted > 0) m_hbm.serve_for(now, m_speeds.hbm_write.cost(evicted));
    latest(sm.port.serve(now, wire) + m_speeds.l2_latency, Reason::l2, end, reason);
    latest(m_l2_link.serve_for(now, m_speeds.l2.cost(wire)) + m_speeds.l2_latency, Reason::l2, end, reason);
    if (miss > 0)
      latest(m_hbm.serve_for(now, m_speeds.hbm_read.cost(miss)) + m_speeds.hbm_latency, Reason::hbm, end, reason);
  }

  /// Into L2, which pushes dirty lines out to make room; the store waits when HBM cannot take them fast enough.
  void store(const Resident& resident, const TileOp& op, Picoseconds now, Picoseconds& end, Reason& reason) {
    std::int64_t evicted = 0;
    m_blocks.for_each(op, [&](std::int64_t block, std::int64_t bytes) {
      evicted += m_l2.write(block, bytes).write_bytes;
      count_evictions();
    });
    const std::int64_t wire = op.sectors * kSectorBytes;
    latest(m_sms[static_cast<std::size_t>(resident.sm)].port.serve(now, wire), Reason::l2, end, reason);
    latest(m_l2_link.serve_for(now, m_speeds.l2.cost(wire)), Reason::l2, end, reason);
    if (evicted > 0) latest(m_hbm.serve_for(now, m_speeds.hbm_write.cost(evicted)), Reason::hbm, end, reason);
  }

  /// A tile product on the FMA units, whose operands come from SMEM through the rung's register tile.
  void product(Sm& sm, const TileOp& op, Picoseconds now, Picoseconds& end, Reason& reason) {
    const std::int64_t fmas = std::int64_t{op.rows} * op.cols * op.depth;
    latest(sm.fma.serve(now, 2 * fmas), Reason::fma, end, reason);
    const ThreadTile& tile = m_launch->thread_tile;
    if (tile.rows > 0) {
      // One warp step reads rows + cols operands a thread; lanes that share an operand share the read. A warp is 4 × 8
      // threads, so 4 · rows + 8 · cols distinct float32 words serve 32 · rows · cols multiply-adds.
      const std::int64_t words =
          fmas * (4 * tile.rows + 8 * tile.cols) / (std::int64_t{kWarpSize} * tile.rows * tile.cols);
      latest(sm.smem.serve(now, 4 * words), Reason::smem, end, reason);
    }
  }

  static void latest(Picoseconds candidate, Reason why, Picoseconds& end, Reason& reason) {
    if (candidate > end) {
      end = candidate;
      reason = why;
    }
  }

  void count_evictions() {
    for (const L2Cache::Eviction& eviction : m_l2.evictions()) {
      m_result->hbm.write += eviction.bytes;
      m_result->tensors[static_cast<std::size_t>(m_blocks.tensor_of(eviction.block))].write += eviction.bytes;
    }
  }

  static void skip_empty_segments(Resident& resident) {
    while (resident.segment < resident.program.size() && resident.program[resident.segment].ops.empty())
      ++resident.segment;
  }

  struct Interval {
    Picoseconds begin, end;
  };
  void record(const Resident& resident, const TileOp& op, Interval when, Reason reason, std::int64_t hbm_bytes) {
    m_result->reasons[static_cast<std::size_t>(reason)] += when.end - when.begin;
    if (m_options->trace)
      m_options->trace->span(
          {when.begin, when.end, reason, m_kernel, resident.cta, resident.sm, resident.slot, op, hbm_bytes});
  }

  void report_progress() {
    ++m_done_ctas;
    if (m_options->progress && m_done_ctas % 256 == 0 &&
        !m_options->progress(static_cast<double>(m_done_ctas) / static_cast<double>(m_total_ctas)))
      throw Error(ErrorKind::internal, "cancelled");
  }

  const Schedule& m_schedule;
  const Machine& m_machine;
  const RunOptions* m_options = nullptr;
  const Speeds m_speeds;
  const BlockMap m_blocks;
  const int m_partitions;
  L2Cache m_l2;
  Server m_l2_link, m_hbm;
  std::vector<Sm> m_sms;
  std::vector<Resident> m_residents;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> m_queue;
  std::int64_t m_total_ctas = 0, m_done_ctas = 0;
  // The kernel being run
  int m_kernel = 0;
  const KernelLaunch* m_launch = nullptr;
  KernelPrediction* m_result = nullptr;
};

}  // namespace

Picoseconds roofline_bound(const KernelCount& c, std::int64_t hbm_read_bytes, const Machine& m) {
  const Speeds speeds(m);
  const std::int64_t sms = static_cast<std::int64_t>(m.num_sms.value);
  const std::int64_t wire = c.sm.sector_read + c.sm.sector_write;
  return std::max({speeds.fma.cost(c.flops_executed) / sms, speeds.exp.cost(c.exps) / sms, speeds.l2.cost(wire),
                   speeds.port.cost(wire) / sms, speeds.hbm_read.cost(hbm_read_bytes)});
}

Prediction simulate(const Schedule& schedule, const Machine& machine, const RunOptions& options) {
  Run run(schedule, machine);
  if (options.start == Start::warm) {
    RunOptions first = options;
    first.trace = nullptr;
    run.run(first);
  }
  return run.run(options);
}

}  // namespace flashscope
