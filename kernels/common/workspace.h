// The tensors of one run in GPU memory: each between guard zones filled with NaN, outputs filled with NaN, so that what
// was not written, read past its end or written outside shows.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/common/device_memory.h"
#include "kernels/common/params.h"

namespace flashscope::kernels {

/// Bytes that a Workspace takes, guard zones included; of a backward pass with what its forward pass needs.
std::int64_t workspace_bytes(const Schedule& schedule);

/// Throws Error(resource) when the workspace does not fit `free_bytes`: needed, free, and the largest seqlen that does.
void check_memory(const Schedule& schedule, std::int64_t free_bytes);

class Workspace {
 public:
  /// Allocates, fills guard zones and outputs with NaN and copies the inputs in, rounded to the problem's dtype. Throws
  /// Error(resource) with everything released when an allocation fails, Error(input) when a shape does not fit.
  Workspace(const Schedule& schedule, const AttentionInputs& inputs, DeviceMemory& memory);

  /// Everything but ctas_per_head, which is the kernel's.
  /// A forward or a backward kernel takes the first part of it.
  const WorkspaceParams& params() const { return m_params; }
  /// Fills what the kernels write with NaN again, those of the forward pass before a backward one among them.
  void reset_outputs();
  /// Throws Error(internal), naming the tensor, when a byte outside it was written.
  void check_guards() const;
  /// Of a backward pass: what the forward pass before it left, and the gradients.
  AttentionOutputs outputs() const;
  /// Of a rung that quantises, after its first kernel: Q, K and V as the second multiplies them, times their scales. Q and
  /// K are rotated and each √width too large (rotate_row); columns are those of the compiled width. The problem that these
  /// are the inputs of: quantized_problem().
  AttentionInputs quantized() const;

 private:
  struct Buffer {
    Buffer() = default;
    Buffer(DeviceMemory& memory_, std::int64_t guard_, std::int64_t bytes_);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    unsigned char* data() const { return whole + guard; }
    std::int64_t padded_bytes() const;

    DeviceMemory* memory = nullptr;
    unsigned char* whole = nullptr;  // guard, tensor, guard
    std::int64_t guard = 0, bytes = 0;
  };
  SparseMask sparse_mask_on_gpu();
  Pages pages_on_gpu();
  Buffer& buffer(Tensor tensor) { return m_buffers[static_cast<std::size_t>(tensor)]; }
  const Buffer& buffer(Tensor tensor) const { return m_buffers[static_cast<std::size_t>(tensor)]; }
  void* address(Tensor tensor) const { return buffer(tensor).whole ? buffer(tensor).data() : nullptr; }

  DeviceMemory& m_memory;
  AttentionProblem m_problem;
  TileShape m_tile;
  std::vector<Tensor> m_tensors;
  std::array<Buffer, kNumTensors> m_buffers;
  std::array<Buffer, 3> m_mask_arrays;  // of a sparse mask: offsets of queries and of keys, words of blocks
  WorkspaceParams m_params;
};

}  // namespace flashscope::kernels
