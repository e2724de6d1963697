// Regions: the float operators between DequantizeLinear nodes and the value they serve.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/editor.hpp"
#include "passes/pass.hpp"

namespace halfeven::passes {

/// Elementwise float operators: they may follow a heavy operator in its group.
bool is_elementwise(const ir::Node& node);
/// Operators that a group is built around: convolutions, products, pools, reductions, normalisations ...
bool is_heavy(const ir::Node& node);

/// A set of nodes that becomes one. Dequantizations are copied into the region, all else moves.
struct Region {
  std::set<std::size_t> nodes;  ///< by number, dequantizations included
  std::set<std::size_t> dequantizes;
  std::optional<std::size_t> heavy;
  std::vector<ir::ValueId> floats;  ///< float tensors read from outside that are no constants
};

/// Grows a region backwards from `roots` (a QuantizeLinear and what follows it, or a heavy operator): dequantizations
/// with known parameters, and, if `inwards`, elementwise operators and at most one heavy operator that nothing outside
/// the region reads.
Region grow(const Editor& e, const std::vector<std::size_t>& roots, bool inwards);

/// Replaces the region by one node of domain "halfeven" with the region as its body. `result` is the value that it
/// computes. Returns the new node's number.
std::size_t make_group(Editor& e, const Region& region, ir::ValueId result, const std::string& op_type,
                       const std::string& name);

/// For a QuantizeLinear: the dequantized tensor of which the quantized one is a function, element by element, with 4-
/// to 16-bit codes; nullopt if it is none. Such a region becomes a table.
struct TableRegion {
  Region region;
  std::size_t source;  ///< the DequantizeLinear
};
std::optional<TableRegion> table_region(const Editor& e, std::size_t quantize);

/// The body of a region as a graph of its own, inputs in the order in which they are met from the result backwards.
/// `inputs` receives the outer values.
ir::Graph body_of(const Editor& e, const Region& region, ir::ValueId result, std::vector<ir::ValueId>& inputs);

}  // namespace halfeven::passes
