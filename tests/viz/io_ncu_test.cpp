// `ncu --csv` of the user's own kernel (case C03): long and wide, units, separators, and what is no measurement.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/throws_error.h"
#include "viz/io/files.h"
#include "viz/io/ncu_csv.h"

namespace flashscope {
namespace {

const std::string kTalk = "==PROF== Connected to process 4711\n==PROF== Profiling \"flash\" - 0: 0%....100% - 1 pass\n";
const std::string kColumns = "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
const std::string kName = "\"void flash<\"\"a,b\"\", (int)64>(Params, int)\"";

std::string line(const std::string& id, const std::string& name, const std::string& metric, const std::string& unit,
                 const std::string& value) {
  return "\"" + id + "\",\"4711\"," + name + ",\"" + metric + "\",\"" + unit + "\",\"" + value + "\"\n";
}

std::string launch(const std::string& id, const std::string& name) {
  return line(id, name, "dram__bytes_read.sum", "Mbyte", "3.15") +
         line(id, name, "dram__bytes_write.sum", "byte", "1,048,576") +
         line(id, name, "lts__t_sectors_op_read.sum", "sector", "480,475") +
         line(id, name, "lts__t_sectors_op_write.sum", "sector", "84803");
}

std::string input_a() { return kTalk + "Warning: something is not as it should be\n" + kColumns + launch("0", kName); }

void is_input_a(const std::string& text) {
  const auto launches = ncu_launches_from_csv(text_from_bytes(text, "a.csv"), "a.csv");
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].kernel == "void flash<\"a,b\", (int)64>(Params, int)");
  const kernels::Measurement& m = launches[0].measured;
  CHECK(m.hbm_read_bytes.value == 3'150'000);  // decimal prefixes
  CHECK(m.hbm_write_bytes.value == 1'048'576);
  CHECK(m.sm_read_bytes.value == 15'375'200);  // sectors of 32 bytes
  CHECK(m.sm_write_bytes.value == 2'713'696);
  CHECK(*m.sm_read_bytes.value + *m.sm_write_bytes.value == 18'088'896);
  CHECK_FALSE(m.time_us.value);
  CHECK(m.time_us.reason == "the file has no gpu__time_duration.sum");
  CHECK(launches[0].rounded_to_bytes == 10'000);
}

void refused(const std::string& text, const std::string& says) {
  const Thrown thrown = thrown_by([&] { ncu_launches_from_csv(text, "a.csv"); });
  CAPTURE(thrown.text);
  CHECK(thrown.kind == ErrorKind::input);
  CHECK(thrown.says(says));
}

TEST_CASE("C03: long form, talk before the header, units, separators and sectors") { is_input_a(input_a()); }

TEST_CASE("C03: wide form with a row of units and columns that mean nothing here") {
  is_input_a(kTalk +
             "\"ID\",\"Kernel Name\",\"Device\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\","
             "\"lts__t_sectors_op_read.sum\",\"lts__t_sectors_op_write.sum\",\"launch__waves\",\"launch__registers\"\n"
             "\"\",\"\",\"\",\"Mbyte\",\"byte\",\"sector\",\"sector\",\"\",\"register/thread\"\n"
             "\"0\"," + kName + ",\"0\",\"3.15\",\"1,048,576\",\"480,475\",\"84803\",\"1.94\",\"168\"\n");
}

TEST_CASE("C03: byte order mark, CRLF, and talk at the end and in the middle") {
  std::string text = input_a();
  text.insert(text.find("\"0\",\"4711\""), "==WARNING== clocks are not locked\n");
  text += "==PROF== Disconnected from process 4711\n";
  std::string crlf = "\xEF\xBB\xBF";
  for (char c : text) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  is_input_a(crlf);
}

TEST_CASE("C03: launches stay apart, in the order of the file, and are added up only when asked") {
  const auto launches = ncu_launches_from_csv(kColumns + launch("0", "\"one\"") + launch("1", "\"two\""), "a.csv");
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "one");
  CHECK(launches[1].line == 6);
  const NcuLaunch sum = sum_of(launches);
  CHECK(sum.measured.hbm_write_bytes.value == 2 * 1'048'576);
  CHECK(sum.kernel == "one + two");
  CHECK_FALSE(sum.measured.time_us.value);
}

TEST_CASE("C03: a header and nothing else, no header, metrics of other things: no measurements") {
  refused(kTalk + kColumns, "no measurements");
  refused(kTalk + kColumns + line("0", kName, "launch__registers", "register/thread", "168"), "dram__bytes_read.sum");
  refused("", "not what ncu --csv prints");
  refused("{\"gpu\": 1}\n", "not what ncu --csv prints");
}

TEST_CASE("C03: what cannot be a count is refused with its line") {
  const auto with = [](const std::string& unit, const std::string& value) {
    return kTalk + kColumns + line("0", kName, "dram__bytes_read.sum", unit, value);
  };
  refused(with("furlong", "3"), "a.csv:4: dram__bytes_read.sum: the unit \"furlong\"");
  refused(with("", "3"), "a.csv:4: dram__bytes_read.sum: the unit \"\"");
  for (const char* bad : {"3,15", "1.048.576", "-1", "1e6", "1,0485,76", "1234,567", ",5", "5.", ".5", "0x10",
                          "99999999999999999999"})
    refused(with("byte", bad), "a.csv:4: dram__bytes_read.sum: \"" + std::string(bad) + "\" is not a number");
  refused(with("Tbyte", "9,999,999,999"), "more than fits");
  refused(input_a() + "a result that the program printed itself\n", "a.csv:9: 1 columns where the header has 6");
  refused(input_a() + "\"0\",\"4711\",\"no end\n", "a.csv:9: a quote that does not end");
  refused(input_a() + line("0", kName, "dram__bytes_write.sum", "byte", "7"), "a.csv:9: dram__bytes_write.sum of launch 0");
  refused("\"ID\",\"Kernel Name\",\"dram__bytes_read.sum\"\n\"0\",\"k\",\"7\"\n", "a.csv:2: the row of units");
  refused(kColumns.substr(0, kColumns.size() - 16) + "\n", "\"Metric Value\"");
  for (const char* clock : {"0", "1,000,000"})
    refused(kColumns + line("3", kName, "dram__bytes_read.sum", "byte", "7") + line("3", kName, "SM Frequency", "Ghz", clock),
            "is no GPU's clock");
}

TEST_CASE("C03: what ncu could not read is unavailable, with what it printed; times and clocks in their units") {
  const auto launches = ncu_launches_from_csv(
      kColumns + line("3", kName, "dram__bytes_read.sum", "byte", "n/a") +
          line("3", kName, "l1tex__m_xbar2l1tex_read_bytes.sum", "Gbyte", "8.658305") +
          line("3", kName, "lts__t_sectors_op_read.sum", "sector", "1") +
          line("3", kName, "gpu__time_duration.sum", "msecond", "3.59") +
          line("3", kName, "SM Frequency", "cycle/nsecond", "1.62"),
      "a.csv");
  const kernels::Measurement& m = launches.at(0).measured;
  CHECK_FALSE(m.hbm_read_bytes.value);
  CHECK(m.hbm_read_bytes.reason == "ncu printed \"n/a\" for dram__bytes_read.sum");
  CHECK(m.sm_read_bytes.value == 8'658'305'000);  // the counter of the SMs' own side goes before L2's
  CHECK(*m.time_us.value == doctest::Approx(3590));
  CHECK(*m.sm_clock_mhz.value == doctest::Approx(1620));
}

}  // namespace
}  // namespace flashscope
