// .npy files (case F01).
#include "viz/io/npy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"

namespace flashscope {
namespace {

using namespace std::string_literals;

/// A file as some other program would write it: any version, padded to any multiple.
std::string file_with(const std::string& dictionary, const std::string& data, int version = 1, std::size_t align = 64) {
  const std::size_t preamble = version == 1 ? 10 : 12;
  std::string header = dictionary;
  while ((preamble + header.size() + 1) % align != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY"s + static_cast<char>(version) + '\0';
  for (int byte = 0; byte < (version == 1 ? 2 : 4); ++byte) file += static_cast<char>(header.size() >> (8 * byte) & 255);
  return file + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (float value : values) {
    char raw[4];
    std::memcpy(raw, &value, 4);
    bytes.append(raw, 4);
  }
  return bytes;
}

NpyArray parse(const std::string& bytes, OpaqueItems opaque = OpaqueItems::refused) {
  return npy_from_bytes(bytes, "x.npy", opaque);
}

using Values = std::vector<double>;
using Shape = std::vector<std::int64_t>;

TEST_CASE("column order is turned into row order") {
  const NpyArray a = parse(file_with(dictionary("<f4", "(2, 3)", true), floats({1, 4, 2, 5, 3, 6})));
  CHECK(a.shape == Shape{2, 3});
  CHECK(a.values == Values{1, 2, 3, 4, 5, 6});
  // Three levels: element (i, j, k) holds 100 i + 10 j + k.
  std::string data;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) data += floats({static_cast<float>(100 * i + 10 * j + k)});
  const NpyArray b = parse(file_with(dictionary("<f4", "(2, 3, 4)", true), data));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) CHECK(b.values[(i * 3 + j) * 4 + k] == 100 * i + 10 * j + k);
}

TEST_CASE("byte order, item types and exactness") {
  CHECK(parse(file_with(dictionary(">f4", "(1,)"), "\x3F\x80\0\0"s)).values == Values{1});
  CHECK(parse(file_with(dictionary("<f2", "(4,)"), "\x00\x3C\x00\xC0\x01\x00\x00\x7C"s)).values ==
        Values{1, -2, std::ldexp(1.0, -24), std::numeric_limits<double>::infinity()});
  CHECK(std::isnan(parse(file_with(dictionary(">f2", "(1,)"), "\x7E\x00"s)).values[0]));
  CHECK(parse(file_with(dictionary("<f8", "(1,)"), "\x9A\x99\x99\x99\x99\x99\xB9\x3F"s)).values == Values{0.1});
  CHECK(parse(file_with(dictionary("<i4", "(2,)"), "\xFF\xFF\xFF\xFF\x07\0\0\0"s)).values == Values{-1, 7});
  CHECK(parse(file_with(dictionary("|i1", "(2,)"), "\x80\x7F"s)).values == Values{-128, 127});
  CHECK(parse(file_with(dictionary("|u1", "(1,)"), "\x80"s)).values == Values{128});
  CHECK(parse(file_with(dictionary(">u2", "(1,)"), "\x01\x02"s)).values == Values{258});
  CHECK(parse(file_with(dictionary("<i8", "(1,)"), "\0\0\0\0\0\0\0\x80"s)).values == Values{-9223372036854775808.0});
  CHECK(parse(file_with(dictionary("|b1", "(2,)"), "\x01\0"s)).values == Values{1, 0});
  const auto refused = [](const std::string& bytes) { return thrown_by([&] { parse(bytes); }); };
  CHECK(refused(file_with(dictionary("<i8", "(1,)"), "\x01\0\0\0\0\0\x20\0"s)).says("9007199254740993"));
  CHECK(refused(file_with(dictionary("<u8", "(1,)"), std::string(8, '\xFF'))).says("18446744073709551615"));
  CHECK(refused(file_with(dictionary("|b1", "(1,)"), "\x02"s)).says("bool"));
  for (const char* descr : {"<c8", "<c16", "|O", "<U4", "<M8[ns]", "<f16", "|f4", "f4", ""}) {
    CAPTURE(descr);
    const Thrown thrown = refused(file_with(dictionary(descr, "(1,)"), std::string(16, '\0')));
    CHECK(thrown.kind == ErrorKind::input);
    CHECK(thrown.says(std::string("dtype '") + descr + "'"));
  }
  CHECK(refused(file_with(dictionary("<c8", "(1,)"), std::string(8, '\0'))).says("complex"));
}

TEST_CASE("two opaque bytes are bfloat16 only when the user says so") {
  const std::string file = file_with(dictionary("|V2", "(1,)"), "\x80\x3F"s);
  const Thrown refused = thrown_by([&] { parse(file); });
  CHECK(refused.kind == ErrorKind::input);
  CHECK(refused.says("'|V2'"));
  CHECK(parse(file, OpaqueItems::bf16).values == Values{1});
}

TEST_CASE("shapes (3,), () and (0, 4); headers padded to 16; versions 1, 2 and 3") {
  for (int version : {1, 2, 3})
    for (std::size_t align : {1, 16, 64}) {
      const NpyArray a = parse(file_with(dictionary("<f4", "(3,)"), floats({1, 2, 3}), version, align));
      CHECK(a.shape == Shape{3});
      CHECK(a.values == Values{1, 2, 3});
    }
  CHECK(parse(file_with(dictionary("<f4", "()"), floats({7}))).values == Values{7});
  CHECK(parse(file_with(dictionary("<f4", "()"), floats({7}))).shape.empty());
  CHECK(parse(file_with(dictionary("<f4", "(0, 4)"), "")).shape == Shape{0, 4});
  CHECK(parse(file_with("{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<f4\"}", floats({1, 2}))).values == Values{1, 2});
}

TEST_CASE("a header or a size that cannot be right is refused before anything is allocated") {
  const auto refused = [](const std::string& bytes) {
    const Thrown thrown = thrown_by([&] { parse(bytes); });
    return thrown.kind == ErrorKind::input && thrown.says("x.npy");
  };
  CHECK(refused(""));
  CHECK(refused("\x93NUMPY"));
  CHECK(refused("not an array at all"));
  CHECK(refused("\x93NUMPY\x04\x00\x02\x00{}"s));
  CHECK(refused("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}"s));
  CHECK(refused(file_with(dictionary("<f4", "(3)"), floats({1, 2, 3}))));
  CHECK(refused(file_with(dictionary("<f4", "(-1,)"), "")));
  CHECK(refused(file_with(dictionary("<f4", "(1000000000000, 1000000000000)"), "")));
  CHECK(refused(file_with(dictionary("<f4", "(99999999999999999999,)"), "")));
  CHECK(refused(file_with(dictionary("<f4", "(1000000000,)"), "abcd")));
  CHECK(refused(file_with(dictionary("<f4", "(2,)"), floats({1, 2, 3}))));
  CHECK(refused(file_with(dictionary("<f4", "(2,)") + " x", floats({1, 2}))));
  CHECK(refused(file_with("{'descr': '<f4', 'shape': (1,)}", floats({1}))));
  CHECK(refused(file_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", floats({1}))));
  CHECK(refused(file_with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", floats({1}))));
}

TEST_CASE("what is written has an aligned header with a newline, and reads back bit for bit") {
  std::mt19937 random(5);
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{0, 4}, Shape{2, 3}, Shape{1, 2, 3, 4}, Shape{12345}}) {
    NpyArray array;
    array.shape = shape;
    std::int64_t count = 1;
    for (std::int64_t size : shape) count *= size;
    for (std::int64_t i = 0; i < count; ++i) array.values.push_back(static_cast<float>(random()) / 3.0f);
    if (count > 2) array.values[1] = -std::numeric_limits<double>::infinity(), array.values[2] = -0.0;
    for (NpyItem item : {NpyItem::float32, NpyItem::float64}) {
      const std::string bytes = npy_bytes(array, item);
      const std::size_t data = static_cast<std::size_t>(count) * (item == NpyItem::float32 ? 4 : 8);
      CHECK((bytes.size() - data) % 64 == 0);
      CHECK(bytes[bytes.size() - data - 1] == '\n');
      CHECK((shape.size() != 1 || bytes.find(",)") != std::string::npos));
      const NpyArray again = parse(bytes);
      CHECK(again.shape == shape);
      REQUIRE(again.values.size() == array.values.size());
      CHECK((count == 0 || std::memcmp(again.values.data(), array.values.data(), 8 * array.values.size()) == 0));
    }
  }
  CHECK(thrown_by([] { npy_bytes({{2, 2}, {1, 2, 3}}, NpyItem::float32); }).kind == ErrorKind::internal);
}

TEST_CASE("files on disk") {
  const TemporaryFolder folder;
  write_npy(folder.path("a.npy"), {{2}, {1, 2}}, NpyItem::float32);
  CHECK(read_npy(folder.path("a.npy")).values == Values{1, 2});
  CHECK(thrown_by([&] { read_npy(folder.path("b.npy")); }).kind == ErrorKind::input);
}

}  // namespace
}  // namespace flashscope
