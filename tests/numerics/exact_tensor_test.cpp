// Decisions about elements: at ties, next to ties, and where double alone would be wrong.
#include "numerics/exact_tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace halfeven::numerics {
namespace {

ExactPtr affine(std::vector<std::int64_t> integers, double scale) {
  const auto n = static_cast<std::int64_t>(integers.size());
  return make_affine(DType::float32, {n}, {std::move(integers), {scale}, {}});
}

ExactPtr one(const Approx& approx, const Real& exact) {
  return make_computed(DType::float32, {}, {approx}, [exact](std::size_t) { return exact; });
}

TEST(Decisions, QuantizeRoundsTiesToEven) {
  const ExactPtr x = affine({-5, -3, -1, 0, 1, 3, 5, 1001}, 0.5);
  const std::int64_t expected[] = {-2, -2, 0, 0, 0, 2, 2, 100};
  for (std::size_t i = 0; i < x->size(); ++i) EXPECT_EQ(quantize_element(*x, i, 1, -100, 100), expected[i]);
}

// 147 / 98 is a tie that no double quotient of its parts need show: 147 * (1/98) is 1.4999...
TEST(Decisions, QuantizeDividesExactly) {
  EXPECT_EQ(quantize_element(*affine({147}, 1), 0, 98, -9, 9), 2);
  EXPECT_EQ(quantize_element(*affine({3}, 0.1), 0, 0.2, -9, 9), 2);  // the double 0.2 is twice the double 0.1
  const double third = 0x1.555554p-2;                                // the float32 below 1/3
  EXPECT_EQ(quantize_element(*affine({3}, third), 0, 2, -9, 9), 0);  // just below 1/2
  EXPECT_EQ(quantize_element(*affine({9}, third), 0, 2, -9, 9), 1);  // just below 3/2
  EXPECT_EQ(quantize_element(*affine({-9}, third), 0, 2, -9, 9), -1);
  EXPECT_EQ(quantize_element(*affine({9}, third), 0, -2, -9, 9), -1);  // a negative scale
}

TEST(Decisions, QuantizeNextToATieBelowDoublesReach) {
  const Rational little = Rational(1).scaled(-300);
  for (const int side : {-1, 0, 1}) {
    const Rational v = Rational(3) / Rational(2) + Rational(side) * little;
    const ExactPtr x = one({1.5, 0x1p-60}, Real(v));
    EXPECT_EQ(quantize_element(*x, 0, 1, -9, 9), side < 0 ? 1 : 2);
    const ExactPtr y = one({2.5, 0x1p-60}, Real(v + Rational(1)));
    EXPECT_EQ(quantize_element(*y, 0, 1, -9, 9), side > 0 ? 3 : 2);
  }
}

TEST(Decisions, QuantizeSaturates) {
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(quantize_element(*one({HUGE_VAL, 0}, Real::infinity(false)), 0, 0.1, -7, 9), 9);
  EXPECT_EQ(quantize_element(*one({HUGE_VAL, 0}, Real::infinity(false)), 0, -0.1, -7, 9), -7);
  EXPECT_EQ(quantize_element(*affine({1}, huge), 0, 5e-324, -7, 9), 9);  // the quotient overflows double
  EXPECT_EQ(quantize_element(*affine({-1}, huge), 0, 5e-324, -7, 9), -7);
  EXPECT_EQ(quantize_element(*affine({1}, 5e-324), 0, huge, -7, 9), 0);
}

TEST(Decisions, CompareAndSignSeeWhatDoublesDoNot) {
  const Rational little = Rational(1).scaled(-400);
  const ExactPtr a = one({1, 0x1p-50}, Real(Rational(1) + little));
  const ExactPtr b = one({1, 0x1p-50}, Real(Rational(1)));
  EXPECT_EQ(compare(*a, 0, *b, 0), 1);
  EXPECT_EQ(compare(*b, 0, *a, 0), -1);
  EXPECT_EQ(compare(*b, 0, *b, 0), 0);
  EXPECT_EQ(sign(*one({0, 0x1p-50}, Real(-little)), 0), -1);
  EXPECT_EQ(sign(*one({0x1p-60, 0x1p-50}, Real(Rational(0))), 0), 0);
  const ExactPtr nan = one({std::nan(""), 0}, Real::not_a_number());
  EXPECT_EQ(compare(*a, 0, *nan, 0), std::nullopt);
  EXPECT_EQ(compare(*affine({1}, 1), 0, *nan, 0), std::nullopt);
  EXPECT_EQ(compare(*nan, 0, *nan, 0), std::nullopt);
  EXPECT_EQ(sign(*nan, 0), std::nullopt);
  EXPECT_TRUE(is_nan(*nan, 0));
}

TEST(Decisions, RoundOnce) {
  // 1 + 2^-24 + 2^-80: a double rounds it onto the float32 tie, which would then go down.
  const Rational v = Rational(1) + Rational(1).scaled(-24) + Rational(1).scaled(-80);
  EXPECT_EQ(round_element(*one({1 + 0x1p-24, 0x1p-70}, Real(v)), 0, DType::float32), 1 + 0x1p-23);
  EXPECT_EQ(round_element(*one({1 + 0x1p-24, 0}, Real(Rational(1) + Rational(1).scaled(-24))), 0, DType::float32), 1);
  EXPECT_FALSE(std::signbit(round_element(*affine({0}, -1.0), 0, DType::float32)));  // a computed zero
}

// Functions that come closer to a tie than any precision in between: their formula is never the tie itself.
TEST(Decisions, FormulasNextToTheirLimit) {
  EXPECT_EQ(round_half_even(tanh(Real(100000)) * Real(Rational(3) / Rational(2)), -9, 9), 1);  // below 3/2
  EXPECT_EQ(round_half_even(sigmoid(Real(100000)) / Real(2), -9, 9), 0);
  EXPECT_EQ(round_half_even(softplus(Real(Rational(200001) / Rational(2))), 0, 1'000'000), 100001);  // above the tie
  const FloatFormat format{2, -1, 6.0};
  EXPECT_EQ(round_to(erf(Real(1000)) * Real(Rational(5) / Rational(2)), format), 2);
  EXPECT_EQ(round_to(softplus(Real::from_double(1e300)), format_of(DType::float64)), 1e300);
  EXPECT_EQ(floor(tanh(Real(100000))).rational(), Rational(0));
}

}  // namespace
}  // namespace halfeven::numerics
