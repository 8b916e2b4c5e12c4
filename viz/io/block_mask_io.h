// Block masks from the command line: a preset by name, or a file (docs/file-formats.md).
#pragma once
#include <string>
#include <string_view>

#include "sim/block_mask.h"

namespace flashscope {

/// {"block": [rows, keys], "rows": ["1100", …]}: a text of 0 and 1 for each row of blocks. Throws Error(input) with file
/// and place.
BlockMask block_mask_from_json(std::string_view text, const std::string& file);

/// True where `text` names a preset, which makes the same mask everywhere: what can be written down and read back.
bool is_block_preset(const std::string& text);

/// "PRESET:DENSITY:SEED" or "PRESET:DENSITY:SEED:BLOCK" with local, strided, butterfly, random, made for these lengths;
/// anything else is a file. Throws Error(usage) beginning with `option`, Error(input), Error(io).
BlockMask load_block_mask(const std::string& option, const std::string& text, int seqlen_q, int seqlen_k);

}  // namespace flashscope
