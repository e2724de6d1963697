// Chains that end in a DynamicQuantizeLinear.
#pragma once

#include "ir/graph.hpp"

namespace halfeven::plan {

/// The graph with each chain [Cast of int32], [Mul by a scalar], Add of a constant, [Relu], [MaxPool],
/// DynamicQuantizeLinear that nothing else reads as one group: a kernel for all of it goes over the tensor twice
/// instead of six times.
ir::Graph group_dynamic(const ir::Graph& graph);

}  // namespace halfeven::plan
