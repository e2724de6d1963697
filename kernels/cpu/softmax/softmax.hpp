// Softmax and LogSoftmax of rows, each result rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Where the rows of a tensor [outer][length][inner] lie: row r begins at r / inner * length * inner + r % inner, its
/// elements are `inner` apart.
struct SoftmaxRows {
  std::int64_t length = 1;
  std::int64_t inner = 1;

  std::int64_t begin(std::int64_t row) const { return row / inner * length * inner + row % inner; }
};

/// Of 8-bit tensors: y = clamp(round_half_even(f / y_scale) + zero, lo, hi), f the softmax of x_scale * q or its
/// logarithm. Elements are told apart by their distance from the row's top, the greatest (x_scale > 0) or least byte.
struct SoftmaxBytes {
  bool top_is_least = false;
  bool logarithm = false;
  const double* powers = nullptr;  ///< [256]: exp(-distance * |x_scale|), off by a relative 2^-46 at most
  double scale = 1;                ///< |x_scale|
  double per_step = 1;             ///< 1 / y_scale
  std::int32_t zero = 0;
  std::int32_t lo = 0;
  std::int32_t hi = 255;
  std::int32_t equal = 0;  ///< the result where all elements of a row are equal
  /// The result of the row's element `at`, by exact arithmetic. Called for those next to a tie.
  std::int32_t (*exact)(const void* context, const std::uint8_t* row, std::int64_t inner, std::int64_t at) = nullptr;
  const void* context = nullptr;
};

using SoftmaxBytesFunction = void (*)(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in,
                                      std::uint8_t* out, std::int64_t first, std::int64_t last);
void softmax_bytes_portable(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in, std::uint8_t* out,
                            std::int64_t first, std::int64_t last);
void softmax_bytes_avx512(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in, std::uint8_t* out,
                          std::int64_t first, std::int64_t last);

/// Of float32 tensors.
struct SoftmaxFloats {
  bool logarithm = false;
  /// The result of the row's element `at`, by exact arithmetic.
  float (*exact)(const void* context, const float* row, std::int64_t inner, std::int64_t at) = nullptr;
  const void* context = nullptr;
};

/// `powers` has a double for each element of the tensor, at the same place of the row as if inner were 1.
using SoftmaxFloatsFunction = void (*)(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers,
                                       float* out, std::int64_t first, std::int64_t last);
void softmax_floats_portable(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers,
                             float* out, std::int64_t first, std::int64_t last);
void softmax_floats_avx512(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers, float* out,
                           std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
