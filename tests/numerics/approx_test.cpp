// The bound of Approx and the ends of Interval hold what Real says exactly.
#include "numerics/approx.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "numerics/interval.hpp"
#include "numerics/real.hpp"

namespace halfeven::numerics {
namespace {

struct Both {
  Approx approx;
  Real real;
};

// The true value lies in [mid - err, mid + err]; an infinity or NaN without error is that itself.
void expect_holds(const Both& x, const char* what) {
  const Approx& a = x.approx;
  if (!std::isfinite(a.err)) return;
  if (std::isnan(a.mid)) {
    EXPECT_TRUE(x.real.is_nan()) << what;
    return;
  }
  if (std::isinf(a.mid)) {
    ASSERT_TRUE(x.real.is_infinite()) << what;
    EXPECT_EQ(x.real.negative(), a.mid < 0) << what;
    return;
  }
  ASSERT_FALSE(x.real.is_nan() || x.real.is_infinite()) << what << " " << a.mid << " +- " << a.err;
  const Rational mid = Rational::from_double(a.mid);
  const Rational err = Rational::from_double(a.err);
  if (a.err == 0) {
    ASSERT_TRUE(x.real.is_rational()) << what;
    EXPECT_EQ(x.real.rational(), mid) << what;
    return;
  }
  EXPECT_GE(compare(x.real, Real(mid - err)), 0) << what << " " << std::hexfloat << a.mid << " +- " << a.err;
  EXPECT_LE(compare(x.real, Real(mid + err)), 0) << what << " " << std::hexfloat << a.mid << " +- " << a.err;
}

double draw(std::mt19937_64& random, bool wild) {
  static constexpr double kSpecial[] = {0,      1,       -1,       0.5,      HUGE_VAL, -HUGE_VAL, 5e-324, -5e-324,
                                        1e-300, 1.7e308, -1.7e308, 0x1p-960, 2,        0x1p-1022, 3e300,  100};
  if (wild && random() % 4 == 0) return kSpecial[random() % std::size(kSpecial)];
  const int e = wild ? static_cast<int>(random() % 2000) - 1000 : static_cast<int>(random() % 8) - 5;
  const double v = std::ldexp(static_cast<double>(random() >> 11U), e - 53);
  return random() % 2 == 0 ? v : -v;
}

Both arithmetic(std::mt19937_64& random, bool wild, int depth) {
  if (depth == 0) {
    const double v = draw(random, wild);
    return {{v, 0}, Real::from_double(v)};
  }
  const Both a = arithmetic(random, wild, depth - 1);
  const Both b = arithmetic(random, wild, depth - 1);
  switch (random() % 7) {
    case 0: return {a.approx + b.approx, a.real + b.real};
    case 1: return {a.approx - b.approx, a.real - b.real};
    case 2: return {a.approx * b.approx, a.real * b.real};
    case 3: return {a.approx / b.approx, a.real / b.real};
    case 4: return {max(a.approx, b.approx), max(a.real, b.real)};
    case 5: return {min(a.approx, b.approx), min(a.real, b.real)};
    default: return {abs(a.approx), abs(a.real)};
  }
}

TEST(Approx, BoundsHoldForArithmetic) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20000; ++i) {
    expect_holds(arithmetic(random, i % 2 == 0, 1 + i % 4), "arithmetic");
    if (HasFailure()) return;
  }
}

TEST(Approx, BoundsHoldForFunctions) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 400; ++i) {
    const Both x = arithmetic(random, i % 3 == 0, i % 3);
    expect_holds({exp(x.approx), exp(x.real)}, "exp");
    expect_holds({log(x.approx), log(x.real)}, "log");
    expect_holds({sqrt(x.approx), sqrt(x.real)}, "sqrt");
    expect_holds({erf(x.approx), erf(x.real)}, "erf");
    expect_holds({tanh(x.approx), tanh(x.real)}, "tanh");
    expect_holds({sigmoid(x.approx), sigmoid(x.real)}, "sigmoid");
    expect_holds({softplus(x.approx), softplus(x.real)}, "softplus");
    expect_holds({atan(x.approx), atan(x.real)}, "atan");
    expect_holds({sin(x.approx), sin(x.real)}, "sin");
    expect_holds({cos(x.approx), cos(x.real)}, "cos");
    if (HasFailure()) return;
  }
}

TEST(Approx, StepsDecideOnlyWhereTheBoundDoes) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 5000; ++i) {
    const Both x = arithmetic(random, false, 1 + i % 3);
    if (x.real.is_nan() || x.real.is_infinite()) continue;
    expect_holds({floor(x.approx), floor(x.real)}, "floor");
    expect_holds({ceil(x.approx), ceil(x.real)}, "ceil");
    expect_holds({round_half_even(x.approx), round_half_even(x.real)}, "round");
    if (HasFailure()) return;
  }
  // 1 - 2^-54: its ends round to 1, which the value does not reach.
  const Approx below = {1, 0x1p-54};
  EXPECT_FALSE(std::isfinite(floor(below).err));
  EXPECT_FALSE(std::isfinite(ceil(below).err));
  EXPECT_FALSE(std::isfinite(round_half_even(Approx{0.5, 0x1p-55}).err));
}

TEST(Approx, SpecialValuesFollowIeee) {
  const Approx inf{HUGE_VAL, 0};
  EXPECT_TRUE(std::isnan((inf - inf).mid));
  EXPECT_TRUE(std::isnan((inf * Approx{0, 0}).mid));
  EXPECT_EQ((Approx{1, 0} / Approx{0, 0}).mid, HUGE_VAL);
  EXPECT_TRUE(std::isnan(max(Approx{std::nan(""), 0}, inf).mid));
  EXPECT_FALSE(std::isfinite((Approx{1e308, 0} * Approx{10, 0}).err));  // overflow of double, not of the value
  EXPECT_FALSE(std::isfinite((Approx{0x1p-600, 0} * Approx{0x1p-600, 0}).err));
  EXPECT_EQ(sign(Approx{1, 2}), 2);
  EXPECT_EQ(sign(Approx{-3, 2}), -1);
}

TEST(Interval, HoldsWhatItEncloses) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    const Rational a = Rational::from_double(draw(random, false)) / Rational(3);
    const Rational b = Rational::from_double(draw(random, false)) / Rational(7);
    const Interval x(a, 64);
    const Interval y(b, 64);
    const auto holds = [](const Interval& enclosure, const Rational& value) {
      EXPECT_LE(enclosure.low(), value);
      EXPECT_GE(enclosure.high(), value);
    };
    holds(x, a);
    holds(x + y, a + b);
    holds(x * y, a * b);
    holds(-x, -a);
    if (!b.is_zero()) holds(x / y, a / b);
    // Functions: a wide enclosure holds a narrow one.
    const auto nested = [](const Interval& wide, const Interval& narrow) {
      EXPECT_LE(wide.low(), narrow.low());
      EXPECT_GE(wide.high(), narrow.high());
    };
    const Interval fine(a, 256);
    nested(exp(x), exp(fine));
    nested(sin(x), sin(fine));
    nested(cos(x), cos(fine));
    nested(tanh(x), tanh(fine));
    nested(erf(x), erf(fine));
    nested(atan(x), atan(fine));
    if (a.sign() > 0) {
      nested(log(x), log(fine));
      nested(sqrt(x), sqrt(fine));
    }
  }
  EXPECT_FALSE((Interval(Rational(1), 64) / Interval(Rational(0), 64)).finite());
}

}  // namespace
}  // namespace halfeven::numerics
