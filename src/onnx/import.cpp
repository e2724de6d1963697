#include "onnx/import.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"
#include "onnx/functions.hpp"
#include "onnx/mapped_file.hpp"
#include "onnx/node.hpp"
#include "onnx/tensor.hpp"
#include "onnx/value_info.hpp"
#include "onnx/wire.hpp"

namespace halfeven::onnx {
namespace {

using ir::quote;
using ir::ValueId;
using onnx_schema::GraphProto;
using onnx_schema::ModelProto;

constexpr std::int64_t kFirstVersionWithOpsets = 3;

[[noreturn]] void fail(const std::string& message, std::string node = {}) {
  throw Error(ErrorCode::model, message, std::move(node));
}

// Builds the graph of one model.
class Importer {
 public:
  Importer(ModelProto& model, const Limits& limits, const std::filesystem::path& folder)
      : model_(model), external_(folder, limits), context_{limits, external_}, functions_(model, context_) {}

  ir::Graph import() {
    if (!model_.has_graph()) fail("the model has no graph");
    GraphProto& proto = *model_.mutable_graph();
    graph_.name = proto.name();
    graph_.ir_version = model_.ir_version();
    graph_.producer = model_.producer_name();
    if (!model_.producer_version().empty()) graph_.producer += " " + model_.producer_version();
    read_model_opsets();
    read_inputs(proto);
    read_initializers(proto);
    read_nodes(proto);
    read_outputs(proto);
    read_value_infos(proto);
    ir::sort_and_check(graph_);
    return std::move(graph_);
  }

 private:
  void read_model_opsets() {
    graph_.opsets = read_opsets(model_.opset_import(), "the model");
    if (graph_.opsets.empty() && model_.ir_version() < kFirstVersionWithOpsets) graph_.opsets.emplace("", 1);
    if (graph_.opsets.contains("")) find_version(graph_.opsets, "", "the model", "");
  }

  // The value of that name, made if there is none yet.
  ValueId intern(const std::string& name) {
    if (name.empty()) return {};
    const auto [entry, is_new] = ids_.try_emplace(name, static_cast<std::uint32_t>(graph_.values.size()));
    if (is_new) graph_.values.push_back({name, DType::undefined, std::nullopt, {}});
    return {entry->second};
  }

  void read_inputs(const GraphProto& proto) {
    for (const auto& input : proto.input()) {
      if (input.name().empty()) fail("a graph input has no name");
      const ValueId id = intern(input.name());
      const std::string what = "graph input " + quote(input.name());
      read_value_info(input, what, graph_.value(id));
      if (graph_.value(id).dtype == DType::undefined) fail(what + " has no element type");
      graph_.inputs.push_back(id);
    }
  }

  void read_initializers(GraphProto& proto) {
    if (proto.sparse_initializer_size() > 0) {
      fail(fmt::format("initializer {} is a sparse tensor, which is not supported",
                       quote(proto.sparse_initializer(0).values().name())));
    }
    const std::size_t inputs = graph_.values.size();
    for (auto& initializer : *proto.mutable_initializer()) {
      if (initializer.name().empty()) fail("an initializer has no name");
      const std::string what = "initializer " + quote(initializer.name());
      const ValueId id = intern(initializer.name());
      if (graph_.initializers.contains(id)) fail(what + " is defined twice");
      Tensor tensor = decode_tensor(initializer, what, context_.limits, external_);
      ir::Value& value = graph_.value(id);
      if (id.index < inputs) {
        check_declaration(value, "graph input " + quote(value.name), tensor);
      } else {
        value.dtype = tensor.dtype();
        value.shape = tensor.shape();
      }
      graph_.initializers.emplace(id, std::move(tensor));
    }
  }

  // What the model declares about a constant, or about an input with a default, has to fit its tensor.
  static void check_declaration(const ir::Value& declared, const std::string& what, const Tensor& tensor) {
    const auto fits = [](std::int64_t dim, std::int64_t actual) { return dim == kUnknownDim || dim == actual; };
    const bool same_shape = !declared.shape || std::equal(declared.shape->begin(), declared.shape->end(),
                                                          tensor.shape().begin(), tensor.shape().end(), fits);
    if ((declared.dtype == DType::undefined || declared.dtype == tensor.dtype()) && same_shape) return;
    fail(fmt::format("{} is declared as {}{}, but its initializer is {}{}", what, to_string(declared.dtype),
                     declared.shape ? to_string(*declared.shape) : "", to_string(tensor.dtype()),
                     to_string(tensor.shape())));
  }

  void read_nodes(GraphProto& proto) {
    // All names first: what functions add must not take one.
    std::vector<ParsedNode> nodes;
    nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    for (auto& node_proto : *proto.mutable_node()) {
      ParsedNode parsed = read_node(node_proto, context_);
      const std::string who = describe(node_proto);
      if (!parsed.references.empty()) {
        fail(fmt::format("attribute {} of {} refers to an attribute of a function, but stands in none",
                         quote(parsed.references[0].name), who),
             label(node_proto));
      }
      if (!functions_.expands(parsed)) {
        parsed.node.version = find_version(graph_.opsets, parsed.node.domain, "the model", who);
      }
      for (const std::string& name : node_proto.input()) parsed.node.inputs.push_back(intern(name));
      for (const std::string& name : node_proto.output()) parsed.node.outputs.push_back(intern(name));
      nodes.push_back(std::move(parsed));
      node_proto.Clear();
    }
    graph_.nodes.reserve(nodes.size());
    for (ParsedNode& node : nodes) functions_.append(graph_, std::move(node));
  }

  // Declared types go to values that nothing else types: an input keeps its own, a constant its tensor's.
  bool is_typed(ValueId id) const { return graph_.value(id).dtype != DType::undefined; }

  void read_outputs(const GraphProto& proto) {
    for (const auto& output : proto.output()) {
      if (output.name().empty()) fail("a graph output has no name");
      const ValueId id = intern(output.name());
      ir::Value declared;
      const std::string what = "graph output " + quote(output.name());
      read_value_info(output, what, declared);
      if (const auto constant = graph_.initializers.find(id); constant != graph_.initializers.end()) {
        check_declaration(declared, what, constant->second);
      }
      if (!is_typed(id)) set_type(id, std::move(declared));
      graph_.outputs.push_back(id);
    }
  }

  void read_value_infos(const GraphProto& proto) {
    for (const auto& info : proto.value_info()) {
      const auto known = ids_.find(info.name());
      if (known == ids_.end()) continue;
      ir::Value declared;
      read_value_info(info, "value_info " + quote(info.name()), declared);
      if (!is_typed({known->second})) set_type({known->second}, std::move(declared));
    }
  }

  void set_type(ValueId id, ir::Value declared) {
    declared.name = std::move(graph_.value(id).name);
    graph_.value(id) = std::move(declared);
  }

  ModelProto& model_;
  ExternalData external_;
  ReadContext context_;
  Functions functions_;
  ir::Graph graph_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

}  // namespace

ir::Graph import_model(std::span<const std::byte> bytes, const Limits& limits, const std::filesystem::path& folder) {
  ModelProto model = parse_model(bytes, limits);
  return Importer(model, limits, folder).import();
}

namespace {

// The file is not needed after parsing, nor its parts while the rest is parsed: that would hold weights twice.
ModelProto parse_file(const std::filesystem::path& path, const Limits& limits) {
  std::string reason;
  const auto file = MappedFile::open(path, true, reason);
  if (!file) throw Error(ErrorCode::other, fmt::format("model file {} {}", quote(path.string()), reason));
  return parse_model(file->bytes(), limits, MappedFile::let_go);
}

}  // namespace

ir::Graph import_model(const std::filesystem::path& path, const Limits& limits) {
  ModelProto model = parse_file(path, limits);
  const std::filesystem::path folder = path.parent_path();
  return Importer(model, limits, folder.empty() ? std::filesystem::path(".") : folder).import();
}

Tensor import_tensor(std::span<const std::byte> bytes, const Limits& limits, std::string* name) {
  auto proto = parse_tensor(bytes, limits);
  if (name != nullptr) *name = proto.name();
  ExternalData external({}, limits);
  try {
    return decode_tensor(proto, "tensor " + quote(proto.name()), limits, external);
  } catch (const Error& error) {
    throw Error(ErrorCode::input, error.what());
  }
}

}  // namespace halfeven::onnx
