#include "viz/core/live_run.h"

#include <exception>
#include <utility>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::viz {
namespace {

class LiveJob final : public SlicedJob<LiveRun> {
 public:
  LiveJob(const LiveRequest& request, const std::vector<Machine>& machines, const OpenDevice& open_device)
      : m_settings(request.settings), m_machines(machines), m_open(open_device) {}

  bool step(const std::function<bool()>& wanted) override {
    try {
      if (m_done == 0)
        open();
      else
        measure(m_settings.algorithms[m_done - 1], wanted);
    } catch (const std::exception& error) {
      say(error.what());
      if (!m_device) m_done = kSlices;
    }
    if (m_done == 1 && m_settings.algorithms[0] == m_settings.algorithms[1]) ++m_done;  // once is enough
    return ++m_done < kSlices;
  }
  LiveRun result() const override { return m_run; }
  double progress() const override { return static_cast<double>(m_done) / kSlices; }

 private:
  static constexpr std::size_t kSlices = 3;

  void say(const std::string& text) { m_run.message += (m_run.message.empty() ? "" : "\n") + text; }

  void open() {
    if (!m_open) throw Error(ErrorKind::env, "no GPU can be used from here; 'flashscope doctor' says what works");
    m_device = m_open();
    const kernels::DeviceInfo info = m_device->info();
    Recording recording;
    recording.gpu = info.name;
    recording.driver = info.driver_version;
    recording.cuda = info.cuda_version;
    recording.machine = m_settings.gpu;
    m_run.recording = recording;
    for (const Machine& machine : m_machines)
      if (machine.name == m_settings.gpu && machine.title.find(info.name) == std::string::npos)
        say("measured on " + info.name + ", predicted for " + machine.title + ": choose the GPU that is here");
  }

  void measure(const std::string& algorithm, const std::function<bool()>& wanted) {
    const auto schedule = make_schedule(algorithm, m_settings.problem, m_settings.tile);
    if (const std::string why = m_device->why_unsupported(*schedule); !why.empty())
      throw Error(ErrorKind::unsupported, algorithm + ": " + why);
    kernels::MeasureOptions options;
    options.progress = [&](double) { return wanted(); };
    RecordingRow row;
    row.problem = m_settings.problem;
    row.algorithm = algorithm;
    row.tile = schedule->tile();
    row.start = Start::cold;  // the protocol flushes L2 before each launch
    row.measured = m_device->measure(*schedule, options);
    put_row(*m_run.recording, std::move(row));
  }

  const Settings m_settings;
  const std::vector<Machine>& m_machines;
  const OpenDevice& m_open;
  std::unique_ptr<kernels::Device> m_device;
  LiveRun m_run;
  std::size_t m_done = 0;
};

}  // namespace

std::unique_ptr<SlicedJob<LiveRun>> make_live_run(const LiveRequest& request, const std::vector<Machine>& machines,
                                                  const OpenDevice& open_device) {
  return std::make_unique<LiveJob>(request, machines, open_device);
}

}  // namespace flashscope::viz
