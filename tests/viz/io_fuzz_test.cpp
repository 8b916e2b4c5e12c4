// Damaged files of every format: read as something, or refused with an Error that says where; never anything else.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>

#include "sim/error.h"
#include "viz/io/attend_io.h"
#include "viz/io/embedded.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/npy.h"
#include "viz/io/recording.h"

namespace flashscope {
namespace {

using Reader = std::function<void(const std::string&)>;

/// True when the bytes were refused. Any exception but Error ends the test.
bool refused(const Reader& read, const std::string& bytes) {
  try {
    read(bytes);
    return false;
  } catch (const Error& error) {
    CHECK(error.kind() != ErrorKind::internal);
    CHECK(std::string(error.what()).size() > 5);
    return true;
  }
}

void damage(const Reader& read, const std::string& good, int rounds) {
  REQUIRE_FALSE(refused(read, good));
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    std::string bad = good;
    for (unsigned change = random() % 4; change < 4; ++change) {
      const std::size_t at = random() % bad.size();
      switch (random() % 5) {
        case 0: bad[at] = static_cast<char>(random()); break;
        case 1: bad[at] = static_cast<char>(bad[at] ^ 1 << random() % 8); break;
        case 2: bad.insert(at, 1, "{}[],:\"0-.eE\0\xFF\n"[random() % 15]); break;
        case 3: bad.erase(at, random() % 9); break;
        case 4: bad.insert(at, bad.substr(random() % bad.size(), random() % 20)); break;
      }
      if (bad.empty()) bad = "x";
    }
    refused(read, bad);
    // A file cut short is never taken for a whole one.
    std::size_t end = good.size();
    while (end > 0 && (good[end - 1] == '\n' || good[end - 1] == ' ')) --end;
    if (end > 0) CHECK(refused(read, good.substr(0, random() % end)));
  }
}

Reader text_reader(std::function<void(const std::string&)> parse) {
  return [parse](const std::string& bytes) { parse(text_from_bytes(bytes, "fuzz")); };
}

TEST_CASE("machine files") {
  damage(text_reader([](const std::string& text) { machine_from_json(text, "fuzz"); }),
         json_text(machine_to_json(load_machine("nvidia-h200"))), 400);
}

TEST_CASE("recordings") {
  Recording recording;
  recording.sm_clock_mhz = kernels::Measured<double>::of(1980);
  recording.memory_clock_mhz = kernels::Measured<double>::unavailable("no NVML");
  RecordingRow row;
  row.algorithm = "flash_v2";
  row.measured.sm_read_bytes = kernels::Measured<std::int64_t>::of(12345);
  recording.rows = {row, row};
  damage(text_reader([](const std::string& text) { recording_from_json(text, "fuzz"); }),
         json_text(recording_to_json(recording)), 400);
}

TEST_CASE("attend input") {
  damage(text_reader([](const std::string& text) { attend_input_from_json(text, "fuzz"); }),
         R"({"q": [[[[1, 2]], [[3, 4]]]], "k": [[[[1, 2], [3, 4.5e1]]]], "v": [[[["inf", "nan"], [1, -1]]]],
             "mask": [[1, 0]], "scale": 0.125})",
         2000);
}

TEST_CASE(".npy arrays") {
  for (NpyItem item : {NpyItem::float32, NpyItem::float64})
    damage([](const std::string& bytes) { npy_from_bytes(bytes, "fuzz", OpaqueItems::bf16); },
           npy_bytes({{2, 3}, {1, 2, 3, 4, 5, 6}}, item), 2000);
}

TEST_CASE("plain noise") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string noise(random() % 300, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    CHECK(refused(text_reader([](const std::string& text) { machine_from_json(text, "fuzz"); }), noise));
    CHECK(refused(text_reader([](const std::string& text) { recording_from_json(text, "fuzz"); }), noise));
    CHECK(refused(text_reader([](const std::string& text) { attend_input_from_json(text, "fuzz"); }), noise));
    CHECK(refused([](const std::string& bytes) { npy_from_bytes(bytes, "fuzz"); }, noise));
  }
}

}  // namespace
}  // namespace flashscope
