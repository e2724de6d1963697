// What compiling a program needs to know of values, addresses and functions.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cpu/elementwise/fused.hpp"
#include "ops/common.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// Why a group is no program.
struct Refusal {
  std::string why;
};

inline constexpr int kUnknownMagnitude = 1000;

/// What is known of a register's value: a multiple of 2^lsb, |value| <= 2^magnitude, `precision` significant bits.
struct Known {
  int lsb = -149;
  int magnitude = kUnknownMagnitude;
  int precision = 24;
};

/// Of a constant.
Known known_of(double v);
/// Of what is one of two values.
Known join(const Known& a, const Known& b);

/// Where elements of a result find those of an operand of shape `from` that is broadcast to it, both as they are
/// stored. Index lists go to `indices`. Throws Refusal.
kernels::FusedAddress fused_address(const Shape& result, Layout layout, const Shape& from, Layout stored,
                                    std::deque<std::vector<std::uint32_t>>& indices);

/// The node's operator as a function of a float32 (or of a dequantized value) with a float32 result; null if it is
/// none.
using ScalarFunction = double (*)(double);
ScalarFunction function_of(const ir::Node& node, const ops::NodeReader& reader);

}  // namespace halfeven::plan
