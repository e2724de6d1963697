#include "ops/validate.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

// Shape arithmetic works on a handful of integers; anything larger is data.
constexpr std::size_t kFoldElements = 4096;

// Every value of float type `from` is a value of `to`.
bool widens(DType from, DType to) {
  if (from == to) return is_float(from);
  if (to == DType::float64) return is_float(from);
  return to == DType::float32 && (from == DType::float16 || from == DType::bfloat16);
}

bool fully_known(const TypeShape& t) {
  return t.shape && std::all_of(t.shape->begin(), t.shape->end(), [](std::int64_t d) { return d >= 0; });
}

bool small(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t d : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(d), &count)) return false;
  }
  return count <= kFoldElements;
}

// The node's output values if they are small integers that follow from known ones.
std::vector<Tensor> fold(const ir::Graph& graph, const ir::Node& node, const Operator& op,
                         const std::vector<std::optional<Tensor>>& constants, const std::vector<TypeShape>& results) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present() && (!constants[i] || constants[i]->size() > kFoldElements)) return {};
  }
  for (const TypeShape& r : results) {
    const bool integral = is_integer(r.dtype) || r.dtype == DType::boolean;
    if (!fully_known(r) || (!integral && node.op_type != "Constant")) return {};
    if (integral && !small(*r.shape)) return {};
  }
  std::vector<Data> inputs;
  for (const auto& t : constants) inputs.push_back(t ? Data(*t) : Data());
  std::vector<Tensor> values;
  for (const Data& d : op.evaluate(EvalContext(graph, node, std::move(inputs), results, true, 1))) {
    values.push_back(d.reals ? numerics::round_tensor(*d.reals, d.dtype(), 1) : d.tensor);
  }
  return values;
}

// Declared and inferred type must agree; of the shapes, known dimensions must.
void reconcile(const ir::Graph& graph, const ir::Node& node, ir::Value& value, const TypeShape& inferred) {
  const NodeReader reader(graph, node);
  if (value.dtype != DType::undefined && value.dtype != inferred.dtype) {
    reader.fail(fmt::format("output '{}' is declared as {}, but the operator yields {}", value.name,
                            to_string(value.dtype), to_string(inferred.dtype)));
  }
  value.dtype = inferred.dtype;
  if (!inferred.shape) return;
  if (!value.shape || value.shape->size() != inferred.shape->size()) {
    value.shape = inferred.shape;  // what the operator yields decides; declared shapes are hints
    value.dim_names.clear();
    return;
  }
  for (std::size_t k = 0; k < inferred.shape->size(); ++k) {
    if ((*inferred.shape)[k] >= 0) (*value.shape)[k] = (*inferred.shape)[k];
  }
}

}  // namespace

const Operator& operator_of(const ir::Graph& graph, const ir::Node& node) {
  const NodeReader reader(graph, node);
  const std::string full = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
  const Operator* op = find_operator(node.domain, node.op_type);
  if (op == nullptr) reader.fail(fmt::format("operator {} is not supported", full));
  if (node.version < op->versions.front()) {
    reader.fail(fmt::format("operator {} of opset {} is not supported (served from version {} on)", full, node.version,
                            op->versions.front()));
  }
  if (node.inputs.size() < op->min_inputs || node.inputs.size() > op->max_inputs) {
    reader.fail(fmt::format("{} inputs, but the operator takes {}{}", node.inputs.size(), op->min_inputs,
                            op->max_inputs == op->min_inputs ? ""
                            : op->max_inputs == kVariadic    ? " or more"
                                                             : fmt::format(" to {}", op->max_inputs)));
  }
  if (node.outputs.empty() || node.outputs.size() > op->max_outputs) {
    reader.fail(fmt::format("{} outputs, but at most {} are served", node.outputs.size(), op->max_outputs));
  }
  for (std::size_t i = 0; i < std::min(op->min_inputs, node.inputs.size()); ++i) {
    if (!node.inputs[i].present()) reader.fail(fmt::format("input {} is required but left out", i));
  }
  return *op;
}

std::vector<TypeShape> infer(const ir::Graph& graph, const ir::Node& node, const Operator& op,
                             std::vector<TypeShape> inputs, std::vector<std::optional<Tensor>> constants) {
  return op.infer(InferContext(graph, node, std::move(inputs), std::move(constants)));
}

bool passes_on(const Operator& op, std::size_t input, DType from, DType to) {
  switch (op.pass_on) {
    case PassOn::none: return false;
    case PassOn::first: return input == 0;
    case PassOn::all: return true;
    case PassOn::last_two: return input > 0;
    case PassOn::if_widening: return input == 0 && widens(from, to);
  }
  return false;
}

namespace {

std::vector<TypeShape> types_of(const ir::Graph& graph, const std::vector<ir::ValueId>& ids) {
  std::vector<TypeShape> types;
  for (const ir::ValueId id : ids) {
    types.push_back(id.present() ? TypeShape{graph.value(id).dtype, graph.value(id).shape} : TypeShape{});
  }
  return types;
}

void infer_all(ir::Graph& graph, Facts& facts);

}  // namespace

BoundBody bind_body(const ir::Graph& body, const std::vector<TypeShape>& inputs,
                    const std::vector<std::optional<Tensor>>& constants, const std::vector<bool>& constant) {
  BoundBody bound{body, {}};
  if (inputs.size() != body.inputs.size()) {
    throw Error(ErrorCode::model,
                fmt::format("a group of {} inputs is called with {}", body.inputs.size(), inputs.size()));
  }
  for (ir::Value& v : bound.graph.values) v = {v.name, DType::undefined, std::nullopt, {}};
  bound.facts.constant.assign(body.values.size(), false);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ir::Value& v = bound.graph.value(body.inputs[i]);
    v.dtype = inputs[i].dtype;
    v.shape = inputs[i].shape;
    if (constants[i]) bound.facts.known.emplace(body.inputs[i], *constants[i]);
    bound.facts.constant[body.inputs[i].index] = constant[i];
  }
  infer_all(bound.graph, bound.facts);
  return bound;
}

Facts validate(ir::Graph& graph) {
  ir::sort_and_check(graph);
  Facts facts;
  facts.constant.assign(graph.values.size(), false);
  for (const auto& [id, tensor] : graph.initializers) {
    ir::Value& v = graph.value(id);
    if (v.dtype == DType::undefined) v.dtype = tensor.dtype();
    if (v.dtype != tensor.dtype()) {
      throw Error(ErrorCode::model, fmt::format("initializer '{}' has type {}, but is declared as {}", v.name,
                                                to_string(tensor.dtype()), to_string(v.dtype)));
    }
    if (!graph.is_constant(id)) continue;
    v.shape = tensor.shape();
    facts.known.emplace(id, tensor);
    facts.constant[id.index] = true;
  }
  infer_all(graph, facts);
  return facts;
}

namespace {

void infer_all(ir::Graph& graph, Facts& facts) {
  for (const ir::Node& node : graph.nodes) {
    if (node.body) {
      std::vector<std::optional<Tensor>> known;
      std::vector<bool> constant;
      for (const ir::ValueId id : node.inputs) {
        const auto at = facts.known.find(id);
        known.push_back(at == facts.known.end() ? std::nullopt : std::optional(at->second));
        constant.push_back(!id.present() || facts.constant[id.index]);
      }
      const BoundBody bound = bind_body(*node.body, types_of(graph, node.inputs), known, constant);
      const auto results = types_of(bound.graph, bound.graph.outputs);
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        reconcile(graph, node, graph.value(node.outputs[k]), results.at(k));
        facts.constant[node.outputs[k].index] = bound.facts.constant[bound.graph.outputs[k].index];
      }
      continue;
    }
    const Operator& op = operator_of(graph, node);
    const std::vector<TypeShape> types = types_of(graph, node.inputs);
    std::vector<std::optional<Tensor>> constants;
    bool constant = true;
    for (const ir::ValueId id : node.inputs) {
      const auto known = facts.known.find(id);
      constants.push_back(known == facts.known.end() ? std::nullopt : std::optional(known->second));
      constant = constant && (!id.present() || facts.constant[id.index]);
    }
    const InferContext context(graph, node, types, constants);
    const std::vector<TypeShape> results = op.infer(context);
    std::vector<Tensor> values;
    if (op.value_of_types != nullptr) {
      if (auto value = op.value_of_types(context)) values.push_back(*value);
    } else {
      values = fold(graph, node, op, constants, results);
    }
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ir::ValueId id = node.outputs[k];
      if (!id.present()) continue;
      reconcile(graph, node, graph.value(id), results.at(k));
      facts.constant[id.index] = constant;
      if (k < values.size()) facts.known.emplace(id, values[k]);
    }
  }
}

}  // namespace

}  // namespace halfeven::ops
