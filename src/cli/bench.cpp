// `halfeven plan` and `halfeven bench`: what the CPU engine does with a model, and how fast.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <halfeven/executable.hpp>
#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/shapes.hpp"
#include "cli/table.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EngineArguments {
  std::string model;
  InputArguments inputs;
  std::vector<std::string> shapes;
  std::string isa;
  int threads = 0;
  int runs = 20;
  bool profile = false;
  bool json = false;
};

Executable compile(const EngineArguments& arguments, const Model& model, const NamedTensors& inputs) {
  if (arguments.threads < 0 || arguments.runs < 1)
    throw Error(ErrorCode::usage, "--threads takes 0 or more, --runs 1 or more");
  CompileOptions options;
  options.threads = arguments.threads;
  options.isa = arguments.isa;
  options.shapes = parse_shapes(arguments.shapes);
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
  return Executable::compile(model, options);
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : "; ") + item;
  return text;
}

int plan(const EngineArguments& arguments) {
  const Model model = Model::load(std::filesystem::path(arguments.model));
  const PlanReport report = compile(arguments, model, {}).plan();
  if (arguments.json) {
    Json json = {{"isa", report.isa},
                 {"arena_bytes", report.arena_bytes},
                 {"tensor_bytes", report.tensor_bytes},
                 {"scratch_bytes", report.scratch_bytes},
                 {"steps", Json::array()}};
    for (const PlanStep& s : report.steps) {
      json["steps"].push_back({{"node", s.node},
                               {"operator", s.op_type},
                               {"kernel", s.kernel},
                               {"note", s.note},
                               {"refusals", s.refusals}});
    }
    print(json);
    return 0;
  }
  Table table({"node", "operator", "kernel", "why"});
  for (const PlanStep& s : report.steps) {
    table.add({printable(s.node), printable(s.op_type), s.kernel,
               printable(s.kernel == "reference" ? joined(s.refusals) : s.note)});
  }
  print(table.text());
  print(fmt::format(
      "{}: {} steps; tensors between them take {} bytes of the {} that they have in all; scratch {} bytes\n",
      report.isa, report.steps.size(), report.arena_bytes, report.tensor_bytes, report.scratch_bytes));
  return 0;
}

// Inputs of zeros where no file gives one.
void fill_up(const Model& model, const std::map<std::string, Shape>& shapes, NamedTensors& inputs) {
  for (const ValueInfo& v : model.inputs()) {
    if (v.optional || inputs.contains(v.name)) continue;
    const auto given = shapes.find(v.name);
    const Shape shape = given != shapes.end() ? given->second : v.shape.value_or(Shape{});
    if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; })) {
      throw Error(
          ErrorCode::usage,
          fmt::format("input '{}' has unknown dimensions: give --input or --shape {}=1x3x224x224", v.name, v.name));
    }
    inputs[v.name] = Tensor::own(v.dtype, shape, std::vector<std::byte>(element_count(shape) * storage_size(v.dtype)));
  }
}

int bench(const EngineArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const auto ms_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  const auto begin = Clock::now();
  const Model model = Model::load(std::filesystem::path(arguments.model));
  NamedTensors inputs = load_inputs(model.inputs(), arguments.inputs);
  fill_up(model, parse_shapes(arguments.shapes), inputs);
  const Executable executable = compile(arguments, model, inputs);
  Context context(executable);
  context.run(inputs);
  const double first = ms_since(begin);
  std::vector<double> times;
  for (int k = 0; k < arguments.runs; ++k) {
    const auto start = Clock::now();
    context.run(inputs);
    times.push_back(ms_since(start));
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const PlanReport report = executable.plan();
  std::vector<StepTime> profile;
  if (arguments.profile) context.run(inputs, &profile);
  std::map<std::string, std::pair<double, int>> by_kernel;
  for (const StepTime& t : profile) {
    auto& [total, count] = by_kernel[report.steps[t.step].kernel];
    total += t.milliseconds;
    ++count;
  }
  if (arguments.json) {
    Json json = {
        {"isa", report.isa},      {"runs", arguments.runs},   {"min_ms", times.front()},          {"median_ms", median},
        {"max_ms", times.back()}, {"first_result_ms", first}, {"peak_kilobytes", usage.ru_maxrss}};
    for (const StepTime& t : profile) {
      const PlanStep& s = report.steps[t.step];
      json["profile"].push_back(
          {{"node", s.node}, {"operator", s.op_type}, {"kernel", s.kernel}, {"ms", t.milliseconds}});
    }
    print(json);
    return 0;
  }
  print(
      fmt::format("{} runs: min {:.3f} ms, median {:.3f} ms, max {:.3f} ms; from file to first result {:.0f} ms; peak "
                  "memory {} MB\n",
                  arguments.runs, times.front(), median, times.back(), first, usage.ru_maxrss / 1024));
  if (!profile.empty()) {
    Table table({"ms", "node", "operator", "kernel"});
    for (const StepTime& t : profile) {
      const PlanStep& s = report.steps[t.step];
      table.add({fmt::format("{:.3f}", t.milliseconds), printable(s.node), printable(s.op_type), s.kernel});
    }
    print(table.text());
    Table kernels({"ms", "steps", "kernel"});
    for (const auto& [name, sum] : by_kernel)
      kernels.add({fmt::format("{:.3f}", sum.first), std::to_string(sum.second), name});
    print(kernels.text());
  }
  return 0;
}

void add_common(CLI::App* command, EngineArguments& a) {
  command->add_option("MODEL", a.model, "ONNX file")->required();
  command->add_option("--shape", a.shapes, "of an input whose dimensions are open: NAME=1x3x224x224")
      ->type_name("NAME=DIMS")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--isa", a.isa, "sse2, avx2, avx512, vnni or amx (default: the best that the processor has)")
      ->type_name("NAME");
  command->add_option("--threads", a.threads, "0 (default): as many as the machine has; changes no bit")
      ->type_name("N");
  command->add_flag("--json", a.json, "print JSON");
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto arguments = std::make_shared<EngineArguments>();
  CLI::App* command = app.add_subcommand("plan", "Show which kernel computes what, and why");
  add_common(command, *arguments);
  return [arguments] { return plan(*arguments); };
}

Command add_bench(CLI::App& app) {
  auto arguments = std::make_shared<EngineArguments>();
  EngineArguments& a = *arguments;
  CLI::App* command = app.add_subcommand("bench", "Time a model on the CPU engine, warm, in this process");
  add_common(command, a);
  command->add_option("-i,--input", a.inputs.files, ".npy, .npz or .pb; inputs without a file are zeros")
      ->type_name("[NAME=]FILE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--runs", a.runs, "timed runs (default 20)")->type_name("N");
  command->add_flag("--profile", a.profile, "time every step of one more run");
  return [arguments] { return bench(*arguments); };
}

}  // namespace halfeven::cli
