// Signs that no precision shows: the form of the formula tells them.
#include "numerics/real.hpp"

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

}  // namespace
}  // namespace halfeven::numerics
