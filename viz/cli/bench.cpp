// flashscope bench: how fast the simulator itself is, on a fixed list of problems.
#include <algorithm>
#include <chrono>
#include <memory>

#include "sim/count/count.h"
#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/table.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr int kMaxRepeats = 1000;
constexpr const char* kMachine = "nvidia-h200";

struct Options {
  int repeats = 3;
  bool json = false;
};

/// What is timed: counting alone, or counting and the timed run.
enum class Work { count, simulate };

struct Entry {
  const char* algorithm;
  int heads, seqlen, head_dim;
  Work work;
};

/// The problems a student drags through, the long ones, and counting at the far end.
constexpr Entry kEntries[] = {
    {"flash_v2", 32, 4096, 64, Work::simulate},    {"three_pass", 32, 4096, 64, Work::simulate},
    {"flash_v1", 32, 4096, 64, Work::simulate},    {"three_pass_naive", 32, 1024, 64, Work::simulate},
    {"flash_v2", 16, 131072, 128, Work::simulate}, {"three_pass", 16, 131072, 128, Work::simulate},
    {"flash_v2", 16, 1048576, 128, Work::count},   {"three_pass", 16, 1048576, 128, Work::count},
};

struct Timed {
  const Entry* entry;
  AttentionProblem problem;
  double milliseconds = 0;      // of the fastest repeat
  std::int64_t operations = 0;  // tile operations, or steps of several, performed by the timed run; 0 for counting
};

Timed timed(const Entry& entry, int repeats) {
  using Clock = std::chrono::steady_clock;
  Timed result = {&entry, {}, 0, 0};
  result.problem.heads = result.problem.kv_heads = entry.heads;
  result.problem.seqlen_q = result.problem.seqlen_k = entry.seqlen;
  result.problem.head_dim = entry.head_dim;
  const Machine machine = load_machine(kMachine);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const Clock::time_point begin = Clock::now();
    const auto schedule = make_schedule(entry.algorithm, result.problem);
    if (entry.work == Work::count)
      count(*schedule);
    else
      result.operations = simulate(*schedule, machine).operations;
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    result.milliseconds = repeat == 0 ? ms : std::min(result.milliseconds, ms);
  }
  return result;
}

double per_second(const Timed& t) { return static_cast<double>(t.operations) / t.milliseconds * 1e3; }

const char* name_of(Work work) { return work == Work::count ? "count" : "simulate"; }

std::string json_report(const std::vector<Timed>& all) {
  Json list = Json::array();
  for (const Timed& t : all) {
    Json row = {{"work", name_of(t.entry->work)}, {"algorithm", t.entry->algorithm},
                {"heads", t.entry->heads},        {"seqlen", t.entry->seqlen},
                {"head_dim", t.entry->head_dim},  {"wall_ms", json_number(t.milliseconds)}};
    if (t.entry->work == Work::simulate) {
      row["operations"] = t.operations;
      row["operations_per_s"] = json_number(per_second(t));
    }
    list.push_back(row);
  }
  Json document = {{"machine", kMachine}, {"problems", list}};
  stamp(document);
  return json_text(document, -1);
}

std::string table_text(const std::vector<Timed>& all) {
  using enum Table::Align;
  Table table({left, left, left, right, right, right});
  table.row({"", "", "", "wall ms", "steps", "a second"});
  for (const Timed& t : all) {
    const bool runs = t.entry->work == Work::simulate;
    table.row({name_of(t.entry->work), t.entry->algorithm, describe(t.problem), grouped_decimal(t.milliseconds, 2),
               runs ? grouped(t.operations) : "", runs ? grouped(static_cast<std::int64_t>(per_second(t))) : ""});
  }
  return formatted("The simulator's own speed, for {}, one thread\n\n{}", kMachine, table.text());
}

void bench_command(const Options& options, Context& context) {
  std::vector<Timed> all;
  for (const Entry& entry : kEntries) all.push_back(timed(entry, options.repeats));
  context.print(options.json ? json_report(all) : table_text(all));
}

}  // namespace

Action declare_bench(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_integer(app, "--repeats", 1, kMaxRepeats, "runs of each problem, of which the fastest counts (3)",
              [options](std::int64_t n) { options->repeats = static_cast<int>(n); });
  add_flag(app, "--json", "the same as one JSON object", options->json);
  return [options](Context& context) { bench_command(*options, context); };
}

}  // namespace flashscope
