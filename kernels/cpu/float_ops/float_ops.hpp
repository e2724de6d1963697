// Single float32 operations on stored floats: what IEEE 754 rounds once is what the contract asks for, but that a
// computed zero is +0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

enum class FloatOperation : std::uint8_t { add, subtract, reverse_subtract, multiply };

/// out[i] = a[i] op b[i / inner % count] for i in [first, last); inner and count are positive.
void float_binary(FloatOperation op, const float* a, const float* b, std::int64_t inner, std::int64_t count, float* out,
                  std::int64_t first, std::int64_t last);

/// out[i] = float32(in[i]), half to even.
void float_of_int32(const std::int32_t* in, float* out, std::int64_t first, std::int64_t last);

/// out[i] = max(in[i], 0); NaN stays.
void float_relu(const float* in, float* out, std::int64_t first, std::int64_t last);

/// out[r * columns + c] = the greatest of in[(r * length + k) * columns + c], NaN if one is; rows [first, last).
void float_reduce_max(const float* in, float* out, std::int64_t length, std::int64_t columns, std::int64_t first,
                      std::int64_t last);

}  // namespace halfeven::kernels
