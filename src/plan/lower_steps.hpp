// The steps of lower().
#pragma once

#include "ir/graph.hpp"
#include "passes/editor.hpp"

namespace halfeven::plan {

/// Replaces com.microsoft's QLinear operators and the groups that regroup() forms by the plain nodes that they mean.
ir::Graph write_out(const ir::Graph& graph);

/// One round of moving QuantizeLinear in front of pools and data movement, and DequantizeLinear behind them; false if
/// there was nothing to move.
bool move_to_integers(ir::Graph& graph);

/// Groups of elementwise operators and of pools with what stands in front of and behind them.
ir::Graph regroup(const ir::Graph& graph);

/// Elementwise operators that groups are made of.
bool joins_groups(const ir::Node& node);
/// Pools and reductions that a group may hold one of.
bool is_pool(const ir::Node& node);
/// A bound on the absolute values of a float tensor of which no element is NaN; infinity where none is known.
double magnitude(const passes::Editor& e, ir::ValueId id);

}  // namespace halfeven::plan
