// fold-constants: nodes whose inputs are all constant become constants, as contract section 1, rule 6 has them: rounded
// at once. DequantizeLinear stays: its real numbers have no tensor type. Shape arithmetic that follows from static
// shapes is folded, too.
#include <algorithm>

#include "ops/validate.hpp"
#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

// A folded tensor is stored in the model: larger ones stay computed.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

bool small_enough(const ops::TypeShape& t) {
  if (!t.shape || std::any_of(t.shape->begin(), t.shape->end(), [](std::int64_t d) { return d < 0; })) return false;
  std::uint64_t bytes = storage_size(t.dtype);
  for (const std::int64_t d : *t.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes)) return false;
  }
  return bytes > 0 ? bytes <= kMostBytes : storage_size(t.dtype) > 0;
}

std::vector<Tensor> evaluate(const ir::Graph& graph, const ir::Node& node,
                             const std::vector<std::optional<Tensor>>& in) {
  const ops::Operator& op = ops::operator_of(graph, node);
  std::vector<ops::TypeShape> types;
  std::vector<ops::Data> data;
  for (const auto& t : in) {
    types.push_back(t ? ops::TypeShape{t->dtype(), t->shape()} : ops::TypeShape{});
    data.push_back(t ? ops::Data(*t) : ops::Data());
  }
  const auto results = ops::infer(graph, node, op, types, in);
  if (!std::all_of(results.begin(), results.end(), small_enough)) return {};
  std::vector<Tensor> out;
  for (const ops::Data& d : op.evaluate(ops::EvalContext(graph, node, std::move(data), results, true, 1))) {
    out.push_back(d.reals ? numerics::round_tensor(*d.reals, d.dtype(), 1) : d.tensor);
  }
  return out;
}

// Nodes that validation knows the values of, by static shapes. Folding one makes its readers depend on constants alone,
// and one with a float result that did not before would be rounded at once from then on (rule 6). So what such a node
// is computed from stays computed.
std::vector<bool> foldable(const ir::Graph& graph, const ops::Facts& facts) {
  const std::size_t count = graph.nodes.size();
  std::vector<bool> known(count);
  std::vector<bool> turns(count);  // constant after folding, but not before
  std::vector<std::size_t> producer(graph.values.size(), count);
  std::vector<std::size_t> open;
  for (std::size_t n = 0; n < count; ++n) {
    const ir::Node& node = graph.nodes[n];
    const auto all_outputs = [&](auto test) {
      return std::all_of(node.outputs.begin(), node.outputs.end(),
                         [&](ir::ValueId id) { return !id.present() || test(id); });
    };
    known[n] = all_outputs([&](ir::ValueId id) { return facts.known.contains(id); });
    const bool constant = all_outputs([&](ir::ValueId id) { return facts.constant[id.index]; });
    const bool becomes = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ir::ValueId id) {
      return !id.present() || facts.constant[id.index] || (producer[id.index] < count && turns[producer[id.index]]);
    });
    turns[n] = !constant && (known[n] || becomes);
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) producer[id.index] = n;
    }
    if (turns[n] && !known[n] && !all_outputs([&](ir::ValueId id) { return !is_float(graph.value(id).dtype); })) {
      open.push_back(n);
    }
  }
  std::vector<bool> visited(count);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    for (const ir::ValueId id : graph.nodes[n].inputs) {
      const std::size_t p = id.present() ? producer[id.index] : count;
      if (p == count || !turns[p] || visited[p]) continue;
      visited[p] = true;
      known[p] = false;
      open.push_back(p);
    }
  }
  return known;
}

Rewrite rewrite(const ir::Graph& graph) {
  ir::Graph inferred = graph;
  const ops::Facts facts = ops::validate(inferred);
  const std::vector<bool> known = foldable(inferred, facts);
  Editor e(graph);
  Rewrite out;
  for (std::size_t n = 0; n < e.node_count(); ++n) {
    const ir::Node node = e.node(n);
    if (node.body || is_dequantize(node)) continue;
    std::vector<Tensor> values;
    if (known[n]) {
      for (const ir::ValueId id : node.outputs) values.push_back(id.present() ? facts.known.at(id) : Tensor());
    } else {
      std::vector<std::optional<Tensor>> in;
      bool constant = true;
      for (const ir::ValueId id : node.inputs) {
        const Tensor* t = e.constant(id);
        constant = constant && (t != nullptr || !id.present());
        in.push_back(t == nullptr ? std::nullopt : std::optional(*t));
      }
      if (!constant) continue;
      try {
        values = evaluate(e.graph(), node, in);
      } catch (const Error& error) {
        out.findings.push_back({"fold-constants", ir::label(graph, node), false, error.what(), ""});
      }
      if (values.empty()) continue;
    }
    e.remove_node(n);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].present()) e.set_constant(node.outputs[k], values[k]);
    }
    out.findings.push_back({"fold-constants", ir::label(graph, node), true, node.op_type + " of constants", ""});
  }
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass fold_constants_pass() { return {"fold-constants", "compute what depends on constants alone", {}, rewrite}; }

}  // namespace halfeven::passes
