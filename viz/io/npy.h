// NumPy's .npy files: one array of numbers (NEP 1; versions 1, 2 and 3 read, version 1 written).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashscope {

/// Row-major (C order) whatever the order in the file. A scalar has no dimensions and one value.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// What an item type without a name ('|V2') holds: bfloat16 is written like that by libraries that NumPy does not know.
enum class OpaqueItems { refused, bf16 };

/// Accepts bool, signed and unsigned integers, float16, float32 and float64 in either byte order. 64-bit integers that
/// float64 cannot hold exactly are refused. Sizes are checked before anything is allocated. Throws Error(input) with file
/// and place, naming the dtype where that is the cause.
NpyArray npy_from_bytes(std::string_view bytes, const std::string& file, OpaqueItems opaque = OpaqueItems::refused);
NpyArray read_npy(const std::string& path, OpaqueItems opaque = OpaqueItems::refused);

enum class NpyItem { float32, float64 };

/// The file's bytes, little-endian. Throws Error(internal) when the shape does not hold as many values as there are.
std::string npy_bytes(const NpyArray& array, NpyItem item);
/// Throws Error(io).
void write_npy(const std::string& path, const NpyArray& array, NpyItem item);

}  // namespace flashscope
