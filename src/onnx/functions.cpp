#include "onnx/functions.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"
#include "onnx/own_functions.hpp"
#include "onnx/value_info.hpp"

namespace halfeven::onnx {
namespace {

using ir::quote;
using ir::ValueId;
using onnx_schema::FunctionProto;
using onnx_schema::NodeProto;

constexpr int kOldestOpset = 7;
constexpr int kNewestOpset = 28;
constexpr const char* kIdentity = "Identity";

[[noreturn]] void fail(const std::string& message, std::string node = {}) {
  throw Error(ErrorCode::model, message, std::move(node));
}

std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string function_text(const std::string& domain, const std::string& name, const std::string& overload) {
  const std::string full = domain.empty() ? name : domain + "." + name;
  return "function " + quote(overload.empty() ? full : full + ":" + overload);
}

std::size_t bytes_of(const ir::Attribute& attribute) {
  struct Sizes {
    std::size_t operator()(std::int64_t) const { return sizeof(std::int64_t); }
    std::size_t operator()(float) const { return sizeof(float); }
    std::size_t operator()(const std::string& text) const { return text.size(); }
    std::size_t operator()(const std::vector<std::int64_t>& items) const { return items.size() * sizeof(std::int64_t); }
    std::size_t operator()(const std::vector<float>& items) const { return items.size() * sizeof(float); }
    std::size_t operator()(const std::vector<std::string>& items) const {
      std::size_t sum = items.size() * sizeof(std::string);
      for (const std::string& item : items) sum += item.size();
      return sum;
    }
    std::size_t operator()(const Tensor& tensor) const { return sizeof(Tensor) + tensor.rank() * sizeof(std::int64_t); }
  };
  return sizeof(ir::Attribute) + std::visit(Sizes(), attribute);
}

std::size_t bytes_of(const ir::Node& node) {
  std::size_t sum = sizeof(ir::Node) + node.name.size() + node.domain.size() + node.op_type.size();
  sum += (node.inputs.size() + node.outputs.size()) * sizeof(ValueId);
  for (const auto& [name, attribute] : node.attributes) sum += name.size() + bytes_of(attribute);
  return sum;
}

// A call as messages name it: "local.F 'call'".
std::string call_text(const ir::Graph& graph, const ir::Node& node) {
  std::string text = ir::printable(node.domain);
  if (!text.empty()) text += '.';
  return text + ir::describe(graph, node);
}

void drop_trailing_absent(std::vector<ValueId>& inputs) {
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
}

// The function's attributes as this call sets them.
std::map<std::string, ir::Attribute> arguments(const Function& function, const ir::Node& call, const std::string& who) {
  std::map<std::string, ir::Attribute> result = call.attributes;
  for (const auto& [name, value] : call.attributes) {
    if (!function.parameters.contains(name)) {
      fail(fmt::format("{} sets attribute {}, which {} does not have", who, quote(name), function.name));
    }
  }
  for (const auto& [name, value] : function.parameters) {
    if (value) result.try_emplace(name, *value);
  }
  return result;
}

}  // namespace

Opsets read_opsets(const google::protobuf::RepeatedPtrField<onnx_schema::OperatorSetIdProto>& imports,
                   const std::string& who) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = normal_domain(import.domain());
    if (import.version() < 1 || import.version() > std::numeric_limits<int>::max()) {
      fail(fmt::format("{} imports version {} of domain {}, which is no version", who, import.version(),
                       quote(domain_text(domain))));
    }
    const auto version = static_cast<int>(import.version());
    if (opsets.try_emplace(domain, version).first->second != version) {
      fail(fmt::format("{} imports domain {} in two versions", who, quote(domain_text(domain))));
    }
  }
  return opsets;
}

int find_version(const Opsets& opsets, const std::string& domain, const std::string& who, const std::string& user) {
  const auto found = opsets.find(domain);
  if (found == opsets.end()) {
    fail(fmt::format("{} imports no version of domain {}, which {} belongs to", who, quote(domain_text(domain)), user));
  }
  if (domain.empty() && (found->second < kOldestOpset || found->second > kNewestOpset)) {
    fail(fmt::format("{} imports version {} of domain 'ai.onnx'; versions {} to {} are supported", who, found->second,
                     kOldestOpset, kNewestOpset));
  }
  return found->second;
}

Functions::Functions(onnx_schema::ModelProto& model, ReadContext& context) : context_(context) {
  for (FunctionProto& proto : *model.mutable_functions()) {
    const Key key(normal_domain(proto.domain()), proto.name(), proto.overload());
    if (!functions_.emplace(key, Entry{&proto, std::nullopt}).second) {
      fail(fmt::format("the model defines {} twice", function_text(std::get<0>(key), proto.name(), proto.overload())));
    }
  }
}

Functions::Key Functions::key_of(const ParsedNode& node) {
  return {node.node.domain, node.node.op_type, node.overload};
}

bool Functions::contains(const ParsedNode& node) const { return functions_.contains(key_of(node)); }

bool Functions::expands(const ParsedNode& node) const { return node.node.domain != kOwnDomain && contains(node); }

Function Functions::read(FunctionProto& proto) {
  Function function;
  function.name = function_text(normal_domain(proto.domain()), proto.name(), proto.overload());
  function.opsets = read_opsets(proto.opset_import(), function.name);
  for (const std::string& name : proto.attribute()) function.parameters.try_emplace(name);
  for (auto& attribute : *proto.mutable_attribute_proto()) {
    if (!function.parameters.try_emplace(attribute.name(), read_attribute(attribute, function.name, context_)).second) {
      fail(fmt::format("{} declares attribute {} twice", function.name, quote(attribute.name())));
    }
  }

  std::unordered_map<std::string, std::uint32_t> names;
  read_values(proto, function, names);
  for (NodeProto& node_proto : *proto.mutable_node()) {
    ParsedNode parsed = read_node(node_proto, context_);
    const std::string who = describe(node_proto) + " in " + function.name;
    if (!expands(parsed)) {
      parsed.node.version = find_version(function.opsets, parsed.node.domain, function.name, who);
    }
    for (const AttributeReference& reference : parsed.references) {
      if (function.parameters.contains(reference.parameter)) continue;
      fail(fmt::format("attribute {} of {} refers to attribute {}, which the function does not have",
                       quote(reference.name), who, quote(reference.parameter)));
    }
    for (const std::string& name : node_proto.input()) {
      const auto found = names.find(name);
      if (found == names.end() && !name.empty()) {
        fail(fmt::format("tensor {} read by {} is not an input of the function or the output of one of its nodes",
                         quote(name), who));
      }
      parsed.node.inputs.push_back(name.empty() ? ValueId{} : ValueId{found->second});
    }
    for (const std::string& name : node_proto.output()) {
      parsed.node.outputs.push_back(name.empty() ? ValueId{} : ValueId{names.at(name)});
    }
    function.nodes.push_back(std::move(parsed));
  }
  return function;
}

void Functions::read_values(FunctionProto& proto, Function& function,
                            std::unordered_map<std::string, std::uint32_t>& names) {
  const auto define = [&](const std::string& name) {
    if (!names.emplace(name, static_cast<std::uint32_t>(function.values.size())).second) {
      fail(fmt::format("tensor {} is defined twice in {}", quote(name), function.name));
    }
    function.values.push_back({name, DType::undefined, std::nullopt, {}});
  };
  for (const std::string& name : proto.input()) {
    if (name.empty()) fail(fmt::format("{} has an input without a name", function.name));
    define(name);
  }
  function.inputs = function.values.size();
  for (const NodeProto& node : proto.node()) {
    for (const std::string& name : node.output()) {
      if (!name.empty()) define(name);
    }
  }
  for (const std::string& name : proto.output()) {
    const auto found = names.find(name);
    if (found == names.end()) {
      fail(fmt::format("output {} of {} is not computed by its nodes", quote(name), function.name));
    }
    function.outputs.push_back(found->second);
  }
  for (const auto& info : proto.value_info()) {
    const auto found = names.find(info.name());
    if (found == names.end()) continue;
    read_value_info(info, "value_info " + quote(info.name()) + " of " + function.name, function.values[found->second]);
    // A symbol holds within its function; the same one outside would mean something else.
    function.values[found->second].dim_names.clear();
  }
}

Function& Functions::find(const ParsedNode& node) {
  Entry& entry = functions_.at(key_of(node));
  if (!entry.function) entry.function = read(*entry.proto);
  return *entry.function;
}

void Functions::charge(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > context_.limits.model_bytes) {
    fail(fmt::format("expanding the model's functions takes more than {} bytes", context_.limits.model_bytes));
  }
}

void Functions::count(std::size_t nodes) {
  steps_ += nodes;
  if (steps_ > context_.limits.nodes) {
    fail(fmt::format("the model has more than {} nodes after its functions are expanded", context_.limits.nodes));
  }
}

ValueId Functions::new_value(ir::Graph& graph, const ir::Value& value, const std::string& prefix) {
  if (names_.empty()) {
    for (const ir::Value& existing : graph.values) names_.emplace(existing.name, 0);
  }
  std::string name = prefix + "/" + value.name;
  charge(sizeof(ir::Value) + 2 * name.size());
  if (const auto [taken, is_new] = names_.try_emplace(name, 0); !is_new) {
    std::uint32_t& suffix = taken->second;  // stays valid: references into the map survive insertions
    std::string candidate;
    do candidate = fmt::format("{}_{}", name, ++suffix);
    while (!names_.try_emplace(candidate, 0).second);
    name = std::move(candidate);
  }
  graph.values.push_back({std::move(name), value.dtype, value.shape, value.dim_names});
  return {static_cast<std::uint32_t>(graph.values.size() - 1)};
}

void Functions::append(ir::Graph& graph, ParsedNode node) { append(graph, std::move(node), Call{}); }

void Functions::append(ir::Graph& graph, ParsedNode node, const Call& call) {
  count(1);
  drop_trailing_absent(node.node.inputs);
  if (!contains(node)) {
    graph.nodes.push_back(std::move(node.node));
    return;
  }
  Function& function = find(node);
  if (!expands(node)) {
    append_own(graph, std::move(node), function);
    return;
  }
  Entry& entry = functions_.at(key_of(node));
  const std::string who = call_text(graph, node.node);
  const std::string label = ir::label(graph, node.node);
  if (entry.active) fail(fmt::format("{} calls {} recursively", who, function.name), label);
  if (call.depth >= context_.limits.function_depth) {
    fail(fmt::format("{} calls {} at a depth of more than {}", who, function.name, context_.limits.function_depth),
         label);
  }
  entry.active = true;
  expand(graph, function, node.node, {label.empty() ? node.node.op_type : label, call.depth + 1});
  entry.active = false;
}

// What a call of a function of domain "halfeven" is: a table or a group. The file decides what a group means, but not
// what a table does.
void Functions::append_own(ir::Graph& graph, ParsedNode node, Function& function) {
  const std::string who = call_text(graph, node.node);
  const std::string label = ir::label(graph, node.node);
  if (node.node.version != kOwnVersion) {
    fail(fmt::format("{} is of version {} of domain '{}'; version {} is supported", who, node.node.version, kOwnDomain,
                     kOwnVersion),
         label);
  }
  const auto absent = [](ValueId id) { return !id.present(); };
  if (node.node.inputs.size() != function.inputs || node.node.outputs.size() != function.outputs.size() ||
      std::any_of(node.node.inputs.begin(), node.node.inputs.end(), absent) ||
      std::any_of(node.node.outputs.begin(), node.node.outputs.end(), absent)) {
    fail(fmt::format("{} has to have the {} inputs and {} outputs of {}, none left out", who, function.inputs,
                     function.outputs.size(), function.name),
         label);
  }
  if (!node.node.attributes.empty()) {
    fail(fmt::format("{} sets attribute {}, which {} does not have", who, quote(node.node.attributes.begin()->first),
                     function.name),
         label);
  }
  if (function.op_type.empty()) {
    ir::Graph body = body_of(function);
    const auto opset = function.opsets.find("");
    const auto table = table_body(node.node.op_type, opset == function.opsets.end() ? 0 : opset->second);
    if (table && ir::structural_hash(*table) != ir::structural_hash(body)) {
      fail(fmt::format("{} has another body than that operator", function.name), label);
    }
    function.op_type = table ? kTable : group_operator(node.node.op_type);
    if (!table) {
      body.name = function.op_type;
      function.body = std::make_shared<const ir::Graph>(std::move(body));
    }
  }
  if (function.body) count(function.body->nodes.size());
  node.node.op_type = function.op_type;
  node.node.body = function.body;
  graph.nodes.push_back(std::move(node.node));
}

ir::Graph Functions::body_of(const Function& function) const {
  if (!function.parameters.empty()) {
    fail(fmt::format("{} has attribute {}; functions of domain '{}' have none", function.name,
                     quote(function.parameters.begin()->first), kOwnDomain));
  }
  ir::Graph body;
  body.opsets = function.opsets;
  for (const ir::Value& value : function.values)
    body.values.push_back({value.name, DType::undefined, std::nullopt, {}});
  for (std::uint32_t i = 0; i < function.inputs; ++i) body.inputs.push_back({i});
  for (const std::uint32_t output : function.outputs) body.outputs.push_back({output});
  for (const ParsedNode& inner : function.nodes) {
    if (contains(inner) || inner.node.domain == kOwnDomain) {
      fail(fmt::format("{} in {} calls a function, which those of domain '{}' cannot", call_text(body, inner.node),
                       function.name, kOwnDomain));
    }
    body.nodes.push_back(inner.node);
    drop_trailing_absent(body.nodes.back().inputs);
  }
  try {
    ir::sort_and_check(body);
  } catch (const Error& error) {
    fail(fmt::format("{}: {}", function.name, error.what()), error.node());
  }
  return body;
}

void Functions::expand(ir::Graph& graph, const Function& function, const ir::Node& node, const Call& call) {
  const std::string who = call_text(graph, node);
  if (node.inputs.size() > function.inputs || node.outputs.size() > function.outputs.size()) {
    fail(fmt::format("{} has {} inputs and {} outputs, but {} has {} and {}", who, node.inputs.size(),
                     node.outputs.size(), function.name, function.inputs, function.outputs.size()),
         ir::label(graph, node));
  }
  const std::map<std::string, ir::Attribute> attributes = arguments(function, node, who);
  charge(function.values.size() * sizeof(ValueId));

  // What each value of the function is in the graph.
  std::vector<ValueId> values(function.values.size());
  std::copy(node.inputs.begin(), node.inputs.end(), values.begin());
  std::vector<std::pair<ValueId, ValueId>> passed_on;  // outputs that are inputs, or another output again
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const std::uint32_t inner = function.outputs[i];
    if (!node.outputs[i].present()) continue;
    if (inner >= function.inputs && !values[inner].present()) {
      values[inner] = node.outputs[i];
    } else {
      if (!values[inner].present()) {
        fail(fmt::format("output {} of {} is an input of {} that the call leaves out",
                         quote(graph.value(node.outputs[i]).name), who, function.name));
      }
      passed_on.emplace_back(values[inner], node.outputs[i]);
    }
  }
  for (std::size_t i = function.inputs; i < values.size(); ++i) {
    if (!values[i].present()) values[i] = new_value(graph, function.values[i], call.prefix);
  }

  const auto outer = [&](ValueId inner) { return inner.present() ? values[inner.index] : ValueId{}; };
  for (const ParsedNode& inner : function.nodes) {
    charge(bytes_of(inner.node) + call.prefix.size());
    ParsedNode copy{inner.node, inner.overload, {}};
    if (!copy.node.name.empty()) copy.node.name = call.prefix + "/" + copy.node.name;
    std::transform(copy.node.inputs.begin(), copy.node.inputs.end(), copy.node.inputs.begin(), outer);
    std::transform(copy.node.outputs.begin(), copy.node.outputs.end(), copy.node.outputs.begin(), outer);
    for (const AttributeReference& reference : inner.references) {
      const auto argument = attributes.find(reference.parameter);
      if (argument == attributes.end()) continue;  // neither given nor defaulted: the node's attribute is absent, too
      if (!is_of_type(argument->second, reference.type)) {
        fail(fmt::format("attribute {} of {} is of another type than {}, which {} expects", quote(reference.parameter),
                         who, attribute_type_name(reference.type), ir::describe(graph, copy.node)));
      }
      charge(reference.name.size() + bytes_of(argument->second));
      copy.node.attributes.emplace(reference.name, argument->second);
    }
    append(graph, std::move(copy), call);
  }
  for (const auto& [source, target] : passed_on) {
    const int version = find_version(function.opsets.contains("") ? function.opsets : graph.opsets, "", function.name,
                                     "the Identity that passes an input on");
    append(graph, {{{}, {}, kIdentity, version, {source}, {target}, {}, nullptr}, {}, {}}, call);
  }
}

}  // namespace halfeven::onnx
