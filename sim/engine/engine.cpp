// The run loop: Run::run() runs the kernels one after the other. Run::kernel() performs operations in the order of the
// times at which their CTAs can go on. Only loads, stores and ends of CTAs touch what all SMs share (links, L2, the grid):
// those take their turns among all SMs; what lies between them is performed SM by SM (go_on_alone).
#include "sim/engine/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/engine/adding_order.h"
#include "sim/engine/blocks.h"
#include "sim/engine/core_times.h"
#include "sim/engine/cta_work.h"
#include "sim/engine/earliest.h"
#include "sim/engine/heads.h"
#include "sim/engine/hot_lines.h"
#include "sim/engine/l2.h"
#include "sim/engine/run.h"
#include "sim/engine/server.h"
#include "sim/engine/speeds.h"
#include "sim/error.h"
#include "sim/schedule/walk.h"

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

/// The first CTAs of a grid that leaves SMs empty start on neighbours all the same: flashscope_l2_probe on an H200.
constexpr std::int64_t kFirstCtas = 8;

/// Kernels of fewer waves end by who was done first: no head of theirs stands for another.
constexpr std::int64_t kFewestWaves = 64;
/// Where heads are passed over, the end of the last wave may be off by one part in so many of the kernel's time.
constexpr std::int64_t kWaveShare = 200, kGoodWaveShare = 400;

/// Fetching a kernel's code for the first time on an SM: line after line from memory, some lines ahead.
constexpr int kInstructionBytes = 16, kCodeLineBytes = 128;
Picoseconds code_fetch(const KernelLaunch& launch, const Machine& machine, Picoseconds latency) {
  const std::int64_t executed = launch.code_instructions / 2;  // see fma_rungs.h
  const std::int64_t ahead = static_cast<std::int64_t>(machine.code_lines_in_flight.value);
  return executed * kInstructionBytes / kCodeLineBytes * latency / ahead;
}

/// When a started load is there, and what it waits for.
struct Arrival {
  Picoseconds at;
  Reason reason;
};

/// A CTA in one slot of an SM, and where it is in its work.
struct Resident {
  const Step* next = nullptr;  // nullptr: the CTA has ended
  const Step *run_begin = nullptr, *run_end = nullptr;
  std::int64_t repetition = 0;
  std::size_t run = 0;
  PlacedWork placed;
  std::int64_t cta = 0;
  Picoseconds began = 0;
  std::int64_t hbm_read = 0;
  // A persistent CTA: the loads that a tile begins with start when the last scores of the tile before have been computed.
  Picoseconds last_scores = 0, loads_from = 0;
  bool loads_ahead = false;  // persistent, and nothing but loads so far
  // A load of hot lines: the turn that is next, and when the first one began.
  int turn = 0;
  Picoseconds first_turn = 0;
  int sm = 0, slot = 0;
  std::vector<Arrival> under_way;  // of loads that it started, in their order
  Adder adder;

  void begin(std::size_t index) {
    const std::vector<StepRun>& runs = placed.work->runs;
    run = index;
    repetition = 0;
    next = run_begin = index < runs.size() ? runs[index].steps.data() : nullptr;
    run_end = index < runs.size() ? next + runs[index].steps.size() : nullptr;
  }
  bool is_at_last() const {
    return next + 1 == run_end && repetition + 1 == placed.work->runs[run].times && run + 1 == placed.work->runs.size();
  }
  void step_on() {
    if (++next != run_end) return;
    next = run_begin;
    if (++repetition == placed.work->runs[run].times) begin(run + 1);
  }
};

struct Sm {
  Server port, core;
  int partition = 0;  // of L2
  int ctas = 0;       // resident now
  // By slot, as many as the kernel's CTAs fit beside each other; all SMs' lie together (Run).
  Picoseconds* goes_on = nullptr;  // when its resident does; kNever: the slot is empty
  Resident* residents = nullptr;
};

class Run {
 public:
  /// `ctas` of each kernel, the first ones; empty: all.
  Run(const Schedule& schedule, const Machine& machine, const Grain& grain, const std::vector<std::int64_t>& ctas)
      : m_schedule(schedule),
        m_machine(machine),
        m_speeds(machine),
        m_grain(grain),
        m_ctas(ctas),
        m_blocks(schedule, grain.scores),
        m_core_times(schedule, machine),
        m_works(schedule, m_speeds, m_blocks, m_grain, m_core_times),
        m_l2(l2_of(machine)),
        m_l2_slices(static_cast<int>(machine.l2_partitions.value)) {}

  /// One run; L2 keeps what it holds at the end for the next.
  Prediction run(const RunOptions& options) {
    m_options = &options;
    m_hbm = m_l2_link = Server();
    m_l2_slices = L2Slices(static_cast<int>(m_machine.l2_partitions.value));
    Prediction prediction;
    const Count counted = counted_for(m_schedule, options);
    m_total_ctas = 0;
    for (int k = 0; k < static_cast<int>(m_schedule.kernels().size()); ++k) m_total_ctas += ctas_of(k);
    m_done_ctas = m_operations = 0;
    m_simulated_heads = m_schedule.problem().num_heads();
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
    prediction.simulated_heads = m_simulated_heads;
    return prediction;
  }

 private:
  std::int64_t ctas_of(int k) const {
    const std::size_t kernel = static_cast<std::size_t>(k);
    return m_ctas.empty() ? m_schedule.kernels()[kernel].ctas() : m_ctas[kernel];
  }

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
    m_sms.clear();
    m_core_times.start_kernel(k, fit.ctas_per_sm);
    m_works.start_kernel(k, m_options->trace != nullptr, [this] { report_progress(); });

    const int num_sms = static_cast<int>(m_machine.num_sms.value);
    m_slots = fit.ctas_per_sm;
    m_loads_ahead = launch.persistent;
    m_warps_copy = launch.matrix_unit != MatrixUnit::wgmma;
    m_sms.assign(static_cast<std::size_t>(num_sms), {});
    m_goes_on.assign(m_sms.size() * static_cast<std::size_t>(m_slots), kNever);
    m_residents.assign(m_goes_on.size(), {});
    for (int s = 0; s < num_sms; ++s) {
      Sm& sm = m_sms[static_cast<std::size_t>(s)];
      sm.partition = l2_partition_of(s, m_machine);
      sm.goes_on = m_goes_on.data() + s * m_slots;
      sm.residents = m_residents.data() + s * m_slots;
    }
    m_earliest = Earliest(num_sms);
    m_tr = num_tiles(m_schedule.problem().seqlen_q, m_schedule.tile().br);
    m_order.start(std::int64_t{m_schedule.problem().num_heads()} * m_tr,
                  num_tiles(m_schedule.problem().seqlen_k, m_schedule.tile().bc), m_speeds.l2_far_latency);
    std::int64_t next_cta = 0;
    const std::int64_t ctas = ctas_of(k);
    const Picoseconds code =
        code_fetch(launch, m_machine, m_options->start == Start::warm ? m_speeds.l2_far_latency : m_speeds.hbm_latency);
    for (const std::int64_t first = std::min<std::int64_t>(ctas, std::int64_t{num_sms} * m_slots); next_cta < first;) {
      const int s = first_sm_of(next_cta, ctas, m_machine), slot = static_cast<int>(next_cta / num_sms);
      Sm& sm = m_sms[static_cast<std::size_t>(s)];
      Resident& resident = sm.residents[slot];
      resident.sm = s;
      resident.slot = slot;
      ++sm.ctas;
      sm.goes_on[slot] = place(sm, resident, m_schedule.taken(k, next_cta++), start, m_speeds.cta_start + code);
    }
    for (Sm& sm : m_sms)
      if (sm.ctas > 0) go_on_alone(sm);
    m_l2.begin_turnover();
    m_heads_seen.forget();
    m_ended_ctas = m_ended_read = 0;
    const std::int64_t stretch = stretch_of(k);
    for (Turn turn = m_earliest.turn(); turn.at != kNever; turn = m_earliest.turn()) {
      Sm& sm = m_sms[static_cast<std::size_t>(turn.order % num_sms)];
      const std::size_t slot = static_cast<std::size_t>(turn.order / num_sms);
      Resident& resident = sm.residents[slot];
      Picoseconds now = turn.at;
      report_progress();
      if (resident.next) {
        sm.goes_on[slot] = advance(sm, resident, now);
      } else {
        result.cta_time += now - resident.began;
        result.end = std::max(result.end, now);
        ++m_done_ctas;
        ++m_ended_ctas;
        m_ended_read += resident.hbm_read;
        if (next_cta < ctas) {
          if (stretch > 0 && next_cta % stretch == 0) now += pass_over_heads(stretch, next_cta);
          sm.goes_on[slot] =
              launch.persistent ? go_on_with(resident, m_schedule.taken(k, next_cta++), now, now)
                                : place(sm, resident, m_schedule.taken(k, next_cta++), now, m_speeds.cta_start);
        } else {
          --sm.ctas;
          sm.goes_on[slot] = kNever;
        }
      }
      go_on_alone(sm);
    }
    result.hbm_dirty_bytes = m_l2.dirty_bytes();
    return result.end;
  }

  /// CTAs of so many heads as fill the GPU at once, with the query heads that share their K and V; 0 where heads
  /// differ.
  std::int64_t stretch_of(int k) const {
    const KernelLaunch& launch = m_schedule.kernels()[static_cast<std::size_t>(k)];
    if (!m_grain.passes_over_heads || m_options->trace || launch.persistent || !m_ctas.empty() ||
        m_schedule.tile().page_size > 0 || !m_schedule.sector_aligned() || !writes_once())
      return 0;
    const std::int64_t group = launch.ctas() / m_schedule.problem().num_kv_heads();
    const std::int64_t slots = static_cast<std::int64_t>(m_residents.size());
    if (launch.ctas() < kFewestWaves * slots) return 0;
    return (slots + group - 1) / group * group;
  }

  /// Each byte of a tensor is written once at most, and what CTAs produce is what they store.
  bool writes_once() const {
    for (int t = 0; t < kNumTensors; ++t)
      if (m_result->count.tensors[static_cast<std::size_t>(t)].write >
          shape_of(static_cast<Tensor>(t), m_schedule.problem(), m_schedule.tile()).bytes())
        return false;
    return true;
  }

  /// Bytes of the tensors that the kernel reads, a CTA's share.
  double needed_bytes() const {
    std::int64_t bytes = 0;
    for (int t = 0; t < kNumTensors; ++t)
      if (m_result->count.tensors[static_cast<std::size_t>(t)].read > 0)
        bytes += shape_of(static_cast<Tensor>(t), m_schedule.problem(), m_schedule.tile()).bytes();
    return static_cast<double>(bytes) / static_cast<double>(ctas_of(m_kernel));
  }

  /// At the first CTA of a stretch: if stretches repeat each other, all but the last few are taken as done. What is
  /// under way, and what L2 holds, is then of later heads, and later by what they take. Returns that time.
  Picoseconds pass_over_heads(std::int64_t stretch, std::int64_t& next_cta) {
    if (!m_l2.is_turned_over()) return 0;
    m_heads_seen.note({m_result->tensors, m_l2.dirty_bytes(), m_result->l2_read_hit_bytes, m_result->reasons,
                       m_ended_ctas, m_result->cta_time, m_ended_read});
    const std::int64_t left = stretches_to_pass(stretch, next_cta);
    if (left == 0 || !m_heads_seen.repeat(needed_bytes())) return 0;
    const AttentionProblem& p = m_schedule.problem();
    const std::int64_t ctas = left * stretch, kv_heads = ctas * p.num_kv_heads() / ctas_of(m_kernel);
    const std::int64_t query_heads = kv_heads * (p.heads / p.kv_heads);
    const Done passed = m_heads_seen.next(ctas, m_result->count.sm.write / p.num_kv_heads() * kv_heads);
    add(passed);
    // All slots were busy.
    const Picoseconds time = passed.cta_time / static_cast<std::int64_t>(m_residents.size());
    for (std::size_t n = 0; n < m_residents.size(); ++n) {
      Resident& resident = m_residents[n];
      resident.cta += ctas;
      resident.placed.query_heads += query_heads;
      resident.placed.kv_heads += kv_heads;
      for (Picoseconds* at : {&resident.began, &resident.last_scores, &resident.loads_from}) *at += time;
      for (Arrival& arrival : resident.under_way) arrival.at += time;
      if (m_goes_on[n] != kNever) m_goes_on[n] += time;
    }
    for (Sm& sm : m_sms) {
      sm.port.put_off(time);
      sm.core.put_off(time);
    }
    m_l2_link.put_off(time);
    m_l2_slices.put_off(time);
    m_hbm.put_off(time);
    m_earliest.put_off(time);
    m_l2.rename([&](std::int64_t block) {
      const Tensor tensor = m_blocks.tensor_of(block);
      const std::int64_t heads = is_of_keys(layout_of(tensor)) ? kv_heads : query_heads;
      return block + heads * m_blocks.head_step_of(tensor) * (is_split(tensor) ? m_schedule.tile().splits : 1);
    });
    next_cta += ctas;
    m_done_ctas += ctas;
    m_simulated_heads = std::min(m_simulated_heads, p.num_heads() - static_cast<int>(query_heads));
    m_heads_seen.forget();
    return time;
  }

  /// So many that the last CTAs meet the ends of waves about as they would have.
  std::int64_t stretches_to_pass(std::int64_t stretch, std::int64_t next_cta) const {
    const std::int64_t slots = static_cast<std::int64_t>(m_residents.size()), ctas = ctas_of(m_kernel);
    const std::int64_t most = (ctas - 1 - next_cta) / stretch;  // all but the last, or what there is of it
    const auto off = [&](std::int64_t n) { return std::min(n * stretch % slots, slots - n * stretch % slots); };
    std::int64_t best = most;
    // Those that end better are worth a quarter of what may be saved.
    for (std::int64_t n = most; n > most - most / 4 && off(best) * kGoodWaveShare > ctas; --n)
      best = off(n) < off(best) ? n : best;
    while (best > 0 && off(best) * kWaveShare > ctas) --best;
    return best;
  }

  /// Bytes that were produced and are not dirty have been written; of the tensor that is written most, where parts do
  /// not add up.
  void add(const Done& passed) {
    HbmTraffic sum;
    std::size_t most = 0;
    for (std::size_t t = 0; t < kNumTensors; ++t) {
      m_result->tensors[t].read += passed.tensors[t].read;
      m_result->tensors[t].write += passed.tensors[t].write;
      sum.read += passed.tensors[t].read;
      if (passed.tensors[t].write > passed.tensors[most].write) most = t;
    }
    m_result->tensors[most].write += passed.dirty_bytes;  // more, or fewer, than before
    m_result->hbm.read += sum.read;
    m_result->hbm.write += passed.produced();
    m_result->l2_read_hit_bytes += passed.l2_read_hit_bytes;
    for (std::size_t r = 0; r < kNumReasons; ++r) m_result->reasons[r] += passed.reasons[r];
    m_result->cta_time += passed.cta_time;
  }

  /// Starts CTA `cta` in the slot of a resident, `delay` later. Returns when it goes on.
  Picoseconds place(Sm& sm, Resident& resident, std::int64_t cta, Picoseconds now, Picoseconds delay) {
    const CoreTime& prologue = m_core_times.prologue();
    const Picoseconds share = prologue.share[static_cast<std::size_t>(sm.ctas - 1)];
    resident.last_scores = std::max(now + delay + prologue.alone, sm.core.serve(now + delay, share));
    return go_on_with(resident, cta, now, resident.last_scores);
  }

  /// Gives the slot of a resident to CTA `cta`, which goes on when it has `started`: at once where a persistent CTA takes
  /// another query tile.
  Picoseconds go_on_with(Resident& resident, std::int64_t cta, Picoseconds now, Picoseconds started) {
    resident.cta = cta;
    resident.placed = m_works.of(cta);
    resident.begin(0);
    resident.began = now;
    resident.hbm_read = 0;
    resident.under_way.clear();
    resident.adder = {};
    resident.turn = 0;
    resident.adder.slot = static_cast<std::size_t>(&resident - m_residents.data());
    resident.loads_from = resident.last_scores;
    resident.last_scores = started;
    resident.loads_ahead = m_loads_ahead;
    record(resident, TileOp{}, {now, started}, Reason::launch, 0);
    return started;
  }

  /// Performs what concerns this SM alone, in its order, until a CTA of it wants something that SMs share: nobody else
  /// can tell when that was done. Then the SM queues for its turn.
  void go_on_alone(Sm& sm) {
    for (;;) {
      int slot = 0;
      for (int other = 1; other < m_slots; ++other) slot = sm.goes_on[other] < sm.goes_on[slot] ? other : slot;
      Resident& resident = sm.residents[slot];
      const Picoseconds now = sm.goes_on[slot];
      if (now == kNever || !resident.next || resident.next->is_shared()) {
        const std::int64_t num_sms = static_cast<std::int64_t>(m_sms.size());
        m_earliest.set(resident.sm, {now, resident.slot * num_sms + resident.sm});
        return;
      }
      sm.goes_on[slot] = advance(sm, resident, now);
    }
  }

  /// On the SM from `now`: not before the CTA alone would be done, nor before the SM has done all that is queued on it.
  static Picoseconds on_core(Sm& sm, const Step& step, Picoseconds now) {
    return std::max(now + step.alone * step.tiles,
                    sm.core.serve(now, step.share[sm.ctas - 1] * step.tiles));
  }

  /// Performs the resident's next operation from `now`, and the barriers and waits behind it, which touch nothing that
  /// others share; returns when they end.
  Picoseconds advance(Sm& sm, Resident& resident, Picoseconds now) {
    do now = perform(sm, resident, now);
    while (resident.next && resident.next->is_private() && now != kNever);
    return now;
  }

  Picoseconds perform(Sm& sm, Resident& resident, Picoseconds now) {
    const Step& step = *resident.next;
    // The place of a part is needed, or the CTA would end before the part has been added.
    if (step.adds || (resident.adder.waits && resident.is_at_last()))
      if (const Picoseconds gone = resident.adder.until_gone(now); gone > now) return gone;
    const Picoseconds begin = std::min(now, std::exchange(resident.adder.waits_since, kNever));
    Picoseconds end = now, arrival = 0;
    Reason reason = begin < now ? Reason::l2 : Reason::barrier;
    std::int64_t hbm_bytes = 0;
    m_operations += 1 + step.barriers;
    switch (step.kind) {
      case Step::Kind::load: hbm_bytes = load(sm, resident, step, now, end, reason); break;
      case Step::Kind::start: hbm_bytes = start(sm, resident, step, now, end, reason, arrival); break;
      case Step::Kind::store: store(sm, resident, step, now, end, reason); break;
      case Step::Kind::core: latest(on_core(sm, step, now), step.reason, end, reason); break;
      case Step::Kind::barrier: latest(now + m_speeds.barrier * step.tiles, Reason::barrier, end, reason); break;
      case Step::Kind::wait: wait(resident, step, end, reason); break;
    }
    if (resident.turn > 0) {
      m_result->reasons[static_cast<std::size_t>(reason)] += end - begin;
      return end;
    }
    if (!step.adds && resident.is_at_last()) latest(resident.adder.gone, Reason::l2, end, reason);
    resident.loads_ahead = resident.loads_ahead && step.kind == Step::Kind::start && step.barriers == 0;
    if (step.is_scores) resident.last_scores = end;
    m_result->reasons[static_cast<std::size_t>(reason)] += end - begin;
    if (m_options->trace)
      emit(resident, operation_of(resident), {step.turns > 1 ? resident.first_turn : begin, end}, reason, hbm_bytes,
           arrival);
    const Picoseconds meet = step.barriers * step.tiles * m_speeds.barrier;
    m_result->reasons[static_cast<std::size_t>(Reason::barrier)] += meet;
    resident.step_on();
    return end + meet;
  }

  /// What a resident does next, for the trace.
  TileOp operation_of(const Resident& resident) const {
    return m_works.operation(resident.placed, resident.run,
                             static_cast<std::size_t>(resident.next - resident.run_begin), resident.repetition);
  }

  static std::int64_t part_of(const Step& step, std::int64_t block_bytes) {
    if (step.part_bytes > 0) return std::min(step.part_bytes, block_bytes);
    return step.block_rows == 1 ? block_bytes : block_bytes * step.part_rows / step.block_rows;
  }
  /// How much further on than step.blocks.
  static std::int64_t shift_of(const Resident& resident, const Step& step) {
    return step.blocks_on(resident.repetition) + resident.placed.query_heads * step.query_head_step +
           resident.placed.kv_heads * step.kv_head_step + resident.placed.batches * step.batch_step;
  }
  template <class F>
  void for_each_block(const Resident& resident, const Step& step, F f) const {
    step.blocks.for_each(shift_of(resident, step), [&](std::int64_t block) { f(block, m_blocks.bytes_of(step.tensor, block)); });
  }

  /// What a load fetches, from the links' point of view.
  struct Fetch {
    std::int64_t hbm_bytes = 0;
    Picoseconds latency = 0, there = 0;
    Reason reason = Reason::l2;
  };

  /// Where a step is many tiles, most CTAs read what another of their partition has just read. As long as L2 has taken
  /// nothing in meanwhile it has lost nothing either, and the tiles need not be asked for one by one.
  struct Region {
    std::int64_t first = -1;
    int size = 0, partition = 0;
    std::int64_t insertions = 0;  // of L2 when it had been read
    std::int64_t bytes = 0;       // of the region
    bool is_at(const Region& other) const {
      return first == other.first && size == other.size && partition == other.partition && insertions == other.insertions;
    }
  };
  static constexpr std::size_t kRemembered = 1024;
  Region region_now(const Sm& sm, const Resident& resident, const Step& step) const {
    return {step.blocks.first + shift_of(resident, step), step.blocks.size(), sm.partition, m_l2.insertions()};
  }
  Region& remembered(const Region& region) {
    const std::uint64_t name = static_cast<std::uint64_t>(region.first * 2 + region.partition);
    return m_remembered[name * 0x9E3779B97F4A7C15ull >> 54];  // the high bits are spread evenly
  }
  /// Its bytes; 0 if it may be gone.
  std::int64_t bytes_still_there(const Sm& sm, const Resident& resident, const Step& step) {
    if (step.tiles == 1) return 0;
    const Region region = region_now(sm, resident, step), &found = remembered(region);
    return found.is_at(region) ? found.bytes : 0;
  }
  void remember(const Sm& sm, const Resident& resident, const Step& step, std::int64_t bytes) {
    if (step.tiles == 1) return;
    Region region = region_now(sm, resident, step);
    region.bytes = bytes;
    remembered(region) = region;
  }

  /// L2 answers with what it holds, HBM with the rest; both through the SM's port.
  Fetch fetch(Sm& sm, Resident& resident, const Step& step, Picoseconds now) {
    std::int64_t miss = 0, evicted = 0;
    bool far = false;
    // Lines that are asked for in turns are taken to come into L2 with the last: the trace names the load then, and who
    // replays its accesses finds what L2 held.
    const bool is_last_turn = resident.turn == step.turns - 1;
    std::int64_t hit = is_last_turn ? bytes_still_there(sm, resident, step) : 0;
    if (hit == 0 && is_last_turn) {
      for_each_block(resident, step, [&](std::int64_t block, std::int64_t bytes) {
        const L2Cache::Access access = m_l2.read_part(block, part_of(step, bytes), bytes, sm.partition);
        hit += access.hit_bytes;
        miss += access.miss_bytes;
        far = far || access.far;
        evicted += access.write_bytes;
        count_evictions();
      });
      remember(sm, resident, step, hit + miss);
    }
    resident.hbm_read += miss;
    m_result->hbm.read += miss;
    m_result->tensors[static_cast<std::size_t>(step.tensor)].read += miss;
    m_result->l2_read_hit_bytes += hit;
    if (evicted > 0) m_hbm.serve(now, m_speeds.hbm_write.cost(evicted));
    // The lines of a tile lie everywhere: the tile is there when the farthest of them is.
    Fetch fetched;
    fetched.hbm_bytes = miss;
    fetched.latency =
        step.tiles * (miss > 0 ? m_speeds.hbm_latency : far ? m_speeds.l2_far_latency : m_speeds.l2_latency);
    fetched.there = now;
    latest(sm.port.serve(now, step.port) + fetched.latency, Reason::l2, fetched.there, fetched.reason);
    latest(m_l2_link.serve(now, step.l2) + fetched.latency, Reason::l2, fetched.there, fetched.reason);
    if (step.hot.rows > 0)
      for_each_block(resident, step, [&](std::int64_t block, std::int64_t) {
        LinesOfBlock lines = step.hot;
        lines.first += resident.turn * lines.bytes;
        latest(m_l2_slices.serve(sm.partition, block, lines, step.slice, now) + fetched.latency, Reason::l2,
               fetched.there, fetched.reason);
      });
    if (miss > 0)
      latest(m_hbm.serve(now, m_speeds.hbm_read.cost(miss)) + fetched.latency, Reason::hbm, fetched.there,
             fetched.reason);
    return fetched;
  }

  /// The CTA waits for its tile. Returns the bytes from HBM.
  std::int64_t load(Sm& sm, Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason) {
    if (step.turns > 1 && resident.turn == 0) resident.first_turn = now;
    const Fetch fetched = fetch(sm, resident, step, now);
    if (step.turns > 1) {
      resident.turn = (resident.turn + 1) % step.turns;
      if (resident.turn > 0) {  // other warps ask meanwhile: nobody waits for the answer
        latest(fetched.there - fetched.latency, fetched.reason, end, reason);
        return fetched.hbm_bytes;
      }
      now = resident.first_turn;
    }
    latest(fetched.there, fetched.reason, end, reason);
    // Addresses before, conversions and shared memory after: the warps do this between waits for global memory.
    const Picoseconds waits = step.round_trips * fetched.latency, core_end = on_core(sm, step, now);
    const Reason wait_reason = fetched.hbm_bytes > 0 ? Reason::hbm : Reason::l2;
    latest(core_end + waits, core_end - now > waits ? step.reason : wait_reason, end, reason);
    return fetched.hbm_bytes;
  }

  /// The CTA goes on when its warps have issued the copies.
  std::int64_t start(Sm& sm, Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason,
                     Picoseconds& arrival) {
    const Fetch fetched = fetch(sm, resident, step, resident.loads_ahead ? resident.loads_from : now);
    latest(on_core(sm, step, now), step.reason, end, reason);
    // Where warps copy vector by vector (cp.async), the last of them is asked for when they have issued it.
    Arrival last{std::max(fetched.there, m_warps_copy ? end + fetched.latency : end), fetched.reason};
    if (!resident.under_way.empty() && resident.under_way.back().at > last.at) last = resident.under_way.back();
    resident.under_way.push_back(last);
    arrival = last.at;
    return fetched.hbm_bytes;
  }

  static void wait(Resident& resident, const Step& step, Picoseconds& end, Reason& reason) {
    std::vector<Arrival>& under_way = resident.under_way;  // a few at most
    for (; under_way.size() > static_cast<std::size_t>(step.pending); under_way.erase(under_way.begin()))
      latest(under_way.front().at, under_way.front().reason, end, reason);
  }

  /// Into L2, which pushes dirty lines out to make room; the store waits when HBM cannot take them fast enough.
  void store(Sm& sm, Resident& resident, const Step& step, Picoseconds now, Picoseconds& end, Reason& reason) {
    std::int64_t evicted = 0, filled = 0;
    for_each_block(resident, step, [&](std::int64_t block, std::int64_t bytes) {
      const L2Cache::Access access = m_l2.write_part(block, part_of(step, bytes), bytes, sm.partition, step.fill_bytes);
      evicted += access.write_bytes;
      filled += access.miss_bytes;
      count_evictions();
    });
    resident.hbm_read += filled;
    m_result->hbm.read += filled;
    m_result->tensors[static_cast<std::size_t>(step.tensor)].read += filled;
    if (step.adds) return add(sm, resident, step, now, {filled, evicted}, end, reason);
    if (filled > 0) latest(m_hbm.serve(now, m_speeds.hbm_read.cost(filled)), Reason::hbm, end, reason);
    latest(sm.port.serve(now, step.port), Reason::l2, end, reason);
    latest(m_l2_link.serve(now, step.l2), Reason::l2, end, reason);
    latest(on_core(sm, step, now), step.reason, end, reason);
    if (evicted > 0) latest(m_hbm.serve(now, m_speeds.hbm_write.cost(evicted)), Reason::hbm, end, reason);
  }

  /// The CTA goes on when its part is in shared memory; a warp of its own has TMA add it in L2, in its turn
  /// (adding_order.h).
  void add(Sm& sm, Resident& resident, const Step& step, Picoseconds now, HbmTraffic hbm, Picoseconds& end,
           Reason& reason) {
    latest(on_core(sm, step, now), step.reason, end, reason);
    const std::int64_t first =
        (step.head + resident.placed.query_heads) * m_tr + step.query_tile + resident.repetition * step.query_tile_step;
    Adder& adder = resident.adder;
    Part& part = adder.part;
    part = {first, first + step.tiles, step.key_tile, step.tiles, end, 0, step.port};
    part.moved = std::max(sm.port.serve(now, step.port), m_l2_link.serve(now, step.l2));
    if (hbm.read > 0) part.moved = std::max(part.moved, m_hbm.serve(now, m_speeds.hbm_read.cost(hbm.read)));
    if (hbm.write > 0) m_hbm.serve(now, m_speeds.hbm_write.cost(hbm.write));
    const AttentionProblem& p = m_schedule.problem();
    if (m_schedule.tile().any_order || p.is_sparse()) {
      adder.gone = std::max(part.moved, part.written + part.port);  // read by TMA
      return;
    }
    const TileShape& tile = m_schedule.tile();
    const int last_query_tile = static_cast<int>((part.end_tile - 1) % m_tr);
    const bool is_first = step.key_tile + 1 >= visited_tiles(p.mask(), tile.br, tile.bc, last_query_tile).end;
    for (const Adder* served : m_order.add(adder, is_first)) wake(*served, sm);
  }

  /// Its part has been added: a CTA that has waited for that goes on.
  void wake(const Adder& adder, const Sm& under_way) {
    if (adder.waits_since == kNever) return;
    m_goes_on[adder.slot] = std::max(adder.waits_since, adder.gone);
    Sm& sm = m_sms[static_cast<std::size_t>(m_residents[adder.slot].sm)];
    if (&sm != &under_way) go_on_alone(sm);
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

  /// Asked for at every turn, and while a CTA's work is worked out: one CTA of a long problem can take seconds. Long turns
  /// take some microseconds; who has one thread for this and a window cannot draw in between.
  void report_progress() {
    if (m_options->progress && ++m_turns % 256 == 0 &&
        !m_options->progress(static_cast<double>(m_done_ctas) / static_cast<double>(m_total_ctas)))
      throw Error(ErrorKind::internal, "cancelled");
  }

  const Schedule& m_schedule;
  const Machine& m_machine;
  const RunOptions* m_options = nullptr;
  const Speeds m_speeds;
  const Grain m_grain;
  const std::vector<std::int64_t> m_ctas;
  const BlockMap m_blocks;
  CoreTimes m_core_times;
  CtaWorks m_works;
  L2Cache m_l2;
  std::vector<Region> m_remembered = std::vector<Region>(kRemembered);
  Server m_l2_link, m_hbm;
  L2Slices m_l2_slices;
  std::vector<Sm> m_sms;
  int m_slots = 0;                     // of an SM
  bool m_loads_ahead = false;          // a kernel of persistent CTAs
  bool m_warps_copy = false;           // a kernel without TMA
  std::vector<Picoseconds> m_goes_on;  // by SM and slot
  std::vector<Resident> m_residents;
  AddingOrder m_order;
  int m_tr = 1;         // query tiles of a head
  Earliest m_earliest;  // of the SMs, by what they want next of what all share
  HeadsSeen m_heads_seen;
  std::int64_t m_ended_ctas = 0, m_ended_read = 0;  // of this kernel, and what they read from HBM
  int m_simulated_heads = 0;
  std::int64_t m_total_ctas = 0, m_done_ctas = 0, m_operations = 0, m_turns = 0;
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

int first_sm_of(std::int64_t cta, std::int64_t ctas, const Machine& machine) {
  const std::int64_t num_sms = static_cast<std::int64_t>(machine.num_sms.value);
  if (ctas >= num_sms || cta < kFirstCtas) return static_cast<int>(cta % num_sms);
  return static_cast<int>(kFirstCtas + (cta - kFirstCtas) * (num_sms - kFirstCtas) / (ctas - kFirstCtas));
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

Prediction simulate_all(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                        const Grain& grain, const std::vector<std::int64_t>& ctas) {
  Run run(schedule, machine, grain, ctas);
  if (options.start == Start::warm) {
    RunOptions first = options;
    first.trace = nullptr;
    run.run(first);
  }
  return run.run(options);
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
