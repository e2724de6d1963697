// merge-duplicates: nodes that compute the same from the same are computed once. DequantizeLinear nodes count as the
// same where they are, but stay apart: one per reader is the normal form.
#include <algorithm>
#include <map>

#include "ir/digest.hpp"
#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

std::string look(const Tensor& t) {
  const auto start = t.bytes().first(std::min<std::size_t>(t.bytes().size(), 32));
  return std::string(to_string(t.dtype())) + to_string(t.shape()) +
         std::string(reinterpret_cast<const char*>(start.data()), start.size());
}

Rewrite rewrite(const ir::Graph& graph) {
  Editor e(graph);
  Rewrite out;
  // A value's class: the first value known to be the same.
  std::vector<ir::ValueId> same(graph.values.size());
  for (std::uint32_t i = 0; i < same.size(); ++i) same[i] = {i};
  // Tensors that look alike by type, shape and first bytes are compared in full; hashing all weights would cost more.
  std::multimap<std::string, ir::ValueId> constants;
  for (const auto& [id, tensor] : graph.initializers) {
    if (e.constant(id) == nullptr) continue;
    const std::string key = look(tensor);
    const auto [from, to] = constants.equal_range(key);
    const auto twin = std::find_if(
        from, to, [&, &t = tensor](const auto& entry) { return identical(graph.initializers.at(entry.second), t); });
    if (twin == to) {
      constants.emplace(key, id);
      continue;
    }
    same[id.index] = twin->second;
    e.replace_reads(id, twin->second);
  }
  std::map<std::string, std::size_t> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = e.node(n);
    std::string key = ir::digest(node);
    for (const ir::ValueId id : node.inputs) {
      key += id.present() ? "," + std::to_string(same[id.index].index) : ",-";
    }
    const auto [at, fresh] = nodes.try_emplace(key, n);
    if (fresh) continue;
    const ir::Node& first = e.node(at->second);
    if (node.outputs.size() == 1 && e.is_output(node.outputs[0]) && !e.is_output(first.outputs[0]) &&
        !is_dequantize(node)) {
      // The one that is a graph output has to stay, so it serves all readers.
      same[node.outputs[0].index] = same[first.outputs[0].index];
      if (!e.readers(first.outputs[0]).empty()) {
        e.replace_reads(first.outputs[0], node.outputs[0]);
        out.findings.push_back(
            {"merge-duplicates", ir::label(graph, first), true, "the same as " + ir::describe(graph, node), ""});
      }
      at->second = n;
      continue;
    }
    bool merged = false;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].present() || !first.outputs[k].present()) continue;
      same[node.outputs[k].index] = same[first.outputs[k].index];
      if (is_dequantize(node) || e.readers(node.outputs[k]).empty()) continue;
      e.replace_reads(node.outputs[k], first.outputs[k]);
      merged = true;
    }
    if (merged) {
      out.findings.push_back(
          {"merge-duplicates", ir::label(graph, node), true, "the same as " + ir::describe(graph, first), ""});
    }
  }
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass merge_duplicates_pass() { return {"merge-duplicates", "compute the same thing once", {}, rewrite}; }

}  // namespace halfeven::passes
