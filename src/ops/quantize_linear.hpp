// Quantisation parameters and the two conversions, shared by all operators that quantize.
#pragma once

#include <vector>

#include "ops/common.hpp"

namespace halfeven::ops {

/// How the scale and zero point of a tensor spread over it.
struct QuantAxis {
  std::int64_t axis = 1;        ///< as the attribute says it, possibly negative
  std::int64_t block_size = 0;  ///< 0: not blocked
};

/// Checks shapes and types of a scale and an optional zero point (inputs `scale` and `zero_point` of the node) against
/// a tensor of shape `shape` and quantized type `type`; known values too (contract section 6). `quantizes`: a zero
/// scale is an error.
void check_parameters(const InferContext& c, std::size_t scale, std::size_t zero_point, DType type,
                      const std::optional<Shape>& shape, const QuantAxis& where, bool quantizes);

/// The same for parameters that are one value for the tensor, the zero point, which may be absent, behind the scale.
void check_per_tensor(const InferContext& c, std::size_t scale, DType type, bool quantizes);

/// (q - zero_point) * scale, exact, of float type `dtype`. `zero_point` may be absent.
numerics::ExactPtr dequantize(const NodeReader& node, const Data& q, const Data& scale, const Data& zero_point,
                              const QuantAxis& where, DType dtype);

/// saturate(round_half_even(x / scale) + zero_point) as elements of `type` (contract section 1, rule 3). With a
/// `quotient` type the quotient is rounded to it first (section 2). `name` is the tensor for messages.
Tensor quantize(const NodeReader& node, const numerics::ExactTensor& x, const std::string& name, const Data& scale,
                const Data& zero_point, const QuantAxis& where, DType type, std::optional<DType> quotient,
                bool saturate_floats, int threads);

}  // namespace halfeven::ops
