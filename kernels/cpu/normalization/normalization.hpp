// Normalisation of rows: (x - mean) * scale / sqrt(variance + epsilon) + bias, each result rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Which parameter belongs to which element: element j of row r has number r % patterns * per_row + j / run.
struct NormalizationPlaces {
  std::int64_t length = 1;   ///< of a row
  std::int64_t run = 1;      ///< neighbours that share a parameter; 1 or a divisor of `length`
  std::int64_t per_row = 1;  ///< parameters of a row
  std::int64_t patterns = 1;

  std::int64_t base(std::int64_t row) const { return row % patterns * per_row; }
};

/// Of 8-bit tensors, x = x_scale * (q - x_zero). A row's mean and variance follow exactly from the integer sums of q
/// and q * q. y = clamp(round_half_even(f / y_scale) + zero, lo, hi).
struct NormalizationBytes {
  NormalizationPlaces places;
  bool centred = true;  ///< false: RMSNormalization
  double x_scale = 1;
  std::int32_t x_zero = 0;        ///< of the stored byte
  double epsilon = 0;             ///< > 0
  const double* scale = nullptr;  ///< scale / y_scale, by parameter; padded by 16
  const double* bias = nullptr;   ///< bias / y_scale
  const float* float_scale = nullptr;
  const float* float_bias = nullptr;
  float float_slack = 0;  ///< a float result closer to a tie is computed again in double
  std::int32_t zero = 0;
  std::int32_t lo = 0;
  std::int32_t hi = 255;
  /// The result of element q of a row with these sums, by exact arithmetic. Called for those next to a tie.
  std::int32_t (*exact)(const void* context, std::int64_t sum, std::int64_t squares, std::int64_t q,
                        std::int64_t parameter) = nullptr;
  const void* context = nullptr;
};

/// What the sums of a row give: f / y_scale = (step * q - start) * factor * scale + bias.
struct NormalizationRow {
  std::int64_t step;
  std::int64_t start;
  std::int64_t sum;
  std::int64_t squares;
  double factor;  ///< off by a relative 2^-49 at most
};
NormalizationRow normalization_row(const NormalizationBytes& n, std::int64_t sum, std::int64_t squares);

/// One result, in double where its bound allows: every kernel is tested for equality with it.
std::int32_t normalize_byte(const NormalizationBytes& n, const NormalizationRow& row, std::int64_t q,
                            std::int64_t parameter);

using NormalizationBytesFunction = void (*)(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                            std::int64_t first, std::int64_t last);
void normalization_bytes_portable(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                  std::int64_t first, std::int64_t last);
void normalization_bytes_avx2(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                              std::int64_t first, std::int64_t last);
void normalization_bytes_avx512(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                std::int64_t first, std::int64_t last);

/// Of float32 tensors, with a float32 result.
struct NormalizationFloats {
  NormalizationPlaces places;
  bool centred = true;
  double epsilon = 0;            ///< > 0
  const float* scale = nullptr;  ///< by parameter
  const float* bias = nullptr;   ///< or null
  /// The result of the row's element `at`, by exact arithmetic.
  float (*exact)(const void* context, const float* row, std::int64_t at, float scale, float bias) = nullptr;
  const void* context = nullptr;
};

void normalization_floats(const NormalizationFloats& n, const float* in, float* out, std::int64_t first,
                          std::int64_t last);

}  // namespace halfeven::kernels
