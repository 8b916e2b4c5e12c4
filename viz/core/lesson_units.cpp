#include "viz/core/lesson_units.h"

#include <vector>

#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

using Dimension = LessonUnit::Dimension;

struct KnownUnit {
  const char* name;
  Dimension dimension;
  std::int64_t above, below;              // scale
  std::vector<const char*> also_written;  // small letters
};

const std::vector<KnownUnit>& known_units() {
  constexpr std::int64_t k = 1000, m = k * k, g = m * k, t = g * k;
  static const std::vector<KnownUnit> list = {
      {"B", Dimension::bytes, 1, 1, {"byte", "bytes"}},
      {"kB", Dimension::bytes, k, 1, {"kb", "kbyte", "kbytes", "kilobyte", "kilobytes"}},
      {"MB", Dimension::bytes, m, 1, {"mb", "mbyte", "mbytes", "megabyte", "megabytes"}},
      {"GB", Dimension::bytes, g, 1, {"gb", "gbyte", "gbytes", "gigabyte", "gigabytes"}},
      {"TB", Dimension::bytes, t, 1, {"tb", "tbyte", "tbytes", "terabyte", "terabytes"}},
      {"KiB", Dimension::bytes, 1 << 10, 1, {"kib", "kibibyte", "kibibytes"}},
      {"MiB", Dimension::bytes, 1 << 20, 1, {"mib", "mebibyte", "mebibytes"}},
      {"GiB", Dimension::bytes, 1 << 30, 1, {"gib", "gibibyte", "gibibytes"}},
      {"TiB", Dimension::bytes, std::int64_t{1} << 40, 1, {"tib", "tebibyte", "tebibytes"}},
      {"ns", Dimension::time, 1, k, {"nanoseconds"}},
      {"µs", Dimension::time, 1, 1, {"us", "μs", "microsecond", "microseconds"}},
      {"ms", Dimension::time, k, 1, {"millisecond", "milliseconds"}},
      {"s", Dimension::time, m, 1, {"sec", "second", "seconds"}},
      {"%", Dimension::share, 1, 100, {"percent", "per cent", "pct", "prozent"}},
      {"FLOP", Dimension::flops, 1, 1, {"flops"}},
      {"kFLOP", Dimension::flops, k, 1, {"kflop", "kflops"}},
      {"MFLOP", Dimension::flops, m, 1, {"mflop", "mflops"}},
      {"GFLOP", Dimension::flops, g, 1, {"gflop"}},
      {"TFLOP", Dimension::flops, t, 1, {"tflop"}},
      {"GB/s", Dimension::byte_rate, 1, 1, {"gb/s", "gbps"}},
      {"TB/s", Dimension::byte_rate, k, 1, {"tb/s", "tbps"}},
      {"GFLOP/s", Dimension::flop_rate, 1, k, {"gflop/s", "gflops"}},
      {"TFLOP/s", Dimension::flop_rate, 1, 1, {"tflop/s", "tflops"}},
  };
  return list;
}

}  // namespace

std::optional<LessonUnit> unit_named(std::string_view name) {
  const auto of = [](const KnownUnit& unit) {
    return LessonUnit{unit.name, unit.dimension, Number::fraction(unit.above, unit.below)};
  };
  for (const KnownUnit& unit : known_units())
    if (name == unit.name) return of(unit);
  const std::string small = small_letters(name);
  for (const KnownUnit& unit : known_units())
    for (const char* other : unit.also_written)
      if (small == other) return of(unit);
  return std::nullopt;
}

LessonUnit unit_or_label(const std::string& name) {
  if (const auto unit = unit_named(name)) return *unit;
  return {name, Dimension::plain, Number(1)};
}

std::string unit_names() {
  std::string names;
  for (const KnownUnit& unit : known_units()) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

}  // namespace flashscope::viz
