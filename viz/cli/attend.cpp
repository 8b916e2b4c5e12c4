// flashscope attend: attention on the user's own tensors, executed operation by operation as the schedule says.
#include <algorithm>
#include <exception>
#include <memory>

#include "sim/compute/compute.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/io/attend_io.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr std::size_t kShownValues = 64;  // of a tensor, in the table for people

struct Options {
  ProblemOptions shared;
  std::vector<std::string> files;  // at most one
  AttendNpyPaths npy;
  double scale = 0;  // 0: the file's, or 1 / sqrt(head_dim)
  bool backward_keys = false;
  bool on_gpu = false;
  bool steps = false, json = false;
  std::string out;
};

AttendInput read_input(const Options& options) {
  const bool any_npy = !(options.npy.q + options.npy.k + options.npy.v + options.npy.mask + options.npy.d_out).empty();
  if (!options.files.empty() && any_npy) throw Error(ErrorKind::usage, "attend: give FILE, or --q --k --v, not both");
  if (any_npy) {
    for (const auto& [name, path] :
         {std::pair{"--q", &options.npy.q}, std::pair{"--k", &options.npy.k}, std::pair{"--v", &options.npy.v}})
      if (path->empty())
        throw Error(ErrorKind::usage, std::string(name) + ": the value is missing; it takes a .npy file");
    return read_attend_npy(options.npy, options.scale);
  }
  if (options.files.empty()) throw Error(ErrorKind::usage, "attend: give a JSON file, or --q --k --v with .npy files");
  AttendInput input = read_attend_json(options.files[0]);
  if (options.scale != 0) input.problem.softmax_scale = options.scale;
  return input;
}

/// What the file says about sizes and scale, and the command line about everything else.
AttentionProblem problem_of(const AttendInput& input, const Options& options) {
  AttentionProblem problem = input.problem;
  problem.dtype = options.shared.dtype;
  options.shared.set_mask(problem);
  problem.dense_mask = input.inputs.keep.heads > 0;
  validate(problem);
  return problem;
}

Json error_json(const OutputError& error) {
  return {{"max_abs", json_number(error.max_abs)},
          {"mean_abs", json_number(error.mean_abs)},
          {"nonfinite", error.nonfinite}};
}

/// An output tensor: its name for people, in JSON and in file names.
struct Output {
  const char* name;
  const char* key;
  const Array* values;
  bool is_statistic;  // one number a row
  bool by_key;        // one head a KV head
  OutputError error;  // against the float64 reference
};

struct Result {
  std::unique_ptr<Schedule> schedule;
  AttentionOutputs outputs;
  std::vector<Output> list;  // of what `outputs` holds: O and LSE, with d_out also the gradients
  Json steps = Json::array();
};

void list_outputs(Result& result, const AttentionOutputs& reference) {
  const AttentionOutputs& out = result.outputs;
  result.list = {{"O", "o", &out.o, false, false, error_of(out.o, reference.o)},
                 {"LSE", "lse", &out.lse, true, false, error_of(out.lse, reference.lse)}};
  if (result.schedule->problem().pass == Pass::forward) return;
  result.list.push_back({"dQ", "d_q", &out.d_q, false, false, error_of(out.d_q, reference.d_q)});
  result.list.push_back({"dK", "d_k", &out.d_k, false, true, error_of(out.d_k, reference.d_k)});
  result.list.push_back({"dV", "d_v", &out.d_v, false, true, error_of(out.d_v, reference.d_v)});
}

std::unique_ptr<Result> attend(const AttentionProblem& problem, const AttentionInputs& inputs, const Options& options,
              Context& context) {
  auto attended = std::make_unique<Result>();  // `list` points into it
  Result& result = *attended;
  TileShape tile = options.shared.tile_for(problem);
  tile.backward_keys = options.backward_keys;
  result.schedule = make_schedule(options.shared.algorithm, problem, tile);
  if (options.on_gpu) {
    const auto device = context.open_device();
    const std::string why = device->why_unsupported(*result.schedule);
    if (!why.empty()) throw Error(ErrorKind::unsupported, "--device gpu: " + why);
    result.outputs = device->run(*result.schedule, inputs);
  } else {
    ComputeOptions compute_options;
    if (options.steps)
      compute_options.after_tile = [&](const TileState& state) { result.steps.push_back(tile_state_to_json(state)); };
    result.outputs = compute(*result.schedule, inputs, compute_options);
  }
  list_outputs(result, reference_attention(problem, inputs));
  return attended;
}

/// Without the tensors: what a reader needs to know how they came about.
Json header_json(const Result& result, const Options& options) {
  TileShape tile = result.schedule->tile();
  tile.backward_keys = false;  // said below, whichever it is
  return {{"algorithm", result.schedule->algorithm()},
          {"pass", name_of(result.schedule->problem().pass)},
          {"problem", problem_to_json(result.schedule->problem())},
          {"tile", tile_to_json(tile)},
          {"kv_order", options.backward_keys ? "backward" : "forward"},
          {"device", options.on_gpu ? "gpu" : "cpu"}};
}

Json errors_json(const Result& result) {
  Json errors = Json::object();
  for (const Output& output : result.list) errors[output.key] = error_json(output.error);
  return errors;
}

std::string json_report(const Result& result, const Options& options) {
  const AttentionProblem& p = result.schedule->problem();
  Json document = header_json(result, options);
  for (const Output& output : result.list) {
    const int heads = output.by_key ? p.kv_heads : p.heads;
    document[output.key] = output.is_statistic ? nested_row_lists(*output.values, p.batch, heads)
                                               : nested_lists(*output.values, p.batch, heads);
  }
  document["errors"] = errors_json(result);
  if (options.steps) document["steps"] = result.steps;
  return json_text(document, -1);
}

/// Writes every output even where one fails, and then reports the first failure.
void write_folder(const Result& result, const Options& options) {
  const AttentionProblem& problem = result.schedule->problem();
  const NpyItem item = problem.dtype == DType::fp64 ? NpyItem::float64 : NpyItem::float32;
  Json summary = header_json(result, options);
  summary["errors"] = errors_json(result);
  if (options.steps) summary["steps"] = result.steps;
  stamp(summary);
  std::exception_ptr first;
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  };
  for (const Output& output : result.list) {
    const int batch = problem.batch, heads = output.by_key ? problem.kv_heads : problem.heads;
    attempt([&] {
      write_npy(options.out + "/" + output.key + ".npy",
                output.is_statistic ? npy_row_array(*output.values, batch, heads)
                                    : npy_array(*output.values, batch, heads),
                item);
    });
  }
  attempt([&] { write_file_atomically(options.out + "/attend.json", json_text(summary)); });
  if (first) std::rethrow_exception(first);
}

/// Tiled attention adds the same terms in another order: equal to rounding, and this says so in numbers.
std::string difference_text(const Result& result) {
  const DType dtype = result.schedule->problem().dtype;
  const auto any = [&](auto holds) { return std::any_of(result.list.begin(), result.list.end(), holds); };
  if (any([](const Output& output) { return output.error.nonfinite > 0; }))
    return "Some elements are not finite where full softmax in float64 is: look at the magnitude of the inputs.";
  if (dtype != DType::fp64)
    return formatted("The difference from full softmax in float64 is that of {}; the inputs were rounded to it too.",
                     name_of(dtype));
  if (!any([](const Output& output) { return output.error.max_abs > 0; }))
    return "On these inputs equal to full softmax to the last bit; in general it is exact to rounding, not bit for "
           "bit.";
  return "Exact to rounding, not bit for bit: the same terms as full softmax, added in another order.";
}

std::string report(const Result& result, const Options& options) {
  using enum Table::Align;
  const AttentionProblem& problem = result.schedule->problem();
  std::string text = formatted("{} on the {}: {}; {}; key tiles {}\n\n", result.schedule->algorithm(),
                               options.on_gpu ? "GPU" : "CPU", describe(problem), describe(result.schedule->tile()),
                               options.backward_keys ? "last to first" : "first to last");
  Table table({left, right, right, right});
  table.row({"against full softmax in float64", "max |error|", "mean |error|", "non-finite"});
  for (const Output& output : result.list)
    table.row({output.name, formatted("{:.3g}", output.error.max_abs), formatted("{:.3g}", output.error.mean_abs),
               grouped(output.error.nonfinite)});
  text += table.text() + "  " + difference_text(result) + "\n";
  const auto show = [&](const char* name, const Array& array) {
    if (array.values.size() > kShownValues) return;
    text += formatted("\n{}\n", name);
    for (int head = 0; head < array.heads; ++head)
      for (int row = 0; row < array.rows; ++row) {
        text += array.heads > 1 ? formatted("  head {} row {}:", head, row) : formatted("  row {}:", row);
        for (int col = 0; col < array.cols; ++col) text += " " + number_text(array.at(head, row, col));
        text += "\n";
      }
  };
  for (const Output& output : result.list) show(output.name, *output.values);
  if (options.steps) {
    text += "\nAfter each key tile\n";
    for (const Json& step : result.steps)
      text += formatted("  cta {} tile {}: m {} l {} rescale {} acc {}\n", step["cta"].dump(), step["tile"].dump(),
                        step["m"].dump(), step["l"].dump(), step["rescale"].dump(), step["acc"].dump());
  }
  return text;
}

void attend_command(const Options& options, Context& context) {
  if (options.steps && options.on_gpu) throw Error(ErrorKind::usage, "--steps: only with --device cpu");
  const AttendInput input = read_input(options);
  const AttentionProblem problem = problem_of(input, options);
  const auto result = attend(problem, input.inputs, options, context);
  if (!options.out.empty()) write_folder(*result, options);
  if (options.json) return context.print(json_report(*result, options));
  std::string written;
  for (const Output& output : result->list) written += std::string(output.key) + ".npy, ";
  context.print(report(*result, options) +
                (options.out.empty() ? "" : "\nWritten to " + options.out + ": " + written + "attend.json\n"));
}

}  // namespace

Action declare_attend(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  options->shared.dtype = DType::fp64;
  add_positionals(app, "FILE", 1, "JSON with q, k, v and maybe mask, d_out and scale (docs/file-formats.md)", options->files);
  add_text(app, "--q", "FILE", "Q as .npy: (batch, head, row, column) or (row, column)", options->npy.q);
  add_text(app, "--k", "FILE", "K as .npy", options->npy.k);
  add_text(app, "--v", "FILE", "V as .npy", options->npy.v);
  add_text(app, "--mask", "FILE", "keep mask as .npy, nonzero = keep", options->npy.mask);
  add_text(app, "--d-out", "FILE", "gradient of O as .npy, like Q: gives d_q, d_k and d_v too", options->npy.d_out);
  add_value(app, "--scale", "NUMBER", "softmax scale, not 0 (the file's, or 1/sqrt(head_dim))",
            [options](const std::string& text) {
              options->scale = parse_number("--scale", text);
              if (options->scale == 0)
                throw Error(ErrorKind::usage,
                            "--scale: 0 would make every weight equal; it takes a number other than 0");
            });
  ProblemOptionSet set;
  set.sizes = set.gpu = set.start = set.pass = set.residency = false;  // d_out says which pass
  set.dtypes = {"fp64", "fp32", "fp16", "bf16", "fp8"};
  add_problem_options(app, options->shared, set);
  add_value(app, "--kv-order", "ORDER", "order of the key tiles: forward, backward (forward)",
            [options](const std::string& text) {
              options->backward_keys = parse_choice("--kv-order", text, {"forward", "backward"}) == "backward";
            });
  add_value(app, "--device", "NAME", "where it runs: cpu, gpu (cpu)", [options](const std::string& text) {
    options->on_gpu = parse_choice("--device", text, {"cpu", "gpu"}) == "gpu";
  });
  add_flag(app, "--steps", "m, l, acc and rescale after each key tile", options->steps);
  add_flag(app, "--json", "o, lse, gradients and errors as one JSON object", options->json);
  add_text(app, "--out", "DIR", "write o.npy, lse.npy, gradients and attend.json into this folder", options->out);
  return [options](Context& context) { attend_command(*options, context); };
}

}  // namespace flashscope
