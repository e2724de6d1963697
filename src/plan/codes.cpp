#include "plan/codes.hpp"

#include <algorithm>
#include <set>

#include "interpreter/interpreter.hpp"
#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

ops::BoundBody body_at(const Site& site) {
  ir::Graph plain;
  const ir::Graph* body = site.node.body.get();
  if (body == nullptr) {
    plain.opsets = site.graph.opsets;
    ir::Node node = site.node;
    node.inputs.clear();
    node.outputs.clear();
    const auto make = [&](ir::ValueId outer) {
      if (!outer.present()) return outer;
      plain.values.push_back({site.graph.value(outer).name, DType::undefined, std::nullopt, {}});
      return ir::ValueId{static_cast<std::uint32_t>(plain.values.size() - 1)};
    };
    for (const ir::ValueId id : site.node.inputs) {
      node.inputs.push_back(make(id));
      // A body has as many inputs as the node: absent ones get a value that nobody reads.
      plain.inputs.push_back(node.inputs.back().present() ? node.inputs.back() : [&] {
        plain.values.push_back({"", DType::undefined, std::nullopt, {}});
        return ir::ValueId{static_cast<std::uint32_t>(plain.values.size() - 1)};
      }());
    }
    for (const ir::ValueId id : site.node.outputs) node.outputs.push_back(make(id));
    plain.outputs = {node.outputs[0]};
    plain.nodes.push_back(std::move(node));
    body = &plain;
  }
  std::vector<ops::TypeShape> types;
  std::vector<std::optional<Tensor>> constants;
  std::vector<bool> constant;
  for (const ir::ValueId id : site.node.inputs) {
    const Tensor* t = id.present() ? site.constant(id) : nullptr;
    types.push_back(id.present() ? ops::TypeShape{site.dtype(id), site.graph.value(id).shape} : ops::TypeShape{});
    constants.push_back(t == nullptr ? std::nullopt : std::optional(*t));
    constant.push_back(!id.present() || t != nullptr);
  }
  return ops::bind_body(*body, types, constants, constant);
}

Tensor evaluate_codes(const Site& site, const ops::BoundBody& body, ir::ValueId value, std::size_t leaf,
                      std::int64_t channels) {
  ir::Graph g = body.graph;
  for (ir::Value& v : g.values) v = {v.name, DType::undefined, std::nullopt, {}};
  const ir::ValueId source = body.graph.inputs[leaf];
  const DType type = body.graph.value(source).dtype;
  std::vector<std::int64_t> codes;
  for (std::int64_t q = integer_min(type); q <= integer_max(type); ++q) codes.push_back(q);
  Shape shape{static_cast<std::int64_t>(codes.size())};
  if (channels > 1) {  // every code in every channel
    shape.resize(body.graph.value(source).shape->size(), 1);
    shape[1] = channels;
    std::vector<std::int64_t> repeated;
    for (const std::int64_t q : codes) repeated.insert(repeated.end(), static_cast<std::size_t>(channels), q);
    codes = std::move(repeated);
  }
  g.value(source) = {g.value(source).name, type, shape, {}};
  g.inputs = {source};
  std::set<ir::ValueId> needed{value};
  for (std::size_t n = g.nodes.size(); n-- > 0;) {
    ir::Node& node = g.nodes[n];
    if (!node.outputs.empty() && needed.contains(node.outputs[0])) {
      needed.insert(node.inputs.begin(), node.inputs.end());
    } else {
      g.nodes.erase(g.nodes.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
  for (std::size_t k = 0; k < body.graph.inputs.size(); ++k) {
    const ir::ValueId id = site.node.inputs[k];
    if (k == leaf || !id.present() || !needed.contains(body.graph.inputs[k])) continue;
    if (const Tensor* t = site.constant(id)) g.initializers.emplace(body.graph.inputs[k], *t);
  }
  g.outputs = {value};
  const ops::Facts facts = ops::validate(g);
  return interpreter::run(g, facts, {ops::make_integers(type, shape, codes)}, {})[0];
}

namespace {

// Operators whose element k is a function of elements k of their broadcast inputs.
bool served(const ir::Node& n) {
  static const std::set<std::string> names{"DequantizeLinear",
                                           "QuantizeLinear",
                                           "Add",
                                           "Sub",
                                           "Mul",
                                           "Div",
                                           "Min",
                                           "Max",
                                           "Neg",
                                           "Abs",
                                           "Relu",
                                           "Clip",
                                           "PRelu",
                                           "LeakyRelu",
                                           "HardSigmoid",
                                           "HardSwish",
                                           "Identity",
                                           "Sigmoid",
                                           "Tanh",
                                           "Exp",
                                           "Log",
                                           "Sqrt",
                                           "Erf",
                                           "Gelu",
                                           "Elu",
                                           "Selu",
                                           "Celu",
                                           "Softplus",
                                           "Softsign",
                                           "Reciprocal",
                                           "Pow",
                                           "Floor",
                                           "Ceil",
                                           "Round",
                                           "Mish",
                                           "Sin",
                                           "Cos",
                                           "Sign",
                                           "ThresholdedRelu",
                                           "Swish",
                                           "Sum",
                                           "Mean"};
  return !n.body && names.contains(n.op_type) && ir::int_attribute(n, "block_size", 0) == 0;
}

// All nodes are elementwise, all inputs constants with one entry or one for each channel, but one of 8 bits.
std::optional<DecidingCode> channel_code(const Site& site, const ir::Graph& g, const Shape& out) {
  const auto constant = [&](ir::ValueId id) -> const Tensor* {
    const auto at = std::find(g.inputs.begin(), g.inputs.end(), id);
    if (at == g.inputs.end()) return nullptr;
    const ir::ValueId outer = site.node.inputs[static_cast<std::size_t>(at - g.inputs.begin())];
    return outer.present() ? site.constant(outer) : nullptr;
  };
  std::optional<DecidingCode> found;
  Shape lane(out.size(), 1);
  lane[1] = out[1];
  for (std::size_t k = 0; k < g.inputs.size(); ++k) {
    const ir::ValueId id = site.node.inputs[k];
    if (!id.present()) continue;
    if (const Tensor* t = site.constant(id)) {
      if (t->size() != 1 && t->shape() != lane && t->shape() != Shape(lane.begin() + 1, lane.end()) &&
          t->shape() != Shape{out[1]}) {
        return std::nullopt;
      }
      continue;
    }
    if (found || !is_byte(site.dtype(id)) || site.shape(id) != out) return std::nullopt;
    found = DecidingCode{k, out[1]};
  }
  for (const ir::Node& n : g.nodes) {
    if (!served(n) && n.op_type != "BatchNormalization") return std::nullopt;
    // A list of one entry a channel that is broadcast as it is lies along the last axis.
    const bool lists = n.op_type == "BatchNormalization" || n.op_type == "DequantizeLinear";
    if (n.op_type == "DequantizeLinear" && ir::int_attribute(n, "axis", 1) != 1 && constant(n.inputs[1]) != nullptr &&
        constant(n.inputs[1])->size() != 1) {
      return std::nullopt;
    }
    for (const ir::ValueId id : n.inputs) {
      const Tensor* t = id.present() ? constant(id) : nullptr;
      if (!lists && t != nullptr && t->rank() == 1 && t->size() != 1) return std::nullopt;
    }
  }
  return found;
}

}  // namespace

std::vector<Source> sources_of(const Site& site, const ops::BoundBody& body) {
  const ir::Graph& g = body.graph;
  std::vector<Source> sources(g.values.size());
  for (std::size_t k = 0; k < g.inputs.size(); ++k) {
    const ir::ValueId outer = site.node.inputs[k];
    Source& s = sources[g.inputs[k].index];
    if (!outer.present()) {
      s.kind = Source::Kind::number;
    } else if (const Tensor* t = site.constant(outer)) {
      s.kind = t->size() == 1 ? Source::Kind::number : Source::Kind::other;
    } else if (is_byte(site.dtype(outer))) {
      s = {Source::Kind::code, k, 0};
    }
  }
  static const std::set<std::string> passing{"DequantizeLinear", "Relu", "Clip", "Identity"};
  for (const ir::Node& n : g.nodes) {
    Source s{Source::Kind::number, 0, 0};
    for (const ir::ValueId id : n.inputs) {
      if (!id.present()) continue;
      const Source& from = sources[id.index];
      if (from.kind == Source::Kind::other ||
          (from.kind == Source::Kind::code && s.kind == Source::Kind::code && from.input != s.input)) {
        s.kind = Source::Kind::other;
        break;
      }
      if (from.kind == Source::Kind::code) s = {from.kind, from.input, std::max(s.depth, from.depth)};
    }
    if (!served(n)) s.kind = Source::Kind::other;
    if (!passing.contains(n.op_type)) ++s.depth;
    sources[n.outputs[0].index] = s;
  }
  return sources;
}

std::optional<DecidingCode> only_code(const Site& site, const ops::BoundBody& body) {
  const Source source = sources_of(site, body)[body.graph.outputs[0].index];
  const Shape& shape = site.shape(site.node.outputs[0]);
  if (source.kind == Source::Kind::code) {
    if (site.shape(site.node.inputs[source.input]) == shape) return DecidingCode{source.input, 1};
    return std::nullopt;
  }
  // Constants with an entry for each channel, of a tensor with pixels.
  if (shape.size() < 3 || shape[1] > 256 || shape[1] < 2) return std::nullopt;
  return channel_code(site, body.graph, shape);
}

std::optional<std::size_t> code_behind(const Site& site, const ops::BoundBody& body, ir::ValueId value) {
  const Source source = sources_of(site, body)[value.index];
  return source.kind == Source::Kind::code && source.depth > 0 ? std::optional(source.input) : std::nullopt;
}

}  // namespace halfeven::plan
