// flashscope doctor: what works here, and the next step for what does not.
#include <cstdlib>
#include <memory>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/command.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/io/machine_io.h"
#include "viz/io/recording.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// One finding a row: the thing, its state, and the next step in the words of the error that told us.
void check_gpu(Table& table, Context& context) {
  std::unique_ptr<kernels::Device> device;
  try {
    device = context.open_device();
  } catch (const Error& error) {
    table.row({"GPU", "no", error.what()});
    table.row({"counters", "no", "they need a GPU"});
    table.row({"", "", "next step: the shipped recording stands in; see flashscope compare"});
    return;
  }
  const kernels::DeviceInfo info = device->info();
  table.row({"GPU", "yes",
             info.name + ", compute capability " + std::to_string(info.compute_capability / 10) + "." +
                 std::to_string(info.compute_capability % 10) + ", " + std::to_string(info.num_sms) + " SMs, L2 " +
                 decimal_bytes(info.l2_bytes)});
  table.row({"driver", info.driver_version.empty() ? "?" : "yes",
             (info.driver_version.empty() ? "the version is not known: NVML did not answer" : info.driver_version) +
                 ", CUDA runtime " + info.cuda_version});

  // A small run of our own kernel tells more than any query: it counts, or says why it cannot.
  ProblemOptions small;
  small.heads = 1;
  small.seqlen = 1024;
  try {
    kernels::MeasureOptions options;
    options.launches = 20;
    const kernels::Measurement m = device->measure(*small.schedule(), options);
    table.row({"kernels", "yes", "flash_v2 ran and matched the float64 reference"});
    if (m.sm_read_bytes.value)
      table.row({"counters", "yes", "hardware byte counters passed their self-test"});
    else
      table.row({"counters", "no", m.sm_read_bytes.reason});
  } catch (const Error& error) {
    table.row({"kernels", "no", error.what()});
  }
  for (const Algorithm& algorithm : algorithms()) {
    small.algorithm = algorithm.name;
    const std::string why = device->why_unsupported(*small.schedule());
    if (!why.empty()) table.row({"", "", algorithm.name + " does not run here: " + why});
  }
}

void check_window(Table& table) {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  const std::string x11 = variable("DISPLAY"), wayland = variable("WAYLAND_DISPLAY");
  if (x11.empty() && wayland.empty())
    table.row({"display", "no",
               "neither DISPLAY nor WAYLAND_DISPLAY is set; next step: run at a desktop or with ssh -X, or "
               "use flashscope compare"});
  else
    table.row({"display", "yes", x11.empty() ? "WAYLAND_DISPLAY=" + wayland : "DISPLAY=" + x11});
  const std::string window = find_window_binary();
  if (window.empty())
    table.row({"window", "no",
               "flashscope-window is not beside this program, in its libexec or on PATH; next step: build "
               "with FLASHSCOPE_WINDOW=ON"});
  else
    table.row({"window", "yes", window});
}

void doctor(Context& context) {
  Table table({Table::Align::left, Table::Align::left, Table::Align::left});
  table.row({"program", "yes", version_line()});
  table.row({"simulator", "yes", "needs nothing; GPUs described: " + list_of(machine_names())});
  const std::vector<std::string> recordings = recording_names();
  table.row({"recordings", recordings.empty() ? "no" : "yes",
             recordings.empty() ? "none is shipped; next step: flashscope measure --record FILE on a GPU"
                                : list_of(recordings)});
  check_gpu(table, context);
  check_window(table);
  context.print(table.text());
}

}  // namespace

Action declare_doctor(CLI::App&) { return doctor; }

}  // namespace flashscope
