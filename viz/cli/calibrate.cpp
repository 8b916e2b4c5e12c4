// flashscope calibrate: microbenchmarks of the GPU here, made into a machine file for --gpu.
#include <csignal>
#include <memory>
#include <optional>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/table.h"
#include "viz/cli/today.h"
#include "viz/io/calibration_io.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

struct Options {
  std::string out;
  bool json = false;
  kernels::CalibrateOptions calibrate;
};

volatile std::sig_atomic_t interrupted = 0;

/// Ctrl-C asks for an orderly end while this lives; a second one ends the program at once.
class InterruptWatch {
 public:
  InterruptWatch() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &m_before);
  }
  ~InterruptWatch() { sigaction(SIGINT, &m_before, nullptr); }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  struct sigaction m_before = {};
};

/// Four digits, or all of a whole number: a bandwidth of 4,405 and a latency of 14.63.
std::string value_text(double value) {
  if (value == static_cast<double>(static_cast<std::int64_t>(value))) return grouped(static_cast<std::int64_t>(value));
  const double size = value < 0 ? -value : value;
  return grouped_decimal(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string spread_text(double p10, double p90) { return value_text(p10) + " … " + value_text(p90); }

/// The machine file's fields: what was measured, what documents say, and the ratio of the two.
std::string fields_text(const Machine& machine) {
  using enum Table::Align;
  Table table({left, right, left, right, right, right, left});
  table.row({"field", "value", "unit", "10 … 90 %", "documented", "ratio", "source"});
  for (const MachineField& field : machine_fields()) {
    const Quantity& q = machine.*field.member;
    table.row({field.key, value_text(q.value), field.unit,
               q.spread ? spread_text(q.spread->p10, q.spread->p90) : "",
               q.documented ? value_text(q.documented->value) : "",
               q.documented && q.documented->value != 0 ? formatted("{:.3f}", q.value / q.documented->value) : "",
               q.source == "calibration" ? q.documented ? "calibration; beside it: " + q.documented->source : q.source
                                         : q.source + ": not measured"});
  }
  return table.text();
}

std::string readings_text(const kernels::Calibration& calibration) {
  using enum Table::Align;
  Table table({left, right, left, right, right, left});
  std::string group;
  for (const kernels::Reading& r : calibration.readings) {
    if (r.samples == 0 && r.value.value) continue;  // the driver's limits are fields, above
    if (r.group != group) {
      group = r.group;
      table.row({group});
    }
    if (r.value.value)
      table.row({"  " + r.name, value_text(*r.value.value), r.unit,
                 r.samples > 1 ? spread_text(r.p10, r.p90) : "", r.samples > 1 ? grouped(r.samples) : "", r.field});
    else
      table.row({"  " + r.name, "unavailable", "", "", "", r.value.reason});
  }
  return table.text();
}

std::unique_ptr<kernels::Device> open_device(Context& context) {
  try {
    return context.open_device();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::env) throw;
    std::string names;
    for (const std::string& name : machine_names()) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorKind::env, std::string(error.what()) +
                                    "; calibrate where there is a GPU, or use a shipped description with --gpu: " + names);
  }
}

kernels::Calibration measured(const Options& options, kernels::Device& device, Context& context) {
  const InterruptWatch watch;
  kernels::CalibrateOptions run = options.calibrate;
  std::string shown;
  run.progress = [&](double share, const std::string& group) {
    if (group != shown) context.note(formatted("[{:3.0f} %] {}\n", 100 * share, group));
    shown = group;
    return interrupted == 0;
  };
  try {
    return device.calibrate(run);
  } catch (const Error& error) {
    if (interrupted == 0) throw;
    throw Error(error.kind(), "cancelled by Ctrl-C; nothing was written");
  }
}

void calibrate(const Options& options, Context& context) {
  const auto device = open_device(context);
  // Opened first: a minute of measuring is not lost to a folder that is not there. Nothing appears before commit().
  std::optional<OutputFile> file;
  if (!options.out.empty()) file.emplace(options.out);

  const kernels::DeviceInfo info = device->info();
  const CalibrationBase base = calibration_base(info);
  const kernels::Calibration calibration = measured(options, *device, context);
  const std::string date = today();
  const Machine machine = calibrated_machine(base, info, calibration, date);
  const Json document = calibration_to_json(machine, info, calibration, date);
  if (file) {
    file->write(json_text(document));
    file->commit();
  }
  if (options.json) return context.print(json_text(document, -1));
  context.print(formatted(
      "{}, driver {}, CUDA {}, {}{}\n\n{}\nEvery reading: median, 10th and 90th percentile, samples, and the field it "
      "fills\n\n{}{}",
      info.name, info.driver_version.empty() ? "unknown" : info.driver_version, info.cuda_version, date,
      base.same_gpu ? "" : "; no description of this GPU is shipped, what is not measured is that of the " +
                               base.machine.title,
      fields_text(machine), readings_text(calibration),
      file ? formatted("\nWritten to {}; use it with --gpu {}\n", options.out,
                       options.out.find('/') == std::string::npos ? "./" + options.out : options.out)
           : ""));
}

}  // namespace

Action declare_calibrate(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_text(app, "--out", "FILE", "write the machine file, for --gpu", options->out);
  add_integer(app, "--launches", 5, 10'000, "timed launches of each microbenchmark (20)",
              [options](std::int64_t value) { options->calibrate.launches = static_cast<int>(value); });
  add_flag(app, "--no-counters", "no hardware byte counters: L2's capacity by time alone",
           [options] { options->calibrate.counters = false; });
  add_flag(app, "--json", "the machine file on standard output", options->json);
  return [options](Context& context) { calibrate(*options, context); };
}

}  // namespace flashscope
