#include "numerics/format.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <halfeven/error.hpp>

namespace halfeven::numerics {
namespace {

// Layout of an 8- or 4-bit float, of float16 or bfloat16. `finite_only`: the all-ones exponent holds numbers.
// `unsigned_zero_nan`: the pattern of -0 is the only NaN (the "fnuz" types).
struct Layout {
  int mantissa;
  int exponent;
  int bias;
  bool finite_only;
  bool unsigned_zero_nan;
};

Layout layout_of(DType type) {
  switch (type) {
    case DType::float16: return {10, 5, 15, false, false};
    case DType::bfloat16: return {7, 8, 127, false, false};
    case DType::float8e4m3fn: return {3, 4, 7, true, false};
    case DType::float8e4m3fnuz: return {3, 4, 8, true, true};
    case DType::float8e5m2: return {2, 5, 15, false, false};
    case DType::float8e5m2fnuz: return {2, 5, 16, true, true};
    case DType::float4e2m1: return {1, 2, 1, true, false};
    default: throw Error(ErrorCode::other, "no float layout for type " + std::string(to_string(type)));
  }
}

double decode_bits(DType type, std::uint32_t bits) {
  const Layout l = layout_of(type);
  const std::uint32_t mantissa_mask = (1U << l.mantissa) - 1;
  const std::uint32_t exponent_mask = (1U << l.exponent) - 1;
  const std::uint32_t m = bits & mantissa_mask;
  const std::uint32_t e = (bits >> l.mantissa) & exponent_mask;
  const bool negative = ((bits >> (l.mantissa + l.exponent)) & 1U) != 0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  if (l.unsigned_zero_nan && negative && e == 0 && m == 0) return nan;
  if (e == exponent_mask && !l.finite_only) {
    value = m == 0 ? std::numeric_limits<double>::infinity() : nan;
  } else if (type == DType::float8e4m3fn && e == exponent_mask && m == mantissa_mask) {
    value = nan;
  } else if (e == 0) {
    value = std::ldexp(static_cast<double>(m), 1 - l.bias - l.mantissa);
  } else {
    value = std::ldexp(static_cast<double>(m | (1U << l.mantissa)), static_cast<int>(e) - l.bias - l.mantissa);
  }
  return negative ? -value : value;
}

std::uint32_t encode_bits(DType type, double value) {
  const Layout l = layout_of(type);
  const std::uint32_t exponent_mask = (1U << l.exponent) - 1;
  const std::uint32_t sign = std::signbit(value) ? 1U << (l.mantissa + l.exponent) : 0U;
  if (std::isnan(value)) {
    if (l.unsigned_zero_nan) return 1U << (l.mantissa + l.exponent);
    if (type == DType::float8e4m3fn) return 0x7FU;
    return (exponent_mask << l.mantissa) | (1U << (l.mantissa - 1));
  }
  if (std::isinf(value)) return sign | (exponent_mask << l.mantissa);
  if (value == 0) return l.unsigned_zero_nan ? 0U : sign;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const int biased = exponent - 1 + l.bias;
  if (biased <= 0) {
    return sign | static_cast<std::uint32_t>(std::ldexp(fraction, exponent - (1 - l.bias - l.mantissa)));
  }
  const auto m = static_cast<std::uint32_t>(std::ldexp(fraction, l.mantissa + 1)) & ((1U << l.mantissa) - 1);
  return sign | (static_cast<std::uint32_t>(biased) << l.mantissa) | m;
}

}  // namespace

FloatFormat format_of(DType type) {
  switch (type) {
    case DType::float16: return {11, -24, 65504.0};
    case DType::bfloat16: return {8, -133, std::ldexp(255.0, 120)};
    case DType::float32: return {24, -149, static_cast<double>(std::numeric_limits<float>::max())};
    case DType::float64: return {53, -1074, std::numeric_limits<double>::max()};
    case DType::float8e4m3fn: return {4, -9, 448.0};
    case DType::float8e4m3fnuz: return {4, -10, 240.0};
    case DType::float8e5m2: return {3, -16, 57344.0};
    case DType::float8e5m2fnuz: return {3, -17, 57344.0};
    case DType::float4e2m1: return {2, -1, 6.0};
    default: throw Error(ErrorCode::other, "no float format for type " + std::string(to_string(type)));
  }
}

double round_to(const Rational& x, const FloatFormat& format) {
  if (x.is_zero()) return 0.0;
  const long magnitude = x.magnitude();
  if (magnitude < format.lowest - 1) return 0.0;  // below half of the least subnormal
  const long quantum = std::max<long>(magnitude - format.precision, format.lowest);
  if (quantum > 2000) return x.sign() * std::numeric_limits<double>::infinity();
  const mpz_class n = x.scaled(-quantum).round_half_even();  // at most 54 bits
  const double value = std::ldexp(static_cast<double>(n.get_si()), static_cast<int>(quantum));
  if (std::fabs(value) > format.max) return x.sign() * std::numeric_limits<double>::infinity();
  return value + 0.0;  // -0 from a negative number too small for the format: a computed zero is +0
}

double round_to(double x, const FloatFormat& format) {
  if (x == 0.0) return 0.0;
  if (format.precision == 53) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int quantum = std::max(exponent - format.precision, format.lowest);
  // Scaling by powers of two is exact here: the formats are narrower than double, and rint yields at most 25 bits.
  const double value = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  if (std::fabs(value) > format.max) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return value + 0.0;
}

double decode_float(DType type, const std::byte* data, std::size_t index) {
  switch (type) {
    case DType::float32: {
      float v = 0;
      std::memcpy(&v, data + index * sizeof v, sizeof v);
      return static_cast<double>(v);
    }
    case DType::float64: {
      double v = 0;
      std::memcpy(&v, data + index * sizeof v, sizeof v);
      return v;
    }
    case DType::float16:
    case DType::bfloat16: {
      std::uint16_t v = 0;
      std::memcpy(&v, data + index * sizeof v, sizeof v);
      return decode_bits(type, v);
    }
    case DType::float8e8m0: {
      const auto v = std::to_integer<std::uint8_t>(data[index]);
      return v == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(v) - 127);
    }
    default: return decode_bits(type, std::to_integer<std::uint32_t>(data[index]));
  }
}

void encode_float(DType type, double value, std::byte* data, std::size_t index) {
  switch (type) {
    case DType::float32: {
      const auto v = static_cast<float>(value);
      std::memcpy(data + index * sizeof v, &v, sizeof v);
      return;
    }
    case DType::float64: std::memcpy(data + index * sizeof value, &value, sizeof value); return;
    case DType::float16:
    case DType::bfloat16: {
      const auto v = static_cast<std::uint16_t>(encode_bits(type, value));
      std::memcpy(data + index * sizeof v, &v, sizeof v);
      return;
    }
    case DType::float8e8m0: {
      int exponent = 0;
      std::frexp(value, &exponent);
      data[index] = static_cast<std::byte>(std::isnan(value) ? 255 : exponent - 1 + 127);
      return;
    }
    default: data[index] = static_cast<std::byte>(encode_bits(type, value));
  }
}

}  // namespace halfeven::numerics
