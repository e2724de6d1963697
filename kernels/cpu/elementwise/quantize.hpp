// float32 to 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

struct QuantizeFloats {
  float scale = 1;
  std::int32_t zero = 0;
  std::int32_t lo = 0;
  std::int32_t hi = 255;
};

/// out[i] = clamp(round_half_even(in[i] / scale) + zero, lo, hi), exactly. Returns the number of the first NaN in
/// [first, last), or `last`; results from there on are unspecified.
using QuantizeFunction = std::size_t (*)(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                                         std::size_t last);

std::size_t quantize_portable(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                              std::size_t last);
std::size_t quantize_avx2(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                          std::size_t last);
std::size_t quantize_avx512(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                            std::size_t last);

}  // namespace halfeven::kernels
