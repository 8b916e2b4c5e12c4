// The run loop: Run::run() runs the kernels one after the other; Run::kernel() keeps a queue of CTAs by the time at which
// they can go on, takes the earliest, performs its next operation on the shared units and links, and puts it back with
// the time that operation ends.
#include "sim/engine/engine.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>

#include "sim/engine/blocks.h"
#include "sim/engine/core_times.h"
#include "sim/engine/l2.h"
#include "sim/engine/program.h"
#include "sim/engine/run.h"
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

/// Slices of an L2 partition and how much their sizes differ: with these, a second scan of a buffer starts to miss at
/// 80 % of the capacity and misses all at 130 %, as flashscope_l2_probe saw on an H200 (docs/deviations.md).
constexpr int kL2Slices = 32, kL2SpreadPermille = 173;

Picoseconds from_ns(const Quantity& q) { return std::llround(q.value * 1e3); }
Picoseconds from_us(const Quantity& q) { return std::llround(q.value * 1e6); }

/// Rates and delays of a machine in the engine's integer units.
struct Speeds {
  explicit Speeds(const Machine& m)
      : l2(Rate::per_second(m.l2_gb_per_s.value * 1e9)),
        hbm_read(Rate::per_second(m.hbm_read_gb_per_s.value * 1e9)),
        hbm_write(Rate::per_second(m.hbm_write_gb_per_s.value * 1e9)),
        port(per_clock(m, m.l2_bytes_per_clk_per_sm)),
        clock(Rate::per_second(m.sm_clock_mhz.value * 1e6)),
        l2_latency(from_ns(m.l2_latency_ns)),
        l2_far_latency(from_ns(m.l2_far_latency_ns)),
        hbm_latency(from_ns(m.hbm_latency_ns)),
        cta_start(from_ns(m.cta_start_ns)),
        barrier(from_ns(m.barrier_ns)),
        launch_gap(from_us(m.launch_gap_us)) {}

  static Rate per_clock(const Machine& m, const Quantity& units) {
    return Rate::per_second(units.value * m.sm_clock_mhz.value * 1e6);
  }

  Rate l2, hbm_read, hbm_write, port, clock;
  Picoseconds l2_latency, l2_far_latency, hbm_latency, cta_start, barrier, launch_gap;
};

/// Fetching a kernel's code for the first time on an SM: line after line from memory, some lines ahead.
constexpr int kInstructionBytes = 16, kCodeLineBytes = 128;
Picoseconds code_fetch(const KernelLaunch& launch, const Machine& machine, Picoseconds latency) {
  const std::int64_t executed = launch.code_instructions / 2;  // see fma_rungs.h
  const std::int64_t ahead = static_cast<std::int64_t>(machine.code_lines_in_flight.value);
  return executed * kInstructionBytes / kCodeLineBytes * latency / ahead;
}

/// One operation with everything about it worked out that does not depend on when it runs.
struct Step {
  Op op = Op::barrier;
  Tensor tensor = Tensor::Q;
  bool starts = false;
  int pending = 0;
  const CoreTime* core = nullptr;  // on the SM; not null
  Picoseconds port = 0, l2 = 0;    // on the way to and from L2
  std::int64_t fill_bytes = 0;     // store: of each block, see TileOp
  BlockMap::Region blocks;         // load, store
  std::int64_t block_step = 0;     // from one repetition to the next
};

/// A segment of a program (program.h) in that form; `program` keeps the operations themselves for the trace.
struct Work {
  Program program;
  std::vector<std::vector<Step>> steps;
};

struct Sm {
  Server port, core;
  int ctas = 0;  // resident now
};

/// When a started load is there, and what it waits for.
struct Arrival {
  Picoseconds at;
  Reason reason;
};

/// A CTA in one slot of an SM, and where it is in its work.
struct Resident {
  int sm = 0, slot = 0;
  std::int64_t cta = 0;
  Work work = {};
  std::size_t segment = 0, op = 0;
  std::int64_t iteration = 0;
  Picoseconds began = 0;
  // A persistent CTA: the loads that a tile begins with start when the last scores of the tile before have been computed.
  Picoseconds last_scores = 0, loads_from = 0;
  bool begins = true;  // nothing but loads so far
  std::deque<Arrival> under_way = {};  // of loads that it started, in their order
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
        m_core_times(schedule, machine),
        m_l2(l2_of(machine)) {}

  /// One run; L2 keeps what it holds at the end for the next.
  Prediction run(const RunOptions& options) {
    m_options = &options;
    m_hbm = m_l2_link = Server();
    Prediction prediction;
    const Count counted = count(m_schedule);
    m_total_ctas = 0;
    for (const KernelLaunch& launch : m_schedule.kernels()) m_total_ctas += launch.ctas();
    m_done_ctas = m_operations = 0;
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
    add_up(prediction);
    prediction.hbm_dirty_bytes = m_l2.dirty_bytes();
    prediction.time = now;
    prediction.operations = m_operations;
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
    if (on_tensor_cores(launch.matrix_unit) && m_machine.mma_flops_per_clk.value == 0)
      throw Error(ErrorKind::unsupported, launch.name + ": " + m_machine.name +
                                              " has no tensor cores (mma_flops_per_clk is 0); choose a rung on FMA units");
    result.ctas_per_sm = fit.ctas_per_sm;
    result.occupancy_limit = fit.limit;
    result.begin = result.end = start;
    m_kernel = k;
    m_result = &result;
    m_core_times.start_kernel(k, fit.ctas_per_sm);

    const int num_sms = static_cast<int>(m_machine.num_sms.value);
    m_sms.assign(static_cast<std::size_t>(num_sms), {});
    m_residents.clear();
    m_queue = {};
    std::int64_t next_cta = 0;
    const Picoseconds code =
        code_fetch(launch, m_machine, m_options->start == Start::warm ? m_speeds.l2_far_latency : m_speeds.hbm_latency);
    // Grid order, one CTA to each SM in turn, until all slots are taken.
    for (int slot = 0; slot < fit.ctas_per_sm; ++slot)
      for (int sm = 0; sm < num_sms && next_cta < launch.ctas(); ++sm) {
        m_residents.push_back({sm, slot});
        ++m_sms[static_cast<std::size_t>(sm)].ctas;
        place(static_cast<int>(m_residents.size()) - 1, m_schedule.taken(k, next_cta++), start,
              m_speeds.cta_start + code);
      }
    while (!m_queue.empty()) {
      const Ready ready = m_queue.top();
      m_queue.pop();
      Resident& resident = m_residents[static_cast<std::size_t>(ready.resident)];
      if (resident.segment < resident.work.steps.size()) {
        Picoseconds at = advance(resident, ready.at);
        while (is_next_local(resident)) at = advance(resident, at);
        m_queue.push({at, ready.resident});
        continue;
      }
      result.cta_time += ready.at - resident.began;
      result.end = std::max(result.end, ready.at);
      report_progress();
      if (next_cta < launch.ctas())
        place(ready.resident, m_schedule.taken(k, next_cta++), ready.at, launch.persistent ? 0 : m_speeds.cta_start);
      else
        --m_sms[static_cast<std::size_t>(resident.sm)].ctas;
    }
    result.hbm_dirty_bytes = m_l2.dirty_bytes();
    return result.end;
  }

  /// Starts CTA `cta` in the slot of a resident, `delay` later; without a delay a persistent CTA takes it, which loaded
  /// ahead.
  void place(int index, std::int64_t cta, Picoseconds now, Picoseconds delay) {
    Resident& resident = m_residents[static_cast<std::size_t>(index)];
    resident.cta = cta;
    prepare(program_of(m_schedule, m_kernel, cta), resident.work);
    resident.segment = resident.op = 0;
    resident.iteration = 0;
    resident.began = now;
    resident.under_way.clear();
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    const Picoseconds started = delay > 0 ? on_core(sm, m_core_times.prologue(), now + delay) : now;
    resident.loads_from = delay > 0 ? started : resident.last_scores;
    resident.last_scores = started;
    resident.begins = true;
    record(resident, TileOp{}, {now, started}, Reason::launch, 0);
    m_queue.push({started, index});
  }

  void prepare(Program program, Work& work) {
    work.program = std::move(program);
    work.steps.clear();
    for (const Segment& segment : work.program) {
      std::vector<Step>& steps = work.steps.emplace_back();
      const std::vector<const CoreTime*> cores = m_core_times.of(segment.ops);
      for (std::size_t n = 0; n < segment.ops.size(); ++n)
        steps.push_back(prepared(segment.ops[n], segment.repeat, *cores[n]));
    }
  }

  Step prepared(const TileOp& op, const Repeat& repeat, const CoreTime& core) const {
    Step step;
    step.op = op.op;
    step.tensor = op.tensor;
    step.starts = op.starts;
    step.pending = op.pending;
    step.core = &core;
    switch (op.op) {
      case Op::load:
      case Op::store:
        step.port = m_speeds.port.cost(op.sectors * kSectorBytes);
        step.l2 = m_speeds.l2.cost(op.sectors * kSectorBytes);
        step.blocks = m_blocks.region_of(op);
        step.fill_bytes = op.fill_bytes / std::max(1, step.blocks.size());
        step.block_step = m_blocks.step_of(op.tensor, repeat.axis) * repeat.step;
        break;
      default: break;
    }
    return step;
  }

  /// On the SM from `now`: not before the CTA alone would be done, nor before the SM has done all that is queued on it.
  static Picoseconds on_core(Sm& sm, const CoreTime& core, Picoseconds now) {
    return std::max(now + core.alone, sm.core.serve(now, core.share[static_cast<std::size_t>(sm.ctas - 1)]));
  }

  /// Performs the resident's next operation from `now`; returns when it ends.
  Picoseconds advance(Resident& resident, Picoseconds now) {
    const std::vector<Step>& steps = resident.work.steps[resident.segment];
    const Step& step = steps[resident.op];
    Picoseconds end = now;
    Reason reason = Reason::barrier;
    std::int64_t hbm_bytes = 0;
    ++m_operations;
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    Picoseconds arrival = 0;
    if (step.op == Op::load && step.starts)
      hbm_bytes = start(resident, step, now, end, reason, arrival);
    else if (step.op == Op::load)
      hbm_bytes = load(resident, step, now, end, reason);
    else if (step.op == Op::wait)
      wait(resident, step, end, reason);
    else if (step.op == Op::store)
      store(resident, step, now, end, reason);
    else if (step.op == Op::barrier)
      latest(now + m_speeds.barrier, Reason::barrier, end, reason);
    else
      latest(on_core(sm, *step.core, now), step.core->reason, end, reason);
    resident.begins = resident.begins && step.starts;
    if (step.op == Op::scores) resident.last_scores = end;
    m_result->reasons[static_cast<std::size_t>(reason)] += end - now;
    if (m_options->trace) {
      const Segment& segment = resident.work.program[resident.segment];
      emit(resident, advanced(segment.ops[resident.op], segment.repeat, resident.iteration, m_schedule.tile()),
           {now, end}, reason, hbm_bytes, arrival);
    }
    if (++resident.op == steps.size()) {
      resident.op = 0;
      if (++resident.iteration == resident.work.program[resident.segment].repeat.times) {
        resident.iteration = 0;
        ++resident.segment;
      }
    }
    return end;
  }

  /// Touches nothing that others share.
  static bool is_local(Op op) { return op == Op::barrier || op == Op::wait; }
  static bool is_next_local(const Resident& resident) {
    return resident.segment < resident.work.steps.size() &&
           is_local(resident.work.steps[resident.segment][resident.op].op);
  }

  template <class F>
  void for_each_block(const Resident& resident, const Step& step, F f) const {
    step.blocks.for_each(resident.iteration * step.block_step,
                         [&](std::int64_t block) { f(block, m_blocks.bytes_of(step.tensor, block)); });
  }

  /// What a load fetches, from the links' point of view.
  struct Fetch {
    std::int64_t hbm_bytes = 0;
    Picoseconds latency = 0, there = 0;
    Reason reason = Reason::l2;
  };

  /// L2 answers with what it holds, HBM with the rest; both through the SM's port.
  Fetch fetch(const Resident& resident, const Step& step, Picoseconds now) {
    std::int64_t miss = 0, evicted = 0;
    bool far = false;
    for_each_block(resident, step, [&](std::int64_t block, std::int64_t bytes) {
      const L2Cache::Access access = m_l2.read(block, bytes, l2_partition_of(resident.sm, m_machine));
      miss += access.miss_bytes;
      far = far || access.far;
      evicted += access.write_bytes;
      m_result->l2_read_hit_bytes += access.hit_bytes;
      count_evictions();
    });
    m_result->hbm.read += miss;
    m_result->tensors[static_cast<std::size_t>(step.tensor)].read += miss;
    if (evicted > 0) m_hbm.serve(now, m_speeds.hbm_write.cost(evicted));
    // The lines of a tile lie everywhere: the tile is there when the farthest of them is.
    Fetch fetched;
    fetched.hbm_bytes = miss;
    fetched.latency = miss > 0 ? m_speeds.hbm_latency : far ? m_speeds.l2_far_latency : m_speeds.l2_latency;
    fetched.there = now;
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    latest(sm.port.serve(now, step.port) + fetched.latency, Reason::l2, fetched.there, fetched.reason);
    latest(m_l2_link.serve(now, step.l2) + fetched.latency, Reason::l2, fetched.there, fetched.reason);
    if (miss > 0)
      latest(m_hbm.serve(now, m_speeds.hbm_read.cost(miss)) + fetched.latency, Reason::hbm, fetched.there,
             fetched.reason);
    return fetched;
  }

  /// The CTA waits for its tile. Returns the bytes from HBM.
  std::int64_t load(const Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason) {
    const Fetch fetched = fetch(resident, step, now);
    latest(fetched.there, fetched.reason, end, reason);
    // Addresses before, conversions and shared memory after: the warps do this between waits for global memory.
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    const Picoseconds waits = step.core->round_trips * fetched.latency, core_end = on_core(sm, *step.core, now);
    const Reason wait_reason = fetched.hbm_bytes > 0 ? Reason::hbm : Reason::l2;
    latest(core_end + waits, core_end - now > waits ? step.core->reason : wait_reason, end, reason);
    return fetched.hbm_bytes;
  }

  /// The CTA goes on when its warps have issued the copies.
  std::int64_t start(Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason,
                     Picoseconds& arrival) {
    const Fetch fetched = fetch(resident, step, resident.begins ? resident.loads_from : now);
    latest(on_core(m_sms[static_cast<std::size_t>(resident.sm)], *step.core, now), step.core->reason, end, reason);
    Arrival last{std::max(fetched.there, end), fetched.reason};
    if (!resident.under_way.empty() && resident.under_way.back().at > last.at) last = resident.under_way.back();
    resident.under_way.push_back(last);
    arrival = last.at;
    return fetched.hbm_bytes;
  }

  static void wait(Resident& resident, const Step& step, Picoseconds& end, Reason& reason) {
    for (; resident.under_way.size() > static_cast<std::size_t>(step.pending); resident.under_way.pop_front())
      latest(resident.under_way.front().at, resident.under_way.front().reason, end, reason);
  }

  /// Into L2, which pushes dirty lines out to make room; the store waits when HBM cannot take them fast enough.
  void store(const Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason) {
    std::int64_t evicted = 0, filled = 0;
    for_each_block(resident, step, [&](std::int64_t block, std::int64_t bytes) {
      const L2Cache::Access access = m_l2.write(block, bytes, l2_partition_of(resident.sm, m_machine), step.fill_bytes);
      evicted += access.write_bytes;
      filled += access.miss_bytes;
      count_evictions();
    });
    m_result->hbm.read += filled;
    m_result->tensors[static_cast<std::size_t>(step.tensor)].read += filled;
    if (filled > 0) latest(m_hbm.serve(now, m_speeds.hbm_read.cost(filled)), Reason::hbm, end, reason);
    Sm& sm = m_sms[static_cast<std::size_t>(resident.sm)];
    latest(sm.port.serve(now, step.port), Reason::l2, end, reason);
    latest(m_l2_link.serve(now, step.l2), Reason::l2, end, reason);
    latest(on_core(sm, *step.core, now), step.core->reason, end, reason);
    if (evicted > 0) latest(m_hbm.serve(now, m_speeds.hbm_write.cost(evicted)), Reason::hbm, end, reason);
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

  struct Interval {
    Picoseconds begin, end;
  };
  void record(const Resident& resident, const TileOp& op, Interval when, Reason reason, std::int64_t hbm_bytes) {
    m_result->reasons[static_cast<std::size_t>(reason)] += when.end - when.begin;
    if (m_options->trace) emit(resident, op, when, reason, hbm_bytes);
  }
  void emit(const Resident& resident, const TileOp& op, Interval when, Reason reason, std::int64_t hbm_bytes,
            Picoseconds arrival = 0) {
    m_options->trace->span(
        {when.begin, when.end, reason, m_kernel, resident.cta, resident.sm, resident.slot, op, hbm_bytes, arrival});
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
  CoreTimes m_core_times;
  L2Cache m_l2;
  Server m_l2_link, m_hbm;
  std::vector<Sm> m_sms;
  std::vector<Resident> m_residents;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> m_queue;
  std::int64_t m_total_ctas = 0, m_done_ctas = 0, m_operations = 0;
  // The kernel being run
  int m_kernel = 0;
  KernelPrediction* m_result = nullptr;
};

}  // namespace

L2Cache l2_of(const Machine& machine) {
  return L2Cache(static_cast<std::int64_t>(machine.l2_bytes.value), static_cast<int>(machine.l2_partitions.value),
                 kL2Slices, kL2SpreadPermille);
}

int l2_partition_of(int sm, const Machine& machine) {
  return sm * static_cast<int>(machine.l2_partitions.value) / static_cast<int>(machine.num_sms.value);
}

Picoseconds roofline_bound(const KernelCount& c, MatrixUnit unit, std::int64_t hbm_read_bytes, const Machine& m) {
  // Of whatever dtype: fp8 has the higher rate of the tensor cores.
  const Quantity& fast = m.tensor_fp8_flops_per_clk.value > m.tensor_fp16_flops_per_clk.value
                             ? m.tensor_fp8_flops_per_clk
                             : m.tensor_fp16_flops_per_clk;
  const Quantity& products = on_tensor_cores(unit) ? fast : m.fma_flops_per_clk;
  const Speeds speeds(m);
  const std::int64_t sms = static_cast<std::int64_t>(m.num_sms.value);
  const std::int64_t wire = c.sm.sector_read + c.sm.sector_write;
  const auto units = [&m](const Quantity& per_clock) { return Speeds::per_clock(m, per_clock); };
  return std::max({units(products).cost(c.flops_executed) / sms, units(m.exps_per_clk).cost(c.exps) / sms,
                   speeds.l2.cost(wire), speeds.port.cost(wire) / sms, speeds.hbm_read.cost(hbm_read_bytes)});
}

Prediction simulate_all(const Schedule& schedule, const Machine& machine, const RunOptions& options) {
  Run run(schedule, machine);
  if (options.start == Start::warm) {
    RunOptions first = options;
    first.trace = nullptr;
    run.run(first);
  }
  Prediction prediction = run.run(options);
  prediction.simulated_heads = schedule.problem().num_heads();
  return prediction;
}

void add_up(Prediction& prediction) {
  prediction.hbm = {};
  prediction.tensors = {};
  for (const KernelPrediction& kernel : prediction.kernels) {
    prediction.hbm.read += kernel.hbm.read;
    prediction.hbm.write += kernel.hbm.write;
    for (std::size_t t = 0; t < kNumTensors; ++t) {
      prediction.tensors[t].read += kernel.tensors[t].read;
      prediction.tensors[t].write += kernel.tensors[t].write;
    }
  }
}

}  // namespace flashscope
