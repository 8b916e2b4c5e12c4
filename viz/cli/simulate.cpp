// flashscope simulate: one algorithm predicted. Traffic, FLOPs, time, stalls; a trace; a sweep.
#include <algorithm>
#include <memory>
#include <optional>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/memory.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/simulate_json.h"
#include "viz/cli/table.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/trace_export.h"

namespace flashscope {
namespace {

constexpr std::int64_t kMostSpans = 1'000'000;  // Perfetto stays usable below this

struct Options {
  ProblemOptions problem;
  bool json = false, csv = false;
  std::string trace;
  std::optional<std::pair<std::int64_t, std::int64_t>> ctas;  // first, last of each kernel
  std::optional<std::pair<double, double>> window_us;         // begin, end
  std::optional<Sweep> sweep;
};

/// Passes on the spans of some CTAs and of a window of time, up to the limit.
class TraceFilter final : public TraceSink {
 public:
  TraceFilter(const Options& options, ChromeTraceWriter& writer) : m_options(options), m_writer(writer) {}

  void span(const OpSpan& span) override {
    if (const auto& ctas = m_options.ctas)
      if (span.cta < ctas->first || span.cta > ctas->second) return;
    if (const auto& window = m_options.window_us)
      if (static_cast<double>(span.end) <= window->first * 1e6 ||
          static_cast<double>(span.begin) >= window->second * 1e6)
        return;
    if (m_writer.spans() == kMostSpans) throw too_many("more than " + grouped(kMostSpans));
    m_writer.span(span);
  }

  static Error too_many(const std::string& count) {
    return Error(ErrorKind::usage, "--trace: the run has " + count + " spans and a trace holds at most " +
                                       grouped(kMostSpans) +
                                       "; choose some of them with --ctas FIRST,LAST or --window-us BEGIN,END");
  }

 private:
  const Options& m_options;
  ChromeTraceWriter& m_writer;
};

RunOptions from(Start start) {
  RunOptions run;
  run.start = start;
  return run;
}

Prediction simulate_with_trace(const Options& options, const Schedule& schedule, const Machine& machine) {
  if (!options.ctas && !options.window_us) {
    // Every operation becomes at least one span: known before a long run starts.
    const std::int64_t ops = count(schedule).total.ops;
    if (ops > kMostSpans) throw TraceFilter::too_many("at least " + grouped(ops));
  }
  OutputFile file(options.trace);
  ChromeTraceWriter writer(schedule, machine.name, [&](std::string_view bytes) { file.write(bytes); });
  TraceFilter filter(options, writer);
  RunOptions run = from(options.problem.start);
  run.trace = &filter;
  const Prediction prediction = simulate(schedule, machine, run);
  writer.finish();
  file.commit();
  return prediction;
}

std::string traffic_table(const Schedule& schedule, const Prediction& prediction) {
  using enum Table::Align;
  Table table({left, right, right, right, right});
  table.row({"bytes", "L2 → SM", "SM → L2", "HBM → L2", "L2 → HBM"});
  for (Tensor tensor : schedule.tensors()) {
    const auto t = static_cast<std::size_t>(tensor);
    const SmTraffic& sm = prediction.count.tensors[t];
    const HbmTraffic& hbm = prediction.tensors[t];
    table.row({name_of(tensor), grouped(sm.read), grouped(sm.write), grouped(hbm.read), grouped(hbm.write)});
  }
  const SmTraffic& sm = prediction.count.sm;
  const HbmTraffic& hbm = prediction.hbm;
  table.row({"total", grouped(sm.read), grouped(sm.write), grouped(hbm.read), grouped(hbm.write)});
  table.row({"", decimal_bytes(sm.read), decimal_bytes(sm.write), decimal_bytes(hbm.read), decimal_bytes(hbm.write)});
  return table.text();
}

/// What the backward pass runs instead of reading P: products over whole tiles, against the four that storing P needs.
std::string recomputation_text(const Schedule& schedule, const KernelCount& count) {
  AttentionProblem p = schedule.problem();
  const std::int64_t stored = make_schedule("three_pass", p)->closed_form().paper_bytes;
  const std::int64_t paper = schedule.closed_form().paper_bytes;
  const std::int64_t product = 2 * std::int64_t{p.head_dim} * p.seqlen_q * p.seqlen_k * p.num_heads();
  if (product == 0) return "nothing to compute";
  std::string text = formatted("{} products of whole matrices",
                               grouped_decimal(static_cast<double>(count.flops_executed) / static_cast<double>(product), 2));
  if (paper < stored)
    text += formatted("; storing P takes 4, and {} more by the paper's count", decimal_bytes(stored - paper));
  return text;
}

std::string counts_table(const Schedule& schedule, const Machine& machine, const Prediction& prediction) {
  using enum Table::Align;
  Table table({left, right, right, left});
  const auto bytes = [&](const char* name, std::int64_t value, const char* meaning) {
    table.row({name, grouped(value) + " B", decimal_bytes(value), meaning});
  };
  const KernelCount& count = prediction.count;
  bytes("SM reads in sectors", count.sm.sector_read, "what hardware counters see, 32 B each");
  bytes("SM writes in sectors", count.sm.sector_write, "");
  bytes("dirty in L2 at the end", prediction.hbm_dirty_bytes, "written, not yet in HBM");
  bytes("paper's count", schedule.closed_form().paper_bytes, "two levels, no L2");
  const bool is_forward = schedule.problem().pass == Pass::forward;
  bytes("compulsory", compulsory_bytes(schedule.problem()),
        is_forward ? "Q, K, V once, O once" : "Q, K, V, dO once, dQ, dK, dV once");
  bytes("peak memory", schedule.peak_memory_bytes(), "all tensors in HBM");
  const std::int64_t hbm_bytes = static_cast<std::int64_t>(machine.hbm_bytes.value);
  if (schedule.problem().num_heads() > 0)
    table.row({"largest seqlen", grouped(largest_seqlen(schedule, hbm_bytes)), "",
               "whose tensors fit in the " + decimal_bytes(hbm_bytes) + " of this GPU"});
  table.row({"FLOPs of kept pairs", grouped(count.flops), "",
             is_forward ? "4 · head_dim · kept pairs" : "10 · head_dim · kept pairs: five products"});
  table.row({"FLOPs executed", grouped(count.flops_executed), "",
             is_forward ? "whole tiles, as the schedule runs them" : recomputation_text(schedule, count)});
  table.row({"exponentials", grouped(count.exps), "",
             is_forward ? "kept pairs, and one a row and rescale" : "kept pairs, each time P is recomputed"});
  return table.text();
}

std::string kernels_table(const Schedule& schedule, const Prediction& prediction) {
  using enum Table::Align;
  Table table({left, right, right, left, right});
  table.row({"kernel", "CTAs", "CTAs/SM", "limited by", "µs"});
  for (std::size_t k = 0; k < prediction.kernels.size(); ++k) {
    const KernelPrediction& kernel = prediction.kernels[k];
    table.row({schedule.kernels()[k].name, grouped(schedule.kernels()[k].ctas()), std::to_string(kernel.ctas_per_sm),
               kernel.occupancy_limit, grouped_decimal(static_cast<double>(kernel.end - kernel.begin) / 1e6, 1)});
    table.row({"  CTA time by reason: " + describe_reasons(kernel)});
  }
  return table.text();
}

std::string training_table(const TrainingStep& step) {
  using enum Table::Align;
  Table table({left, right, right, left});
  const auto bytes = [&](const char* name, std::int64_t value) {
    table.row({name, grouped(value) + " B", decimal_bytes(value), ""});
  };
  table.row({"training step: forward + backward", grouped_decimal(step.time_us, 1) + " µs", "",
             "forward alone " + grouped_decimal(step.forward_us, 1) + " µs"});
  bytes("  L2 → SM", step.sm_read_bytes);
  bytes("  SM → L2", step.sm_write_bytes);
  bytes("  HBM → L2", step.hbm_read_bytes);
  bytes("  L2 → HBM", step.hbm_write_bytes);
  bytes("  peak memory", step.peak_memory_bytes);
  table.row({"  FLOPs of kept pairs, executed", grouped(step.flops), "", grouped(step.flops_executed)});
  return table.text();
}

std::string report(const Schedule& schedule, const Machine& machine, Start start, const Prediction& prediction) {
  const double us = prediction.time_us();
  const std::string note = extrapolation_note(schedule, prediction);
  return formatted(
      "{} on {} ({}), predicted\n  {}\n  {}, start {}\n\n  time  {} µs\n  rate  {} TFLOP/s of kept pairs, {} TFLOP/s "
      "of "
      "executed FLOPs\n{}\n{}\n{}\n{}",
      schedule.algorithm(), machine.title, machine.name, describe(schedule.problem()), describe(schedule.tile()),
      name_of(start), grouped_decimal(us, 1), tflops_text(prediction.count.flops, us),
      tflops_text(prediction.count.flops_executed, us), note.empty() ? "" : "  " + note + "\n",
      traffic_table(schedule, prediction), counts_table(schedule, machine, prediction), kernels_table(schedule, prediction));
}

void simulate_sweep(const Options& options, Context& context) {
  // Predicted point by point, printed when all are known: half a sweep is no sweep.
  Json points = Json::array();
  std::string rows;
  for (const std::string& value : options.sweep->values) {
    ProblemOptions at = options.problem;
    set_problem_option(at, options.sweep->name, value);
    at.refuse_without_effect();
    const auto schedule = at.schedule();
    const Machine machine = at.machine();
    const Prediction prediction = simulate(*schedule, machine, from(at.start));
    if (options.json) points.push_back(prediction_to_json(*schedule, machine, at.start, prediction));
    rows += prediction_csv_rows(*schedule, machine, at.start, prediction);
  }
  context.print(options.json ? json_text(points, -1) : prediction_csv_header() + rows);
}

void simulate_once(const Options& options, Context& context) {
  options.problem.refuse_without_effect();
  const auto schedule = options.problem.schedule();
  const Machine machine = options.problem.machine();
  const Start start = options.problem.start;
  const Prediction prediction = options.trace.empty() ? simulate(*schedule, machine, from(start))
                                                      : simulate_with_trace(options, *schedule, machine);
  const std::string note = extrapolation_note(*schedule, prediction);
  if (!options.trace.empty() && !note.empty())
    context.note("flashscope: the trace shows the simulated heads. " + note + "\n");
  if (options.csv) {
    context.print(prediction_csv_header() + prediction_csv_rows(*schedule, machine, start, prediction, true));
    return;
  }
  const std::optional<TrainingStep> step = training_step(*schedule, machine, start, prediction);
  if (options.json)
    context.print(json_text(simulate_json(*schedule, machine, start, prediction, step), -1));
  else
    context.print(report(*schedule, machine, start, prediction) + (step ? "\n" + training_table(*step) : ""));
}

}  // namespace

Action declare_simulate(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_problem_options(app, options->problem);
  add_flag(app, "--json", "one JSON object (docs/file-formats.md)", options->json);
  add_flag(app, "--csv", "one line for the run and one for each kernel", options->csv);
  add_text(app, "--trace", "FILE", "write the timeline in the Chrome trace format; opens in Perfetto", options->trace);
  add_value(app, "--ctas", "FIRST,LAST", "trace these CTAs of each kernel alone", [options](const std::string& text) {
    const auto ends = split(text, ',');
    if (ends.size() != 2) throw Error(ErrorKind::usage, "--ctas: '" + text + "' is not FIRST,LAST");
    const std::int64_t first = parse_integer("--ctas", ends[0], 0, INT64_MAX);
    options->ctas = {first, parse_integer("--ctas", ends[1], first, INT64_MAX)};
  });
  add_value(app, "--window-us", "BEGIN,END", "trace this window of time alone", [options](const std::string& text) {
    const auto ends = split(text, ',');
    if (ends.size() != 2) throw Error(ErrorKind::usage, "--window-us: '" + text + "' is not BEGIN,END");
    options->window_us = {parse_number("--window-us", ends[0]), parse_number("--window-us", ends[1])};
    if (options->window_us->first < 0 || options->window_us->second <= options->window_us->first)
      throw Error(ErrorKind::usage, "--window-us: '" + text + "' is not 0 <= BEGIN < END");
  });
  add_value(app, "--sweep", "NAME=FIRST:LAST:STEP",
            "many values of one size, STEP x2 or +512, or NAME=A,B,C; CSV or --json",
            [options](const std::string& text) { options->sweep = parse_sweep(text); });
  return [options](Context& context) {
    if (options->json && options->csv) throw Error(ErrorKind::usage, "--json, --csv: give one of them");
    if (options->sweep && !options->trace.empty()) throw Error(ErrorKind::usage, "--trace: not with --sweep");
    if (options->trace.empty() && (options->ctas || options->window_us))
      throw Error(ErrorKind::usage, std::string(options->ctas ? "--ctas" : "--window-us") + ": only with --trace FILE");
    options->sweep ? simulate_sweep(*options, context) : simulate_once(*options, context);
  };
}

}  // namespace flashscope
