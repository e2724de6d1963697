#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/shapes.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDefaultRandom = 2;

struct VerifyArguments {
  std::string model;
  InputArguments inputs;
  std::optional<int> random;
  std::uint64_t seed = 0;
  std::vector<std::string> shapes;
  std::string passes;
  std::string isa;
  std::vector<std::string> kernels;
  int threads = 0;
  bool json = false;
};

// Infinities, which JSON has not, as null.
Json number(double v) { return std::abs(v) <= std::numeric_limits<double>::max() ? Json(v) : Json(); }

Json to_json(const OutputDrift& d) {
  return {{"input_set", d.input_set + 1},
          {"output", d.output},
          {"elements", d.elements},
          {"differing", d.differing},
          {"largest", number(d.largest)}};
}

Json to_json(const GroupCheck& group) {
  Json flipped = Json::array();
  for (const FlippedElement& e : group.flipped) {
    flipped.push_back({{"input_set", e.input_set + 1},
                       {"tensor", e.tensor},
                       {"position", e.position},
                       {"exact", e.exact_value},
                       {"onnx_float32", e.float32_value},
                       {"quotient", number(e.quotient)},
                       {"distance_to_tie", number(e.distance)},
                       {"bound", number(e.bound)},
                       {"certified", e.certified}});
  }
  Json json = {{"node", group.node},
               {"operators", group.operators},
               {"elements", group.elements},
               {"differing", group.differing},
               {"flipped", std::move(flipped)}};
  if (!group.note.empty()) json["note"] = group.note;
  return json;
}

Json to_json(const VerifyReport& report) {
  Json json = {{"verified", report.ok()}, {"input_sets", report.input_sets}, {"passes", report.passes}};
  json["steps"] = Json::array();
  for (const PassCheck& step : report.steps) {
    Json entry = {
        {"pass", step.pass}, {"changes", step.changes}, {"tensors", step.tensors}, {"differing", step.differing}};
    if (!step.difference.empty()) entry["difference"] = step.difference;
    json["steps"].push_back(std::move(entry));
  }
  json["kernels"] = Json::array();
  for (const KernelCheck& k : report.kernels) {
    Json entry = {{"input_set", k.input_set + 1}, {"node", k.node},         {"kernel", k.kernel},      {"isa", k.isa},
                  {"threads", k.threads},         {"elements", k.elements}, {"differing", k.differing}};
    if (!k.difference.empty()) entry["difference"] = k.difference;
    json["kernels"].push_back(std::move(entry));
  }
  json["groups"] = Json::array();
  for (const GroupCheck& group : report.groups) json["groups"].push_back(to_json(group));
  json["float_outputs_in_groups"] = Json::array();
  for (const OutputDrift& d : report.in_groups) json["float_outputs_in_groups"].push_back(to_json(d));
  json["outputs"] = Json::array();
  for (const OutputDrift& d : report.whole) json["outputs"].push_back(to_json(d));
  if (!report.note.empty()) json["note"] = report.note;
  return json;
}

int verify_model(const VerifyArguments& arguments) {
  if (arguments.threads < 0) throw Error(ErrorCode::usage, "--threads takes 0 or more");
  if (arguments.random.value_or(1) < 0) throw Error(ErrorCode::usage, "--random takes 0 or more");
  VerifyOptions options;
  options.passes = arguments.passes;
  options.seed = arguments.seed;
  options.threads = arguments.threads;
  options.isa = arguments.isa;
  options.prefer = arguments.kernels;
  options.shapes = parse_shapes(arguments.shapes);
  const Model model = Model::load(std::filesystem::path(arguments.model));
  for (const std::string& warning : model.warnings()) warn(warning);
  std::vector<NamedTensors> sets;
  const bool given = !arguments.inputs.files.empty() || !arguments.inputs.images.empty();
  if (given) sets.push_back(load_inputs(model.inputs(), arguments.inputs));
  options.random = arguments.random.value_or(given ? 0 : kDefaultRandom);

  VerifyReport report;
  {
    ProgressLine progress("verifying");
    options.progress = [&](std::size_t, const std::string& next) { progress.say(next); };
    report = verify(model, sets, options);
  }
  if (arguments.json) {
    print(to_json(report));
  } else {
    print(report.text());
  }
  return report.ok() ? 0 : static_cast<int>(ErrorCode::check_failed);
}

}  // namespace

Command add_verify(CommandLine& line) {
  auto arguments = std::make_shared<VerifyArguments>();
  VerifyArguments& a = *arguments;
  Options options = line.add("verify", "Prove that the passes change no bit, and compare the contracts");
  options.operand("MODEL", a.model, "ONNX file");
  options.list("-i,--input", "[NAME=]FILE", a.inputs.files, ".npy, .npz or .pb; without NAME the next free input");
  options.list("--image", "[NAME=]FILE", a.inputs.images, "PNG or JPEG, scaled to 0 .. 1");
  options.option("--random", "N", a.random,
                 "so many sets of random inputs, ties and saturation among them (default 2, with given inputs 0)");
  options.option("--seed", "S", a.seed, "of the random inputs (default 0)");
  options.list("--shape", "NAME=1x3x48x192", a.shapes, "of a random input whose shape the model leaves open");
  options.option("--passes", "TEXT", a.passes, "comma-separated (default: all)");
  options.option("--isa", "NAME", a.isa,
                 "check the kernels of this instruction set only (default: all that there are)");
  options.list("--kernel", "NAME", a.kernels, "take this one where it serves; may be given several times");
  options.option("--threads", "N", a.threads, "0 (default): as many as the machine has; changes no bit");
  options.flag("--json", a.json, "print JSON instead of text, with every differing element");
  return [arguments] { return verify_model(*arguments); };
}

}  // namespace halfeven::cli
