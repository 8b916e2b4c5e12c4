// Machine descriptions as JSON files (docs/adding-a-gpu.md, docs/file-formats.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/io/json_fwd.h"

namespace flashscope {

/// Names of the descriptions shipped with the product, sorted: "nvidia-a100-80gb-sxm", …
std::vector<std::string> machine_names();

/// A shipped description by its name, or a JSON file by its path (anything with a '/' or ending in ".json"). Throws
/// Error(usage) for an unknown name, with the list, and Error(input) with file, field and place for a bad file.
Machine load_machine(const std::string& name_or_path);

/// `file` is the name for messages.
Machine machine_from_json(std::string_view text, const std::string& file);
Json machine_to_json(const Machine& machine);

}  // namespace flashscope
