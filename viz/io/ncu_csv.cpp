#include "viz/io/ncu_csv.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/error.h"
#include "sim/schedule/walk.h"

namespace flashscope {
namespace {

using kernels::Measured;
using kernels::Measurement;

/// One cell as it stands, and where.
struct Cell {
  std::string text, unit;
  int line = 0;
};
using Cells = std::map<std::string, Cell>;  // by metric, of one launch

/// What a metric is called, best first: ncu prints a label instead of the name for those of its sections.
const std::vector<std::string> kSmRead = {"l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_xbar2l1tex_read_sectors.sum",
                                          "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_op_read.sum"};
const std::vector<std::string> kSmWrite = {"l1tex__m_l1tex2xbar_write_bytes.sum",
                                           "l1tex__m_l1tex2xbar_write_sectors.sum",
                                           "lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_op_write.sum"};
const std::vector<std::string> kHbmRead = {"dram__bytes_read.sum", "dram__sectors_read.sum"};
const std::vector<std::string> kHbmWrite = {"dram__bytes_write.sum", "dram__sectors_write.sum"};
const std::vector<std::string> kTime = {"gpu__time_duration.sum", "Duration"};
const std::vector<std::string> kClock = {"smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second",
                                         "SM Frequency"};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : m_text(text), m_file(file) {}

  std::vector<NcuLaunch> launches() {
    read_header();
    const bool is_long = column("Metric Name") >= 0;
    if (is_long && (column("Metric Value") < 0 || column("Metric Unit") < 0))
      fail(m_line, "the header has \"Metric Name\" but not \"Metric Value\" and \"Metric Unit\"");
    std::vector<std::string> units;
    if (!is_long && next_row()) {
      units = m_row;
      if (!cell("ID").empty() || !cell("Kernel Name").empty())
        fail(m_line, "the row of units that follows the header of --page raw is missing");
    }
    while (next_row()) {
      Cells& cells = cells_of(cell("ID"), cell("Kernel Name"));
      if (is_long) {
        put(cells, cell("Metric Name"), {cell("Metric Value"), cell("Metric Unit"), m_line});
      } else {
        for (std::size_t c = 0; c < m_header.size(); ++c) put(cells, m_header[c], {m_row[c], units[c], m_line});
      }
    }
    if (m_launches.empty()) throw Error(ErrorKind::input, m_file + ": no measurements: a header and no launch below it");
    bool any = false;
    for (std::size_t n = 0; n < m_launches.size(); ++n) any |= measure(m_launches[n], m_cells[n]);
    if (!any)
      throw Error(ErrorKind::input, m_file + ": no measurements: none of the metrics that are understood; collect them "
                                             "with ncu --csv --metrics " + ncu_metrics());
    return m_launches;
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what) const {
    throw Error(ErrorKind::input, m_file + ":" + std::to_string(line) + ": " + what);
  }

  /// The next line that is not ncu's talk; false at the end.
  bool next_line(std::string_view& line) {
    while (m_at < m_text.size()) {
      const std::size_t end = std::min(m_text.find('\n', m_at), m_text.size());
      line = m_text.substr(m_at, end - m_at);
      m_at = end + 1;
      ++m_line;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!line.empty() && line.substr(0, 2) != "==") return true;
    }
    return false;
  }

  void read_header() {
    for (std::string_view line; next_line(line);) {
      if (line.find("Kernel Name") == std::string_view::npos || !split(line, m_header)) continue;
      if (column("ID") >= 0 && column("Kernel Name") >= 0) return;
    }
    throw Error(ErrorKind::input, m_file + ": no line with the columns \"ID\" and \"Kernel Name\" in " +
                                      std::to_string(m_line) + " lines: this is not what ncu --csv prints");
  }

  /// Reads m_row; a row of another width than the header is refused.
  bool next_row() {
    std::string_view line;
    if (!next_line(line)) return false;
    if (!split(line, m_row)) fail(m_line, "a quote that does not end");
    if (m_row.size() != m_header.size())
      fail(m_line, std::to_string(m_row.size()) + " columns where the header has " + std::to_string(m_header.size()) +
                       "; if the program printed this line itself, take it out, or let ncu write with --log-file");
    return true;
  }

  /// Fields of a CSV line: quotes may surround one, and two of them inside are one. False where a quote does not end.
  static bool split(std::string_view line, std::vector<std::string>& fields) {
    fields.assign(1, "");
    bool quoted = false;
    for (std::size_t n = 0; n < line.size(); ++n) {
      const char c = line[n];
      if (quoted && c == '"' && n + 1 < line.size() && line[n + 1] == '"')
        fields.back() += line[++n];
      else if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        fields.emplace_back();
      else
        fields.back() += c;
    }
    return !quoted;
  }

  int column(const std::string& name) const {
    const auto at = std::find(m_header.begin(), m_header.end(), name);
    return at == m_header.end() ? -1 : static_cast<int>(at - m_header.begin());
  }
  const std::string& cell(const char* name) const { return m_row[static_cast<std::size_t>(column(name))]; }

  Cells& cells_of(const std::string& id, const std::string& kernel) {
    for (std::size_t n = 0; n < m_launches.size(); ++n)
      if (m_launches[n].id == id && m_launches[n].kernel == kernel) return m_cells[n];
    NcuLaunch launch;
    launch.id = id;
    launch.kernel = kernel;
    launch.line = m_line;
    m_launches.push_back(launch);
    return m_cells.emplace_back();
  }

  void put(Cells& cells, const std::string& metric, const Cell& value) {
    const auto [at, is_new] = cells.emplace(metric, value);
    if (!is_new && is_known(metric) && (at->second.text != value.text || at->second.unit != value.unit))
      fail(value.line, metric + " of launch " + cell("ID") + " stands here as " + value.text +
                           " and in line " + std::to_string(at->second.line) + " as " + at->second.text);
  }

  static bool is_known(const std::string& metric) {
    for (const auto* names : {&kSmRead, &kSmWrite, &kHbmRead, &kHbmWrite, &kTime, &kClock})
      if (std::find(names->begin(), names->end(), metric) != names->end()) return true;
    return false;
  }

  /// A printed number without its commas and point: digits · 10^-decimals.
  struct Decimal {
    std::int64_t digits = 0;
    int decimals = 0;
  };
  Decimal decimal(const std::string& metric, const Cell& cell) const {
    Decimal number;
    const std::string& text = cell.text;
    const std::size_t point = std::min(text.find('.'), text.size()), comma = text.find(',');
    const bool grouped = comma != std::string::npos;  // then before every three digits, and no others
    bool good = point > 0 && point + 1 != text.size() && (!grouped || comma <= 3);
    for (std::size_t n = 0; n < text.size() && good; ++n) {
      if (n == point) continue;
      if (grouped && n > 0 && n < point && (point - n) % 4 == 0) {
        good = text[n] == ',';
        continue;
      }
      good = text[n] >= '0' && text[n] <= '9' && number.digits < INT64_MAX / 10 - 1;
      if (good) number.digits = 10 * number.digits + (text[n] - '0');
    }
    if (!good)
      fail(cell.line, metric + ": \"" + text + "\" is not a number like 1,048,576 or 3.15 (ncu prints those under LC_ALL=C)");
    number.decimals = point < text.size() ? static_cast<int>(text.size() - point - 1) : 0;
    return number;
  }

  /// Bytes, rounded to the nearest where the prefix leaves a fraction.
  std::int64_t bytes(const std::string& metric, const Cell& cell, std::int64_t& step) const {
    static const std::string prefixes = "KMGT";
    std::string unit = cell.unit;
    int power = 0;
    if (!unit.empty() && prefixes.find(unit[0]) != std::string::npos) {
      power = 3 * (static_cast<int>(prefixes.find(unit[0])) + 1);
      unit.erase(0, 1);
    }
    if (unit != "byte" && unit != "sector")
      fail(cell.line, metric + ": the unit \"" + cell.unit + "\" is none of byte, sector, and these with K, M, G or T");
    const Decimal number = decimal(metric, cell);
    std::int64_t scale = unit == "sector" ? kSectorBytes : 1, divisor = 1;
    for (int n = 0; n < power; ++n) scale *= 10;
    for (int n = 0; n < number.decimals; ++n) {
      if (divisor > INT64_MAX / 10) fail(cell.line, metric + ": \"" + cell.text + "\" has too many digits");
      divisor *= 10;
    }
    const double rough = static_cast<double>(number.digits) * static_cast<double>(scale);
    if (!(rough < 4e18)) fail(cell.line, metric + ": " + cell.text + " " + cell.unit + " is more than fits");
    if (power > 0) step = std::max(step, scale / divisor);
    return (number.digits * scale + divisor / 2) / divisor;
  }

  double scaled(const std::string& metric, const Cell& cell, const std::map<std::string, double>& units) const {
    const auto unit = units.find(cell.unit);
    if (unit == units.end()) {
      std::string names;
      for (const auto& [name, factor] : units) names += (names.empty() ? "" : ", ") + name;
      fail(cell.line, metric + ": the unit \"" + cell.unit + "\" is none of " + names);
    }
    const Decimal number = decimal(metric, cell);
    return static_cast<double>(number.digits) * unit->second / std::pow(10.0, number.decimals);
  }

  /// The first of the metrics that the launch has; `read` makes its cell a value. True when there is one.
  template <class T, class Read>
  static bool first_of(const std::vector<std::string>& metrics, const Cells& cells, Measured<T>& measured, Read read) {
    measured = Measured<T>::unavailable("the file has no " + metrics.front());
    for (const std::string& metric : metrics) {
      const auto found = cells.find(metric);
      if (found == cells.end()) continue;
      const Cell& cell = found->second;
      if (cell.text.empty() || cell.text.find("n/a") != std::string::npos ||
          cell.text.find("nan") != std::string::npos) {
        measured = Measured<T>::unavailable("ncu printed \"" + cell.text + "\" for " + metric);
        continue;
      }
      measured = Measured<T>::of(read(metric, cell));
      return true;
    }
    return false;
  }

  /// True when at least one of the metrics is there.
  bool measure(NcuLaunch& launch, const Cells& cells) const {
    static const std::map<std::string, double> kMicroseconds = {
        {"nsecond", 1e-3}, {"usecond", 1}, {"msecond", 1e3}, {"second", 1e6},
        {"ns", 1e-3},      {"us", 1},      {"ms", 1e3},      {"s", 1e6}};
    static const std::map<std::string, double> kMegahertz = {
        {"cycle/second", 1e-6}, {"cycle/usecond", 1}, {"cycle/nsecond", 1e3}, {"hz", 1e-6},  {"Khz", 1e-3},
        {"Mhz", 1},             {"Ghz", 1e3},         {"Hz", 1e-6},           {"KHz", 1e-3}, {"MHz", 1},
        {"GHz", 1e3},           {"cycle/us", 1},      {"cycle/ns", 1e3},      {"cycle/s", 1e-6}};
    Measurement& m = launch.measured;
    const auto in_bytes = [&](const std::string& metric, const Cell& cell) {
      return bytes(metric, cell, launch.rounded_to_bytes);
    };
    bool any = first_of(kSmRead, cells, m.sm_read_bytes, in_bytes);
    any |= first_of(kSmWrite, cells, m.sm_write_bytes, in_bytes);
    any |= first_of(kHbmRead, cells, m.hbm_read_bytes, in_bytes);
    any |= first_of(kHbmWrite, cells, m.hbm_write_bytes, in_bytes);
    any |= first_of(kTime, cells, m.time_us, [&](const std::string& metric, const Cell& cell) {
      return scaled(metric, cell, kMicroseconds);
    });
    first_of(kClock, cells, m.sm_clock_mhz, [&](const std::string& metric, const Cell& cell) {
      const double mhz = scaled(metric, cell, kMegahertz);
      if (mhz < 1 || mhz > 1e5) fail(cell.line, metric + ": " + cell.text + " " + cell.unit + " is no GPU's clock");
      return mhz;
    });
    return any;
  }

  std::string_view m_text;
  const std::string& m_file;
  std::size_t m_at = 0;
  int m_line = 0;
  std::vector<std::string> m_header, m_row;
  std::vector<NcuLaunch> m_launches;
  std::vector<Cells> m_cells;  // of each launch
};

}  // namespace

std::vector<NcuLaunch> ncu_launches_from_csv(std::string_view text, const std::string& file) {
  return Reader(text, file).launches();
}

NcuLaunch sum_of(const std::vector<NcuLaunch>& launches) {
  NcuLaunch sum = launches.at(0);
  const auto add = [](auto& total, const auto& one) {
    if (!total.value) return;
    if (one.value)
      *total.value += *one.value;
    else
      total = one;
  };
  for (std::size_t n = 1; n < launches.size(); ++n) {
    const Measurement& m = launches[n].measured;
    add(sum.measured.sm_read_bytes, m.sm_read_bytes);
    add(sum.measured.sm_write_bytes, m.sm_write_bytes);
    add(sum.measured.hbm_read_bytes, m.hbm_read_bytes);
    add(sum.measured.hbm_write_bytes, m.hbm_write_bytes);
    add(sum.measured.time_us, m.time_us);
    sum.id += ", " + launches[n].id;
    sum.kernel += " + " + launches[n].kernel;
    sum.rounded_to_bytes = std::max(sum.rounded_to_bytes, launches[n].rounded_to_bytes);
  }
  return sum;
}

std::string ncu_metrics() {
  std::string names;
  for (const auto* metrics : {&kSmRead, &kSmWrite, &kHbmRead, &kHbmWrite, &kTime, &kClock})
    names += (names.empty() ? "" : ",") + metrics->front();
  return names;
}

}  // namespace flashscope
