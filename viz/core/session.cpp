#include "viz/core/session.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/window_words.h"

namespace flashscope::viz {
namespace {

std::vector<Picoseconds> merged(const std::vector<Picoseconds>& a, const std::vector<Picoseconds>& b) {
  std::vector<Picoseconds> all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void merge_clocks(Results& results) {
  results.duration = 0;
  results.boundaries.clear();
  results.stalls.clear();
  results.tiles.clear();
  results.kernel_begins.clear();
  for (const auto& stage : results.stage) {
    if (!stage) continue;
    results.duration = std::max(results.duration, stage->duration());
    results.boundaries = merged(results.boundaries, stage->boundaries());
    results.stalls = merged(results.stalls, stage->stalls());
    results.tiles = merged(results.tiles, stage->tiles());
    results.kernel_begins = merged(results.kernel_begins, stage->kernel_begins());
  }
}

/// Of the progress that is shown: counting takes less time than timing.
constexpr double kCountingShare = 0.1;

/// A number that is wanted no more: unwinds out of a timed run.
struct Outdated {};

}  // namespace

Session::Session(std::vector<Machine> machines, std::vector<Recording> recordings, std::function<void()> wake,
                 OpenDevice open_device)
    : m_machines(std::move(machines)),
      m_recordings(std::move(recordings)),
      m_wake(std::move(wake)),
      m_open_device(std::move(open_device)),
      m_sweep([this](const SweepRequest& r) { return make_sweep(r, m_machines, m_recordings); }, m_wake),
      m_validation(
          [this](const ValidateRequest& r) {
            return make_validation(r, m_machines, m_recordings, &m_validation_memory);
          },
          m_wake),
      m_live([this](const LiveRequest& r) { return make_live_run(r, m_machines, m_open_device); }, m_wake),
      m_worker([this] { work(); }) {}

Session::~Session() {
  {
    const std::lock_guard lock(m_mutex);
    m_stop = true;
    ++m_generation;
  }
  m_changed.notify_all();
  m_worker.join();
}

void Session::request(const Settings& settings) {
  const Settings wanted = clamp(settings);
  {
    const std::lock_guard lock(m_mutex);
    if (m_wanted && *m_wanted == wanted) return;
    m_wanted = wanted;
    m_confirmed = false;
    ++m_generation;
  }
  m_changed.notify_all();
}

void Session::confirm() {
  {
    const std::lock_guard lock(m_mutex);
    m_confirmed = true;
    ++m_generation;
  }
  m_changed.notify_all();
}

void Session::cancel() {
  const std::lock_guard lock(m_mutex);
  if (m_finished == m_generation) return;
  m_finished = ++m_generation;
  for (auto& run : m_latest.whole) {
    if (run && !run->count.value) run->count = kernels::Measured<KernelCount>::unavailable("cancelled");
    if (run && !run->prediction.value) run->prediction = kernels::Measured<Prediction>::unavailable("cancelled");
  }
  m_latest.progress = 1;
  m_latest.asks_first = true;
  m_fresh = true;
}

const Results& Session::poll() {
  {
    const std::lock_guard lock(m_mutex);
    if (m_fresh) m_polled = m_latest;
    m_fresh = false;
  }
  m_polled.sweep = m_sweep.poll(m_polled.sweep_progress);
  m_polled.validation = m_validation.poll(m_polled.validation_progress);
  m_polled.live = m_live.poll(m_polled.live_progress);
  return m_polled;
}

void Session::request_sweep(const SweepRequest& request) { m_sweep.request({clamp(request.settings), request.over}); }

void Session::request_validation(const ValidateRequest& request, int set) {
  m_validation_memory.set = set;
  m_validation.request(request);
}

void Session::request_live(const LiveRequest& request) { m_live.request({clamp(request.settings), request.press}); }

bool Session::is_working() {
  if (m_sweep.is_working() || m_validation.is_working() || m_live.is_working()) return true;
  const std::lock_guard lock(m_mutex);
  return m_working;
}

const Results& Session::wait() {
  {
    std::unique_lock lock(m_mutex);
    Worker::wait(m_changed, lock, [this] { return m_finished == m_generation; });
  }
  m_sweep.wait();
  m_validation.wait();
  m_live.wait();
  return poll();
}

void Session::work() {
  while (true) {
    Settings settings;
    bool confirmed = false;
    std::uint64_t generation = 0;
    {
      std::unique_lock lock(m_mutex);
      m_working = false;
      Worker::wait(m_changed, lock, [this] { return m_stop || m_finished != m_generation; });
      if (m_stop) return;
      m_working = true;
      if (!m_wanted) {
        m_finished = m_generation;
        continue;
      }
      settings = *m_wanted;
      confirmed = m_confirmed;
      generation = m_generation;
    }
    try {
      compute(settings, confirmed, generation);
    } catch (const Outdated&) {
      continue;
    }
    {
      const std::lock_guard lock(m_mutex);
      if (m_generation == generation) m_finished = generation;
    }
    m_changed.notify_all();
    if (m_wake) m_wake();
  }
}

bool Session::is_current(std::uint64_t generation) {
  const std::lock_guard lock(m_mutex);
  return m_generation == generation;
}

bool Session::publish(const Results& results, std::uint64_t generation) {
  {
    const std::lock_guard lock(m_mutex);
    if (m_generation != generation) return false;
    m_latest = results;
    m_fresh = true;
  }
  if (m_wake) m_wake();
  return true;
}

void Session::compute(const Settings& settings, bool confirmed, std::uint64_t generation) {
  const auto publish_or_leave = [&](const Results& r) {
    if (!publish(r, generation)) throw Outdated();
  };
  Results results;
  results.settings = settings;
  const auto machine =
      std::find_if(m_machines.begin(), m_machines.end(), [&](const Machine& m) { return m.name == settings.gpu; });
  if (machine == m_machines.end()) {
    results.errors.fill("GPU: '" + settings.gpu + "' is not one of the machine descriptions");
    publish_or_leave(results);
    return;
  }
  // A timed run that is no longer wanted ends with an Error of its own; what counts is why.
  const auto guarded = [&](std::string& error, auto&& body) {
    try {
      body();
    } catch (const std::exception& e) {
      if (!is_current(generation)) throw Outdated();
      error = in_window_words(e.what());
    }
  };
  // A tile serves both sides, and one that suits one of them may not run on the other.
  const auto add_way_out = [&](std::size_t which) {
    std::string& error = results.errors[which];
    if (error.empty() || error.find("It runs with") != std::string::npos) return;
    const auto tile = tile_that_runs(settings, which, *machine);
    if (tile && (tile->br != settings.tile.br || tile->bc != settings.tile.bc))
      error += ". It runs with Br " + std::to_string(tile->br) + " and Bc " + std::to_string(tile->bc) + ".";
  };
  const auto still_wanted = [&](double) {
    Worker::pause();
    return is_current(generation);
  };

  if (confirmed) {  // the stage is drawn already: what was asked for is the rest
    const std::lock_guard lock(m_mutex);
    if (m_latest.settings == settings && m_latest.stage[0] && m_latest.stage[1]) {
      results.stage_problem = m_latest.stage_problem;
      results.stage = m_latest.stage;
    }
  }
  std::string problem_error;
  if (!results.stage[0]) guarded(problem_error, [&] { results.stage_problem = stage_problem(settings, kMaxStageOps); });
  for (std::size_t which = 0; which < 2; ++which) {
    results.errors[which] = problem_error;
    if (problem_error.empty() && !results.stage[which])
      guarded(results.errors[which], [&] {
        Worker::pause();
        results.stage[which] = trace_stage(settings.algorithms[which], results.stage_problem, settings.tile, *machine,
                                           settings.start, still_wanted);
      });
    add_way_out(which);
  }
  merge_clocks(results);

  // Small tiles over a long sequence take minutes even to count: those wait for a button.
  const Settings& st = settings;
  const std::int64_t tiles =
      std::int64_t{num_tiles(st.problem.seqlen_q, st.tile.br)} * num_tiles(st.problem.seqlen_k, st.tile.bc);
  const bool asks = tiles > kAskAboveTiles && !confirmed;
  const std::string reason = asks ? "a long run: press “Simulate the whole problem”" : "simulating …";
  // What the worker asks inside of long counts and runs: stops when the settings have changed, and tells how far it has come
  // about ten times a second.
  auto shown = std::chrono::steady_clock::now();
  const auto goes_on = [&](double share) {
    Worker::pause();
    const auto now = std::chrono::steady_clock::now();
    if (now - shown < std::chrono::milliseconds(100)) return is_current(generation);
    shown = now;
    results.progress = std::max(results.progress, share);  // runs begin anew, a bar does not
    return publish(results, generation);
  };
  std::array<std::unique_ptr<Schedule>, 2> schedules;
  for (std::size_t which = 0; which < 2; ++which) {
    guarded(results.errors[which], [&] {
      Worker::pause();
      schedules[which] = make_schedule(st.algorithms[which], st.problem, st.tile);
      results.whole[which] =
          WholeRun{kernels::Measured<KernelCount>::unavailable(reason), schedules[which]->closed_form(),
                   compulsory_bytes(st.problem), kernels::Measured<Prediction>::unavailable(reason)};
    });
    add_way_out(which);
  }
  results.asks_first = asks;
  results.progress = asks ? 1 : 0;
  if (asks) return publish_or_leave(results);
  for (std::size_t which = 0; which < 2; ++which) {
    if (!results.whole[which]) continue;
    guarded(results.errors[which], [&] {
      const auto progress = [&](double share) { return goes_on(kCountingShare * (static_cast<double>(which) + share) / 2); };
      results.whole[which]->count = kernels::Measured<KernelCount>::of(count(*schedules[which], progress).total);
    });
  }
  publish_or_leave(results);

  for (std::size_t which = 0; which < 2; ++which) {
    if (!results.whole[which]) continue;
    const auto progress = [&](double share) {
      return goes_on(kCountingShare + (1 - kCountingShare) * (static_cast<double>(which) + share) / 2);
    };
    std::string error;
    guarded(error, [&] {
      RunOptions options;
      options.start = settings.start;
      options.progress = progress;
      results.whole[which]->prediction =
          kernels::Measured<Prediction>::of(simulate(*schedules[which], *machine, options));
      results.whole[which]->time_us_at_recorded_clock =
          time_us_at_clock_of(recorded_row(settings, settings.algorithms[which], m_recordings), *schedules[which],
                              *machine, options, *results.whole[which]->prediction.value);
    });
    if (!error.empty()) results.whole[which]->prediction = kernels::Measured<Prediction>::unavailable(error);
  }
  results.progress = 1;
  publish_or_leave(results);
}

}  // namespace flashscope::viz
