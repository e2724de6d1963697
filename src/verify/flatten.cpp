#include "verify/flatten.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace halfeven::verification {
namespace {

class Flattener {
 public:
  explicit Flattener(const ir::Graph& graph) : out_(graph) { out_.nodes.clear(); }

  void add(const ir::Node& node) {
    if (!node.body) {
      out_.nodes.push_back(node);
      return;
    }
    const ir::Graph& body = *node.body;
    std::vector<ir::ValueId> place(body.values.size());  // of the body's values in the flat graph
    for (std::size_t i = 0; i < node.inputs.size(); ++i) place[body.inputs[i].index] = node.inputs[i];
    std::vector<std::pair<ir::ValueId, ir::ValueId>> passed;  // outputs that are no fresh values: from, to
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].present()) continue;
      ir::ValueId& to = place[body.outputs[k].index];
      if (to.present()) {
        passed.emplace_back(to, node.outputs[k]);
      } else {
        to = node.outputs[k];
      }
    }
    for (const auto& [id, tensor] : body.initializers) {
      if (!place[id.index].present()) out_.initializers.emplace(fresh(body, id, place), tensor);
    }
    for (ir::Node inner : body.nodes) {
      for (auto* ids : {&inner.inputs, &inner.outputs}) {
        for (ir::ValueId& id : *ids) {
          if (id.present()) id = place[id.index].present() ? place[id.index] : fresh(body, id, place);
        }
      }
      inner.name.clear();
      add(inner);
    }
    for (const auto& [from, to] : passed) {
      ir::Node identity;
      identity.op_type = "Identity";
      identity.version = out_.opsets.contains("") ? out_.opsets.at("") : 13;
      identity.inputs = {from};
      identity.outputs = {to};
      out_.nodes.push_back(identity);
    }
  }

  ir::Graph take() { return std::move(out_); }

 private:
  ir::ValueId fresh(const ir::Graph& body, ir::ValueId id, std::vector<ir::ValueId>& place) {
    place[id.index] = {static_cast<std::uint32_t>(out_.values.size())};
    out_.values.push_back({fmt::format("{}/{}", body.value(id).name, count_++), body.value(id).dtype, {}, {}});
    return place[id.index];
  }

  ir::Graph out_;
  std::size_t count_ = 0;
};

}  // namespace

ir::Graph flatten(const ir::Graph& graph) {
  Flattener flattener(graph);
  for (const ir::Node& node : graph.nodes) flattener.add(node);
  return flattener.take();
}

}  // namespace halfeven::verification
