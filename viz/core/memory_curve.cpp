#include "viz/core/memory_curve.h"

#include <algorithm>
#include <exception>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/memory.h"
#include "viz/core/text.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {

std::int64_t memory_at(const Settings& settings, const std::string& algorithm, int seqlen) {
  AttentionProblem p = settings.problem;
  p.seqlen_q = p.seqlen_k = seqlen;
  p.block_mask = {};  // what is skipped takes no less memory: the tensors are whole
  p.cu_seqlens_q = p.cu_seqlens_k = {};
  return make_schedule(algorithm, p, settings.tile)->peak_memory_bytes();
}

MemoryCurve memory_curve(const Settings& settings, const std::vector<Machine>& machines) {
  MemoryCurve curve;
  Figure& figure = curve.figure;
  figure.title = "Memory against N";
  figure.x = {"N, rows and keys", Unit::count, AxisScale::log2, 0, 0};
  figure.y = {"tensors in global memory", Unit::bytes, AxisScale::log10, 0, 0};
  for (std::size_t side = 0; side < 2; ++side) {
    Series line{settings.algorithms[side], side == 0 ? Role::left : Role::right, Series::Form::line, {}};
    for (int n = 256; n <= 1 << 20; n *= 2) {
      try {
        line.points.push_back(
            {static_cast<double>(n), static_cast<double>(memory_at(settings, settings.algorithms[side], n)), ""});
      } catch (const std::exception& error) {
        if (figure.note.empty()) figure.note = error.what();
        break;
      }
    }
    figure.series.push_back(std::move(line));
  }
  std::array<std::unique_ptr<Schedule>, 2> schedules;
  for (std::size_t side = 0; side < 2; ++side)
    schedules[side] = make_schedule(settings.algorithms[side], settings.problem, settings.tile);
  for (const Machine& machine : machines) {
    MemoryLimit limit{machine.title, machine.hbm_bytes.value, {}};
    for (std::size_t side = 0; side < 2; ++side)
      limit.largest[side] = largest_seqlen(*schedules[side], static_cast<std::int64_t>(limit.bytes));
    curve.limits.push_back(limit);
  }
  std::stable_sort(curve.limits.begin(), curve.limits.end(),
                   [](const MemoryLimit& a, const MemoryLimit& b) { return a.bytes < b.bytes; });
  // GPUs of (nearly) one size share a line. A first word that all of them begin with tells nothing apart.
  const auto first_word = [](const std::string& name) { return name.substr(0, name.find(' ') + 1); };
  const bool one_maker =
      curve.limits.size() > 1 && std::all_of(curve.limits.begin(), curve.limits.end(), [&](const MemoryLimit& limit) {
        return !first_word(limit.gpu).empty() && first_word(limit.gpu) == first_word(curve.limits[0].gpu);
      });
  const auto short_name = [&](const std::string& name) {
    return one_maker ? name.substr(first_word(name).size()) : name;
  };
  for (std::size_t n = 0; n < curve.limits.size();) {
    std::string names = short_name(curve.limits[n].gpu);
    std::size_t next = n + 1;
    for (; next < curve.limits.size() && curve.limits[next].bytes < 1.1 * curve.limits[n].bytes; ++next)
      names += ", " + short_name(curve.limits[next].gpu);
    figure.guides.push_back({false, curve.limits[next - 1].bytes, names});
    n = next;
  }
  figure.guides.push_back(
      {true, static_cast<double>(settings.problem.seqlen_k), "now " + grouped(settings.problem.seqlen_k)});
  return curve;
}

Sheet sheet_of(const MemoryCurve& curve, const Settings& settings) {
  Sheet sheet{{"gpu", "bytes", "largest_seqlen_" + settings.algorithms[0], "largest_seqlen_" + settings.algorithms[1]},
              {}};
  for (const MemoryLimit& limit : curve.limits)
    sheet.rows.push_back(
        {limit.gpu, number_text(limit.bytes), std::to_string(limit.largest[0]), std::to_string(limit.largest[1])});
  return sheet;
}

}  // namespace flashscope::viz
