// flashscope compare: predicted beside measured for two settings, and why their bytes differ.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/core/traffic_reasons.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"

namespace flashscope {
namespace {

using viz::explain;
using viz::GroupTraffic;
using viz::tensor_groups;
using viz::TensorGroup;

constexpr int kWidth = 100;  // of a lecture terminal

struct Options {
  ProblemOptions shared;
  std::vector<std::string> settings;
  std::string recording;  // a file; empty: those shipped
  bool json = false, csv = false;
};

/// One side of the comparison.
struct Side {
  std::string setting;  // as on the command line
  ProblemOptions options;
  Machine machine;
  std::unique_ptr<Schedule> schedule;
  Prediction prediction;
  Recorded recorded;
  double time_us_at_clock = 0;  // predicted at the clock of the recorded row: what the measured time is compared with
};

Side make_side(const ProblemOptions& shared, const std::string& setting, const std::string& recording) {
  Side side;
  side.setting = setting;
  side.options = apply_setting(shared, setting);
  side.machine = side.options.machine();
  side.schedule = side.options.schedule();
  RunOptions run;
  run.start = side.options.start;
  side.prediction = simulate(*side.schedule, side.machine, run);
  side.recorded = find_recorded(side.machine, *side.schedule, side.options.start, recording);
  const Machine clocked = at_measured_clock(side.machine, side.recorded.measured);
  side.time_us_at_clock = clocked.sm_clock_mhz.value == side.machine.sm_clock_mhz.value
                              ? side.prediction.time_us()
                              : simulate(*side.schedule, clocked, run).time_us();
  return side;
}

/// One count, predicted for a side.
struct Quantity {
  const char* key;
  const char* label;
  bool is_bytes;
  std::int64_t (*predicted)(const Side&);
};

const Quantity kQuantities[] = {
    {"sm_read_bytes", "SM reads (L2 → SM)", true, [](const Side& s) { return s.prediction.count.sm.read; }},
    {"sm_write_bytes", "SM writes (SM → L2)", true, [](const Side& s) { return s.prediction.count.sm.write; }},
    {"hbm_read_bytes", "HBM reads (HBM → L2)", true, [](const Side& s) { return s.prediction.hbm.read; }},
    {"hbm_write_bytes", "HBM writes (L2 → HBM)", true, [](const Side& s) { return s.prediction.hbm.write; }},
    {"hbm_dirty_bytes", "still dirty in L2", true, [](const Side& s) { return s.prediction.hbm_dirty_bytes; }},
    {"paper_bytes", "paper's count (no L2)", true, [](const Side& s) { return s.schedule->closed_form().paper_bytes; }},
    {"compulsory_bytes", "compulsory", true, [](const Side& s) { return compulsory_bytes(s.schedule->problem()); }},
    {"peak_memory_bytes", "peak memory", true, [](const Side& s) { return s.schedule->peak_memory_bytes(); }},
    {"flops", "FLOPs of kept pairs", false, [](const Side& s) { return s.prediction.count.flops; }},
    {"flops_executed", "FLOPs executed (tiles)", false,
     [](const Side& s) { return s.prediction.count.flops_executed; }},
    {"exps", "exponentials", false, [](const Side& s) { return s.prediction.count.exps; }},
};

/// A quantity that the hardware counts too. Counters see sectors, and drained writes include the dirty lines.
struct CountedQuantity {
  const char* key;
  const char* label;
  std::int64_t (*predicted)(const Side&);
  kernels::Measured<std::int64_t> kernels::Measurement::*measured;
};

const CountedQuantity kCounted[] = {
    {"sm_sector_read_bytes", "SM reads", [](const Side& s) { return s.prediction.count.sm.sector_read; },
     &kernels::Measurement::sm_read_bytes},
    {"sm_sector_write_bytes", "SM writes", [](const Side& s) { return s.prediction.count.sm.sector_write; },
     &kernels::Measurement::sm_write_bytes},
    {"hbm_read_bytes", "HBM reads", [](const Side& s) { return s.prediction.hbm.read; },
     &kernels::Measurement::hbm_read_bytes},
    {"hbm_write_and_dirty_bytes", "HBM writes + dirty",
     [](const Side& s) { return s.prediction.hbm.write + s.prediction.hbm_dirty_bytes; },
     &kernels::Measurement::hbm_write_bytes},
};

double as_double(std::int64_t value) { return static_cast<double>(value); }

std::string predicted_table(const Side& a, const Side& b) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right});
  table.row({"predicted", "A", "", "B", "", "A / B"});
  for (const Quantity& q : kQuantities) {
    const std::int64_t of_a = q.predicted(a), of_b = q.predicted(b);
    const auto unit = [&](std::int64_t value) { return q.is_bytes ? decimal_bytes(value) : std::string(); };
    table.row(
        {q.label, grouped(of_a), unit(of_a), grouped(of_b), unit(of_b), ratio_text(as_double(of_a), as_double(of_b))});
  }
  const double us_a = a.prediction.time_us(), us_b = b.prediction.time_us();
  table.row({"time", grouped_decimal(us_a, 1), "µs", grouped_decimal(us_b, 1), "µs", ratio_text(us_a, us_b)});
  table.row({"TFLOP/s of kept pairs", tflops_text(a.prediction.count.flops, us_a), "",
             tflops_text(b.prediction.count.flops, us_b), ""});
  return table.text();
}

/// Three rows: A, B, and their ratio predicted and measured.
template <class Value>
void measured_rows(Table& table, const std::string& label, double predicted_a, double predicted_b,
                   const kernels::Measured<Value>& measured_a, const kernels::Measured<Value>& measured_b,
                   const std::function<std::string(double)>& text) {
  const auto row = [&](const std::string& first, const char* side, double predicted,
                       const kernels::Measured<Value>& measured) {
    if (!measured.value) return table.row({first, side, text(predicted), "unavailable", ""});
    const double value = static_cast<double>(*measured.value);
    table.row({first, side, text(predicted), text(value), error_text(predicted, value)});
  };
  row(label, "A", predicted_a, measured_a);
  row("", "B", predicted_b, measured_b);
  const std::string ratio = measured_a.value && measured_b.value ? ratio_text(static_cast<double>(*measured_a.value),
                                                                              static_cast<double>(*measured_b.value))
                                                                 : "";
  table.row({"", "A / B", ratio_text(predicted_a, predicted_b), ratio, ""});
}

std::string measured_table(const Side& a, const Side& b) {
  if (!a.recorded.found && !b.recorded.found)
    return wrapped("Measured: unavailable (" + a.recorded.origin +
                       (a.recorded.origin == b.recorded.origin ? "" : "; B: " + b.recorded.origin) +
                       "); 'flashscope measure' takes it on a GPU.",
                   kWidth, 0) +
           "\n";
  std::string text = "Predicted beside measured. ";
  text += a.recorded.origin == b.recorded.origin ? "Both " + a.recorded.origin + "."
                                                 : "A " + a.recorded.origin + ". B " + b.recorded.origin + ".";
  text = wrapped(text, kWidth, 0) + "\n";
  using enum Table::Align;
  Table table({left, left, right, right, right});
  table.row({"", "", "predicted", "measured", "error"});
  const auto bytes = [](double value) { return grouped(static_cast<std::int64_t>(value)) + " B"; };
  for (const CountedQuantity& q : kCounted)
    measured_rows(table, q.label, as_double(q.predicted(a)), as_double(q.predicted(b)), a.recorded.measured.*q.measured,
                  b.recorded.measured.*q.measured, bytes);
  measured_rows(table, "time, at the recorded clock", a.time_us_at_clock, b.time_us_at_clock,
                a.recorded.measured.time_us, b.recorded.measured.time_us,
                [](double us) { return grouped_decimal(us, 1) + " µs"; });
  return text + table.text();
}

/// A group of tensors with what both sides do with it.
struct Difference {
  const TensorGroup* group;
  GroupTraffic a, b;
  std::int64_t sm() const { return a.sm.read + a.sm.write - b.sm.read - b.sm.write; }
  std::int64_t hbm() const { return a.hbm.read + a.hbm.write - b.hbm.read - b.hbm.write; }
};

/// Largest difference at the SMs first.
std::vector<Difference> differences(const Side& a, const Side& b) {
  std::vector<Difference> list;
  for (const TensorGroup& group : tensor_groups()) {
    Difference d = {&group, explain(group, *a.schedule, a.prediction), explain(group, *b.schedule, b.prediction)};
    const auto moved = [](const GroupTraffic& t) { return t.sm.read + t.sm.write > 0; };
    if (moved(d.a) || moved(d.b)) list.push_back(std::move(d));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Difference& x, const Difference& y) { return std::abs(x.sm()) > std::abs(y.sm()); });
  return list;
}

std::string reasons_text(const Side& a, const Side& b) {
  std::string text = "Why the bytes differ (largest difference at the SMs first)\n";
  const auto signed_bytes = [](std::int64_t value) { return (value > 0 ? "+" : "") + grouped(value) + " B"; };
  const auto lines = [](const char* side, const GroupTraffic& traffic) {
    std::string sentences;
    for (const std::string& sentence : traffic.sentences) sentences += sentence + ". ";
    const std::string head = "    " + std::string(side) + "  ";
    return head + wrapped(sentences, kWidth, static_cast<int>(head.size())) + "\n";
  };
  for (const Difference& d : differences(a, b)) {
    text += formatted("  {}   A − B: {} at the SMs, {} at HBM\n", d.group->name, signed_bytes(d.sm()),
                      signed_bytes(d.hbm()));
    text += d.a.sentences == d.b.sentences ? lines("A and B", d.a) : lines("A", d.a) + lines("B", d.b);
  }
  return text;
}

std::string summary_line(const Side& a, const Side& b) {
  const auto ratio = [&](auto of) { return ratio_text(as_double(of(a)), as_double(of(b))); };
  return wrapped(
             formatted("In short: A moves {} B's bytes by the paper's count, {} at the SMs, {} at HBM (dirty lines "
                       "included), and takes {} B's time (predicted).",
                       ratio(kQuantities[5].predicted),
                       ratio([](const Side& s) { return s.prediction.count.sm.read + s.prediction.count.sm.write; }),
                       ratio([](const Side& s) {
                           return s.prediction.hbm.read + s.prediction.hbm.write + s.prediction.hbm_dirty_bytes;
                         }),
                         ratio_text(a.prediction.time_us(), b.prediction.time_us())),
             kWidth, 0) +
         "\n";
}

std::string report(const Side& a, const Side& b) {
  std::string text;
  for (const auto& [letter, side] : {std::pair{"A", &a}, std::pair{"B", &b}})
    text += formatted("{}  {}: {}; {}\n   on {}, start {}\n", letter, side->schedule->algorithm(),
                      describe(side->schedule->problem()), describe(side->schedule->tile()), side->machine.title,
                      name_of(side->options.start));
  for (const auto& [letter, side] : {std::pair{"A", &a}, std::pair{"B", &b}}) {
    const std::string note = extrapolation_note(*side->schedule, side->prediction);
    if (!note.empty()) text += "   " + std::string(letter) + ": " + note + "\n";
  }
  return text + "\n" + predicted_table(a, b) + "\n" + measured_table(a, b) + "\n" + reasons_text(a, b) + "\n" +
         summary_line(a, b);
}

Json measured_object(const kernels::Measurement& m, const Recorded& recorded) {
  return {{"source", recorded.found ? recorded.origin : "unavailable (" + recorded.origin + ")"},
          {"time_us", measured_json(m.time_us)},
          {"sm_read_bytes", measured_json(m.sm_read_bytes)},
          {"sm_write_bytes", measured_json(m.sm_write_bytes)},
          {"hbm_read_bytes", measured_json(m.hbm_read_bytes)},
          {"hbm_write_bytes", measured_json(m.hbm_write_bytes)}};
}

Json side_object(const Side& side) {
  return {{"setting", side.setting},
          {"predicted", prediction_to_json(*side.schedule, side.machine, side.options.start, side.prediction)},
          {"time_us_at_recorded_clock", json_number(side.time_us_at_clock)},
          {"measured", measured_object(side.recorded.measured, side.recorded)}};
}

std::string json_report(const Side& a, const Side& b) {
  Json ratios = Json::object();
  const auto ratio = [](double x, double y) { return y == 0 ? Json("n/a") : json_number(x / y); };
  for (const Quantity& q : kQuantities) ratios[q.key] = ratio(as_double(q.predicted(a)), as_double(q.predicted(b)));
  ratios["time_us"] = ratio(a.prediction.time_us(), b.prediction.time_us());
  Json reasons = Json::array();
  for (const Difference& d : differences(a, b)) {
    Json tensors = Json::array();
    for (Tensor tensor : d.group->tensors) tensors.push_back(name_of(tensor));
    const auto side = [](const GroupTraffic& t) {
      return Json{{"sm_read_bytes", t.sm.read},
                  {"sm_write_bytes", t.sm.write},
                  {"hbm_read_bytes", t.hbm.read},
                  {"hbm_write_bytes", t.hbm.write},
                  {"why", t.sentences}};
    };
    reasons.push_back(Json{{"tensors", tensors}, {"a", side(d.a)}, {"b", side(d.b)}});
  }
  return json_text(
      Json{{"a", side_object(a)}, {"b", side_object(b)}, {"a_over_b_predicted", ratios}, {"reasons", reasons}}, -1);
}

std::string csv_report(const Side& a, const Side& b) {
  std::string text = "quantity,a_predicted,b_predicted,a_measured,b_measured\n";
  for (const Quantity& q : kQuantities) text += formatted("{},{},{},,\n", q.key, q.predicted(a), q.predicted(b));
  const auto cell = [](const auto& measured) {
    const Json value = measured_json(measured);
    return csv_field(value.is_string() ? value.get<std::string>() : value.dump());
  };
  for (const CountedQuantity& q : kCounted)
    text += formatted("counted_{},{},{},{},{}\n", q.key, q.predicted(a), q.predicted(b),
                      cell(a.recorded.measured.*q.measured), cell(b.recorded.measured.*q.measured));
  text += formatted("time_us_at_recorded_clock,{},{},{},{}\n", number_text(a.time_us_at_clock),
                    number_text(b.time_us_at_clock), cell(a.recorded.measured.time_us),
                    cell(b.recorded.measured.time_us));
  return text +
         formatted("time_us,{},{},,\n", number_text(a.prediction.time_us()), number_text(b.prediction.time_us()));
}

void compare(const Options& options, Context& context) {
  if (options.json && options.csv) throw Error(ErrorKind::usage, "--json, --csv: give one of them");
  if (options.settings.size() == 1)
    throw Error(ErrorKind::usage, "compare takes two settings or none; '" + options.settings[0] + "' stands alone");
  const bool given = options.settings.size() == 2;
  const Side a = make_side(options.shared, given ? options.settings[0] : "three_pass", options.recording);
  const Side b = make_side(options.shared, given ? options.settings[1] : "flash_v2", options.recording);
  context.print(options.json ? json_report(a, b) : options.csv ? csv_report(a, b) : report(a, b));
}

}  // namespace

Action declare_compare(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_positionals(app, "SETTING", 2, "two settings A and B (three_pass flash_v2)", options->settings);
  ProblemOptionSet set;
  set.algorithm = false;
  add_problem_options(app, options->shared, set);
  add_text(app, "--recording", "FILE", "take measured values from this recording, not the shipped ones",
           options->recording);
  add_flag(app, "--json", "both predictions, measurements, ratios and reasons as one JSON object", options->json);
  add_flag(app, "--csv", "one line a quantity", options->csv);
  return [options](Context& context) { compare(*options, context); };
}

}  // namespace flashscope
