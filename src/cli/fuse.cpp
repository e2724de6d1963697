#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineLength = 110;

struct FuseArguments {
  std::string model;
  std::string output;
  std::string passes;
  bool explain = false;
  bool json = false;
  bool list_passes = false;
};

// The places at which a pass found the same thing.
struct Places {
  const Finding* finding;
  std::vector<std::string> where;
};

// Steps of one pass as one, in the order in which each first changed something; those that changed nothing are left
// out.
std::vector<PassStep> collapse(const std::vector<PassStep>& steps) {
  std::vector<PassStep> sums;
  for (const PassStep& step : steps) {
    if (step.changes == 0) continue;
    const auto same = std::find_if(sums.begin(), sums.end(), [&](const PassStep& s) { return s.pass == step.pass; });
    if (same == sums.end()) {
      sums.push_back(step);
    } else {
      same->changes += step.changes;
      same->milliseconds += step.milliseconds;
    }
  }
  return sums;
}

std::vector<std::string> passes_with_findings(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    if (std::find(names.begin(), names.end(), finding.pass) == names.end()) names.push_back(finding.pass);
  }
  return names;
}

// What one pass applied, or what it refused, equal findings together, in the order in which each first occurs.
std::vector<Places> group(const std::vector<Finding>& findings, const std::string& pass, bool applied) {
  std::vector<Places> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const Finding& finding : findings) {
    if (finding.pass != pass || finding.applied != applied) continue;
    const auto [at, is_new] = known.try_emplace({finding.text, finding.advice}, groups.size());
    if (is_new) groups.push_back({&finding, {}});
    groups[at->second].where.push_back(finding.where);
  }
  return groups;
}

std::string comma_separated(const std::vector<std::string>& items, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string text;
  std::string line = margin;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = printable(items[i]) + (i + 1 < items.size() ? "," : "");
    if (line.size() > indent && line.size() + 1 + item.size() > kLineLength) {
      text += line + "\n";
      line = margin;
    }
    line += (line.size() > indent ? " " : "") + item;
  }
  return text + line + "\n";
}

std::string explanation(const std::vector<Finding>& findings) {
  std::string text;
  for (const std::string& pass : passes_with_findings(findings)) {
    text += fmt::format("\n{}\n", pass);
    for (const bool applied : {true, false}) {
      for (const Places& places : group(findings, pass, applied)) {
        text += fmt::format("  {}{} ({})\n", applied ? "" : "refused: ", printable(places.finding->text),
                            places.where.size());
        text += comma_separated(places.where, 6);
        if (!places.finding->advice.empty())
          text += fmt::format("      advice: {}\n", printable(places.finding->advice));
      }
    }
  }
  return text;
}

using Counts = std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::size_t>>;  // before, after

Counts count_operators(const Model& before, const Model& after) {
  Counts counts;
  for (const OperatorCount& entry : before.summary().operators)
    counts[{entry.domain, entry.op_type}].first = entry.count;
  for (const OperatorCount& entry : after.summary().operators)
    counts[{entry.domain, entry.op_type}].second = entry.count;
  return counts;
}

std::string to_text(const Model& model, const Fusion& fusion) {
  Table steps({"pass", "changes"});
  for (const PassStep& step : collapse(fusion.steps)) steps.add({step.pass, fmt::format("{}", step.changes)});
  Table operators({"operator", "before", "after"});
  std::size_t before = 0;
  std::size_t after = 0;
  for (const auto& [name, counts] : count_operators(model, fusion.model)) {
    const auto& [domain, op_type] = name;
    operators.add({printable(domain.empty() ? op_type : domain + "." + op_type), fmt::format("{}", counts.first),
                   fmt::format("{}", counts.second)});
    before += counts.first;
    after += counts.second;
  }
  operators.add({"all", fmt::format("{}", before), fmt::format("{}", after)});
  return steps.text() + "\n" + operators.text() +
         fmt::format("\nfused {} of {} compute operators (Conv, ConvTranspose, Gemm, MatMul)\n", fusion.fused_operators,
                     fusion.compute_operators);
}

Json to_json(const FuseArguments& arguments, const Model& model, const Fusion& fusion) {
  Json json = {{"steps", Json::array()}};
  for (const PassStep& step : fusion.steps) {
    json["steps"].push_back({{"pass", step.pass}, {"changes", step.changes}, {"milliseconds", step.milliseconds}});
  }
  json["operators"] = Json::array();
  for (const auto& [name, counts] : count_operators(model, fusion.model)) {
    json["operators"].push_back({{"domain", name.first.empty() ? "ai.onnx" : name.first},
                                 {"op_type", name.second},
                                 {"before", counts.first},
                                 {"after", counts.second}});
  }
  json["compute_operators"] = fusion.compute_operators;
  json["fused_operators"] = fusion.fused_operators;
  if (arguments.explain) {
    json["findings"] = Json::array();
    for (const Finding& finding : fusion.findings) {
      json["findings"].push_back({{"pass", finding.pass},
                                  {"where", finding.where},
                                  {"applied", finding.applied},
                                  {"text", finding.text},
                                  {"advice", finding.advice}});
    }
  }
  json["hash"] = fusion.model.summary().hash;
  json["output"] = arguments.output.empty() ? Json() : Json(arguments.output);
  return json;
}

int list_passes(bool json) {
  if (json) {
    Json list = Json::array();
    for (const auto& [name, summary] : pass_names()) list.push_back({{"pass", name}, {"summary", summary}});
    print(list);
    return 0;
  }
  Table table({"pass", "what it does"});
  for (const auto& [name, summary] : pass_names()) table.add({name, summary});
  print(table.text());
  return 0;
}

int run_fuse(const FuseArguments& arguments) {
  if (arguments.list_passes) return list_passes(arguments.json);
  if (arguments.model.empty()) throw Error(ErrorCode::usage, "MODEL is required (see halfeven fuse --help)");
  const Model model = Model::load(std::filesystem::path(arguments.model));
  for (const std::string& warning : model.warnings()) warn(warning);
  const Fusion fusion = fuse(model, arguments.passes);
  if (!arguments.output.empty()) save(fusion.model, arguments.output);
  if (arguments.json) {
    print(to_json(arguments, model, fusion));
    return 0;
  }
  print(to_text(model, fusion));
  if (arguments.explain) print(explanation(fusion.findings));
  return 0;
}

}  // namespace

Command add_fuse(CommandLine& line) {
  auto arguments = std::make_shared<FuseArguments>();
  FuseArguments& a = *arguments;
  Options options = line.add("fuse", "Turn a QDQ model into integer operators; no result changes");
  options.operand("MODEL", a.model, "ONNX file", false);
  options.option("-o,--output", "FUSED.onnx", a.output, "ONNX file to write; without it nothing is written");
  options.option("--passes", "NAME,NAME,...", a.passes, "the passes to run, each with what it needs; default: all");
  options.flag("--explain", a.explain, "say what each pass did or refused, where and why");
  options.flag("--json", a.json, "print JSON");
  options.flag("--list-passes", a.list_passes, "print the names of the passes, and run none");
  return [arguments] { return run_fuse(*arguments); };
}

}  // namespace halfeven::cli
