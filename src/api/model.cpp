// Model, interpret and introspection: the public face of import, validation and interpreter.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "interpreter/interpreter.hpp"
#include "numerics/format.hpp"
#include "onnx/import.hpp"

namespace halfeven {
namespace {

ValueInfo describe(const ir::Graph& graph, ir::ValueId id, bool input) {
  const ir::Value& v = graph.value(id);
  return {v.name, v.dtype, v.shape, v.dim_names, input && graph.initializers.contains(id)};
}

bool is_quantization(const ir::Node& node) {
  return node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear";
}

// Multiply-adds of one node, or nullopt if a shape is not known; 0 for operators that do none.
std::optional<std::uint64_t> macs_of(const ir::Graph& g, const ir::Node& node) {
  static const std::set<std::string> convolutions{"Conv", "ConvInteger", "QLinearConv"};
  static const std::set<std::string> products{"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "QGemm"};
  const bool conv = convolutions.contains(node.op_type);
  const bool transposed = node.op_type == "ConvTranspose";
  if (!conv && !transposed && !products.contains(node.op_type)) return 0;
  const bool quantized = node.op_type.starts_with('Q');
  const auto known = [&](ir::ValueId id) -> const Shape* {
    const auto& s = g.value(id).shape;
    if (!s || std::any_of(s->begin(), s->end(), [](std::int64_t d) { return d < 0; })) return nullptr;
    return &*s;
  };
  const Shape* x = known(node.inputs[0]);
  const Shape* w = known(node.inputs[quantized ? 3 : 1]);
  const Shape* y = known(node.outputs[0]);
  if (x == nullptr || w == nullptr || y == nullptr) return std::nullopt;
  // Shapes may be larger than any tensor can be.
  const auto count = [](const Shape& from, const Shape& to) -> std::optional<std::uint64_t> {
    std::uint64_t product = 1;
    for (const Shape* s : {&from, &to}) {
      for (const std::int64_t d : *s) {
        if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(d), &product)) return std::nullopt;
      }
    }
    return product;
  };
  if (conv || transposed) return count(conv ? *y : *x, Shape(w->begin() + 1, w->end()));
  const bool swapped = ir::int_attribute(node, "transA", 0) != 0;
  return count(*y, {swapped ? x->front() : x->back()});
}

}  // namespace

std::optional<Contract> parse_contract(std::string_view name) {
  if (name == "exact") return Contract::exact;
  if (name == "onnx-float32") return Contract::onnx_float32;
  return std::nullopt;
}

std::string_view to_string(Contract contract) { return contract == Contract::exact ? "exact" : "onnx-float32"; }

std::string_view version() { return "0.1.0"; }

Model Model::load(const std::filesystem::path& path, const Limits& limits) {
  return ModelAccess::make(onnx::import_model(path, limits));
}

Model Model::load(std::span<const std::byte> bytes, const Limits& limits, const std::filesystem::path& folder) {
  return ModelAccess::make(onnx::import_model(bytes, limits, folder));
}

std::vector<ValueInfo> Model::inputs() const {
  std::vector<ValueInfo> out;
  for (const ir::ValueId id : impl_->graph.inputs) out.push_back(describe(impl_->graph, id, true));
  return out;
}

std::vector<ValueInfo> Model::outputs() const {
  std::vector<ValueInfo> out;
  for (const ir::ValueId id : impl_->graph.outputs) out.push_back(describe(impl_->graph, id, false));
  return out;
}

std::vector<Quantization> Model::quantization() const {
  const ir::Graph& g = impl_->graph;
  const auto known = [&](const ir::Node& node, std::size_t i) {
    if (i >= node.inputs.size()) return Tensor();
    const auto at = impl_->facts.known.find(node.inputs[i]);
    return at == impl_->facts.known.end() ? Tensor() : at->second;
  };
  std::vector<Quantization> out;
  for (const ir::Node& node : g.nodes) {
    if (!is_quantization(node)) continue;
    const bool quantizes = node.op_type == "QuantizeLinear";
    const ir::Value& q = g.value(quantizes ? node.outputs[0] : node.inputs[0]);
    out.push_back({ir::label(g, node), node.op_type, q.name, q.dtype, known(node, 1), known(node, 2),
                   ir::int_attribute(node, "axis", 1), ir::int_attribute(node, "block_size", 0)});
  }
  return out;
}

std::vector<std::string> Model::warnings() const {
  std::vector<std::string> out;
  for (const Quantization& q : quantization()) {
    if (!is_float(q.scale.dtype())) continue;
    std::size_t negative = 0;
    std::size_t zero = 0;
    for (std::size_t i = 0; i < q.scale.size(); ++i) {
      const double s = numerics::decode_float(q.scale.dtype(), q.scale.data(), i);
      negative += s < 0 ? 1 : 0;
      zero += s == 0 ? 1 : 0;
    }
    const auto say = [&](std::size_t n, const char* what, const char* meaning) {
      if (n > 0) {
        out.push_back(fmt::format("{} '{}': {} of {} scales of '{}' {}: {}", q.op_type, q.node, n, q.scale.size(),
                                  q.tensor, what, meaning));
      }
    };
    say(negative, "are negative", "the order of the values is reversed");
    say(zero, "are zero", "these values are all 0");
  }
  return out;
}

std::string Model::text() const { return ir::to_text(impl_->graph); }

Summary Model::summary(const std::map<std::string, Shape>& input_shapes) const {
  const ir::Graph* g = &impl_->graph;
  ir::Graph bound;
  if (!input_shapes.empty()) {
    bound = impl_->graph;
    for (const auto& [name, shape] : input_shapes) {
      const ir::ValueId id = bound.find(name);
      if (!id.present() || !bound.is_input(id)) {
        throw Error(ErrorCode::usage, fmt::format("the model has no input '{}'", name));
      }
      if (bound.value(id).shape && bound.value(id).shape->size() != shape.size()) {
        throw Error(ErrorCode::usage,
                    fmt::format("input '{}' has rank {}, not {}", name, bound.value(id).shape->size(), shape.size()));
      }
      bound.value(id).shape = shape;
    }
    // Shapes found with the dimensions unknown must not stand in the way of the new ones.
    for (const ir::Node& node : bound.nodes) {
      for (const ir::ValueId id : node.outputs) {
        if (id.present()) bound.value(id).shape.reset();
      }
    }
    ops::validate(bound);
    g = &bound;
  }
  Summary s;
  s.name = g->name;
  s.producer = g->producer;
  s.ir_version = g->ir_version;
  s.opsets = g->opsets;
  s.inputs = inputs();
  s.outputs = outputs();
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  s.macs = 0;
  for (const ir::Node& node : g->nodes) {
    ++counts[{node.domain, node.op_type}];
    if (is_quantization(node)) {
      const ir::ValueId q = node.op_type == "QuantizeLinear" ? node.outputs[0] : node.inputs[0];
      if (node.op_type == "QuantizeLinear" || g->is_constant(q)) {
        ++s.quantized_types[std::string(to_string(g->value(q).dtype))];
      }
    }
    const auto macs = macs_of(*g, node);
    std::uint64_t sum = 0;
    const bool counted = s.macs && macs && !__builtin_add_overflow(*s.macs, *macs, &sum);
    s.macs = counted ? std::optional(sum) : std::nullopt;
  }
  for (const auto& [key, count] : counts) s.operators.push_back({key.first, key.second, count});
  for (const auto& [id, tensor] : g->initializers) {
    s.parameters += tensor.size();
    s.parameter_bytes += (tensor.size() * static_cast<std::size_t>(bits(tensor.dtype())) + 7) / 8;
  }
  s.hash = ir::structural_hash(impl_->graph);
  return s;
}

namespace {

// Checks one input against its declaration and binds symbols; a symbol with two values is worth a warning only, since
// exporters call every unknown dimension by one name.
void check_input(const ValueInfo& declared, const Tensor& given, std::map<std::string, std::int64_t>& symbols,
                 const std::function<void(const std::string&)>& warn) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::input, fmt::format("input '{}': {}", declared.name, what));
  };
  if (given.dtype() != declared.dtype) {
    refuse(fmt::format("type {} is needed, not {}", to_string(declared.dtype), to_string(given.dtype())));
  }
  if (!declared.shape) return;
  if (declared.shape->size() != given.rank()) {
    refuse(fmt::format("shape {} is needed, not {}", to_string(*declared.shape), to_string(given.shape())));
  }
  for (std::size_t k = 0; k < given.rank(); ++k) {
    const std::int64_t want = (*declared.shape)[k];
    const std::int64_t have = given.shape()[k];
    if (want >= 0 && want != have) {
      refuse(fmt::format("shape {} is needed, not {}", to_string(*declared.shape), to_string(given.shape())));
    }
    if (want >= 0 || k >= declared.dim_names.size() || declared.dim_names[k].empty()) continue;
    const auto [at, fresh] = symbols.try_emplace(declared.dim_names[k], have);
    if (!fresh && at->second != have && warn) {
      warn(fmt::format("dimension '{}' is {} in one place and {} in input '{}'", declared.dim_names[k], at->second,
                       have, declared.name));
    }
  }
}

}  // namespace

std::vector<Tensor> bind_inputs(const Model& model, const NamedTensors& inputs,
                                const std::function<void(const std::string&)>& warn) {
  const ir::Graph& g = model.impl().graph;
  const std::vector<ValueInfo> declared = model.inputs();
  for (const auto& [name, tensor] : inputs) {
    if (std::none_of(declared.begin(), declared.end(), [&](const ValueInfo& v) { return v.name == name; })) {
      std::string known;
      for (const ValueInfo& v : declared) known += (known.empty() ? "'" : ", '") + v.name + "'";
      throw Error(ErrorCode::input,
                  fmt::format("the model has no input '{}'; it has {}", name, known.empty() ? "none" : known));
    }
  }
  std::vector<Tensor> values;
  std::map<std::string, std::int64_t> symbols;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto at = inputs.find(declared[i].name);
    if (at != inputs.end()) {
      check_input(declared[i], at->second, symbols, warn);
      values.push_back(at->second);
    } else if (const auto initial = g.initializers.find(g.inputs[i]); initial != g.initializers.end()) {
      values.push_back(initial->second);
    } else {
      throw Error(ErrorCode::input,
                  fmt::format("no value for input '{}' ({} {})", declared[i].name, to_string(declared[i].dtype),
                              declared[i].shape ? to_string(*declared[i].shape) : "of any shape"));
    }
  }
  return values;
}

void check_inputs(const Model& model, const NamedTensors& inputs, const std::function<void(const std::string&)>& warn) {
  bind_inputs(model, inputs, warn);
}

std::vector<Tensor> interpret(const Model& model, const NamedTensors& inputs, const InterpretOptions& options) {
  const ir::Graph& g = model.impl().graph;
  const std::vector<Tensor> values = bind_inputs(model, inputs, options.warn);
  interpreter::Options run;
  run.exact = options.contract == Contract::exact;
  run.threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  run.progress = options.progress;
  if (options.tap) {
    run.tap = [&](ir::ValueId id, const Tensor& tensor) { options.tap(g.value(id).name, tensor); };
  }
  return interpreter::run(g, model.impl().facts, values, run);
}

}  // namespace halfeven
