// Requantisation of a quantized operator: exact ratios, what is proved of them, and the forms that kernels take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/requantize.hpp"
#include "cpu/conv/conv.hpp"
#include "cpu/elementwise/binary.hpp"
#include "cpu/elementwise/binary_words.hpp"
#include "numerics/closest_approach.hpp"
#include "numerics/rational.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

/// Exact ratios of a requantisation, what a kernel gets of them, and the proof of what decides its roundings (contract
/// section 4). Kept alive by the kernel.
class Requantization {
 public:
  /// y = round(a * ratios[k] + b * second + offsets[k]) + zero, |a| <= a_bounds[k] (or the only one), |b| <= b_bound.
  /// Arrays are padded to whole vectors. Throws nothing; usable() is false where doubles are too coarse.
  Requantization(std::vector<numerics::Rational> ratios, std::vector<numerics::Rational> offsets,
                 numerics::Rational second, std::vector<double> a_bounds, double b_bound, const QuantizedOperator& op);
  /// One bound for all channels.
  Requantization(std::vector<numerics::Rational> ratios, std::vector<numerics::Rational> offsets,
                 numerics::Rational second, double a_bound, double b_bound, const QuantizedOperator& op)
      : Requantization(std::move(ratios), std::move(offsets), std::move(second), std::vector<double>{a_bound}, b_bound,
                       op) {}

  bool usable() const { return usable_; }
  /// What was proved, for reports.
  PlanRounding rounding() const;
  kernels::Requantize view(bool per_tensor) const;
  /// The 16.16 form for kernels that have it, by lane; `lanes` holds each lane's channel, -1 where there is none.
  /// nullopt where its error is too large, or where float32 is exact and ties are common.
  std::optional<kernels::Fixed> fixed(const std::vector<std::int64_t>& lanes) const;
  /// The same for sums of bytes a - a_zero and b - b_zero; without safe_bits where there is none.
  kernels::FixedSum fixed_sum(std::int32_t a_zero, std::int32_t b_zero) const;
  /// By channel the least b for which ratio / 2^b is no more than 1/2, as the next function needs it.
  std::vector<int> word_bits() const;
  /// The 32.16 form of 16-bit results, by lane; channel c's sums are 2^bits[c] times those that were described above
  /// plus shifts[c]. nullopt where a ratio / 2^b is none between 0 and 1/2, or where ties are common.
  std::optional<kernels::FixedWords> fixed_words(const std::vector<std::int64_t>& lanes,
                                                 const std::vector<std::int64_t>& shifts,
                                                 const std::vector<int>& bits) const;
  /// The same for a * ratio + b * ratio2 of two words less their zero points.
  std::optional<kernels::FixedWordsSum> fixed_words_sum(std::int32_t a_zero, std::int32_t b_zero) const;
  std::string describe() const;

 private:
  double reach() const;
  double largest_first(std::size_t channel) const;
  bool sums_are_exact(int bits) const;
  double double_error(std::size_t channel) const;
  numerics::ClosestApproach approach(std::size_t channel) const;
  void prove();
  static std::int64_t exact(const void* self, std::size_t channel, std::int64_t a, std::int64_t b);

  std::vector<numerics::Rational> ratios_;
  std::vector<numerics::Rational> offsets_;
  numerics::Rational second_;
  std::vector<double> ratio_;
  std::vector<double> offset_;
  std::vector<float> float_ratio_;
  std::vector<float> float_offset_;
  std::vector<double> a_bounds_;
  double b_bound_ = 0;
  double second_size_ = 0;  // the largest |b * second|
  double slack_ = 0;        // what double results may be off by
  double float_slack_ = 0;  // likewise; infinite where floats are of no use
  // The closest to a tie that any result comes that does not saturate, ties apart.
  numerics::ClosestApproach closest_{0, true};
  bool exact_ = false;         // double results are not off at all
  bool floats_exact_ = false;  // likewise
  bool decided_ = false;       // double results within the slack of a tie are ties
  bool floats_decide_ = false;
  bool usable_ = true;
  bool fits_ = false;  // no value before rounding exceeds 2^30
  std::int32_t zero_;
  std::int32_t lo_;
  std::int32_t hi_;
};

}  // namespace halfeven::plan
