// Products of integers that end as float32, rounded once (contract section 1, rule 5).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// y = float32(sum * ratio + offset), one rounding; with `addend` or `wide_addend` y = float32(float32(...) + addend).
/// ratio and offset are rationals of the column; the doubles here are their nearest ones. Where these leave the
/// rounding open, `exact` computes the result.
struct RoundToFloat {
  const double* ratio = nullptr;        ///< [columns], 0 or of a magnitude from 2^-100 to 2^100
  const double* offset = nullptr;       ///< [columns], 0 or at least 2^-300
  const float* addend = nullptr;        ///< [columns] or null
  const double* wide_addend = nullptr;  ///< the same where float32 does not hold them (double does); or null
  float (*exact)(const void* context, std::size_t column, std::int64_t sum) = nullptr;
  const void* context = nullptr;
};

/// The roundings of ratio, offset, product and sum are 3 units of 2^-53 of |sum * ratio| + |offset|; the sum t -+ e
/// rounds once more.
inline constexpr double kRoundToFloatError = 0x1p-50;
/// Smaller results may be subnormal or have lost their sign.
inline constexpr double kRoundToFloatLeast = 0x1p-100;

/// The scalar definition: every kernel is tested for equality with it.
[[maybe_unused]] static inline float round_to_float(const RoundToFloat& f, std::size_t column, std::int64_t sum) {
  const double first = static_cast<double>(sum) * f.ratio[column];
  const double t = first + f.offset[column] + 0.0;  // +0.0: a computed zero is +0
  const double e = (std::fabs(first) + std::fabs(f.offset[column])) * kRoundToFloatError;
  const auto y = static_cast<float>(t - e);
  if (!(y == static_cast<float>(t + e) && (std::fabs(t) >= kRoundToFloatLeast || e == 0))) {
    return f.exact(f.context, column, sum);
  }
  if (f.addend != nullptr) return y + f.addend[column];
  if (f.wide_addend == nullptr) return y;
  const double u = static_cast<double>(y) + f.wide_addend[column];
  const double e2 = std::fabs(u) * 0x1p-52;
  const auto z = static_cast<float>(u - e2);
  if (z == static_cast<float>(u + e2) && std::fabs(u) >= kRoundToFloatLeast) return z;
  return f.exact(f.context, column, sum);
}

}  // namespace halfeven::kernels
