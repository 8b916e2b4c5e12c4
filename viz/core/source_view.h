// The source of the kernel that matches what the stage shows, with the lines of the operation under way. Kernels report
// each operation to an observer (kernels/common/observer.cuh); the line that reports it is the line that is lit, so
// the source needs no marks of its own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "viz/core/stage_trace.h"

namespace flashscope::viz {

struct SourceFile {
  std::string name;  // "05_flash_v2.cu"
  std::vector<std::string> lines;
};

/// What to light, as places in SourceFile::lines.
struct SourcePlace {
  int kernel_first = 0, kernel_last = 0;  // [first, last): the kernel under way
  int step_first = 0, step_last = 0;      // [first, last): its numbered step that holds the operation
  std::vector<int> lit;                   // lines that report the operation; empty: the source does not say it
};

/// The file of an algorithm's kernels; no lines when none is compiled in.
SourceFile source_of(const std::string& algorithm, Pass pass = Pass::forward);

/// `kernel`: its name in the launch. Barriers and CTA starts are in no line.
SourcePlace source_place(const SourceFile& file, const std::string& kernel, const TileOp& op);
/// Of a barrier: the step of the operation before it, and the next line there at which all threads meet.
SourcePlace barrier_after(const SourceFile& file, SourcePlace before);

}  // namespace flashscope::viz
