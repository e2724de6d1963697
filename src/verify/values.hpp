// Elements of tensors as numbers and words, for reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <halfeven/tensor.hpp>

namespace halfeven::verification {

/// Element `index` of a tensor of any type as a double (64-bit integers beyond 2^53 rounded).
double element(const Tensor& tensor, std::size_t index);
/// The element with as many digits as tell it from its neighbours.
std::string element_text(const Tensor& tensor, std::size_t index);

/// The coordinates of element `index`.
std::vector<std::int64_t> position(const Shape& shape, std::size_t index);

/// How `after` differs from `before`: "type uint8 became int8", or "3 of 16 elements, the first is [0, 2]: 17 became
/// 18"; "none" if it does not.
std::string describe_difference(const Tensor& before, const Tensor& after);

/// The distance of two floats of one type counted in representable numbers between them; infinity where one is NaN.
double ulps_between(const Tensor& a, const Tensor& b, std::size_t index);

}  // namespace halfeven::verification
