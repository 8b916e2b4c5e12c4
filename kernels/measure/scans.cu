#include "kernels/measure/scans.h"

#include "kernels/measure/cuda_check.h"
#include "kernels/measure/scan_pieces.cuh"

namespace flashscope::kernels {
namespace {

__device__ unsigned never_written;  // see streams.cu

__device__ void keep(unsigned sum) {
  if (sum == 0x9e3779b9u) never_written = sum;
}

__global__ void shared_kernel(const char* data, std::int64_t pieces) {
  unsigned sum = 0;
  for (std::int64_t piece = 0; piece < pieces; ++piece) sum ^= read_piece(data, piece);
  keep(sum);
}

__global__ void own_kernel(const char* data, std::int64_t pieces, int shift) {
  unsigned sum = 0;
  for (std::int64_t piece = (blockIdx.x + shift) % gridDim.x; piece < pieces; piece += gridDim.x)
    sum ^= read_piece(data, piece);
  keep(sum);
}

__global__ void staggered_kernel(const char* data, std::int64_t pieces, std::int64_t count) {
  unsigned sum = 0;
  std::int64_t piece = blockIdx.x * pieces / gridDim.x;
#pragma unroll 4
  for (std::int64_t n = 0; n < count; ++n) {
    sum ^= read_piece(data, piece);
    piece = piece + 1 == pieces ? 0 : piece + 1;
  }
  keep(sum);
}

}  // namespace

void shared_scan(const char* data, std::int64_t bytes, int ctas) {
  shared_kernel<<<ctas, kScanThreads>>>(data, bytes / kPieceBytes);
  check_cuda(cudaGetLastError(), "launching a scan");
}

void own_scan(const char* data, std::int64_t bytes, int shift, int ctas) {
  own_kernel<<<ctas, kScanThreads>>>(data, bytes / kPieceBytes, shift);
  check_cuda(cudaGetLastError(), "launching a scan");
}

void staggered_scan(const char* data, std::int64_t bytes, int parts, int ctas) {
  staggered_kernel<<<ctas, kScanThreads>>>(data, bytes / kPieceBytes, bytes / kPieceBytes / parts);
  check_cuda(cudaGetLastError(), "launching a scan");
}

int staggered_ctas_per_sm() {
  int ctas = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, staggered_kernel, kScanThreads, 0),
             "asking what fits on an SM");
  return ctas;
}

}  // namespace flashscope::kernels
