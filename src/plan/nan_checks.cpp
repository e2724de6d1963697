#include "plan/nan_checks.hpp"

#include <cmath>

#include "numerics/format.hpp"
#include "passes/editor.hpp"

namespace halfeven::plan {
namespace {

// The value is a tensor of integers dequantized with constant, finite scales. (Small floats have a NaN of their own.)
bool is_dequantized(const passes::Editor& e, ir::ValueId id) {
  const auto d = e.producer(id, "DequantizeLinear");
  const Tensor* scale = d ? e.constant(e.node(*d).inputs[1]) : nullptr;
  if (scale == nullptr || !is_integer(e.graph().value(e.node(*d).inputs[0]).dtype)) return false;
  for (std::size_t i = 0; i < scale->size(); ++i) {
    if (!std::isfinite(numerics::decode_float(scale->dtype(), scale->data(), i))) return false;
  }
  return true;
}

}  // namespace

ir::Graph drop_nan_checks(const ir::Graph& graph) {
  passes::Editor e(graph);
  for (std::size_t n = 0; n < e.node_count(); ++n) {
    const ir::Node& where = e.node(n);
    if (where.op_type != "Where" || !where.domain.empty() || where.body) continue;
    const auto check = e.producer(where.inputs[0], "IsNaN");
    if (!check || !is_dequantized(e, e.node(*check).inputs[0])) continue;
    const ir::ValueId from = where.inputs[2];
    const ir::ValueId to = where.outputs[0];
    // A shape that the other inputs widen, or a name that somebody outside wants, needs the node.
    if (e.is_output(to) || e.graph().value(from).shape != e.graph().value(to).shape) continue;
    e.replace_reads(to, from);
    e.remove_node(n);
  }
  return e.changes() > 0 ? e.finish() : graph;
}

}  // namespace halfeven::plan
