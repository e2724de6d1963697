#include "onnx/export.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"
#include "onnx/encode.hpp"
#include "onnx/own_functions.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {
namespace {

using ir::quote;
using ir::ValueId;
using onnx_schema::FunctionProto;
using onnx_schema::GraphProto;
using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using Opsets = std::map<std::string, int>;

constexpr std::int64_t kVersionWithFunctions = 8;
constexpr int kOpsetOfTables = 21;  // of a graph that has no operator of ai.onnx
constexpr std::array<std::size_t, 2> kDigits = {8, 64};

[[noreturn]] void fail(const ir::Graph& graph, const ir::Node& node, const std::string& message) {
  throw Error(ErrorCode::other, fmt::format("{} {}", ir::describe(graph, node), message), ir::label(graph, node));
}

bool is_table(const ir::Node& node) { return !node.body && node.domain == kOwnDomain && node.op_type == kTable; }

// The IR version that came with a version of ai.onnx; older files could not have initializers that are no inputs.
std::int64_t ir_version_of(int opset) {
  constexpr std::array<std::pair<int, std::int64_t>, 11> kFirst = {
      {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {0, 4}}};
  return std::find_if(kFirst.begin(), kFirst.end(), [&](const auto& entry) { return opset >= entry.first; })->second;
}

// The version of each domain whose operators the graph calls, groups and tables apart: a file has one for each.
Opsets versions_in_use(const ir::Graph& graph) {
  Opsets versions;
  for (const ir::Node& node : graph.nodes) {
    if (node.body || is_table(node)) continue;
    const int version = versions.try_emplace(node.domain, node.version).first->second;
    if (version == node.version) continue;
    fail(graph, node,
         fmt::format("is of version {} of domain {}, of which other operators use version {}: a file can say only one",
                     node.version, quote(node.domain.empty() ? "ai.onnx" : node.domain), version));
  }
  return versions;
}

void write_opsets(const Opsets& opsets, google::protobuf::RepeatedPtrField<onnx_schema::OperatorSetIdProto>& imports) {
  for (const auto& [domain, version] : opsets) {
    auto& import = *imports.Add();
    import.set_domain(domain);
    import.set_version(version);
  }
}

// `names` are those of the graph's values.
void write_node(const ir::Node& node, const std::vector<std::string>& names, NodeProto& proto) {
  const auto name_of = [&](ValueId id) { return id.present() ? names[id.index] : std::string(); };
  for (const ValueId id : node.inputs) proto.add_input(name_of(id));
  for (const ValueId id : node.outputs) proto.add_output(name_of(id));
  if (!node.name.empty()) proto.set_name(node.name);
  proto.set_op_type(node.op_type);
  if (!node.domain.empty()) proto.set_domain(node.domain);
  for (const auto& [name, attribute] : node.attributes) encode_attribute(name, attribute, *proto.add_attribute());
}

class Exporter {
 public:
  explicit Exporter(const ir::Graph& graph) : graph_(graph), opsets_(graph.opsets) {}

  ModelProto run() {
    for (const auto& [domain, version] : versions_in_use(graph_)) opsets_[domain] = version;
    if (!graph_.producer.empty()) model_.set_producer_name(graph_.producer);
    GraphProto& proto = *model_.mutable_graph();
    proto.set_name(graph_.name);
    write_values(proto);
    std::vector<std::string> names;
    for (const ir::Value& value : graph_.values) names.push_back(value.name);
    for (const ir::Node& node : graph_.nodes) {
      NodeProto& call = *proto.add_node();
      write_node(node, names, call);
      if (node.body) {
        call.set_op_type(function_of_group(node));
      } else if (is_table(node)) {
        call.set_op_type(function_of_table(node));
      }
    }
    if (model_.functions_size() > 0) opsets_[kOwnDomain] = kOwnVersion;
    write_opsets(opsets_, *model_.mutable_opset_import());
    const auto standard = opsets_.find("");
    std::int64_t version = std::max(graph_.ir_version, ir_version_of(standard == opsets_.end() ? 0 : standard->second));
    if (model_.functions_size() > 0) version = std::max(version, kVersionWithFunctions);
    model_.set_ir_version(version);
    return std::move(model_);
  }

 private:
  void write_values(GraphProto& proto) const {
    for (const ValueId id : graph_.inputs) encode_value_info(graph_.value(id), *proto.add_input());
    for (const ValueId id : graph_.outputs) encode_value_info(graph_.value(id), *proto.add_output());
    for (const auto& [id, tensor] : graph_.initializers) {
      auto& initializer = *proto.add_initializer();
      encode_tensor(tensor, initializer);
      initializer.set_name(graph_.value(id).name);
    }
    const std::set<ValueId> outputs(graph_.outputs.begin(), graph_.outputs.end());
    for (const ir::Node& node : graph_.nodes) {
      for (const ValueId id : node.outputs) {
        if (!id.present() || outputs.contains(id) || graph_.value(id).dtype == DType::undefined) continue;
        encode_value_info(graph_.value(id), *proto.add_value_info());
      }
    }
  }

  std::string function_of_group(const ir::Node& node) {
    const ir::Graph& body = *node.body;
    check_group(node, body);
    const std::string hash = ir::structural_hash(body);
    for (const std::size_t digits : kDigits) {
      const std::string name = group_function(node.op_type, hash, digits);
      const auto [at, is_new] = functions_.try_emplace(name, hash);
      if (is_new) write_function(name, body);
      if (at->second == hash) return name;
    }
    fail(graph_, node, "has a body with the hash of another one");
  }

  void check_group(const ir::Node& node, const ir::Graph& body) const {
    const auto is_own = [](const ir::Node& inner) { return inner.body || inner.domain == kOwnDomain; };
    const auto absent = [](ValueId id) { return !id.present(); };
    if (node.domain != kOwnDomain) fail(graph_, node, "is a group outside domain 'halfeven'");
    if (!node.attributes.empty()) fail(graph_, node, "is a group with attributes");
    if (!body.initializers.empty()) fail(graph_, node, "is a group with constants of its own");
    if (node.inputs.size() != body.inputs.size() || node.outputs.size() != body.outputs.size() ||
        std::any_of(node.inputs.begin(), node.inputs.end(), absent) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), absent)) {
      fail(graph_, node, "is a group that is called without one of its inputs or outputs");
    }
    if (std::any_of(body.nodes.begin(), body.nodes.end(), is_own)) fail(graph_, node, "is a group that holds another");
  }

  std::string function_of_table(const ir::Node& node) {
    const std::string name =
        table_function(graph_.value(node.inputs.at(0)).dtype, graph_.value(node.inputs.at(1)).dtype);
    if (functions_.contains(name)) return name;
    const auto opset = opsets_.try_emplace("", kOpsetOfTables).first->second;
    const auto body = table_body(name, opset);
    if (!body) fail(graph_, node, "is a table of codes of a type that tables do not have");
    functions_.emplace(name, "");
    write_function(name, *body);
    return name;
  }

  // Names within follow from the structure, not from the tensors of the call that happens to be the first.
  void write_function(const std::string& name, const ir::Graph& body) {
    FunctionProto& function = *model_.add_functions();
    function.set_domain(kOwnDomain);
    function.set_name(name);
    std::vector<std::string> names(body.values.size());
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      names[body.inputs[i].index] = fmt::format("x{}", i);
      function.add_input(names[body.inputs[i].index]);
    }
    for (std::size_t n = 0; n < body.nodes.size(); ++n) {
      ir::Node node = body.nodes[n];
      node.name = fmt::format("{}_{}", node.op_type, n);
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (!node.outputs[k].present()) continue;
        names[node.outputs[k].index] = k == 0 ? node.name : fmt::format("{}_{}", node.name, k);
      }
      write_node(node, names, *function.add_node());
    }
    for (const ValueId id : body.outputs) function.add_output(names[id.index]);
    write_opsets(versions_in_use(body), *function.mutable_opset_import());
  }

  const ir::Graph& graph_;
  Opsets opsets_;
  ModelProto model_;
  std::map<std::string, std::string> functions_;  // name -> hash of the body
};

}  // namespace

std::vector<std::byte> export_model(const ir::Graph& graph) {
  const ModelProto model = Exporter(graph).run();
  const std::size_t size = model.ByteSizeLong();
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ErrorCode::other, fmt::format("the model takes {} bytes; a file with its tensors inside has at most {}",
                                              size, std::numeric_limits<int>::max()));
  }
  std::vector<std::byte> bytes(size);
  if (!model.SerializeToArray(bytes.data(), static_cast<int>(size))) {
    throw Error(ErrorCode::other, "the model could not be written as protobuf");
  }
  return bytes;
}

}  // namespace halfeven::onnx
