#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/shapes.hpp"
#include "cli/table.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::string model;
  std::vector<std::string> shapes;
  bool nodes = false;
  bool json = false;
};

// The shapes on the command line; each must be an input's.
std::map<std::string, Shape> input_shapes(const std::vector<std::string>& texts, const std::vector<ValueInfo>& inputs) {
  std::map<std::string, Shape> shapes = parse_shapes(texts);
  for (const auto& [name, shape] : shapes) {
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfo& v) { return v.name == name; });
    if (!known) throw Error(ErrorCode::usage, fmt::format("--shape: the model has no input '{}'", printable(name)));
  }
  return shapes;
}

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

// Symbols where the model has them: [N, 3, ?, ?].

std::string shape_text(const ValueInfo& info) {
  if (!info.shape) return "rank unknown";
  std::string text;
  for (std::size_t i = 0; i < info.shape->size(); ++i) {
    const bool named = i < info.dim_names.size() && !info.dim_names[i].empty();
    const std::int64_t dimension = (*info.shape)[i];
    text += i == 0 ? "" : ", ";
    text += dimension != kUnknownDim ? fmt::format("{}", dimension) : named ? info.dim_names[i] : "?";
  }
  return fmt::format("[{}]", text);
}

Json to_json(const ValueInfo& info) {
  Json json = {{"name", info.name}, {"type", type_name(info.dtype)}, {"shape", nullptr}};
  if (info.shape) {
    json["shape"] = Json::array();
    for (std::size_t i = 0; i < info.shape->size(); ++i) {
      const std::int64_t dimension = (*info.shape)[i];
      const bool named = i < info.dim_names.size() && !info.dim_names[i].empty();
      json["shape"].push_back(dimension != kUnknownDim ? Json(dimension) : named ? Json(info.dim_names[i]) : Json());
    }
  }
  if (info.optional) json["optional"] = true;
  return json;
}

Json to_json(const Summary& summary) {
  Json json = {{"name", summary.name}, {"producer", summary.producer}, {"ir_version", summary.ir_version}};
  json["opsets"] = Json::object();
  for (const auto& [domain, version] : summary.opsets) json["opsets"][domain_name(domain)] = version;
  json["inputs"] = Json::array();
  for (const ValueInfo& info : summary.inputs) json["inputs"].push_back(to_json(info));
  json["outputs"] = Json::array();
  for (const ValueInfo& info : summary.outputs) json["outputs"].push_back(to_json(info));
  json["operators"] = Json::array();
  for (const OperatorCount& entry : summary.operators) {
    json["operators"].push_back(
        {{"domain", domain_name(entry.domain)}, {"op_type", entry.op_type}, {"count", entry.count}});
  }
  json["quantized_types"] = Json::object();
  for (const auto& [type, count] : summary.quantized_types) json["quantized_types"][type] = count;
  json["parameters"] = summary.parameters;
  json["parameter_bytes"] = summary.parameter_bytes;
  json["macs"] = summary.macs ? Json(*summary.macs) : Json();
  json["hash"] = summary.hash;
  return json;
}

std::string values_text(const std::string& heading, const std::vector<ValueInfo>& infos) {
  Table table({heading, "type", "shape"});
  for (const ValueInfo& info : infos) {
    table.add({printable(info.name), type_name(info.dtype), printable(shape_text(info)),
               info.optional ? "(has a default)" : ""});
  }
  return table.text() + "\n";
}

// 1234567 -> "1,234,567"
std::string grouped(std::uint64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string to_text(const Summary& summary) {
  std::string opsets;
  for (const auto& [domain, version] : summary.opsets) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain_name(domain), version);
  }
  std::string quantized;
  for (const auto& [type, count] : summary.quantized_types) {
    quantized += fmt::format("{}{} {}", quantized.empty() ? "" : ", ", count, type);
  }
  std::string text = values_text("input", summary.inputs) + values_text("output", summary.outputs);
  Table operators({"operator", "count"});
  for (const OperatorCount& entry : summary.operators) {
    const std::string prefix = entry.domain.empty() ? "" : entry.domain + ".";
    operators.add({printable(prefix + entry.op_type), fmt::format("{}", entry.count)});
  }
  text += operators.text() + "\n";
  text += fmt::format("name        {}\n", summary.name.empty() ? "-" : printable(summary.name));
  text += fmt::format("producer    {}\n", summary.producer.empty() ? "-" : printable(summary.producer));
  text += fmt::format("opsets      {} (IR version {})\n", printable(opsets), summary.ir_version);
  text += fmt::format("quantized   {}\n", quantized.empty() ? "no tensor" : "tensors: " + quantized);
  text += fmt::format("parameters  {} ({} bytes)\n", grouped(summary.parameters), grouped(summary.parameter_bytes));
  text += fmt::format("MACs        {}\n", summary.macs ? grouped(*summary.macs) : "unknown (give --shape)");
  text += fmt::format("hash        {}\n", summary.hash);
  return text;
}

// Control characters, line ends apart, must not reach the terminal.
std::string printable_lines(const std::string& text) {
  std::string result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += printable(std::string_view(text).substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  return result;
}

int inspect(const InspectArguments& arguments) {
  const Model model = Model::load(std::filesystem::path(arguments.model));
  for (const std::string& warning : model.warnings()) warn(warning);
  const Summary summary = model.summary(input_shapes(arguments.shapes, model.inputs()));
  if (arguments.json) {
    Json json = to_json(summary);
    if (arguments.nodes) json["text"] = model.text();
    print(json);
  } else {
    print(to_text(summary));
    if (arguments.nodes) print("\n" + printable_lines(model.text()));
  }
  return 0;
}

}  // namespace

Command add_inspect(CommandLine& line) {
  auto arguments = std::make_shared<InspectArguments>();
  InspectArguments& a = *arguments;
  Options options = line.add("inspect", "Say what a model consists of");
  options.operand("MODEL", a.model, "ONNX file");
  options.flag("--nodes", a.nodes, "print the graph too, a node a line");
  options.flag("--json", a.json, "print JSON");
  options.list("--shape", "NAME=1x3x224x224", a.shapes, "shape of an input, for counting multiply-adds");
  return [arguments] { return inspect(*arguments); };
}

}  // namespace halfeven::cli
