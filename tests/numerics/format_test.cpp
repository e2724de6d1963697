#include "numerics/format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace halfeven::numerics {
namespace {

// The formats as their definitions give them: value of a pattern from its fields.
struct Layout {
  DType type;
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool infinities;  // the top exponent holds infinities and NaN
  unsigned nan;     // pattern of NaN where there are no infinities; 0: there is none
};
constexpr std::array kLayouts{
    Layout{DType::float16, 5, 10, 15, true, 0},          Layout{DType::bfloat16, 8, 7, 127, true, 0},
    Layout{DType::float8e5m2, 5, 2, 15, true, 0},        Layout{DType::float8e4m3fn, 4, 3, 7, false, 0x7F},
    Layout{DType::float8e4m3fnuz, 4, 3, 8, false, 0x80}, Layout{DType::float8e5m2fnuz, 5, 2, 16, false, 0x80},
    Layout{DType::float4e2m1, 2, 1, 1, false, 0},
};

int width(const Layout& l) { return 1 + l.exponent_bits + l.fraction_bits; }

double value(const Layout& l, unsigned pattern) {
  const unsigned sign = pattern >> static_cast<unsigned>(width(l) - 1);
  const unsigned magnitude = pattern & ((1U << static_cast<unsigned>(width(l) - 1)) - 1);
  if (l.nan == 0x80 && pattern == 0x80) return std::nan("");
  if (l.nan == 0x7F && magnitude == 0x7F) return std::nan("");
  const unsigned e = magnitude >> static_cast<unsigned>(l.fraction_bits);
  const unsigned f = magnitude & ((1U << static_cast<unsigned>(l.fraction_bits)) - 1);
  double v = 0;
  if (l.infinities && e == (1U << static_cast<unsigned>(l.exponent_bits)) - 1) {
    if (f != 0) return std::nan("");
    v = HUGE_VAL;
  } else {
    const double fraction = std::ldexp(static_cast<double>(f), -l.fraction_bits);
    v = e == 0 ? std::ldexp(fraction, 1 - l.bias) : std::ldexp(1 + fraction, static_cast<int>(e) - l.bias);
  }
  return sign != 0 ? -v : v;
}

double decoded(const Layout& l, unsigned pattern) {
  if (width(l) == 16) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    return decode_float(l.type, reinterpret_cast<const std::byte*>(&bits), 0);
  }
  const auto bits = static_cast<std::byte>(pattern);
  return decode_float(l.type, &bits, 0);
}

unsigned encoded(const Layout& l, double v) {
  std::array<std::byte, 2> bytes{};
  encode_float(l.type, v, bytes.data(), 0);
  return std::to_integer<unsigned>(bytes[0]) | (std::to_integer<unsigned>(bytes[1]) << 8U);
}

TEST(Format, EveryPatternGoesInAndOut) {
  for (const Layout& l : kLayouts) {
    for (unsigned pattern = 0; pattern < 1U << static_cast<unsigned>(width(l)); ++pattern) {
      const double v = value(l, pattern);
      const double got = decoded(l, pattern);
      if (std::isnan(v)) {
        ASSERT_TRUE(std::isnan(got)) << to_string(l.type) << " " << pattern;
        ASSERT_TRUE(std::isnan(value(l, encoded(l, v)))) << to_string(l.type);
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint64_t>(v), std::bit_cast<std::uint64_t>(got)) << to_string(l.type) << pattern;
      ASSERT_EQ(encoded(l, v), pattern) << to_string(l.type);
    }
  }
}

void expect_rounds(const Layout& l, const Rational& x, double expected) {
  const FloatFormat format = format_of(l.type);
  ASSERT_EQ(round_to(x, format), expected) << to_string(l.type) << " " << x.to_double();
  ASSERT_EQ(round_to(-x, format), -expected) << to_string(l.type) << " " << x.to_double();
  if (Rational::from_double(x.to_double()) == x) {
    ASSERT_EQ(round_to(x.to_double(), format), expected) << to_string(l.type) << " " << x.to_double();
    ASSERT_EQ(round_to(-x.to_double(), format), -expected);
  }
  ASSERT_FALSE(std::signbit(round_to(-x, format)) && expected == 0);
}

// Between each two neighbours: both sides of the tie by very little, and the tie, which goes to the even pattern.
TEST(Format, EveryTieRoundsToEven) {
  const Rational little = Rational(1).scaled(-2000);
  for (const Layout& l : kLayouts) {
    const FloatFormat format = format_of(l.type);
    for (unsigned pattern = 0;; ++pattern) {
      const double a = value(l, pattern);
      if (a > format.max || std::isnan(a) || a < 0 || std::isinf(a)) break;
      const double b = a == format.max ? HUGE_VAL : value(l, pattern + 1);
      const double step = a == format.max ? a - value(l, pattern - 1) : b - a;
      const Rational middle = Rational::from_double(a) + Rational::from_double(step).scaled(-1);
      expect_rounds(l, Rational::from_double(a), a);
      expect_rounds(l, middle - little, a);
      expect_rounds(l, middle, pattern % 2 == 0 ? a : b);
      expect_rounds(l, middle + little, b);
      if (HasFatalFailure() || a == format.max) break;
    }
  }
}

// float32 against what the processor does with doubles, which is one rounding to nearest even.
TEST(Format, Float32) {
  const FloatFormat format = format_of(DType::float32);
  for (const std::uint32_t start : {0U, 1U, 0x7FFFFDU, 0x800000U, 0x3F7FFFFFU, 0x3F800000U, 0x7F7FFFFDU}) {
    for (std::uint32_t bits = start; bits < start + 3; ++bits) {
      const double a = static_cast<double>(std::bit_cast<float>(bits));
      if (!std::isfinite(a)) continue;
      const double step = std::ldexp(1, std::max(a == 0 ? -200 : std::ilogb(a), -126) - 23);
      for (const double part : {0.0, 0.25, 0.49999, 0.5, 0.50001, 0.75}) {
        const double x = a + part * step;
        EXPECT_EQ(round_to(x, format), static_cast<double>(static_cast<float>(x))) << x;
        EXPECT_EQ(round_to(Rational::from_double(x), format), static_cast<double>(static_cast<float>(x))) << x;
      }
    }
  }
  const Rational tie = Rational::from_double(0x1p-150);
  EXPECT_EQ(round_to(tie, format), 0);
  EXPECT_EQ(round_to(tie + tie.scaled(-3000), format), 0x1p-149);
}

TEST(Format, ScalesOfPowersOfTwo) {
  for (unsigned pattern = 0; pattern < 255; ++pattern) {
    const auto bits = static_cast<std::byte>(pattern);
    EXPECT_EQ(decode_float(DType::float8e8m0, &bits, 0), std::ldexp(1, static_cast<int>(pattern) - 127));
  }
}

}  // namespace
}  // namespace halfeven::numerics
