// How close sums times a ratio come to a tie: what proves that a floating-point format decides their rounding.
#pragma once

#include <cstdint>

#include "numerics/rational.hpp"

namespace halfeven::numerics {

/// Distances of numbers from the nearest half-integer.
struct ClosestApproach {
  /// The least one that is not zero, rounded down by less than a relative 2^-48; infinity where there is none.
  double distance;
  bool ties;  ///< whether one is zero

  /// Of both sets of numbers together.
  ClosestApproach operator&(const ClosestApproach& o) const {
    return {distance < o.distance ? distance : o.distance, ties || o.ties};
  }
};

/// The integers from `first` to `last`, both included; none if first > last.
struct IntegerRange {
  std::int64_t first;
  std::int64_t last;
};

/// Of a * ratio + offset for all a in the range. Takes time that grows with the logarithm of its length, by Euclid's
/// recursion on the least and the greatest value of a linear function modulo an integer. |first|, |last| < 2^62.
ClosestApproach closest_approach(const Rational& ratio, const Rational& offset, IntegerRange a);

/// Of a * ratio + b * second + offset for all a and b in the ranges: one recursion for each b.
ClosestApproach closest_approach(const Rational& ratio, const Rational& second, const Rational& offset, IntegerRange a,
                                 IntegerRange b);

/// The same for all integers a and b, however large: what the numbers' common denominator alone says.
ClosestApproach closest_approach(const Rational& ratio, const Rational& second, const Rational& offset);

}  // namespace halfeven::numerics
