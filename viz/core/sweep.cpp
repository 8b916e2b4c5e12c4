#include "viz/core/sweep.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

constexpr int kKilobyte = 1024;  // the unit in which SMEM comes

/// The largest tile Br = Bc, in steps of an MMA's rows, whose CTAs need no more than so many KiB of SMEM. Throws
/// Error(unsupported) where none does.
TileShape tile_for_smem(const Settings& s, std::size_t side, int kib) {
  constexpr int kStep = 16;
  std::string refusal = s.algorithms[side] + ": no tile fits into " + std::to_string(kib) + " KiB";
  for (int b = kTileRange.hi; b >= kStep; b -= kStep) {
    TileShape tile = s.tile;
    tile.br = tile.bc = b;
    try {
      const auto schedule = make_schedule(s.algorithms[side], s.problem, tile);
      const auto& kernels = schedule->kernels();
      if (std::all_of(kernels.begin(), kernels.end(), [&](const KernelLaunch& launch) {
            return launch.resources.smem_bytes <= std::int64_t{kib} * kKilobyte;
          }))
        return tile;
    } catch (const Error& error) {  // a tile that its kernel does not come in
      refusal = error.what();
    }
  }
  throw Error(ErrorKind::unsupported, refusal);
}

/// The settings with the parameter at this value, for one of the algorithms.
Settings with_value(Settings s, SweepOver over, int value, std::size_t side) {
  switch (over) {
    case SweepOver::smem: s.tile = tile_for_smem(s, side, value); break;
    case SweepOver::density: {
      BlockMaskChoice choice = block_mask_choice(s.problem);
      if (choice.pattern.empty()) choice.pattern = "random";
      choice.percent = value;
      set_block_mask(s.problem, choice);
      break;
    }
    case SweepOver::seqlen:  // a few rows over a long cache stay a few
      set_lengths(s.problem, s.problem.seqlen_q == s.problem.seqlen_k ? value : s.problem.seqlen_q, value);
      break;
    case SweepOver::br: s.tile.br = value; break;
    case SweepOver::bc: s.tile.bc = value; break;
    case SweepOver::heads: {
      const int group = s.problem.heads / std::max(1, s.problem.kv_heads);
      s.problem.heads = value;
      s.problem.kv_heads = value % group == 0 ? value / group : value;
      break;
    }
    case SweepOver::head_dim: s.problem.head_dim = value; break;
  }
  return s;
}

/// 0 where the parameter is no number of these.
int value_of(SweepOver over, const AttentionProblem& problem, const TileShape& tile) {
  switch (over) {
    case SweepOver::smem: return 0;
    case SweepOver::density: {
      const BlockMaskChoice choice = block_mask_choice(problem);
      return choice.pattern.empty() ? 0 : choice.percent;
    }
    case SweepOver::seqlen: return problem.seqlen_k;
    case SweepOver::br: return tile.br;
    case SweepOver::bc: return tile.bc;
    case SweepOver::heads: return problem.heads;
    case SweepOver::head_dim: return problem.head_dim;
  }
  return 0;
}

/// The recorded row of these settings; nullptr when there is none.
const RecordingRow* row_of(const Settings& s, std::size_t side, const std::vector<Recording>& recordings) {
  for (const Recording& recording : recordings)
    if (recording.machine == s.gpu)
      if (const RecordingRow* row = find_row(recording, s.problem, s.algorithms[side], s.tile, s.start)) return row;
  return nullptr;
}

class SweepJob final : public SlicedJob<SweepResult> {
 public:
  SweepJob(const SweepRequest& request, const std::vector<Machine>& machines, const std::vector<Recording>& recordings)
      : m_machines(machines) {
    m_result.request = request;
    const std::vector<int> values = sweep_values(request, recordings);
    for (auto& side : m_result.sides)
      for (int value : values) side.push_back({value, {}, "", "", {}, {}, {}, {}});
    for (int phase = 0; phase < 2; ++phase)
      for (std::size_t n = 0; n < values.size(); ++n)
        for (std::size_t side = 0; side < 2; ++side) m_tasks.push_back({phase, side, n});
  }

  bool step(const std::function<bool()>& wanted) override {
    if (m_next == m_tasks.size()) return false;
    const Task& task = m_tasks[m_next];
    SweepPoint& point = m_result.sides[task.side][task.point];
    try {
      task.phase == 0 ? count_point(task.side, point) : time_point(task.side, point, wanted);
    } catch (const std::exception& error) {  // a tile that does not fit, a size that is refused
      point.refusal = error.what();
    }
    return ++m_next < m_tasks.size();
  }
  SweepResult result() const override {
    SweepResult known = m_result;
    known.to_come = m_tasks.size() - m_next;
    return known;
  }
  double progress() const override {
    // Timing takes nearly all of it, and the last points most of that.
    const double share = m_tasks.empty() ? 1 : static_cast<double>(m_next) / static_cast<double>(m_tasks.size());
    return share * share;
  }

 private:
  struct Task {
    int phase;
    std::size_t side, point;
  };

  static std::unique_ptr<Schedule> schedule_at(std::size_t side, const Settings& s) {
    return make_schedule(s.algorithms[side], s.problem, s.tile);
  }
  void count_point(std::size_t side, SweepPoint& point) {
    point.settings = with_value(m_result.request.settings, m_result.request.over, point.value, side);
    const auto schedule = schedule_at(side, *point.settings);
    if (m_result.request.over == SweepOver::smem)
      point.note = "Br = Bc = " + std::to_string(schedule->tile().br);
    const ClosedForm form = schedule->closed_form();  // counting gives the same, and takes longer
    point.sm_bytes = form.sm_read_bytes + form.sm_write_bytes;
    point.memory_bytes = schedule->peak_memory_bytes();
    const auto machine = std::find_if(m_machines.begin(), m_machines.end(),
                                      [&](const Machine& m) { return m.name == m_result.request.settings.gpu; });
    if (machine != m_machines.end() && static_cast<double>(*point.memory_bytes) > machine->hbm_bytes.value)
      point.note += (point.note.empty() ? "" : ", ") +
                    ("does not fit: " + size_text(static_cast<double>(*point.memory_bytes))) + " of tensors, " +
                    size_text(machine->hbm_bytes.value) + " of memory";
  }
  void time_point(std::size_t side, SweepPoint& point, const std::function<bool()>& wanted) {
    if (!point.refusal.empty()) return;
    const Settings& s = m_result.request.settings;
    const auto machine =
        std::find_if(m_machines.begin(), m_machines.end(), [&](const Machine& m) { return m.name == s.gpu; });
    if (machine == m_machines.end()) {
      point.refusal = "no description of " + s.gpu;
      return;
    }
    const auto schedule = schedule_at(side, *point.settings);
    const AttentionProblem& p = schedule->problem();
    const std::int64_t tiles =
        std::int64_t{num_tiles(p.seqlen_q, schedule->tile().br)} * num_tiles(p.seqlen_k, schedule->tile().bc);
    if (tiles > kSweepTiles) {
      point.refusal = "bytes to HBM and time come of a timed run, and with " + grouped(tiles) +
                      " tiles a head that takes too long for a sweep";
      return;
    }
    RunOptions options;
    options.start = s.start;
    options.progress = [&](double) { return wanted(); };
    const Prediction prediction = simulate(*schedule, *machine, options);
    point.hbm_bytes = prediction.hbm.read + prediction.hbm.write + prediction.hbm_dirty_bytes;
    point.time_us = prediction.time_us();
  }

  const std::vector<Machine>& m_machines;
  SweepResult m_result;
  std::vector<Task> m_tasks;
  std::size_t m_next = 0;
};

std::optional<double> shown(const SweepPoint& point, SweepShow show) {
  const auto number = [](const std::optional<std::int64_t>& v) {
    return v ? std::optional<double>(static_cast<double>(*v)) : std::nullopt;
  };
  switch (show) {
    case SweepShow::sm_bytes: return number(point.sm_bytes);
    case SweepShow::hbm_bytes: return number(point.hbm_bytes);
    case SweepShow::time: return point.time_us;
    case SweepShow::memory: return number(point.memory_bytes);
  }
  return std::nullopt;
}

std::optional<double> measured(const kernels::Measurement& m, SweepShow show) {
  const auto sum = [](const auto& a, const auto& b) {
    return a.value && b.value ? std::optional<double>(static_cast<double>(*a.value + *b.value)) : std::nullopt;
  };
  switch (show) {
    case SweepShow::sm_bytes: return sum(m.sm_read_bytes, m.sm_write_bytes);
    case SweepShow::hbm_bytes: return sum(m.hbm_read_bytes, m.hbm_write_bytes);
    case SweepShow::time: return m.time_us.value;
    case SweepShow::memory: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<Entry<SweepOver>>& sweep_overs() {
  static const std::vector<Entry<SweepOver>> list = {
      {SweepOver::seqlen, "seqlen", "N", "rows and keys"},         {SweepOver::br, "br", "Br", "rows of a query tile"},
      {SweepOver::bc, "bc", "Bc", "rows of a key tile"},
      {SweepOver::smem, "smem", "SMEM", "KiB a CTA may take; the largest tile Br = Bc that fits"},
      {SweepOver::heads, "heads", "heads", "query heads"},
      {SweepOver::head_dim, "head_dim", "d", "columns of a head"},
      {SweepOver::density, "density", "density", "percent of the blocks that a block mask keeps"},
  };
  return list;
}

const std::vector<Entry<SweepShow>>& sweep_shows() {
  static const std::vector<Entry<SweepShow>> list = {
      {SweepShow::hbm_bytes, "hbm", "HBM bytes", "read and written, dirty lines included"},
      {SweepShow::sm_bytes, "sm", "SM bytes", "read and written by the SMs"},
      {SweepShow::time, "time", "time", "predicted for the chosen GPU"},
      {SweepShow::memory, "memory", "memory", "tensors in global memory"},
  };
  return list;
}

std::vector<int> sweep_values(const SweepRequest& request, const std::vector<Recording>& recordings) {
  std::vector<int> values;
  switch (request.over) {
    case SweepOver::seqlen:
      for (int n = 256; n <= 65536; n *= 2)
        if (const AttentionProblem& p = request.settings.problem; p.seqlen_q == p.seqlen_k || n >= p.seqlen_q)
          values.push_back(n);
      break;
    case SweepOver::br:
    case SweepOver::bc: values = {16, 32, 48, 64, 96, 128, 192, 256}; break;
    case SweepOver::smem: values = {12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 227}; break;
    case SweepOver::density: values = {5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100}; break;
    case SweepOver::heads: values = {1, 2, 4, 8, 16, 32, 64, 128}; break;
    case SweepOver::head_dim: values = {16, 32, 64, 96, 128, 192, 256}; break;
  }
  const Settings& s = request.settings;
  if (const int now = value_of(request.over, s.problem, s.tile); now > 0) values.push_back(now);
  for (std::size_t side = 0; side < 2; ++side)
    for (const Recording& recording : recordings)
      for (const RecordingRow& row : recording.rows) {
        const int value = value_of(request.over, row.problem, row.tile);
        if (value > 0 && row_of(with_value(request.settings, request.over, value, side), side, recordings) == &row)
          values.push_back(value);
      }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::unique_ptr<SlicedJob<SweepResult>> make_sweep(const SweepRequest& request, const std::vector<Machine>& machines,
                                                   const std::vector<Recording>& recordings) {
  return std::make_unique<SweepJob>(request, machines, recordings);
}

Figure sweep_figure(const SweepResult& result, SweepShow show, const std::vector<Recording>& recordings) {
  const SweepRequest& request = result.request;
  Figure figure;
  const auto& over = entry_of(sweep_overs(), request.over);
  const auto& what = entry_of(sweep_shows(), show);
  figure.title = std::string(what.title) + " against " + over.title;
  if (figure.title[0] == 't' || figure.title[0] == 'm')
    figure.title[0] = static_cast<char>(figure.title[0] - 'a' + 'A');
  figure.x = {std::string(over.title) + ", " + over.what, Unit::count, AxisScale::log2, 0, 0};
  const AttentionProblem& problem = request.settings.problem;
  if (request.over == SweepOver::heads) figure.x.label = over.what;
  if (request.over == SweepOver::seqlen && problem.seqlen_q != problem.seqlen_k)
    figure.x.label = "N, keys of " + grouped(problem.seqlen_q) + (problem.seqlen_q == 1 ? " query row" : " query rows");
  if (request.over == SweepOver::density) {  // shares of 100: even steps, on which the points lie
    const BlockMaskChoice mask = block_mask_choice(request.settings.problem);
    figure.x.label += ", pattern " + (mask.pattern.empty() ? "random" : mask.pattern);
    figure.x.scale = AxisScale::linear;
    figure.x.lo = 0;
    figure.x.hi = 105;
  }
  figure.y = {what.title, show == SweepShow::time ? Unit::time_us : Unit::bytes, AxisScale::log10, 0, 0};
  bool any_measured = false;
  std::string too_large;
  const bool one_line = request.settings.algorithms[0] == request.settings.algorithms[1];
  for (std::size_t side = one_line ? 1 : 0; side < 2; ++side) {
    const std::string& name = request.settings.algorithms[side];
    const Role role = side == 0 ? Role::left : Role::right;
    Series line{name, role, Series::Form::line, {}}, dots{name, role, Series::Form::predicted_dots, {}};
    Series rings{name + ", measured", role, Series::Form::measured_dots, {}};
    for (const SweepPoint& point : result.sides[side]) {
      if (too_large.empty() && point.note.find("does not fit") != std::string::npos)
        too_large = "From " + std::string(over.title) + " = " + grouped(point.value) + " on " + name + " " +
                    point.note.substr(point.note.find("does not fit")) + ".";
      if (const auto y = shown(point, show)) {
        line.points.push_back({static_cast<double>(point.value), *y, ""});
        dots.points.push_back(
            {static_cast<double>(point.value), *y, "predicted" + (point.note.empty() ? "" : ", " + point.note)});
      } else if (!point.refusal.empty() && figure.note.empty()) {
        figure.note = std::string(over.title) + " = " + grouped(point.value) + ": " + point.refusal;
      }
      const RecordingRow* row = point.settings ? row_of(*point.settings, side, recordings) : nullptr;
      if (row)
        if (const auto y = measured(row->measured, show)) {
          rings.points.push_back({static_cast<double>(point.value), *y, "measured"});
          any_measured = true;
        }
    }
    figure.series.push_back(std::move(line));
    figure.series.push_back(std::move(dots));
    if (!rings.points.empty()) figure.series.push_back(std::move(rings));
  }
  if (const double now = value_of(request.over, request.settings.problem, request.settings.tile); now > 0)
    figure.guides.push_back({true, now, "now " + grouped(static_cast<std::int64_t>(now))});
  if (!too_large.empty()) figure.note = too_large + (figure.note.empty() ? "" : " " + figure.note);
  if (!any_measured && show != SweepShow::memory && figure.note.empty())
    figure.note = "The recording has no row on this line.";
  return figure;
}

}  // namespace flashscope::viz
