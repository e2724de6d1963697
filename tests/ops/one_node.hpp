// Runs a graph of one node, for tests of operators.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interpreter/interpreter.hpp"
#include "ir/graph.hpp"
#include "ops/validate.hpp"

namespace halfeven::testing {

/// One node whose inputs are graph inputs (declared with unknown dimensions) or constants, and whose outputs are graph
/// outputs.
class OneNode {
 public:
  OneNode(std::string op_type, int opset, std::string domain = "") {
    node_.op_type = std::move(op_type);
    node_.domain = std::move(domain);
    node_.version = opset;
    graph_.opsets[node_.domain] = opset;
  }

  OneNode& attribute(const std::string& name, ir::Attribute value) {
    node_.attributes[name] = std::move(value);
    return *this;
  }

  OneNode& input(const Tensor& tensor) {
    const ir::ValueId id = add(tensor.dtype(), Shape(tensor.rank(), kUnknownDim));
    graph_.inputs.push_back(id);
    node_.inputs.push_back(id);
    tensors_.push_back(tensor);
    return *this;
  }

  OneNode& constant(const Tensor& tensor) {
    const ir::ValueId id = add(tensor.dtype(), tensor.shape());
    graph_.initializers.emplace(id, tensor);
    node_.inputs.push_back(id);
    return *this;
  }

  OneNode& absent() {
    node_.inputs.emplace_back();
    return *this;
  }

  /// The outputs, after validation with the declared shapes.
  std::vector<Tensor> run(std::size_t outputs = 1, bool exact = true) {
    for (std::size_t k = 0; k < outputs; ++k) {
      const ir::ValueId id = add(DType::undefined, std::nullopt);
      node_.outputs.push_back(id);
      graph_.outputs.push_back(id);
    }
    graph_.nodes = {node_};
    const ops::Facts facts = ops::validate(graph_);
    inferred_.clear();
    for (const ir::ValueId id : graph_.outputs) inferred_.push_back(graph_.value(id).shape);
    interpreter::Options options;
    options.exact = exact;
    return interpreter::run(graph_, facts, tensors_, options);
  }

  /// The shape that validation found for output k before any input was seen.
  const std::optional<Shape>& inferred(std::size_t k = 0) const { return inferred_[k]; }

 private:
  ir::ValueId add(DType type, std::optional<Shape> shape) {
    graph_.values.push_back({"v" + std::to_string(graph_.values.size()), type, std::move(shape), {}});
    return {static_cast<std::uint32_t>(graph_.values.size() - 1)};
  }

  ir::Graph graph_;
  ir::Node node_;
  std::vector<Tensor> tensors_;
  std::vector<std::optional<Shape>> inferred_;
};

inline Tensor floats(Shape shape, const std::vector<float>& values) {
  return Tensor::of<float>(DType::float32, std::move(shape), values);
}

inline Tensor ints(const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>(DType::int64, {static_cast<std::int64_t>(values.size())}, values);
}

/// The elements of a float32 tensor.
inline std::vector<float> values(const Tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

/// 0, 1, 2 ... as float32.
inline Tensor counting(Shape shape) {
  std::vector<float> v(element_count(shape));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return floats(std::move(shape), v);
}

}  // namespace halfeven::testing
