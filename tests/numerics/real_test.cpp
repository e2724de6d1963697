// Signs that no precision shows: the form of the formula tells them.
#include "numerics/real.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "numerics/format.hpp"

namespace halfeven::numerics {
namespace {

TEST(Real, SignsBelowEveryExponent) {
  const Real tiny = exp(Real::from_double(-3e38));  // no exponent of MPFR reaches it
  EXPECT_EQ(sign(tiny), 1);
  EXPECT_EQ(sign(-tiny), -1);
  EXPECT_EQ(sign(tiny * Real::from_double(-2)), -1);
  EXPECT_EQ(sign(tiny + exp(Real::from_double(-2e38))), 1);
  EXPECT_EQ(sign(tanh(-sqrt(tiny))), -1);
  EXPECT_EQ(sign(Real(1) - Real(1) * exp(Real::from_double(-1))), 1);  // signs that differ: an interval decides
  EXPECT_EQ(round_to(max(tiny, Real(0)), format_of(DType::float32)), 0.0);
}

// Numbers of billions of bits are rounded without being written out.
TEST(Real, FarFromOne) {
  const FloatFormat f32 = format_of(DType::float32);
  const FloatFormat f64 = format_of(DType::float64);
  for (const double power : {1e4, 1e6, 6.5e10, 1e15, 3e38}) {
    const Real huge = exp(Real::from_double(power));
    const Real tiny = exp(Real::from_double(-power));
    EXPECT_EQ(round_half_even(huge, 0, 255), 255) << power;
    EXPECT_EQ(round_half_even(-huge, -128, 127), -128) << power;
    EXPECT_EQ(round_half_even(tiny, 0, 255), 0) << power;
    EXPECT_EQ(floor(-tiny, -5, 5), -1) << power;
    EXPECT_EQ(round_to(huge, f32), HUGE_VAL) << power;
    EXPECT_EQ(round_to(-huge, f64), -HUGE_VAL) << power;
    EXPECT_EQ(round_to(tiny, f32), 0.0) << power;
    EXPECT_EQ(round_to(tiny, f64), 0.0) << power;
  }
  // 1 + erf(x) is positive, however near to zero.
  EXPECT_EQ(sign(Real(1) + erf(Real::from_double(-1e20))), 1);
  EXPECT_EQ(sign(Real(1) - sigmoid(Real::from_double(1e20))), 1);
}

}  // namespace
}  // namespace halfeven::numerics
