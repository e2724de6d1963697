// Which elements of an axis a position of the resized axis reads, and with what weights: Resize's geometry, in exact
// rational numbers (contract section 8).
#pragma once

#include <string>
#include <vector>

#include "ops/common.hpp"

namespace halfeven::ops {

/// One axis to be resized: input and output length (-1: not known), the scale, which need not be their ratio, and the
/// region of interest (tf_crop_and_resize).
struct AxisPlan {
  std::size_t axis = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  numerics::Rational scale = 1;
  numerics::Rational roi_start = 0;
  numerics::Rational roi_end = 1;
};

struct ResizeMode {
  std::string name;         ///< nearest, linear, cubic
  std::string coordinates;  ///< coordinate_transformation_mode
  std::string nearest;      ///< nearest_mode
};

/// One element that contributes to a position of the output, with its weight in both kinds of number.
struct Tap {
  std::size_t index = 0;
  numerics::Rational weight = 1;
  numerics::Approx approx{1, 0};
};

/// What a position reads; empty: the extrapolation value.
using Taps = std::vector<Tap>;

/// The taps of position i of the axis. `node` brings cubic_coeff_a and exclude_outside. Input and output length are
/// known and not zero.
Taps taps_at(const NodeReader& node, const AxisPlan& plan, const ResizeMode& mode, std::int64_t i);

}  // namespace halfeven::ops
