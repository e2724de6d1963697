// fuse-qdq: dequantizations, a convolution, product, pool or arithmetic, what follows it element by element, and the
// quantization become one integer operator: a node of domain "halfeven" whose body is what it replaces.
#include "passes/pass.hpp"
#include "passes/qdq.hpp"
#include "passes/region.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "fuse-qdq";

// The integer Clip with constant bounds that alone reads the quantized tensor, if there is one.
std::optional<std::size_t> clip_behind(const Editor& e, std::size_t quantize) {
  const auto reader = e.only_reader(e.node(quantize).outputs[0]);
  if (!reader) return std::nullopt;
  const ir::Node& node = e.node(*reader);
  if (!node.domain.empty() || node.op_type != "Clip" || node.inputs[0] != e.node(quantize).outputs[0]) {
    return std::nullopt;
  }
  for (std::size_t k = 1; k < node.inputs.size(); ++k) {
    if (node.inputs[k].present() && e.constant(node.inputs[k]) == nullptr) return std::nullopt;
  }
  return reader;
}

// The operator that names the group: the heavy one, else the last one before the quantization.
const ir::Node* chief(const Editor& e, const Region& r) {
  if (r.heavy) return &e.node(*r.heavy);
  for (auto n = r.nodes.rbegin(); n != r.nodes.rend(); ++n) {
    if (is_elementwise(e.node(*n)) && is_float(e.graph().value(e.node(*n).outputs[0]).dtype)) return &e.node(*n);
  }
  return nullptr;
}

std::string list_nodes(const Editor& e, const Region& r) {
  std::string text;
  for (const std::size_t n : r.nodes) {
    if (r.dequantizes.contains(n)) continue;
    text += (text.empty() ? "" : ", ") + e.node(n).op_type;
  }
  return text;
}

Rewrite rewrite(const ir::Graph& graph) {
  Editor e(graph);
  Rewrite out;
  const std::size_t count = e.node_count();
  for (std::size_t n = count; n-- > 0;) {
    if (!e.alive(n) || !is_quantize(e.node(n))) continue;
    const std::string where = ir::label(graph, e.node(n));
    const auto refuse = [&](const std::string& why, const std::string& advice) {
      out.findings.push_back({kName, where, false, why, advice});
    };
    const auto p = parameters_of(e, n);
    const auto source = e.producer(e.node(n).inputs[0]);
    if (!source || dequantize_at(e, e.node(n).inputs[0])) continue;  // nothing between to fuse
    if (!p) {
      refuse("its scale or zero point is no finite constant", "make scale and zero point initializers");
      continue;
    }
    if (table_region(e, n)) continue;  // build-tables deals with it
    std::vector<std::size_t> roots{n};
    const auto clip = clip_behind(e, n);
    if (clip) roots.push_back(*clip);
    const Region r = grow(e, roots, true);
    const ir::Node* named = chief(e, r);
    if (named == nullptr) {
      const ir::Node& before = e.node(*source);
      if (before.body || !is_float(graph.value(e.node(n).inputs[0]).dtype)) continue;
      refuse(ir::describe(graph, before) + (is_elementwise(before) || is_heavy(before)
                                                ? " is read by others, too, or is a graph output"
                                                : " is no operator that can be fused"),
             "quantize each reader's input on its own");
      continue;
    }
    if (r.dequantizes.empty()) {
      refuse(ir::describe(graph, *named) + " reads no dequantized tensor", "quantize its inputs");
      continue;
    }
    std::string text = "Q" + named->op_type + " of " + list_nodes(e, r);
    for (const ir::ValueId id : r.floats) text += "; reads float tensor '" + graph.value(id).name + "'";
    out.findings.push_back({kName, where, true, text, ""});
    const ir::ValueId result = e.node(clip ? *clip : n).outputs[0];
    const std::string name = "Q" + named->op_type;
    const std::string label = named->name.empty() ? graph.value(result).name : named->name;
    make_group(e, r, result, name, label);
  }
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass fuse_qdq_pass() {
  return {kName,
          "operators between DequantizeLinear and QuantizeLinear become integer operators",
          {"fold-constants", "merge-duplicates", "canonicalize-qdq", "move-data", "keep-order", "clamp-integers"},
          rewrite};
}

}  // namespace halfeven::passes
