#include "viz/io/npy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "sim/error.h"
#include "viz/io/files.h"

namespace flashscope {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // of the first item, as NumPy writes it
constexpr int kMaxDimensions = 32;      // NumPy's own limit

[[noreturn]] void bad_input(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::input, file + ": " + what);
}

std::uint64_t load_unsigned(const char* bytes, int size, bool big_endian) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[big_endian ? i : size - 1 - i]);
  return value;
}

template <class Float, class Bits>
double load_float(std::uint64_t raw) {
  const Bits bits = static_cast<Bits>(raw);
  Float value;
  static_assert(sizeof value == sizeof bits);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// IEEE 754 binary16.
double load_half(std::uint64_t raw) {
  const int exponent = static_cast<int>(raw >> 10 & 31);
  const double fraction = static_cast<double>(raw & 1023);
  const double magnitude = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                            : std::numeric_limits<double>::quiet_NaN())
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return raw & 0x8000 ? -magnitude : magnitude;
}

struct ItemType {
  char kind = 'f';  // NumPy's letters: b bool, i signed, u unsigned, f float; B is our bfloat16
  int size = 4;
  bool big_endian = false;
};

ItemType item_type(const std::string& descr, OpaqueItems opaque, const std::string& file) {
  if (descr == "|V2" || descr == "<V2" || descr == ">V2") {
    if (opaque == OpaqueItems::bf16) return {'B', 2, descr[0] == '>'};
    bad_input(file, "dtype '" + descr + "' is two opaque bytes an item; if they are bfloat16, say so (--dtype bf16)");
  }
  static constexpr const char* known[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"};
  if (descr.size() == 3 && std::strchr("<>|=", descr[0]) != nullptr)
    for (const char* name : known)
      if (descr.compare(1, 2, name) == 0 && (descr[0] != '|' || name[1] == '1'))
        return {name[0], name[1] - '0', descr[0] == '>'};
  bad_input(file, "dtype '" + descr + "' is not one of bool, signed and unsigned integers, float16, float32, float64" +
                      (descr.find('c') != std::string::npos ? " (complex numbers are not accepted)" : ""));
}

double load_item(const char* bytes, const ItemType& type, const std::string& file) {
  const std::uint64_t raw = load_unsigned(bytes, type.size, type.big_endian);
  switch (type.kind) {
    case 'b':
      if (raw > 1) bad_input(file, "a bool item is neither 0 nor 1");
      return static_cast<double>(raw);
    case 'B': return load_float<float, std::uint32_t>(raw << 16);
    case 'f':
      return type.size == 2   ? load_half(raw)
             : type.size == 4 ? load_float<float, std::uint32_t>(raw)
                              : load_float<double, std::uint64_t>(raw);
    case 'u': {
      const double value = static_cast<double>(raw);
      if (value >= 18446744073709551616.0 || static_cast<std::uint64_t>(value) != raw)
        bad_input(file, std::to_string(raw) + " cannot be held exactly as float64");
      return value;
    }
    default: {
      const int unused = 64 - 8 * type.size;
      const std::int64_t value = static_cast<std::int64_t>(raw << unused) >> unused;  // sign extension
      const double as_double = static_cast<double>(value);
      if (as_double >= 9223372036854775808.0 || static_cast<std::int64_t>(as_double) != value)
        bad_input(file, std::to_string(value) + " cannot be held exactly as float64");
      return as_double;
    }
  }
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// The header is a Python dictionary literal with three known keys: strings, True or False, and a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : m_text(text), m_file(file) {}

  Header parse() {
    Header header;
    bool have_descr = false, have_order = false, have_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !have_descr) {
        if (peek() == '[') fail("arrays of records are not accepted");
        header.descr = string();
        have_descr = true;
      } else if (key == "fortran_order" && !have_order) {
        header.fortran_order = boolean();
        have_order = true;
      } else if (key == "shape" && !have_shape) {
        header.shape = tuple();
        have_shape = true;
      } else {
        fail("unknown or repeated key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') fail("text after the dictionary");
    if (!have_descr || !have_order || !have_shape) fail("descr, fortran_order and shape are all needed");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    bad_input(m_file, "header, position " + std::to_string(m_position) + ": " + what);
  }
  char peek() {
    while (m_position < m_text.size() && std::strchr(" \n\t", m_text[m_position]) != nullptr && m_text[m_position])
      ++m_position;
    if (m_position == m_text.size()) return '\0';
    if (m_text[m_position] == '\0') fail("a zero byte");
    return m_text[m_position];
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++m_position;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("expected '") + wanted + "'");
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a quoted text");
    const std::size_t begin = ++m_position;
    while (m_position < m_text.size() && m_text[m_position] != quote && m_text[m_position] != '\\') ++m_position;
    if (m_position == m_text.size() || m_text[m_position] == '\\') fail("a quoted text does not end");
    return std::string(m_text.substr(begin, m_position++ - begin));
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")})
      if (m_text.substr(m_position, word.size()) == word) {
        m_position += word.size();
        return word == "True";
      }
    fail("expected True or False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == kMaxDimensions) fail("more than " + std::to_string(kMaxDimensions) + " dimensions");
      if (peek() < '0' || peek() > '9') fail("expected a size");
      std::int64_t value = 0;
      for (; m_position < m_text.size() && m_text[m_position] >= '0' && m_text[m_position] <= '9'; ++m_position)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, m_text[m_position] - '0', &value))
          fail("a size does not fit in 64 bits");
      values.push_back(value);
      accept('L');  // Python 2 wrote long integers so
      if (!accept(',')) {
        expect(')');
        // "(3)" is a number in Python and not a tuple; no writer of the format means it.
        if (values.size() == 1) fail("a tuple of one size needs a comma: (3,)");
        break;
      }
    }
    return values;
  }

  std::string_view m_text;
  const std::string& m_file;
  std::size_t m_position = 0;
};

/// Number of items; refuses what does not fit in 62 bits.
std::int64_t item_count(const std::vector<std::int64_t>& shape, const std::string& file) {
  // A zero anywhere makes the array empty, however large the other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (std::int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count) || count > (std::int64_t{1} << 59))
      bad_input(file, "the shape is too large");
  return count;
}

}  // namespace

NpyArray npy_from_bytes(std::string_view bytes, const std::string& file, OpaqueItems opaque) {
  if (bytes.substr(0, kMagic.size()) != kMagic) bad_input(file, "not a .npy file (it does not begin with \\x93NUMPY)");
  if (bytes.size() < 10) bad_input(file, "ends in the preamble");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) bad_input(file, "version " + std::to_string(major) + " of the format is not known");
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t header_begin = 8 + length_bytes;
  if (bytes.size() < header_begin) bad_input(file, "ends in the preamble");
  const std::uint64_t header_length = load_unsigned(bytes.data() + 8, static_cast<int>(length_bytes), false);
  if (header_length > bytes.size() - header_begin) bad_input(file, "ends in the header");
  const Header header = HeaderParser(bytes.substr(header_begin, header_length), file).parse();

  const ItemType type = item_type(header.descr, opaque, file);
  const std::int64_t count = item_count(header.shape, file);
  const std::string_view data = bytes.substr(header_begin + header_length);
  if (data.size() != static_cast<std::uint64_t>(count) * type.size)
    bad_input(file, "holds " + std::to_string(data.size()) + " bytes of data where its shape needs " +
                        std::to_string(count * type.size));

  NpyArray array;
  array.shape = header.shape;
  array.values.resize(static_cast<std::size_t>(count));  // no more than the file's own size times eight
  if (!header.fortran_order || array.shape.size() < 2) {
    for (std::int64_t i = 0; i < count; ++i) array.values[i] = load_item(data.data() + i * type.size, type, file);
    return array;
  }
  // Column order: the first index runs fastest in the file. `index` counts in that order, `target` follows it in ours.
  std::vector<std::int64_t> strides(array.shape.size(), 1);
  for (std::size_t d = array.shape.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * array.shape[d];
  std::vector<std::int64_t> index(array.shape.size(), 0);
  std::int64_t target = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    array.values[target] = load_item(data.data() + i * type.size, type, file);
    for (std::size_t d = 0; d < index.size(); ++d) {
      target += strides[d];
      if (++index[d] < array.shape[d]) break;
      target -= strides[d] * array.shape[d];
      index[d] = 0;
    }
  }
  return array;
}

NpyArray read_npy(const std::string& path, OpaqueItems opaque) {
  return npy_from_bytes(read_binary_file(path), path, opaque);
}

std::string npy_bytes(const NpyArray& array, NpyItem item) {
  std::string shape = "(";
  std::int64_t count = 1;
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    shape += (d ? ", " : "") + std::to_string(array.shape[d]);
    if (array.shape[d] < 0 || __builtin_mul_overflow(count, array.shape[d], &count)) count = -1;
  }
  shape += array.shape.size() == 1 ? ",)" : ")";
  if (count != static_cast<std::int64_t>(array.values.size()))
    throw Error(ErrorKind::internal, "npy_bytes: shape " + shape + " and " + std::to_string(array.values.size()) +
                                         " values do not match");
  const int size = item == NpyItem::float32 ? 4 : 8;
  std::string header = "{'descr': '<f" + std::to_string(size) + "', 'fortran_order': False, 'shape': " + shape + ", }";
  const std::size_t preamble = kMagic.size() + 4;
  const std::size_t unpadded = preamble + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';

  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.reserve(bytes.size() + array.values.size() * size);
  for (double value : array.values) {
    std::uint64_t bits = 0;
    if (item == NpyItem::float32) {
      const float narrow = static_cast<float>(value);
      std::uint32_t narrow_bits;
      std::memcpy(&narrow_bits, &narrow, sizeof narrow);
      bits = narrow_bits;
    } else {
      std::memcpy(&bits, &value, sizeof value);
    }
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(bits >> (8 * i) & 255);
  }
  return bytes;
}

void write_npy(const std::string& path, const NpyArray& array, NpyItem item) {
  write_file_atomically(path, npy_bytes(array, item));
}

}  // namespace flashscope
