// `halfeven plan`: which kernel computes what, in which memory, and why.
#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/engine.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/shapes.hpp"
#include "cli/table.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string model;
  std::vector<std::string> shapes;
  EngineOptions engine;
  bool kernels = false;
  bool json = false;
};

int list_kernels(bool as_json) {
  if (as_json) {
    Json json = Json::array();
    for (const KernelInfo& k : kernel_names()) json.push_back({{"name", k.name}, {"isa", k.isa}, {"takes", k.takes}});
    print(json);
    return 0;
  }
  Table table({"kernel", "needs", "takes"});
  for (const KernelInfo& k : kernel_names()) table.add({k.name, k.isa, k.takes});
  print(table.text());
  return 0;
}

Json to_json(const PlanTensor& t) {
  Json json = {{"memory", t.memory}, {"bytes", t.bytes}, {"layout", t.layout}, {"biased", t.biased}};
  if (t.memory == "arena") json["offset"] = t.offset;
  json["in_place"] = t.in_place;
  return json;
}

Json to_json(const PlanRounding& r) {
  const auto finite = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
  return {{"variant", r.variant},
          {"closest_approach", finite(r.closest_approach)},
          {"ties", r.ties},
          {"double_error", r.double_error},
          {"float32_error", finite(r.float_error)},
          {"double_decides", r.double_decides},
          {"float32_decides", r.float_decides}};
}

Json to_json(const PlanReport& report) {
  Json json = {{"isa", report.isa},
               {"arena_bytes", report.arena_bytes},
               {"tensor_bytes", report.tensor_bytes},
               {"largest_live_bytes", report.largest_live_bytes},
               {"scratch_bytes", report.scratch_bytes},
               {"weight_bytes", report.weight_bytes},
               {"dropped", report.dropped},
               {"steps", Json::array()}};
  for (const PlanStep& s : report.steps) {
    Json outputs = Json::array();
    for (const PlanTensor& t : s.outputs) outputs.push_back(to_json(t));
    json["steps"].push_back({{"node", s.node},
                             {"operator", s.op_type},
                             {"kernel", s.kernel},
                             {"note", s.note},
                             {"rounding", s.rounding ? to_json(*s.rounding) : Json(nullptr)},
                             {"refusals", s.refusals},
                             {"outputs", std::move(outputs)},
                             {"scratch_bytes", s.scratch_bytes},
                             {"weight_bytes", s.weight_bytes}});
  }
  return json;
}

std::string to_text(const PlanTensor& t) {
  if (t.memory.empty()) return "none";
  std::string text = t.memory == "arena" ? fmt::format("arena {} + {}", t.offset, t.bytes) : t.memory;
  if (t.in_place) text += ", in place";
  if (t.layout != "plain") text += ", " + t.layout;
  if (t.biased) text += ", 128 added";
  return text;
}

std::string to_text(const PlanRounding& r) {
  const auto power = [](double v) {
    if (v == 0) return std::string("0");
    return std::isfinite(v) ? fmt::format("2^{:.1f}", std::log2(v)) : std::string("none");
  };
  return fmt::format("closest to a tie: {}{}; double's error: {}, float32's: {}; {}", power(r.closest_approach),
                     r.ties ? ", and ties" : ", no ties", power(r.double_error), power(r.float_error),
                     r.float_decides    ? "float32 decides"
                     : r.double_decides ? "double decides"
                                        : "some are left to rationals");
}

std::string to_text(const PlanReport& report) {
  std::string text;
  for (std::size_t k = 0; k < report.steps.size(); ++k) {
    const PlanStep& s = report.steps[k];
    text += fmt::format("{:>4}  {}  {}: {}\n", k, printable(s.node), printable(s.op_type), s.kernel);
    if (!s.note.empty()) text += fmt::format("        {}\n", printable(s.note));
    if (s.rounding) text += fmt::format("        {}\n", to_text(*s.rounding));
    std::string outputs;
    for (const PlanTensor& t : s.outputs) outputs += (outputs.empty() ? "" : "; ") + to_text(t);
    if (!outputs.empty()) text += fmt::format("        output: {}\n", outputs);
    if (s.weight_bytes > 0 || s.scratch_bytes > 0) {
      text += fmt::format("        weights {} bytes, scratch {} bytes\n", s.weight_bytes, s.scratch_bytes);
    }
    for (const std::string& why : s.refusals) text += fmt::format("        not {}\n", printable(why));
  }
  for (const std::string& d : report.dropped) text += fmt::format("dropped {}\n", printable(d));
  const auto references = std::count_if(report.steps.begin(), report.steps.end(),
                                        [](const PlanStep& s) { return s.kernel == "reference"; });
  text += fmt::format(
      "{}: {} steps, {} of them in the interpreter (reference)\n"
      "memory: arena {} bytes (tensors between steps: {} in all, {} at once), scratch {}, weights {}\n",
      report.isa, report.steps.size(), references, report.arena_bytes, report.tensor_bytes, report.largest_live_bytes,
      report.scratch_bytes, report.weight_bytes);
  return text;
}

int plan(const PlanArguments& arguments) {
  if (arguments.kernels) return list_kernels(arguments.json);
  if (arguments.model.empty()) throw Error(ErrorCode::usage, "MODEL is missing");
  CompileOptions options = compile_options(arguments.engine);
  options.shapes = parse_shapes(arguments.shapes);
  Model model = Model::load(std::filesystem::path(arguments.model));
  for (const ValueInfo& v : model.inputs()) {
    if (!v.optional && !options.shapes.contains(v.name) && v.shape) require_known_shape(v, *v.shape, "--shape");
  }
  const PlanReport report = Executable::compile(std::move(model), options).plan();
  if (arguments.json) {
    print(to_json(report));
  } else {
    print(to_text(report));
  }
  return 0;
}

}  // namespace

Command add_plan(CommandLine& line) {
  auto arguments = std::make_shared<PlanArguments>();
  PlanArguments& a = *arguments;
  Options options = line.add("plan", "Show which kernel computes what, in which memory, and why");
  options.operand("MODEL", a.model, "ONNX file", false);
  options.list("--shape", "NAME=DIMS", a.shapes, "of an input whose dimensions are open: NAME=1x3x224x224");
  add_engine_options(options, a.engine);
  options.flag("--kernels", a.kernels, "list the kernels instead");
  options.flag("--json", a.json, "print JSON");
  return [arguments] { return plan(*arguments); };
}

}  // namespace halfeven::cli
