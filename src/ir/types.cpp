#include <array>
#include <limits>

#include <halfeven/types.hpp>

namespace halfeven {
namespace {

enum class Kind : std::uint8_t { none, floating, small_float, signed_integer, unsigned_integer, boolean };

struct Traits {
  std::string_view name;
  int bits;             // packed, as ONNX counts
  std::size_t storage;  // bytes in a Tensor
  Kind kind;
};

// Indexed by the number of the type.
constexpr std::array<Traits, 27> kTraits = {{
    {"undefined", 0, 0, Kind::none},
    {"float32", 32, 4, Kind::floating},
    {"uint8", 8, 1, Kind::unsigned_integer},
    {"int8", 8, 1, Kind::signed_integer},
    {"uint16", 16, 2, Kind::unsigned_integer},
    {"int16", 16, 2, Kind::signed_integer},
    {"int32", 32, 4, Kind::signed_integer},
    {"int64", 64, 8, Kind::signed_integer},
    {"string", 0, 0, Kind::none},
    {"bool", 8, 1, Kind::boolean},
    {"float16", 16, 2, Kind::floating},
    {"float64", 64, 8, Kind::floating},
    {"uint32", 32, 4, Kind::unsigned_integer},
    {"uint64", 64, 8, Kind::unsigned_integer},
    {"complex64", 64, 0, Kind::none},
    {"complex128", 128, 0, Kind::none},
    {"bfloat16", 16, 2, Kind::floating},
    {"float8e4m3fn", 8, 1, Kind::small_float},
    {"float8e4m3fnuz", 8, 1, Kind::small_float},
    {"float8e5m2", 8, 1, Kind::small_float},
    {"float8e5m2fnuz", 8, 1, Kind::small_float},
    {"uint4", 4, 1, Kind::unsigned_integer},
    {"int4", 4, 1, Kind::signed_integer},
    {"float4e2m1", 4, 1, Kind::small_float},
    {"float8e8m0", 8, 1, Kind::small_float},
    {"uint2", 2, 1, Kind::unsigned_integer},
    {"int2", 2, 1, Kind::signed_integer},
}};

const Traits& traits(DType type) {
  const auto index = static_cast<std::size_t>(type);
  return kTraits[index < kTraits.size() ? index : 0];
}

}  // namespace

std::string_view to_string(DType type) { return traits(type).name; }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] == kUnknownDim ? "?" : std::to_string(shape[i]);
  }
  return text + "]";
}

int bits(DType type) { return traits(type).bits; }

std::size_t storage_size(DType type) { return traits(type).storage; }

bool is_float(DType type) { return traits(type).kind == Kind::floating; }

bool is_small_float(DType type) { return traits(type).kind == Kind::small_float; }

bool is_integer(DType type) { return is_signed_integer(type) || traits(type).kind == Kind::unsigned_integer; }

bool is_signed_integer(DType type) { return traits(type).kind == Kind::signed_integer; }

std::int64_t integer_min(DType type) {
  return is_signed_integer(type) ? std::numeric_limits<std::int64_t>::min() >> (64 - bits(type)) : 0;
}

std::int64_t integer_max(DType type) {
  if (!is_integer(type)) return 0;
  const int magnitude_bits = bits(type) - (is_signed_integer(type) ? 1 : 0);
  return magnitude_bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << magnitude_bits) - 1;
}

}  // namespace halfeven
