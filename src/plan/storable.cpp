#include "plan/storable.hpp"

#include <set>

#include "ops/validate.hpp"

namespace halfeven::plan {
namespace {

// What the graph around a body says of its inputs and outputs.
struct Ends {
  std::vector<bool> dequantized_inputs;
  std::vector<bool> unrounded_outputs;
};

class Reading {
 public:
  Reading(const ir::Graph& graph, const Ends& ends)
      : dequantized(graph.values.size(), false), unrounded(graph.values.size(), false), read_by_node(unrounded) {
    for (std::size_t k = 0; k < ends.dequantized_inputs.size(); ++k) {
      dequantized[graph.inputs[k].index] = ends.dequantized_inputs[k];
    }
    for (const ir::Node& node : graph.nodes) forward(graph, node);
    for (std::size_t k = 0; k < ends.unrounded_outputs.size(); ++k) {
      if (ends.unrounded_outputs[k]) unrounded[graph.outputs[k].index] = true;
    }
    for (std::size_t n = graph.nodes.size(); n-- > 0;) backward(graph, graph.nodes[n]);
  }

  std::vector<bool> dequantized;  // by value: read as it is, whoever reads it
  std::vector<bool> unrounded;    // by value: somebody wants more than the rounded value
  std::vector<bool> read_by_node;

 private:
  Ends ends_of(const ir::Node& node) const {
    Ends ends;
    for (const ir::ValueId id : node.inputs) ends.dequantized_inputs.push_back(id.present() && dequantized[id.index]);
    for (const ir::ValueId id : node.outputs) ends.unrounded_outputs.push_back(id.present() && unrounded[id.index]);
    return ends;
  }

  // Bodies may leave types out; a type not known counts as float32, which stores less, never more.
  static DType type_of(const ir::Graph& graph, ir::ValueId id) {
    const DType type = graph.value(id).dtype;
    return type == DType::undefined ? DType::float32 : type;
  }

  static bool passes(const ir::Graph& graph, const ir::Node& node, std::size_t i) {
    const DType from = type_of(graph, node.inputs[i]);
    return is_float(from) && ops::passes_on(ops::operator_of(graph, node), i, from, type_of(graph, node.outputs[0]));
  }

  void forward(const ir::Graph& graph, const ir::Node& node) {
    if (node.body) {
      const Reading inner(*node.body, ends_of(node));
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.outputs[k].present()) {
          dequantized[node.outputs[k].index] = inner.dequantized[node.body->outputs[k].index];
        }
      }
      return;
    }
    bool any = node.op_type == "DequantizeLinear";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::ValueId id = node.inputs[i];
      any = any || (id.present() && dequantized[id.index] && passes(graph, node, i));
    }
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) dequantized[id.index] = any;
    }
  }

  void backward(const ir::Graph& graph, const ir::Node& node) {
    std::vector<bool> wanted;
    if (node.body) {
      const Reading inner(*node.body, ends_of(node));
      for (const ir::ValueId id : node.body->inputs) wanted.push_back(id.present() && inner.unrounded[id.index]);
    }
    // DynamicQuantizeLinear reads like any operator (contract section 8).
    const bool quantizes = node.op_type == "QuantizeLinear";
    bool beyond = false;
    for (const ir::ValueId id : node.outputs) beyond = beyond || (id.present() && unrounded[id.index]);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::ValueId id = node.inputs[i];
      if (!id.present()) continue;
      read_by_node[id.index] = true;
      const bool more = node.body ? wanted[i] : ((quantizes && i == 0) || (beyond && passes(graph, node, i)));
      if (more) unrounded[id.index] = true;
    }
  }
};

// Whether the result's elements are floats that the node read: then nothing is lost by storing them as such. Picking
// the greatest reads rounded values, unless they are dequantized ones, which are read as they are.
bool keeps_floats(const ir::Graph& graph, const ir::Node& node, const Reading& reading,
                  const std::vector<bool>& given) {
  static const std::set<std::string_view> picking{"ReduceMax", "ReduceMin", "Max", "Min"};
  if (node.body || node.outputs.empty() || !node.outputs[0].present()) return false;
  const DType to = graph.value(node.outputs[0]).dtype;
  if (!is_float(to)) return false;
  const bool picks = node.domain.empty() && picking.contains(node.op_type);
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ir::ValueId id = node.inputs[i];
    if (!id.present() || !is_float(graph.value(id).dtype)) continue;
    const bool passes = ops::passes_on(ops::operator_of(graph, node), i, graph.value(id).dtype, to);
    if (!picks && !passes) continue;
    if (picks ? reading.dequantized[id.index] : !given[id.index]) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::vector<bool> storable(const ir::Graph& graph) {
  const Reading reading(graph, {});
  std::vector<bool> out(graph.values.size(), true);
  // Inputs and constants are the floats they hold, and so is what only moves such or picks one of them.
  std::vector<bool> given(graph.values.size(), true);
  for (const ir::Node& node : graph.nodes) {
    const bool kept = keeps_floats(graph, node, reading, given);
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) given[id.index] = kept;
    }
  }
  for (std::size_t v = 0; v < out.size(); ++v) {
    if (given[v] || !is_float(graph.values[v].dtype)) continue;
    out[v] = !reading.unrounded[v] && !(reading.dequantized[v] && reading.read_by_node[v]);
  }
  return out;
}

}  // namespace halfeven::plan
