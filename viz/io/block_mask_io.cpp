#include "viz/io/block_mask_io.h"

#include <cstdlib>
#include <vector>

#include "sim/error.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

constexpr int kMaxBlock = 1 << 16;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;  // 128 MiB of bits
constexpr int kDefaultBlock = 64;

constexpr std::pair<const char*, BlockPattern> kPresets[] = {{"local", BlockPattern::local},
                                                             {"strided", BlockPattern::strided},
                                                             {"butterfly", BlockPattern::butterfly},
                                                             {"random", BlockPattern::random}};

std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> fields(1);
  for (char c : text) {
    if (c == ':')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

/// Digits alone; -1 for anything else or above `hi`.
std::int64_t whole_number(const std::string& text, std::int64_t hi) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
  const std::int64_t value = std::atoll(text.c_str());
  return value <= hi ? value : -1;
}

}  // namespace

BlockMask block_mask_from_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const auto bad = [&](const std::string& why) { return Error(ErrorKind::input, file + ": " + why); };
  if (!document.is_object()) throw bad("expected an object with block and rows");
  const Json& block = required_member(document, "block", file);
  const auto side = [&](std::size_t n) {
    if (!block.is_array() || block.size() != 2 || !block[n].is_number_integer() || block[n].get<double>() < 1 ||
        block[n].get<double>() > kMaxBlock)
      throw bad("block: expected [rows, keys], whole numbers in 1 … " + std::to_string(kMaxBlock));
    return block[n].get<int>();
  };
  const int block_q = side(0), block_k = side(1);
  const Json& rows = required_member(document, "rows", file);
  if (!rows.is_array()) throw bad("rows: expected a list of texts");
  const auto row_at = [&](std::size_t n) -> const std::string& {
    if (!rows[n].is_string()) throw bad("rows[" + std::to_string(n) + "]: expected a text of 0 and 1");
    return rows[n].get_ref<const std::string&>();
  };
  const std::size_t cols = rows.empty() ? 0 : row_at(0).size();
  if (static_cast<std::int64_t>(rows.size()) * static_cast<std::int64_t>(cols) > kMaxBlocks)
    throw bad("rows: more than " + std::to_string(kMaxBlocks) + " blocks");
  BlockMask mask(block_q, block_k, static_cast<int>(rows.size()), static_cast<int>(cols));
  mask.name = file;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const std::string& row = row_at(n);
    const std::string place = "rows[" + std::to_string(n) + "]: ";
    if (row.size() != cols)
      throw bad(place + std::to_string(row.size()) + " blocks where the first row has " + std::to_string(cols));
    for (std::size_t c = 0; c < cols; ++c) {
      if (row[c] != '0' && row[c] != '1') throw bad(place + "character " + std::to_string(c + 1) + " is not 0 or 1");
      if (row[c] == '1') mask.keep(static_cast<int>(n), static_cast<int>(c));
    }
  }
  return mask;
}

bool is_block_preset(const std::string& text) {
  const std::string name = fields_of(text).front();
  for (const auto& preset : kPresets)
    if (name == preset.first) return true;
  return false;
}

BlockMask load_block_mask(const std::string& option, const std::string& text, int seqlen_q, int seqlen_k) {
  const std::vector<std::string> fields = fields_of(text);
  for (const auto& [name, pattern] : kPresets) {
    if (fields[0] != name) continue;
    char* end = nullptr;
    const double density = fields.size() > 1 ? std::strtod(fields[1].c_str(), &end) : 0;
    const bool is_number = end && *end == '\0' && !fields[1].empty() && density > 0 && density <= 1;
    const std::int64_t seed = fields.size() > 2 ? whole_number(fields[2], INT64_MAX) : -1;
    const std::int64_t block = fields.size() > 3 ? whole_number(fields[3], kMaxBlock) : kDefaultBlock;
    if (!is_number || seed < 0 || block < 1 || fields.size() > 4)
      throw Error(ErrorKind::usage, option + ": '" + text +
                                        "' is not PRESET:DENSITY:SEED[:BLOCK] with a density above 0 and up to 1, a "
                                        "whole seed, and a block of 1 … " +
                                        std::to_string(kMaxBlock) + " (" + std::to_string(kDefaultBlock) + ")");
    if (std::int64_t{num_tiles(seqlen_q, static_cast<int>(block))} * num_tiles(seqlen_k, static_cast<int>(block)) >
        kMaxBlocks)
      throw Error(ErrorKind::resource, option + ": more than " + std::to_string(kMaxBlocks) +
                                           " blocks; choose a larger BLOCK");
    BlockMask mask = make_block_mask(pattern, density, static_cast<std::uint64_t>(seed), static_cast<int>(block),
                                     seqlen_q, seqlen_k);
    mask.name = text;
    return mask;
  }
  if (text.empty())
    throw Error(ErrorKind::usage, option + ": the value is empty; it takes a file, or local, strided, butterfly or "
                                           "random as PRESET:DENSITY:SEED");
  return block_mask_from_json(read_text_file(text), text);
}

}  // namespace flashscope
