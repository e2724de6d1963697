// Elements of any type as numbers: for tables, comparisons, widening and pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <halfeven/tensor.hpp>

namespace halfeven::cli {

/// The number that a code of a float type of at most 16 bits stands for (NaN and infinities included).
double decode_float(DType type, std::uint16_t code);

/// The code of the float16 or bfloat16 nearest to `value`, ties to even, overflow to infinity.
std::uint16_t encode_float(DType type, double value);

/// The element as a double: exact but for 64-bit integers beyond 2^53.
double to_double(const Tensor& tensor, std::size_t index);

/// The element in the shortest decimal form that reads back to it.
std::string format_element(const Tensor& tensor, std::size_t index);

/// float32 values of a tensor whose type NumPy does not know (bfloat16 and smaller floats). Exact.
Tensor widen(const Tensor& tensor);

/// Where the least and greatest elements are, NaNs left out.
struct Range {
  std::size_t min_index = 0;
  std::size_t max_index = 0;
  std::size_t numbers = 0;  ///< elements that are not NaN; the indices mean nothing if 0
  std::size_t nans = 0;
};
Range find_range(const Tensor& tensor);

/// How two tensors of one type and shape differ.
struct Difference {
  std::uint64_t bits = 0;        ///< different bits
  std::uint64_t total_bits = 0;  ///< compared bits, as stored
  std::uint64_t values = 0;      ///< elements with a different bit
  std::uint64_t total_values = 0;
  double largest = 0;  ///< greatest |a - b|; NaN where one of a pair is NaN
};
Difference compare(const Tensor& a, const Tensor& b);

}  // namespace halfeven::cli
