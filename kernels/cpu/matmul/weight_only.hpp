// Products of float32 activations with quantized weights: each sum rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Columns of a block of weights.
inline constexpr std::int64_t kWeightLanes = 8;

struct WeightOnly {
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t block = 0;  ///< depth that shares a scale
  const std::int16_t* weights =
      nullptr;                        ///< [blocks of 8 columns][depth][8]: less their zero points, 0 beyond the last
  const double* scales = nullptr;     ///< [blocks of 8 columns][ceil(depth / block)][8]
  const double* magnitude = nullptr;  ///< by column, padded: at least the sum of |weight * scale|
  const float* bias = nullptr;        ///< by column, padded; in the sum
  const float* addend = nullptr;      ///< by column, padded; added to the rounded sum; or null
  /// The result by exact arithmetic.
  float (*exact)(const void* context, const float* row, std::int64_t column) = nullptr;
  const void* context = nullptr;
};

/// Rows [first, last): in [rows][depth], out [rows][columns].
using WeightOnlyFunction = void (*)(const WeightOnly& w, const float* in, float* out, std::int64_t first,
                                    std::int64_t last);
void weight_only_portable(const WeightOnly& w, const float* in, float* out, std::int64_t first, std::int64_t last);
void weight_only_avx2(const WeightOnly& w, const float* in, float* out, std::int64_t first, std::int64_t last);
void weight_only_avx512(const WeightOnly& w, const float* in, float* out, std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
