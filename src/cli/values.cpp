#include "cli/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <halfeven/error.hpp>

namespace halfeven::cli {
namespace {

enum class Specials {
  ieee,           // the top exponent holds infinities and NaNs
  all_ones,       // only the code with every bit but the sign set is NaN
  negative_zero,  // only the code of -0 is NaN
  none,
};

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};

FloatFormat format_of(DType type) {
  switch (type) {
    case DType::float16: return {5, 10, 15, Specials::ieee};
    case DType::bfloat16: return {8, 7, 127, Specials::ieee};
    case DType::float8e4m3fn: return {4, 3, 7, Specials::all_ones};
    case DType::float8e4m3fnuz: return {4, 3, 8, Specials::negative_zero};
    case DType::float8e5m2: return {5, 2, 15, Specials::ieee};
    case DType::float8e5m2fnuz: return {5, 2, 16, Specials::negative_zero};
    case DType::float4e2m1: return {2, 1, 1, Specials::none};
    default: throw Error(ErrorCode::other, fmt::format("{} is no small float type", to_string(type)));
  }
}

// Calls f with the elements as their C++ type, or with codes and a decoder for the small float types.
template <class F>
auto visit(const Tensor& tensor, F f) {
  switch (tensor.dtype()) {
    case DType::float32: return f(tensor.values<float>());
    case DType::float64: return f(tensor.values<double>());
    case DType::int8:
    case DType::int4:
    case DType::int2: return f(tensor.values<std::int8_t>());
    case DType::int16: return f(tensor.values<std::int16_t>());
    case DType::int32: return f(tensor.values<std::int32_t>());
    case DType::int64: return f(tensor.values<std::int64_t>());
    case DType::uint8:
    case DType::uint4:
    case DType::uint2:
    case DType::boolean: return f(tensor.values<std::uint8_t>());
    case DType::uint16: return f(tensor.values<std::uint16_t>());
    case DType::uint32: return f(tensor.values<std::uint32_t>());
    case DType::uint64: return f(tensor.values<std::uint64_t>());
    default: {
      const Tensor wide = widen(tensor);
      return f(wide.values<float>());
    }
  }
}

template <class T>
bool is_nan(T value) {
  return value != value;  // NOLINT(misc-redundant-expression)
}

}  // namespace

double decode_float(DType type, std::uint16_t code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (type == DType::float8e8m0) return code == 0xff ? kNan : std::ldexp(1.0, code - 127);

  const FloatFormat format = format_of(type);
  const int magnitude_bits = format.exponent_bits + format.mantissa_bits;
  const int magnitude = code & ((1 << magnitude_bits) - 1);
  const bool negative = ((code >> magnitude_bits) & 1) != 0;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);

  double value =
      exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits)
                    : std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - format.bias - format.mantissa_bits);
  const bool top = exponent == (1 << format.exponent_bits) - 1;
  if (format.specials == Specials::ieee && top) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : kNan;
  } else if (format.specials == Specials::all_ones && magnitude == (1 << magnitude_bits) - 1) {
    value = kNan;
  } else if (format.specials == Specials::negative_zero && negative && magnitude == 0) {
    value = kNan;
  }
  return negative ? -value : value;
}

std::uint16_t encode_float(DType type, double value) {
  const FloatFormat format = format_of(type);
  const int sign = (std::signbit(value) ? 1 : 0) << (format.exponent_bits + format.mantissa_bits);
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  const double magnitude = std::fabs(value);
  int code = infinity;
  if (std::isnan(value)) {
    code = infinity | (1 << (format.mantissa_bits - 1));
  } else if (magnitude < std::ldexp(1.0, (1 << format.exponent_bits) - 1 - format.bias)) {
    // A significand that rounds up to the next power of two carries into the exponent by itself.
    const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
    const double significand = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    code = ((exponent + format.bias - 1) << format.mantissa_bits) + static_cast<int>(significand);
  }
  return static_cast<std::uint16_t>(sign | code);
}

double to_double(const Tensor& tensor, std::size_t index) {
  if (storage_size(tensor.dtype()) == 1 && is_small_float(tensor.dtype())) {
    return decode_float(tensor.dtype(), tensor.values<std::uint8_t>()[index]);
  }
  if (tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16) {
    return decode_float(tensor.dtype(), tensor.values<std::uint16_t>()[index]);
  }
  return visit(tensor, [&](auto values) { return static_cast<double>(values[index]); });
}

std::string format_element(const Tensor& tensor, std::size_t index) {
  if (is_small_float(tensor.dtype()) || tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16) {
    return fmt::format("{}", static_cast<float>(to_double(tensor, index)));
  }
  return visit(tensor, [&](auto values) { return fmt::format("{}", values[index]); });
}

Tensor widen(const Tensor& tensor) {
  std::vector<float> values(tensor.size());
  const bool two_bytes = storage_size(tensor.dtype()) == 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t code = two_bytes ? tensor.values<std::uint16_t>()[i] : tensor.values<std::uint8_t>()[i];
    values[i] = static_cast<float>(decode_float(tensor.dtype(), code));
  }
  return Tensor::of<float>(DType::float32, tensor.shape(), values);
}

Range find_range(const Tensor& tensor) {
  return visit(tensor, [](auto values) {
    Range range;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (is_nan(values[i])) {
        ++range.nans;
        continue;
      }
      if (range.numbers == 0 || values[i] < values[range.min_index]) range.min_index = i;
      if (range.numbers == 0 || values[i] > values[range.max_index]) range.max_index = i;
      ++range.numbers;
    }
    return range;
  });
}

Difference compare(const Tensor& a, const Tensor& b) {
  Difference difference;
  const std::size_t width = storage_size(a.dtype());
  difference.total_values = a.size();
  difference.total_bits = a.bytes().size() * 8;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::byte* left = a.data() + i * width;
    const std::byte* right = b.data() + i * width;
    if (std::memcmp(left, right, width) == 0) continue;
    ++difference.values;
    for (std::size_t k = 0; k < width; ++k) {
      difference.bits += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(left[k] ^ right[k])));
    }
    const double distance = std::fabs(to_double(a, i) - to_double(b, i));
    if (std::isnan(distance) || distance > difference.largest) difference.largest = distance;
  }
  return difference;
}

}  // namespace halfeven::cli
