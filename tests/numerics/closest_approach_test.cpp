#include "numerics/closest_approach.hpp"

#include <cmath>
#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace halfeven::numerics {
namespace {

struct Brute {
  std::optional<Rational> least;
  bool ties = false;

  void add(const Rational& v) {
    const Rational h = v - Rational::ratio(1, 2);
    const Rational above = h - Rational::ratio(h.floor(), 1);
    const Rational below = Rational(1) - above;
    if (above.is_zero()) {
      ties = true;
      return;
    }
    const Rational d = above < below ? above : below;
    if (!least || d < *least) least = d;
  }
};

void expect_same(const ClosestApproach& got, const Brute& want, const std::string& what) {
  EXPECT_EQ(got.ties, want.ties) << what;
  if (!want.least) {
    EXPECT_EQ(got.distance, HUGE_VAL) << what;
    return;
  }
  ASSERT_TRUE(std::isfinite(got.distance)) << what;
  const Rational d = Rational::from_double(got.distance);
  EXPECT_LE(d, *want.least) << what;
  EXPECT_GT(d, *want.least * Rational::from_double(1 - 0x1p-48)) << what;
}

void check(const Rational& ratio, const Rational& offset, IntegerRange a, const std::string& what) {
  Brute want;
  for (std::int64_t n = a.first; n <= a.last; ++n) want.add(Rational(n) * ratio + offset);
  expect_same(closest_approach(ratio, offset, a), want, what);
}

std::string text(const Rational& r) { return r.numerator().get_str() + "/" + r.denominator().get_str(); }

// Every fraction with a small denominator, offsets that make ties, every short range: what is wrong at an end of the
// range, on one side of a tie, or for one residue, is wrong in one of these.
TEST(ClosestApproach, SmallFractions) {
  for (int q = 1; q <= 14; ++q) {
    for (int p = -q; p <= 2 * q; ++p) {
      for (const auto& offset : {Rational(), Rational::ratio(1, 2), Rational::ratio(1, 2 * q), Rational::ratio(-1, 3),
                                 Rational::ratio(3 * p + 1, 4 * q)}) {
        for (std::int64_t first = -9; first <= 4; ++first) {
          Brute want;
          for (std::int64_t last = first; last <= first + 17; ++last) {
            const Rational ratio = Rational::ratio(p, q);
            want.add(Rational(last) * ratio + offset);
            expect_same(
                closest_approach(ratio, offset, {first, last}), want,
                text(ratio) + " + " + text(offset) + " in " + std::to_string(first) + " .. " + std::to_string(last));
          }
        }
      }
    }
  }
}

// The same numbers with a common factor that leaves no room in 128 bits.
TEST(ClosestApproach, LargeNumeratorsAndDenominators) {
  const mpz_class huge = (mpz_class(1) << 131) - 1;
  for (int q = 1; q <= 9; ++q) {
    for (int p = -q; p <= q; ++p) {
      for (std::int64_t first = -7; first <= 3; ++first) {
        const Rational ratio = Rational::ratio(p * huge, q * huge);
        check(ratio, Rational(), {first, first + 12}, text(ratio));
        check(ratio, Rational::ratio(1, 2 * huge), {first, first + 12}, text(ratio) + " and a bit");
        check(ratio, Rational::ratio(1, 2) - Rational::ratio(1, huge), {first, first + 12},
              text(ratio) + " less a bit");
      }
    }
  }
}

TEST(ClosestApproach, NoNumbers) {
  const ClosestApproach c = closest_approach(Rational::ratio(1, 3), Rational(), {5, 4});
  EXPECT_EQ(c.distance, HUGE_VAL);
  EXPECT_FALSE(c.ties);
}

TEST(ClosestApproach, NothingButTies) {
  const ClosestApproach c = closest_approach(Rational(3), Rational::ratio(1, 2), {-1000000, 1000000});
  EXPECT_EQ(c.distance, HUGE_VAL);
  EXPECT_TRUE(c.ties);
}

// A tie, and the closest number, that only the last (the first) of the range reaches.
TEST(ClosestApproach, EndsOfLongRanges) {
  const Rational ratio = Rational::ratio(1, 2'000'002);
  EXPECT_FALSE(closest_approach(ratio, Rational(), {0, 1'000'000}).ties);
  EXPECT_TRUE(closest_approach(ratio, Rational(), {0, 1'000'001}).ties);
  EXPECT_FALSE(closest_approach(ratio, Rational(), {-1'000'000, 0}).ties);
  EXPECT_TRUE(closest_approach(ratio, Rational(), {-1'000'001, 0}).ties);
  const double unit = 1.0 / 2'000'002;
  EXPECT_NEAR(closest_approach(ratio, Rational(), {0, 999'999}).distance, 2 * unit, unit * 1e-9);
  EXPECT_NEAR(closest_approach(ratio, Rational(), {0, 1'000'000}).distance, unit, unit * 1e-9);
  EXPECT_NEAR(closest_approach(ratio, Rational(), {1'000'003, 1'500'000}).distance, 2 * unit, unit * 1e-9);
  EXPECT_NEAR(closest_approach(ratio, Rational(), {1'000'002, 1'500'000}).distance, unit, unit * 1e-9);
}

// Ratios as convolutions have them, of three float32 scales; biases of their own scales; decimal scales and powers of
// two, which make ties.
TEST(ClosestApproach, RatiosOfScales) {
  std::mt19937 random(7);
  const auto scale = [&](int kind) {
    const int e = -static_cast<int>(random() % 12);
    if (kind == 0) return std::ldexp(1.0F, e);
    if (kind == 1) return static_cast<float>(1 + random() % 40) / 1000.0F;
    if (kind == 2) return std::ldexp(static_cast<float>(1 + random() % 15), e);
    return std::ldexp(1.0F + static_cast<float>(random() % (1U << 23)) * 0x1p-23F, e);
  };
  const auto exact = [](float v) { return Rational::from_double(static_cast<double>(v)); };
  for (int k = 0; k < 600; ++k) {
    const Rational y = exact(scale(k % 4));
    const Rational unit = exact(scale(k / 4 % 4)) * exact(scale(k / 16 % 4));
    const Rational bias = Rational(static_cast<int>(random() % 2001) - 1000) * exact(scale(k / 4 % 4));
    const auto first = static_cast<std::int64_t>(random() % 4001) - 3000;
    const IntegerRange a{first, first + static_cast<std::int64_t>(random() % 2000)};
    check(unit / y, k % 3 == 0 ? Rational() : bias / y, a, "case " + std::to_string(k));
  }
}

// The recursion's results at ranges too long for a loop: whatever a number of the range reaches, it has to have seen;
// and cutting the range in two changes nothing.
TEST(ClosestApproach, LongRanges) {
  std::mt19937_64 random(11);
  for (int k = 0; k < 200; ++k) {
    const Rational ratio =
        Rational::ratio(mpz_class(static_cast<unsigned long>(random() >> (k % 30))),
                        mpz_class(static_cast<unsigned long>((random() >> (k % 7)) | 1)) * (1 << k % 9));
    const Rational offset = Rational::ratio(static_cast<int>(random() % 1000), 1 + static_cast<int>(random() % 1000));
    const auto length = static_cast<std::int64_t>(random() >> (14 + k % 40));
    const IntegerRange a{-static_cast<std::int64_t>(random() >> 20), length};
    const auto cut = a.first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(a.last - a.first));
    const ClosestApproach whole = closest_approach(ratio, offset, a);
    const ClosestApproach parts =
        closest_approach(ratio, offset, {a.first, cut}) & closest_approach(ratio, offset, {cut + 1, a.last});
    EXPECT_EQ(whole.ties, parts.ties);
    EXPECT_DOUBLE_EQ(whole.distance, parts.distance);
    Brute some;
    for (int i = 0; i < 50; ++i) {
      const auto n = a.first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(a.last - a.first));
      some.add(Rational(n) * ratio + offset);
    }
    if (some.least) {
      EXPECT_LE(Rational::from_double(whole.distance), *some.least);
    }
    EXPECT_TRUE(whole.ties || !some.ties);
  }
}

// Numbers of up to 128 bits, as integers of any size and with the other sign: what is above a tie is then below one.
TEST(ClosestApproach, OtherWaysToTheSameResult) {
  std::mt19937_64 random(13);
  const auto number = [&](std::uint64_t bits) {
    return mpz_class(static_cast<unsigned long>((random() | (std::uint64_t{1} << 63)) >> (64 - bits)));
  };
  const mpz_class huge = (mpz_class(1) << 131) - 1;
  for (int k = 0; k < 4000; ++k) {
    const mpz_class den = (number(1 + random() % 40) | 1) << (random() % 84);
    const mpz_class num = number(1 + random() % 64) << (k % 3 == 0 ? random() % 90 : 0);
    const mpz_class add = number(1 + random() % 60) - number(1 + random() % 60);
    const IntegerRange a{-number(1 + random() % 40).get_si(), number(1 + random() % 40).get_si()};
    const ClosestApproach c = closest_approach(Rational::ratio(num, den), Rational::ratio(add, den), a);
    for (const mpz_class& factor : {huge, mpz_class(-1), mpz_class(-huge)}) {
      const Rational ratio = Rational::ratio(num * factor, den * abs(factor));
      const ClosestApproach o = closest_approach(ratio, Rational::ratio(add * factor, den * abs(factor)), a);
      ASSERT_EQ(o.ties, c.ties) << num << " / " << den;
      ASSERT_DOUBLE_EQ(o.distance, c.distance) << num << " / " << den;
    }
  }
}

TEST(ClosestApproach, TwoVariables) {
  std::mt19937 random(3);
  for (int k = 0; k < 300; ++k) {
    const auto fraction = [&] {
      return Rational::ratio(static_cast<int>(random() % 61) - 30,
                             1 + static_cast<int>(random() % (k % 2 == 0 ? 8 : 100)));
    };
    const Rational ratio = fraction();
    const Rational second = fraction();
    const Rational offset = k % 3 == 0 ? Rational() : fraction();
    const IntegerRange a{-static_cast<std::int64_t>(random() % 9), static_cast<std::int64_t>(random() % 9)};
    const IntegerRange b{-static_cast<std::int64_t>(random() % 9), static_cast<std::int64_t>(random() % 9)};
    Brute want;
    for (std::int64_t x = a.first; x <= a.last; ++x) {
      for (std::int64_t y = b.first; y <= b.last; ++y) want.add(Rational(x) * ratio + Rational(y) * second + offset);
    }
    const std::string what = text(ratio) + ", " + text(second) + " + " + text(offset);
    expect_same(closest_approach(ratio, second, offset, a, b), want, what);
  }
}

// All integers: as many as the denominators have residues show everything.
TEST(ClosestApproach, AllIntegers) {
  for (int p = 1; p <= 8; ++p) {
    for (int q = 1; q <= 8; ++q) {
      for (int r = 1; r <= 6; ++r) {
        const Rational ratio = Rational::ratio(p, q);
        const Rational second = Rational::ratio(3, r);
        const Rational offset = Rational::ratio(r - 3, 8);
        expect_same(
            closest_approach(ratio, second, offset),
            [&] {
              Brute want;
              for (std::int64_t x = 0; x < q; ++x) {
                for (std::int64_t y = 0; y < r; ++y) want.add(Rational(x) * ratio + Rational(y) * second + offset);
              }
              return want;
            }(),
            text(ratio) + ", " + text(second) + " + " + text(offset));
      }
    }
  }
}

}  // namespace
}  // namespace halfeven::numerics
