// canonicalize-qdq: one DequantizeLinear for each reader; no operators that do nothing; no QuantizeLinear right behind
// a DequantizeLinear of the same parameters (the quotient is the integer itself, so one pair says nothing).
#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

bool does_nothing(const Editor& e, const ir::Node& node) {
  if (!node.domain.empty() || node.body) return false;
  if (node.op_type == "Identity") return true;
  if (node.op_type == "Cast") {
    return e.graph().value(node.inputs[0]).dtype == e.graph().value(node.outputs[0]).dtype;
  }
  return node.op_type == "Dropout" && (node.outputs.size() == 1 || !node.outputs[1].present()) &&
         node.inputs.size() < 3;
}

// Q(DQ(q)) with equal parameters is q.
bool same_pair(const Editor& e, const ir::Node& quantize, std::size_t n, std::size_t dequantize) {
  const auto q = parameters_of(e, n);
  const auto d = parameters_of(e, dequantize);
  return q && d && *q == *d && quantize.inputs[0] == e.node(dequantize).outputs[0];
}

void bypass(Editor& e, std::size_t n, ir::ValueId value, Rewrite& out, const std::string& text) {
  const ir::ValueId result = e.node(n).outputs[0];
  if (e.readers(result).empty()) return;
  out.findings.push_back({"canonicalize-qdq", ir::label(e.graph(), e.node(n)), true, text, ""});
  e.replace_reads(result, value);
}

Rewrite rewrite(const ir::Graph& graph) {
  Editor e(graph);
  Rewrite out;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = e.node(n);
    if (does_nothing(e, node)) bypass(e, n, node.inputs[0], out, node.op_type + " removed");
    if (!is_quantize(node)) continue;
    const auto d = dequantize_at(e, node.inputs[0]);
    if (d && same_pair(e, node, n, *d)) {
      bypass(e, n, e.node(*d).inputs[0], out, "quantizes a dequantized tensor with its own parameters: removed");
    }
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_dequantize(e.node(n))) continue;
    const ir::ValueId value = e.node(n).outputs[0];
    const std::vector<std::size_t> readers = e.readers(value);
    // The original stays with the first reader, or with the graph output that it is.
    for (std::size_t k = e.is_output(value) ? 0 : 1; k < readers.size(); ++k) {
      ir::Node copy = e.node(n);
      copy.outputs[0] = e.add_value(graph.value(value).name, graph.value(value).dtype);
      if (!copy.name.empty()) copy.name.append("_").append(std::to_string(k));
      const ir::ValueId own = copy.outputs[0];
      e.add_node(std::move(copy));
      const std::vector<ir::ValueId> inputs = e.node(readers[k]).inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == value) e.set_input(readers[k], i, own);
      }
    }
  }
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass canonicalize_qdq_pass() {
  return {"canonicalize-qdq", "one DequantizeLinear per reader; drop pairs and operators that do nothing", {}, rewrite};
}

}  // namespace halfeven::passes
