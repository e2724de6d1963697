// Binary floating-point formats: rounding to them, and their bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include <halfeven/types.hpp>

#include "numerics/rational.hpp"

namespace halfeven::numerics {

/// A format that double holds exactly: `precision` significant bits, no bit below 2^`lowest`, nothing finite above
/// `max`.
struct FloatFormat {
  int precision;
  int lowest;
  double max;
};

/// The format of float16, bfloat16, float32, float64 or a float8/float4 type (float8e8m0 apart, which is no rounding
/// format).
FloatFormat format_of(DType type);

/// Rounds once, half to even, subnormals kept, overflow to infinity; zero gives +0.
double round_to(const Rational& x, const FloatFormat& format);
/// The same for a finite double.
double round_to(double x, const FloatFormat& format);

/// Value of element `index` of `data`, which holds elements of `type` (any float or small float type): exact.
double decode_float(DType type, const std::byte* data, std::size_t index);

/// Stores `value`, which the type holds exactly (or which is infinite or NaN, where the type has these). For small
/// floats without an infinity the caller has saturated.
void encode_float(DType type, double value, std::byte* data, std::size_t index);

}  // namespace halfeven::numerics
