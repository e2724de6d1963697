// Pools as functions of tensors, for the operators that contain them.
#pragma once

#include "ops/window.hpp"

namespace halfeven::ops {

/// Kernel, strides ... of a pool node over a tensor of shape `shape` (N x C x spatial); fails where it has no
/// kernel_shape.
Window read_pool_window(const NodeReader& c, const Shape& shape);
/// N x C x window.out.
Shape pooled_shape(const Shape& shape, const Window& window);

/// The mean of each window of x (N x C x spatial) in type `dtype`: over the positions inside the image or, with
/// `include_pad`, inside the image and its explicit padding; never over what ceil_mode adds (contract section 8).
numerics::ExactPtr average_pool(const numerics::ExactPtr& x, const Window& window, bool include_pad, DType dtype,
                                int threads);

/// The mean of all spatial positions: N x C x 1 x ...
numerics::ExactPtr global_average_pool(const numerics::ExactPtr& x, DType dtype, int threads);

}  // namespace halfeven::ops
