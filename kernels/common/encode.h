// Values as a GPU stores them: float64 arrays to fp32, fp16 or bf16 bits and back.
#pragma once
#include <vector>

#include "sim/compute/compute.h"

namespace flashscope::kernels {

/// Rounded to nearest even, in memory order. Throws Error(internal) for dtypes that no rung has.
std::vector<unsigned char> encode(DType dtype, const std::vector<double>& values);
/// The exact values of `count` stored elements.
std::vector<double> decode(DType dtype, const unsigned char* bytes, std::size_t count);
/// The value of a byte of e4m3.
double value_of_e4m3(unsigned char bits);

}  // namespace flashscope::kernels
