#include "plan/dynamic_group.hpp"

#include "passes/region.hpp"

namespace halfeven::plan {
namespace {

using passes::Editor;

bool is(const Editor& e, std::size_t n, std::string_view op_type) {
  const ir::Node& node = e.node(n);
  return node.domain.empty() && !node.body && node.op_type == op_type;
}

// The chain's nodes, the DynamicQuantizeLinear `last` among them; empty where there is none.
passes::Region chain(const Editor& e, std::size_t last) {
  passes::Region r;
  r.nodes.insert(last);
  std::size_t n = last;
  // Moves to the producer of input k if it is of that type and read by the chain alone.
  const auto back = [&](std::string_view op_type, std::size_t k) {
    const ir::ValueId id = e.node(n).inputs[k];
    const auto p = e.producer(id);
    if (!p || !is(e, *p, op_type) || e.only_reader(id) != n || e.node(*p).outputs.size() != 1) return false;
    n = *p;
    r.nodes.insert(n);
    return true;
  };
  const auto constant = [&](std::size_t k) { return e.constant(e.node(n).inputs[k]) != nullptr; };
  const auto single = [&](std::size_t k) {
    const auto& shape = e.graph().value(e.node(n).inputs[k]).shape;
    return shape && element_count(*shape) == 1;
  };
  // One of each at most, in either order.
  const bool pooled = back("MaxPool", 0);
  if (back("Relu", 0) && !pooled) back("MaxPool", 0);
  if (!back("Add", 0)) return {};
  if (!constant(0) && !constant(1)) return {};
  std::size_t data = constant(1) ? 0 : 1;
  if (back("Mul", data)) {
    if (!single(0) && !single(1)) {
      r.nodes.erase(n);
      return r;
    }
    data = single(1) ? 0 : 1;
  }
  back("Cast", data);
  return r;
}

}  // namespace

ir::Graph group_dynamic(const ir::Graph& graph) {
  Editor e(graph);
  const std::size_t count = e.node_count();
  for (std::size_t n = 0; n < count; ++n) {
    if (!e.alive(n) || !is(e, n, "DynamicQuantizeLinear")) continue;
    const ir::Node last = e.node(n);
    if (last.outputs.size() != 3 || !last.outputs[0].present()) continue;
    const passes::Region r = chain(e, n);
    if (r.nodes.empty()) continue;
    ir::Node group;
    group.domain = "halfeven";
    group.op_type = "QDynamic";
    group.version = 1;
    group.name = ir::label(graph, last);
    ir::Graph body = passes::body_of(e, r, last.outputs[0], group.inputs);
    body.name = group.op_type;
    body.outputs = body.nodes.back().outputs;
    group.body = std::make_shared<const ir::Graph>(std::move(body));
    group.outputs = last.outputs;
    for (const std::size_t m : r.nodes) e.remove_node(m);
    e.add_node(std::move(group));
  }
  return e.changes() > 0 ? e.finish() : graph;
}

}  // namespace halfeven::plan
