// Operands and results of the operators that arrive as integers: ConvInteger, MatMulInteger, QLinearConv, QGemm ...
#pragma once

#include "ops/common.hpp"

namespace halfeven::ops {

/// Integer input `i` minus the zero point at input `zero_point` (absent: 0), exact. A zero point with several entries
/// belongs to `axis` of the tensor.
numerics::ExactPtr integers_with_zero_point(const EvalContext& c, std::size_t i, std::size_t zero_point,
                                            std::size_t axis);

/// Integer-valued sums as int32. Throws Error{input} naming the element where one does not fit (contract section 6).
Tensor int32_result(const EvalContext& c, const numerics::ExactTensor& sums);

/// An int32 bias in units of x_scale * w_scale, exactly (contract section 8): x has one scale, w one or one per entry
/// of the bias.
numerics::ExactPtr bias_of_products(const EvalContext& c, const Data& bias, const numerics::ExactTensor& x,
                                    const numerics::ExactTensor& w);

}  // namespace halfeven::ops
