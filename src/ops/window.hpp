// Geometry of sliding windows: convolutions and pools of one to any number of spatial dimensions.
#pragma once

#include <vector>

#include "ops/common.hpp"

namespace halfeven::ops {

/// Per spatial axis. `out` is -1 while the input's size is not known.
struct Window {
  Shape kernel;
  Shape strides;
  Shape dilations;
  Shape begin;  ///< padding before (negative: cropping, which ConvTranspose's output_shape can ask for)
  Shape end;    ///< padding after
  Shape out;
};

/// Reads strides, dilations, pads and auto_pad of a convolution or pool over spatial dimensions `sizes` (-1: unknown)
/// with `kernel`. Checks lengths and signs. ceil_mode as pools define it: a window that would start in the padding at
/// the end is dropped.
Window read_window(const NodeReader& c, const Shape& sizes, const Shape& kernel, bool ceil_mode);

/// The geometry of a ConvTranspose: `begin` and `end` are what is cut from the full result, output_padding and
/// output_shape included in `out`.
Window read_transposed_window(const NodeReader& c, const Shape& sizes, const Shape& kernel);

/// Spatial part of an NC... shape.
Shape spatial(const Shape& shape);

}  // namespace halfeven::ops
