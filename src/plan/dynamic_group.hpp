// Chains that end in a DynamicQuantizeLinear, which reads more than the rounded value.
#pragma once

#include "ir/graph.hpp"

namespace halfeven::plan {

/// The graph with each chain [Cast of int32], [Mul by a scalar], Add of a constant, [Relu], [MaxPool],
/// DynamicQuantizeLinear that nothing else reads as one group: between the sum and the quantisation values travel
/// unrounded, so that no kernel can serve these nodes one by one.
ir::Graph group_dynamic(ir::Graph graph);

}  // namespace halfeven::plan
