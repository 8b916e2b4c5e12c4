// One line of a kernel's log as the device writes it (kernels.h LoggedOp is the same for readers).
#pragma once
#include <cstdint>

#include "sim/schedule/op.h"

namespace flashscope::kernels {

struct OpRecord {
  Op op;
  Tensor tensor;
  unsigned cta;  // of the running kernel
  int sequence;  // within the CTA
  int head, row, rows, col, cols, depth;
  std::int64_t bytes;
  int heads;
};

}  // namespace flashscope::kernels
