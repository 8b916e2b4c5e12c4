// Data files compiled into the binary, so that it runs from any directory.
#pragma once
#include <span>
#include <string_view>

namespace flashscope {

struct EmbeddedFile {
  std::string_view name;
  std::string_view content;
};

std::span<const EmbeddedFile> embedded_machines();    // sim/machine/*.json
std::span<const EmbeddedFile> embedded_recordings();  // kernels/recordings/*.json
std::span<const EmbeddedFile> embedded_kernel_sources();  // the rungs, and what two of them share: to be read, not compiled
std::span<const EmbeddedFile> embedded_lessons();     // lessons/*: texts, tensors, pictures

}  // namespace flashscope
