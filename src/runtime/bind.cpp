#include "runtime/bind.hpp"

#include "ops/validate.hpp"

namespace halfeven::runtime {

ir::Graph bind_shapes(const ir::Graph& graph, const std::vector<Shape>& shapes) {
  ir::Graph out = graph;
  for (std::size_t k = 0; k < shapes.size(); ++k) out.value(out.inputs[k]).shape = shapes[k];
  // Shapes found with the dimensions unknown must not stand in the way of the new ones.
  for (const ir::Node& node : out.nodes) {
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) out.value(id).shape.reset();
    }
  }
  ops::validate(out);
  return out;
}

}  // namespace halfeven::runtime
