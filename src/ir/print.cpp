#include <fmt/format.h>

#include "ir/graph.hpp"
#include "ir/quote.hpp"

namespace halfeven::ir {
namespace {

std::string text_of(const Graph& graph, ValueId id) {
  return id.present() ? quote(graph.value(id).name) : std::string("-");
}

std::string type_text(const Value& value) {
  if (!value.shape) return fmt::format("{}[...]", to_string(value.dtype));
  std::string text = fmt::format("{}[", to_string(value.dtype));
  for (std::size_t i = 0; i < value.shape->size(); ++i) {
    if (i > 0) text += ", ";
    const std::int64_t dim = (*value.shape)[i];
    const bool named = i < value.dim_names.size() && !value.dim_names[i].empty();
    text += dim != kUnknownDim ? std::to_string(dim) : named ? quote(value.dim_names[i]) : std::string("?");
  }
  return text + "]";
}

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(float value) { return fmt::format("{:#}", value); }
std::string text_of(const std::string& value) { return quote(value); }
std::string text_of(const Tensor& value) {
  return fmt::format("{}{} #{}", to_string(value.dtype()), to_string(value.shape()), hash(value));
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + text_of(values[i]);
  return text + "]";
}

std::string text_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? ", " : "") + text_of(graph, ids[i]);
  return text;
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string text = text_of(graph, node.outputs) + " = ";
  if (!node.domain.empty()) text += printable(node.domain) + ".";
  text += fmt::format("{}-{}({})", printable(node.op_type), node.version, text_of(graph, node.inputs));
  std::string separator = " {";
  for (const auto& [name, attribute] : node.attributes) {
    text += separator + printable(name) + "=" + std::visit([](const auto& value) { return text_of(value); }, attribute);
    separator = ", ";
  }
  if (!node.attributes.empty()) text += "}";
  if (!node.name.empty()) text += "  # " + quote(node.name);
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = "graph " + quote(graph.name) + "\n";
  for (const auto& [domain, version] : graph.opsets) {
    text += fmt::format("opset {} {}\n", domain.empty() ? "ai.onnx" : printable(domain), version);
  }
  for (const ValueId id : graph.inputs) {
    text += fmt::format("input {}: {}\n", text_of(graph, id), type_text(graph.value(id)));
  }
  for (const auto& [id, tensor] : graph.initializers) {
    text += fmt::format("initializer {}: {}\n", text_of(graph, id), text_of(tensor));
  }
  for (const Node& node : graph.nodes) {
    text += node_text(graph, node) + "\n";
    if (!node.body) continue;
    for (const Node& inner : node.body->nodes) text += "    " + node_text(*node.body, inner) + "\n";
  }
  for (const ValueId id : graph.outputs) {
    text += fmt::format("output {}: {}\n", text_of(graph, id), type_text(graph.value(id)));
  }
  return text;
}

}  // namespace halfeven::ir
