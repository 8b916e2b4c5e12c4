// From settings to results, beside the frame loop: one worker runs the stage problem, then the whole problem,
// and drops both as soon as the settings change. The window never waits for it.
#pragma once
#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "viz/core/background.h"
#include "viz/core/comparison.h"
#include "viz/core/live_run.h"
#include "viz/core/settings.h"
#include "viz/core/stage_trace.h"
#include "viz/core/sweep.h"
#include "viz/core/validation.h"
#include "viz/core/worker.h"

namespace flashscope::viz {

/// What is known about some settings. A value; parts that are still being computed are absent.
struct Results {
  Settings settings;
  AttentionProblem stage_problem;
  std::array<std::shared_ptr<const StageTrace>, 2> stage;
  std::array<std::string, 2> errors;  // why a stage is absent, for the banner
  std::array<std::optional<WholeRun>, 2> whole;
  Picoseconds duration = 0;                       // of the longer stage run
  std::vector<Picoseconds> boundaries;            // of both, sorted: what stepping visits
  std::vector<Picoseconds> stalls;                // of both, sorted
  std::vector<Picoseconds> tiles, kernel_begins;  // likewise
  double progress = 1;                            // of the whole-problem runs; 1: nothing under way
  bool asks_first = false;  // the timed run of the whole problem is long and waits for confirmation

  // What only some views ask for; never null once polled.
  std::shared_ptr<const SweepResult> sweep;
  std::shared_ptr<const Validation> validation;
  std::shared_ptr<const LiveRun> live;
  double sweep_progress = 1, validation_progress = 1, live_progress = 1;
};

/// Tile operations of one run that the stage records at most.
inline constexpr std::int64_t kMaxStageOps = 64'000;  // a map of 4096 tiles a side, where a mask leaves its diagonal
/// Tiles of one head's scores above which the whole problem is counted and timed only on request.
inline constexpr std::int64_t kAskAboveTiles = 4'000'000;

class Session {
 public:
  /// `wake` is called from the worker when something new can be polled.
  Session(std::vector<Machine> machines, std::vector<Recording> recordings, std::function<void()> wake = {},
          OpenDevice open_device = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<Machine>& machines() const { return m_machines; }
  const std::vector<Recording>& recordings() const { return m_recordings; }

  /// Starts over when `settings` differ from those under way. They are clamped first.
  void request(const Settings& settings);
  /// A sweep or a validation, beside the rest; starts over when it differs from the one under way.
  void request_sweep(const SweepRequest& request);
  /// `set`: of row_sets(), its rows are predicted first.
  void request_validation(const ValidateRequest& request, int set = 0);
  /// Measures both algorithms on the GPU of this machine.
  void request_live(const LiveRequest& request);
  /// Runs the whole problem however long it takes.
  void confirm();
  /// Stops the whole-problem runs, or a study; what is known stays.
  void cancel();
  void cancel_sweep() { m_sweep.cancel(); }
  void cancel_validation() { m_validation.cancel(); }
  void resume_validation() { m_validation.resume(); }
  void resume_sweep() { m_sweep.resume(); }
  void cancel_live() { m_live.cancel(); }
  /// The latest results; the old ones stay until the first part of the new is there.
  const Results& poll();
  /// True while the worker computes, also when what it computes is no longer wanted.
  bool is_working();
  /// Blocks until nothing is under way (for programs without a frame loop).
  const Results& wait();

 private:
  void work();
  void compute(const Settings& settings, bool confirmed, std::uint64_t generation);
  bool publish(const Results& results, std::uint64_t generation);
  bool is_current(std::uint64_t generation);

  const std::vector<Machine> m_machines;
  const std::vector<Recording> m_recordings;
  const std::function<void()> m_wake;
  const OpenDevice m_open_device;

  std::mutex m_mutex;  // guards what follows
  std::condition_variable m_changed;
  std::optional<Settings> m_wanted;
  bool m_confirmed = false;
  std::uint64_t m_generation = 0;  // of the wanted settings; a job of an older one stops
  std::uint64_t m_finished = 0;
  bool m_stop = false;
  bool m_working = false;
  Results m_latest;
  bool m_fresh = false;

  Results m_polled;  // of the frame loop alone
  Background<SweepRequest, SweepResult> m_sweep;
  ValidationMemory m_validation_memory;
  Background<ValidateRequest, Validation> m_validation;
  Background<LiveRequest, LiveRun> m_live;
  Worker m_worker;  // last: it begins at once
};

}  // namespace flashscope::viz
