// Requantisation: what every integer kernel does with its accumulators (contract section 4).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// y = clamp(round_half_even(a * ratio + b * ratio2 + offset) + zero, lo, hi), exactly, with ratio, ratio2 and offset
/// rationals of the channel. The doubles here are their nearest ones. Where the double result lies within `slack` of a
/// tie, it is one if `decided`, else `exact` decides. A slack of 0 says that the doubles decide all.
struct Requantize {
  const double* ratio = nullptr;   ///< [channels], or one if `per_tensor`
  const double* offset = nullptr;  ///< the same number; the bias that is no part of the accumulator
  double ratio2 = 0;               ///< of a second integer term (an addition's other operand)
  bool per_tensor = false;
  double slack = 0;
  bool decided = false;
  bool fits = false;  ///< before rounding, no value exceeds 2^30
  /// The same in float32, for kernels that check every lane: where the float result lies within `float_slack` of a tie,
  /// the doubles decide. Null where float32 is too coarse for that.
  const float* float_ratio = nullptr;
  const float* float_offset = nullptr;
  float float_ratio2 = 0;
  float float_slack = 0;
  std::int32_t zero = 0;
  std::int32_t lo = 0;  ///< of the stored result, zero point included
  std::int32_t hi = 255;
  /// round_half_even of the exact value, limited to what an int32 holds. Called for few elements.
  std::int64_t (*exact)(const void* context, std::size_t channel, std::int64_t a, std::int64_t b) = nullptr;
  const void* context = nullptr;
};

/// The scalar definition: every kernel is tested for equality with it. Each file has its own, compiled for its own
/// instruction set: a shared one might be another processor's.
[[maybe_unused]] static inline std::int32_t requantize(const Requantize& q, std::size_t channel, std::int64_t a,
                                                       std::int64_t b = 0) {
  const std::size_t k = q.per_tensor ? 0 : channel;
  double t = static_cast<double>(a) * q.ratio[k];
  t += static_cast<double>(b) * q.ratio2;
  t += q.offset[k];
  double r = std::nearbyint(t);
  if (q.slack > 0 && std::fabs(t - r) >= 0.5 - q.slack) {
    r = q.decided ? std::nearbyint(std::nearbyint(2 * t) / 2) : static_cast<double>(q.exact(q.context, k, a, b));
  }
  const double y = r + q.zero;
  return y < q.lo ? q.lo : (y > q.hi ? q.hi : static_cast<std::int32_t>(y));
}

}  // namespace halfeven::kernels
