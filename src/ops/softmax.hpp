// Softmax as a function of tensors, for the operators that contain it.
#pragma once

#include "ops/common.hpp"

namespace halfeven::ops {

/// exp(x) / sum(exp(x)) along the middle axis of `split` (of x's elements), or the logarithm of it; a tensor of x's
/// shape and type `dtype`. A row of equal finite values gives exactly 1 / n, an element -inf beside finite ones exactly
/// 0 (its logarithm -inf), a row of -inf alone NaN.
numerics::ExactPtr softmax(const numerics::ExactPtr& x, const AxisSplit& split, bool logarithm, DType dtype,
                           int threads);

/// How Softmax of a version below 13 sees a tensor: rows that span all axes from `axis` on.
AxisSplit flattened_at(const Shape& shape, std::size_t axis);

}  // namespace halfeven::ops
