// Rewrites of the fused graph that only a plan wants.
#pragma once

#include "ir/graph.hpp"

namespace halfeven::plan {

/// The same graph, bit for bit, in pieces that kernels take: com.microsoft's QLinear operators as what they mean,
/// pools and data movement on integers, elementwise operators in groups around them, short chains from 8-bit codes
/// repeated for each of their readers. Shapes are concrete.
ir::Graph lower(ir::Graph graph);

}  // namespace halfeven::plan
