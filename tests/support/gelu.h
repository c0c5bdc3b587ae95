#pragma once
// GELU and its slope in fp32 as cuBLASLt's double computes them. The library's documents give no formula; PyTorch and
// TensorRT-LLM take it for the form with tanh.

#include <cmath>

namespace cryolite::test {

/// tanh(u), u = sqrt(2/pi) (x + 0.044715 x^3).
inline float tanh_of_gelu(float x) { return std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)); }

/// `t`: tanh(u).
inline float gelu_tanh(float x, float t) { return 0.5f * x * (1 + t); }
inline float gelu_tanh_slope(float x, float t) {
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

}  // namespace cryolite::test
