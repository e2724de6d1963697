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

Rewrite rewrite(const ir::Graph& graph) {
  ir::Graph inferred = graph;
  const ops::Facts facts = ops::validate(inferred);
  Editor e(graph);
  Rewrite out;
  for (std::size_t n = 0; n < e.node_count(); ++n) {
    const ir::Node node = e.node(n);
    if (node.body || is_dequantize(node)) continue;
    std::vector<Tensor> values;
    const bool shape_known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                         [&](ir::ValueId id) { return !id.present() || facts.known.contains(id); });
    if (shape_known) {
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
