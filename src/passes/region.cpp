#include "passes/region.hpp"

#include <algorithm>
#include <map>

#include "passes/qdq.hpp"

namespace halfeven::passes {

bool is_elementwise(const ir::Node& node) {
  static const std::set<std::string_view> names{
      "Add",  "Sub",  "Mul",       "Div",      "Min",   "Max",         "Sum",        "Mean",    "Neg",
      "Abs",  "Relu", "LeakyRelu", "PRelu",    "Clip",  "HardSigmoid", "HardSwish",  "Sigmoid", "Tanh",
      "Exp",  "Log",  "Sqrt",      "Erf",      "Gelu",  "Pow",         "Reciprocal", "Elu",     "Selu",
      "Celu", "Mish", "Softplus",  "Softsign", "Floor", "Ceil",        "Round",      "Cast",    "ThresholdedRelu",
      "Sin",  "Cos",  "Sign"};
  return !node.body && node.outputs.size() == 1 &&
         (node.domain.empty() || (node.domain == "com.microsoft" && node.op_type == "Gelu")) &&
         names.contains(node.op_type);
}

bool is_heavy(const ir::Node& node) {
  static const std::set<std::string_view> names{"Conv",
                                                "ConvTranspose",
                                                "MatMul",
                                                "Gemm",
                                                "AveragePool",
                                                "GlobalAveragePool",
                                                "MaxPool",
                                                "GlobalMaxPool",
                                                "ReduceMean",
                                                "ReduceSum",
                                                "ReduceMax",
                                                "ReduceMin",
                                                "ReduceL1",
                                                "ReduceL2",
                                                "ReduceSumSquare",
                                                "Resize",
                                                "Softmax",
                                                "LogSoftmax",
                                                "LayerNormalization",
                                                "InstanceNormalization",
                                                "GroupNormalization",
                                                "RMSNormalization",
                                                "BatchNormalization"};
  return node.domain.empty() && !node.body && node.outputs.size() == 1 && names.contains(node.op_type);
}

Region grow(const Editor& e, const std::vector<std::size_t>& roots, bool inwards) {
  Region r;
  r.nodes.insert(roots.begin(), roots.end());
  for (const std::size_t n : roots) {
    if (is_heavy(e.node(n))) r.heavy = n;
  }
  std::set<std::size_t> open;  // producers to decide on; the last in topological order first
  std::set<std::size_t> outside;
  const auto enlist = [&](std::size_t n) {
    for (const ir::ValueId id : e.node(n).inputs) {
      const auto p = e.producer(id);
      if (p && !r.nodes.contains(*p) && !outside.contains(*p)) open.insert(*p);
    }
  };
  for (const std::size_t n : roots) enlist(n);
  while (!open.empty()) {
    const std::size_t n = *open.rbegin();
    open.erase(n);
    const ir::Node& node = e.node(n);
    if (is_dequantize(node)) {
      if (parameters_of(e, n)) {
        r.nodes.insert(n);
        r.dequantizes.insert(n);
      } else {
        outside.insert(n);
      }
      continue;
    }
    const bool heavy = is_heavy(node);
    bool takes = inwards && (is_elementwise(node) || (heavy && !r.heavy));
    for (const ir::ValueId id : node.outputs) {
      if (!takes || !id.present()) continue;
      takes = !e.is_output(id) && is_float(e.graph().value(id).dtype) &&
              std::all_of(e.readers(id).begin(), e.readers(id).end(),
                          [&](std::size_t reader) { return r.nodes.contains(reader); });
    }
    if (!takes) {
      outside.insert(n);
      continue;
    }
    r.nodes.insert(n);
    if (heavy) r.heavy = n;
    enlist(n);
  }
  for (const std::size_t n : r.nodes) {
    if (r.dequantizes.contains(n)) continue;
    for (const ir::ValueId id : e.node(n).inputs) {
      if (!id.present() || e.constant(id) != nullptr) continue;
      const auto p = e.producer(id);
      if (!(p && r.nodes.contains(*p)) && is_float(e.graph().value(id).dtype) &&
          std::find(r.floats.begin(), r.floats.end(), id) == r.floats.end()) {
        r.floats.push_back(id);
      }
    }
  }
  return r;
}

ir::Graph body_of(const Editor& e, const Region& region, ir::ValueId result, std::vector<ir::ValueId>& inputs) {
  ir::Graph body;
  body.opsets = e.graph().opsets;
  std::map<ir::ValueId, ir::ValueId> inner;
  const auto make = [&](ir::ValueId outer) {
    const auto [at, fresh] = inner.try_emplace(outer, ir::ValueId{static_cast<std::uint32_t>(body.values.size())});
    if (fresh) body.values.push_back({e.graph().value(outer).name, DType::undefined, std::nullopt, {}});
    return at->second;
  };
  // Backwards from the result, each node once, its inputs in order: the order depends on the region alone.
  std::set<std::size_t> done;
  std::vector<std::pair<std::size_t, std::size_t>> path{{*e.producer(result), 0}};
  done.insert(path[0].first);
  while (!path.empty()) {
    auto& [n, position] = path.back();
    const ir::Node& node = e.node(n);
    if (position < node.inputs.size()) {
      const ir::ValueId id = node.inputs[position++];
      if (!id.present()) continue;
      const auto p = e.producer(id);
      if (p && region.nodes.contains(*p)) {
        if (done.insert(*p).second) path.emplace_back(*p, 0);
      } else if (!inner.contains(id)) {
        inputs.push_back(id);
        body.inputs.push_back(make(id));
      }
      continue;
    }
    ir::Node copy = node;
    for (ir::ValueId& id : copy.inputs) {
      if (id.present()) id = make(id);
    }
    for (ir::ValueId& id : copy.outputs) {
      if (id.present()) id = make(id);
    }
    body.nodes.push_back(std::move(copy));
    path.pop_back();
  }
  body.outputs.push_back(inner.at(result));
  return body;
}

std::size_t make_group(Editor& e, const Region& region, ir::ValueId result, const std::string& op_type,
                       const std::string& name) {
  ir::Node group;
  group.domain = "halfeven";
  group.op_type = op_type;
  group.version = 1;
  group.name = name;
  ir::Graph body = body_of(e, region, result, group.inputs);
  body.name = op_type;
  group.body = std::make_shared<const ir::Graph>(std::move(body));
  group.outputs = {result};
  for (const std::size_t n : region.nodes) {
    if (!region.dequantizes.contains(n)) e.remove_node(n);
  }
  return e.add_node(std::move(group));
}

std::optional<TableRegion> table_region(const Editor& e, std::size_t quantize) {
  if (!is_quantize(e.node(quantize))) return std::nullopt;
  const auto p = parameters_of(e, quantize);
  if (!p || !p->per_tensor()) return std::nullopt;
  TableRegion t{grow(e, {quantize}, true), 0};
  if (t.region.heavy || !t.region.floats.empty()) return std::nullopt;
  bool found = false;
  for (const std::size_t d : t.region.dequantizes) {
    const ir::ValueId q = e.node(d).inputs[0];
    const auto& shape = e.graph().value(q).shape;
    if (const Tensor* constant = e.constant(q); constant != nullptr && constant->size() == 1) continue;
    if (found) return std::nullopt;
    const auto from = parameters_of(e, d);
    if (!from || !from->per_tensor() || bits(from->type) > 16 || bits(from->type) < 4 || !shape) return std::nullopt;
    found = true;
    t.source = d;
  }
  if (!found) return std::nullopt;
  // Other operands are single numbers that do not add dimensions.
  const std::size_t rank = e.graph().value(e.node(t.source).inputs[0]).shape->size();
  for (const std::size_t n : t.region.nodes) {
    if (is_quantize(e.node(n)) || is_dequantize(e.node(n))) {
      const Tensor* constant = e.constant(e.node(n).inputs[0]);
      if (constant != nullptr && constant->rank() > rank) return std::nullopt;
      continue;
    }
    for (const ir::ValueId id : e.node(n).inputs) {
      const Tensor* constant = e.constant(id);
      if (constant != nullptr && (constant->size() != 1 || constant->rank() > rank)) return std::nullopt;
      if (constant == nullptr && id.present() && !e.producer(id)) return std::nullopt;
      if (constant == nullptr && id.present() && !t.region.nodes.contains(*e.producer(id))) return std::nullopt;
    }
  }
  return t;
}

}  // namespace halfeven::passes
