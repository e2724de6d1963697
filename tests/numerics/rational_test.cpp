#include "numerics/rational.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace halfeven::numerics {
namespace {

mpq_class as_gmp(const Rational& x) {
  mpq_class q(x.numerator(), x.denominator());
  q.canonicalize();
  return q;
}

// Integers, dyadic numbers, quotients; small and huge.
Rational draw(std::mt19937_64& random) {
  const auto n = static_cast<std::int64_t>(random() >> (random() % 60));
  const std::int64_t sign = random() % 2 == 0 ? 1 : -1;
  const Rational x = Rational(sign * n).scaled(static_cast<long>(random() % 200) - 100);
  return random() % 2 == 0 ? x : x / Rational(static_cast<std::int64_t>(random() % 1000) + 1);
}

TEST(Rational, ArithmeticIsThatOfGmp) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const Rational a = draw(random);
    const Rational b = i % 7 == 0 ? a : draw(random);
    const mpq_class p = as_gmp(a);
    const mpq_class q = as_gmp(b);
    EXPECT_EQ(as_gmp(a + b), mpq_class(p + q));
    EXPECT_EQ(as_gmp(a - b), mpq_class(p - q));
    EXPECT_EQ(as_gmp(a * b), mpq_class(p * q));
    if (!b.is_zero()) {
      EXPECT_EQ(as_gmp(a / b), mpq_class(p / q));
    }
    EXPECT_EQ(a < b, p < q);
    EXPECT_EQ(a == b, p == q);
    EXPECT_EQ(a.sign(), sgn(p));
  }
}

TEST(Rational, RoundsToIntegers) {
  for (std::int64_t n = -40; n <= 40; ++n) {
    for (std::int64_t d = 1; d <= 12; ++d) {
      const Rational x = Rational(n) / Rational(d);
      const double v = static_cast<double>(n) / static_cast<double>(d);  // no quotient so small lies next to an integer
      EXPECT_EQ(x.floor(), mpz_class(std::floor(v)));
      EXPECT_EQ(x.ceil(), mpz_class(std::ceil(v)));
      EXPECT_EQ(x.trunc(), mpz_class(std::trunc(v)));
      EXPECT_EQ(x.round_half_even(), mpz_class(std::nearbyint(v)));
    }
  }
  const Rational tiny = Rational(1).scaled(-1'000'000'000);  // written out, it would take all memory
  EXPECT_EQ(tiny.floor(), 0);
  EXPECT_EQ((-tiny).floor(), -1);
  EXPECT_EQ(tiny.ceil(), 1);
  EXPECT_EQ(tiny.round_half_even(), 0);
}

TEST(Rational, MagnitudeIsTheExponent) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Rational x = draw(random);
    if (x.is_zero()) continue;
    const long e = x.magnitude();
    EXPECT_LE(Rational(1).scaled(e - 1), abs(x));
    EXPECT_LT(abs(x), Rational(1).scaled(e));
  }
}

TEST(Rational, DoublesGoInAndOut) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const double v = std::ldexp(static_cast<double>(random() >> 11U), static_cast<int>(random() % 2098) - 1127);
    if (std::isfinite(v)) {
      EXPECT_EQ(Rational::from_double(-v).to_double(), -v);
    }
  }
  EXPECT_EQ(Rational::from_double(5e-324).to_double(), 5e-324);
}

TEST(Rational, Powers) {
  const Rational x = Rational(-3) / Rational(2);
  EXPECT_EQ(pow(x, 3), Rational(-27) / Rational(8));
  EXPECT_EQ(pow(x, -2), Rational(4) / Rational(9));
  EXPECT_EQ(pow(x, 0), Rational(1));
}

}  // namespace
}  // namespace halfeven::numerics
