#include "viz/cli/problem_options.h"

#include <algorithm>
#include <climits>
#include <functional>

#include "sim/engine/splits.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/options.h"
#include "viz/io/block_mask_io.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

constexpr int kMostCtasPerSm = 64;  // more than any GPU holds

enum class Group { size, mask, dtype, algorithm, pass, tile, residency, gpu, start };

/// One option: how it is declared, and how its text becomes a value. `set` throws Error(usage) that begins with
/// `option`.
struct ProblemOption {
  const char* name;  // without dashes
  Group group;
  std::string type;  // "" for a flag
  std::string description;
  std::function<void(ProblemOptions&, const std::string& option, const std::string& text)> set;
};

/// `lo … hi` for the text; the value itself may be refused later, where a message can name more than one option.
template <class Member>
ProblemOption integer(const char* name, Group group, Member ProblemOptions::*member, int lo, int hi,
                      std::string description) {
  return {name, group, range_type(lo, hi), std::move(description),
          [member, lo, hi](ProblemOptions& options, const std::string& option, const std::string& text) {
            options.*member = static_cast<int>(parse_integer(option, text, lo, hi));
          }};
}

/// Head counts: a number out of range goes on to validate(), whose message names both of them.
template <class Member>
ProblemOption head_count(const char* name, Member ProblemOptions::*member, std::string description) {
  return {name, Group::size, range_type(1, kMaxHeads), std::move(description),
          [member](ProblemOptions& options, const std::string& option, const std::string& text) {
            const bool is_number =
                !text.empty() && text.size() < 10 &&
                text.find_first_not_of("0123456789", text[0] == '-' && text.size() > 1 ? 1 : 0) == std::string::npos;
            options.*member = static_cast<int>(is_number ? parse_integer(option, text, INT_MIN, INT_MAX)
                                                         : parse_integer(option, text, 1, kMaxHeads));
          }};
}

ProblemOption offsets(const char* name, std::vector<int> ProblemOptions::*member, std::string description) {
  return {name, Group::mask, "0,N,…", std::move(description),
          [member](ProblemOptions& options, const std::string& option, const std::string& text) {
            (options.*member).clear();
            for (const std::string& offset : split(text, ','))
              (options.*member).push_back(static_cast<int>(parse_integer(option, offset, 0, kMaxSeqlen)));
          }};
}

ProblemOption flag(const char* name, Group group, std::string description, bool& (*of)(ProblemOptions&)) {
  return {name, group, "", std::move(description),
          [of](ProblemOptions& options, const std::string& option, const std::string& text) {
            of(options) = text.empty() || parse_choice(option, text, {"true", "false"}) == "true";
          }};
}

ProblemOption of_tile(const char* name, int TileShape::*member, int lo, int hi, std::string description) {
  return {name, Group::tile, range_type(lo, hi), std::move(description),
          [member, lo, hi](ProblemOptions& options, const std::string& option, const std::string& text) {
            options.tile.*member = static_cast<int>(parse_integer(option, text, lo, hi));
          }};
}

std::string algorithm_names() {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) names += (names.empty() ? "" : ", ") + algorithm.name;
  return names;
}

std::vector<std::string> start_names() {
  return {name_of(Start::cold), name_of(Start::warm), name_of(Start::cold_each_kernel)};
}

const std::vector<ProblemOption>& problem_options() {
  using Options = ProblemOptions;
  static const std::vector<ProblemOption> list = {
      integer("batch", Group::size, &Options::batch, 0, kMaxHeads, "sequences (1)"),
      head_count("heads", &Options::heads, "query heads (16)"),
      head_count("kv-heads", &Options::kv_heads, "KV heads, a divisor of --heads (= --heads)"),
      integer("seqlen", Group::size, &Options::seqlen, 0, kMaxSeqlen, "rows of Q, K and V (4096)"),
      integer("seqlen-q", Group::size, &Options::seqlen_q, 0, kMaxSeqlen, "rows of Q, instead of --seqlen"),
      integer("seqlen-k", Group::size, &Options::seqlen_k, 0, kMaxSeqlen, "rows of K and V, instead of --seqlen"),
      integer("head-dim", Group::size, &Options::head_dim, 1, kMaxHeadDim, "columns of Q, K, V and O (64)"),
      {"dtype", Group::dtype, "NAME", "element type",
       [](Options& options, const std::string& option, const std::string& text) {
         options.dtype = dtype_from_name(parse_choice(option, text, {"fp32", "fp16", "bf16", "fp8", "fp64"}));
       }},
      flag("causal", Group::mask, "query i sees key j when j <= i + seqlen_k - seqlen_q (bottom right)",
           [](Options& options) -> bool& { return options.causal; }),
      {"window", Group::mask, "LEFT,RIGHT", "keys seen before and after the diagonal, both inclusive; -1: all",
       [](Options& options, const std::string& option, const std::string& text) {
         const std::vector<std::string> sides = split(text, ',');
         if (sides.size() != 2)
           throw Error(ErrorKind::usage, option + ": '" + text + "' is not LEFT,RIGHT, two whole numbers in -1 … " +
                                             std::to_string(INT_MAX));
         options.window = {static_cast<int>(parse_integer(option, sides[0], -1, INT_MAX)),
                           static_cast<int>(parse_integer(option, sides[1], -1, INT_MAX))};
       }},
      {"block-mask", Group::mask, "FILE|PRESET",
       "kept blocks: a file, or local, strided, butterfly, random as NAME:DENSITY:SEED",
       [](Options& options, const std::string& option, const std::string& text) {
         load_block_mask(option, text, 1, 1);  // what is wrong with it shows here
         options.block_mask = text;
       }},
      offsets("cu-seqlens", &Options::cu_seqlens_q, "packed sequences: offsets of their rows, 0 to seqlen"),
      offsets("cu-seqlens-k", &Options::cu_seqlens_k, "offsets of K and V rows (= --cu-seqlens)"),
      {"algorithm", Group::algorithm, "NAME", algorithm_names() + " (flash_v2)",
       [](Options& options, const std::string&, const std::string& text) {
         options.algorithm = algorithm_named(text).name;
       }},
      {"pass", Group::pass, "NAME", "forward, backward (forward)",
       [](Options& options, const std::string& option, const std::string& text) {
         options.pass = pass_from_name(parse_choice(option, text, {"forward", "backward"}));
       }},
      of_tile("br", &TileShape::br, 1, 1024, "rows of a query tile (the rung's)"),
      of_tile("bc", &TileShape::bc, 1, 1024, "rows of a key tile (the rung's)"),
      of_tile("stages", &TileShape::stages, 1, 8, "slots of the K/V ring, of rungs that have one (the rung's)"),
      of_tile("splits", &TileShape::splits, 0, kMaxSplits,
              "split_kv: CTAs that share the keys of a row; 0: as many as run at once (0)"),
      of_tile("page-size", &TileShape::page_size, 0, kMaxPageSize,
              "split_kv: keys of a page of K and V, a power of two from " + std::to_string(kMinPageSize) +
                  "; 0: K and V in one piece (0)"),
      flag("any-order", Group::tile, "flash_v3 backward: parts of dQ add up as they come, in other runs to other last bits",
           [](Options& options) -> bool& { return options.tile.any_order; }),
      integer("ctas-per-sm", Group::residency, &Options::ctas_per_sm, 1, kMostCtasPerSm,
              "somebody else's kernel: CTAs that an SM holds (as many as fit)"),
      flag("persistent", Group::residency, "somebody else's kernel: one CTA an SM at a time, as where CTAs stay and take tile after tile",
           [](Options& options) -> bool& { return options.persistent; }),
      flag("whole-tiles", Group::residency, "somebody else's kernel: its loads move whole tiles at the ends too (TMA)",
           [](Options& options) -> bool& { return options.tile.whole_tiles; }),
      {"gpu", Group::gpu, "NAME|FILE", "GPU to predict: a shipped description or a machine file (nvidia-h200)",
       [](Options& options, const std::string& option, const std::string& text) {
         if (text.empty()) throw Error(ErrorKind::usage, option + ": the value is empty; it takes a name or a file");
         options.gpu = text;
       }},
      {"start", Group::start, "NAME", "what L2 holds first: cold, warm, cold-each-kernel (cold)",
       [](Options& options, const std::string& option, const std::string& text) {
         options.start = start_from_name(parse_choice(option, text, start_names()));
       }},
  };
  return list;
}

bool is_flag(const std::string& name) {
  for (const ProblemOption& option : problem_options())
    if (name == option.name) return option.type.empty();
  return false;
}

bool is_in(const ProblemOptionSet& which, Group group) {
  switch (group) {
    case Group::size: return which.sizes;
    case Group::algorithm: return which.algorithm;
    case Group::pass: return which.pass;
    case Group::gpu: return which.gpu;
    case Group::start: return which.start;
    case Group::residency: return which.residency;
    case Group::mask:
    case Group::dtype:
    case Group::tile: return true;
  }
  return true;
}

/// The combining kernel of split_kv holds the LSE of every split: more than an SM has room for are the fault of
/// --splits, not of a tile's sides.
void require_room_to_combine(const Schedule& schedule, const Machine& machine) {
  const std::int64_t needed = schedule.kernels().back().resources.smem_bytes;
  const auto allowed = static_cast<std::int64_t>(machine.smem_bytes_per_cta.value);
  const std::int64_t a_split = 4 * std::int64_t{schedule.tile().br};
  const std::int64_t most = schedule.tile().splits - (needed - allowed + a_split - 1) / a_split;
  if (needed > allowed && most >= 1)
    throw Error(ErrorKind::unsupported,
                "--splits: to combine " + std::to_string(schedule.tile().splits) + " splits of " +
                    std::to_string(schedule.tile().br) + " rows a CTA needs " + std::to_string(needed) +
                    " B of shared memory; " + machine.name + " allows " + std::to_string(allowed) +
                    " B, enough for up to " + std::to_string(most) + " splits");
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

void ProblemOptions::set_mask(AttentionProblem& p) const {
  if (causal && window && window->second > 0)
    throw Error(ErrorKind::usage, "--causal means RIGHT = 0, but --window says " + std::to_string(window->second) +
                                      "; give --window LEFT,0");
  p.causal = causal;
  if (window) {
    p.window_left = window->first;
    p.window_right = window->second;
  }
  p.cu_seqlens_q = cu_seqlens_q;
  p.cu_seqlens_k = cu_seqlens_k.empty() ? cu_seqlens_q : cu_seqlens_k;
  if (!block_mask.empty())
    p.block_mask.mask = std::make_shared<const BlockMask>(
        load_block_mask("--block-mask", block_mask, p.seqlen_q, p.seqlen_k));
}

AttentionProblem ProblemOptions::problem() const {
  if (seqlen && (seqlen_q || seqlen_k))
    throw Error(ErrorKind::usage, "--seqlen sets both lengths: give it alone, or --seqlen-q and --seqlen-k");
  AttentionProblem p;
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = kv_heads.value_or(heads);
  // Offsets say how many rows there are, unless something else does.
  const std::vector<int>& keys = cu_seqlens_k.empty() ? cu_seqlens_q : cu_seqlens_k;
  p.seqlen_q = seqlen_q.value_or(seqlen.value_or(cu_seqlens_q.empty() ? p.seqlen_q : cu_seqlens_q.back()));
  p.seqlen_k = seqlen_k.value_or(seqlen.value_or(keys.empty() ? p.seqlen_k : keys.back()));
  p.head_dim = head_dim;
  p.dtype = dtype;
  p.pass = pass;
  validate(p);  // sizes, before a mask is made for them
  set_mask(p);
  validate(p);
  return p;
}

TileShape ProblemOptions::tile_for(const AttentionProblem& p) const {
  TileShape result = tile;
  if (algorithm != "split_kv")
    result.splits = 1, result.page_size = 0;
  else if (result.splits == 0)
    result.splits = automatic_splits(p, tile, machine());
  return result;
}

void ProblemOptions::refuse_without_effect() const {
  if (tile.splits > 1 && algorithm != "split_kv")
    throw Error(ErrorKind::unsupported,
                "--splits: " + algorithm + " gives all keys of a row to one CTA; split_kv splits them");
  if (tile.page_size > 0 && algorithm != "split_kv")
    throw Error(ErrorKind::unsupported,
                "--page-size: " + algorithm + " takes K and V in one piece; split_kv takes them in pages");
  const AttentionProblem p = problem();
  const auto has_ring = [&](const Algorithm& one) { return one.default_tile(p).stages > 1; };
  if (tile.stages <= 1 || has_ring(algorithm_named(algorithm, pass))) return;
  std::vector<std::string> names;
  for (const Algorithm& one : algorithms(pass))
    if (has_ring(one)) names.push_back(one.name);
  throw Error(ErrorKind::unsupported, "--stages: " + algorithm + " has no ring of K and V tiles; of the " +
                                          name_of(pass) + " pass " + join(names) + " have one");
}

std::unique_ptr<Schedule> ProblemOptions::schedule() const {
  const AttentionProblem p = problem();
  auto result = make_schedule(algorithm, p, tile_for(p));
  if (algorithm == "split_kv") require_room_to_combine(*result, machine());
  if (!ctas_per_sm) return result;
  const Machine limited = machine();
  for (const KernelLaunch& launch : result->kernels())
    if (const int fit = occupancy(launch.resources, limited).ctas_per_sm; fit < *ctas_per_sm)
      throw Error(ErrorKind::unsupported,
                  "--ctas-per-sm: of " + launch.name + " with these tiles " + std::to_string(fit) + " fit on an SM of " +
                      limited.name + ", not " + std::to_string(*ctas_per_sm) +
                      "; choose a smaller --br or --bc, or a rung that needs less");
  return result;
}

Machine ProblemOptions::machine() const {
  if (persistent && ctas_per_sm)
    throw Error(ErrorKind::usage, "--persistent is one CTA an SM; --ctas-per-sm says how many: give one of them");
  Machine result = load_machine(gpu);
  const int most = ctas_per_sm ? *ctas_per_sm : persistent ? 1 : kMostCtasPerSm;
  result.max_ctas_per_sm.value = std::min<double>(result.max_ctas_per_sm.value, most);
  return result;
}

void add_problem_options(CLI::App& app, ProblemOptions& options, const ProblemOptionSet& which) {
  static constexpr const char* kGroup = "Problem";
  for (const ProblemOption& option : problem_options()) {
    if (!is_in(which, option.group)) continue;
    const std::string dashed = std::string("--") + option.name;
    const auto set = [&options, &option, dashed](const std::string& text) { option.set(options, dashed, text); };
    if (option.type.empty()) {
      add_flag(
          app, dashed, option.description, [set] { set(""); }, kGroup);
    } else if (option.group == Group::dtype) {
      const std::string names = join(which.dtypes) + " (" + name_of(options.dtype) + ")";
      add_value(
          app, dashed, option.type, option.description + ": " + names,
          [set, dashed, dtypes = which.dtypes](const std::string& text) { set(parse_choice(dashed, text, dtypes)); },
          kGroup);
    } else {
      add_value(app, dashed, option.type, option.description, set, kGroup);
    }
  }
}

void set_problem_option(ProblemOptions& options, const std::string& name, const std::string& text) {
  for (const ProblemOption& option : problem_options())
    if (name == option.name) return option.set(options, "--" + name, text);
  std::vector<std::string> names;
  for (const ProblemOption& option : problem_options()) names.push_back(option.name);
  throw Error(ErrorKind::usage, "'" + name + "' is not one of the problem options " + join(names));
}

ProblemOptions apply_setting(ProblemOptions base, const std::string& setting) {
  std::vector<std::string> parts = split(setting, ':');
  set_problem_option(base, "algorithm", parts[0]);
  for (std::size_t k = 1; k < parts.size(); ++k) {
    if (parts[k].rfind("block-mask=", 0) == 0)  // a preset has colons of its own
      while (k + 1 < parts.size() && parts[k + 1].find('=') == std::string::npos && !is_flag(parts[k + 1])) {
        parts[k + 1] = parts[k] + ":" + parts[k + 1];
        ++k;
      }
    const std::size_t equals = parts[k].find('=');
    const std::string name = parts[k].substr(0, equals);
    if (equals == std::string::npos && !is_flag(name))
      throw Error(ErrorKind::usage, "'" + setting + "': '" + parts[k] + "' is not OPTION=VALUE");
    // A side's own length replaces the shared one, whichever way the shared one was given.
    if (name == "seqlen") base.seqlen_q = base.seqlen_k = std::nullopt;
    if ((name == "seqlen-q" || name == "seqlen-k") && base.seqlen) {
      base.seqlen_q = base.seqlen_k = base.seqlen;
      base.seqlen = std::nullopt;
    }
    set_problem_option(base, name, equals == std::string::npos ? "" : parts[k].substr(equals + 1));
  }
  return base;
}

Sweep parse_sweep(const std::string& text) {
  static constexpr std::int64_t kMost = INT_MAX;
  static constexpr std::size_t kMostValues = 1000;
  const std::vector<std::string> names = {"batch",    "heads",    "kv-heads", "seqlen", "seqlen-q",
                                          "seqlen-k", "head-dim", "br",       "bc",     "stages", "splits"};
  const std::size_t equals = text.find('=');
  const auto form = [&] {
    return Error(ErrorKind::usage, "--sweep: '" + text +
                                       "' is not NAME=FIRST:LAST:xFACTOR, NAME=FIRST:LAST:+STEP or NAME=A,B,C with "
                                       "whole numbers (at most 1000 values)");
  };
  if (equals == std::string::npos) throw form();
  Sweep sweep = {parse_choice("--sweep", text.substr(0, equals), names), {}};
  const std::string range = text.substr(equals + 1);
  const std::vector<std::string> parts = split(range, ':');
  if (parts.size() == 1) {
    for (const std::string& value : split(range, ','))
      sweep.values.push_back(std::to_string(parse_integer("--sweep", value, 0, kMost)));
    if (sweep.values.size() > kMostValues) throw form();
    return sweep;
  }
  if (parts.size() != 3 || parts[2].empty()) throw form();
  const std::int64_t first = parse_integer("--sweep", parts[0], 0, kMost);
  const std::int64_t last = parse_integer("--sweep", parts[1], first, kMost);
  const char kind = parts[2][0];
  if (kind != 'x' && kind != '+') throw form();
  const std::int64_t step = parse_integer("--sweep", parts[2].substr(1), kind == 'x' ? 2 : 1, kMost);
  if (kind == 'x' && first == 0) throw form();
  for (std::int64_t value = first; value <= last; value = kind == 'x' ? value * step : value + step) {
    if (sweep.values.size() == kMostValues) throw form();
    sweep.values.push_back(std::to_string(value));
  }
  return sweep;
}

}  // namespace flashscope
