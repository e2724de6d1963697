// Random small graphs that look for boundaries: quotients at and next to ties, saturation, odd zero points, odd sizes.
#pragma once

#include <functional>

#include "properties/small_graph.hpp"

namespace halfeven::properties {

/// A number in [0, n); n > 0.
using Pick = std::function<std::size_t(std::size_t n)>;

/// Draws a graph. The same picks give the same graph.
SmallGraph draw_graph(const Pick& pick);

}  // namespace halfeven::properties
