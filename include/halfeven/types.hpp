// Element types, shapes and limits: the vocabulary that every other header uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace halfeven {

/// Element type of a tensor. The numbers are those of ONNX's TensorProto.DataType.
enum class DType : std::uint8_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};

/// Dimensions of a tensor, outermost first. In a declared (not yet bound) shape -1 stands for a dimension that is
/// not known.
using Shape = std::vector<std::int64_t>;

/// The dimension that is not known before inputs are given.
inline constexpr std::int64_t kUnknownDim = -1;

/// The name ONNX gives the type in lower case: "float32", "uint8", "bfloat16", "int4" ...
std::string_view to_string(DType type);

/// "[1, 3, ?, 224]"; unknown dimensions print as "?".
std::string to_string(const Shape& shape);

/// Bits of one element as ONNX packs it (4 for int4); 0 for undefined and string.
int bits(DType type);

/// Bytes of one element in a Tensor's memory: 4-bit and 2-bit elements take a byte each, unpacked; 0 where the
/// engine holds no such tensor (string, complex, undefined).
std::size_t storage_size(DType type);

/// float16, bfloat16, float32, float64: the types in which operators compute.
bool is_float(DType type);

/// The float8 and float4 types: codes that QuantizeLinear, DequantizeLinear and Cast understand.
bool is_small_float(DType type);

/// Signed and unsigned integers of 2 to 64 bits; not boolean.
bool is_integer(DType type);

/// Signed integers.
bool is_signed_integer(DType type);

/// Least and greatest value of an integer type of at most 64 bits (uint64's greatest is INT64_MAX here).
std::int64_t integer_min(DType type);
std::int64_t integer_max(DType type);

/// Bounds that a model or an input has to respect, checked with overflow-safe arithmetic before memory is taken.
struct Limits {
  std::uint64_t model_bytes = std::uint64_t{2} << 30;      ///< of the protobuf file
  std::uint64_t external_bytes = std::uint64_t{64} << 30;  ///< of one external data file
  std::uint64_t tensor_bytes = std::uint64_t{8} << 30;     ///< of one tensor, unpacked
  std::uint64_t nodes = 1'000'000;                         ///< after functions are inlined
  int function_depth = 32;                                 ///< local functions calling each other
};

}  // namespace halfeven
