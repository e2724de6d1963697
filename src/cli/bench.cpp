// `halfeven bench`: how fast the CPU engine is.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <halfeven/executable.hpp>
#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/engine.hpp"
#include "cli/files.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/shapes.hpp"
#include "cli/table.hpp"
#include "cli/trace.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  std::string model;
  InputArguments inputs;
  std::vector<std::string> shapes;
  EngineOptions engine;
  int runs = 20;
  std::string trace;
  bool plain_rounding = false;
  bool profile = false;
  bool json = false;
};

// Inputs of zeros where no file gives one.
void fill_up(const Model& model, const std::map<std::string, Shape>& shapes, NamedTensors& inputs) {
  for (const ValueInfo& v : model.inputs()) {
    if (v.optional || inputs.contains(v.name)) continue;
    const auto given = shapes.find(v.name);
    const Shape shape = given != shapes.end() ? given->second : v.shape.value_or(Shape{});
    require_known_shape(v, shape, "--input or --shape");
    inputs[v.name] = Tensor::own(v.dtype, shape, std::vector<std::byte>(element_count(shape) * storage_size(v.dtype)));
  }
}

// Times of the runs, and what else a reader wants to know.
struct Measurement {
  PlanReport plan;
  std::vector<double> times;  // sorted
  double first_result = 0;
  Residence memory;  // before anything is profiled
  std::vector<StepTime> profile;

  double median() const { return times[times.size() / 2]; }
};

Measurement measure(const BenchArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const auto ms_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  Measurement out;
  const auto begin = Clock::now();
  Model model = Model::load(std::filesystem::path(arguments.model));
  NamedTensors inputs = load_inputs(model.inputs(), arguments.inputs);
  fill_up(model, parse_shapes(arguments.shapes), inputs);
  CompileOptions options = compile_options(arguments.engine);
  options.plain_rounding = arguments.plain_rounding;
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
  const Executable executable = Executable::compile(std::move(model), options);
  out.plan = executable.plan();
  const auto threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  const auto pool = make_thread_pool(std::max(1, threads));
  {
    Context context(executable, pool);
    context.run(inputs);
    out.first_result = ms_since(begin);
    for (int k = 0; k < arguments.runs; ++k) {
      const auto start = Clock::now();
      context.run(inputs);
      out.times.push_back(ms_since(start));
    }
    out.memory = residence();
    if (arguments.profile) context.run(inputs, &out.profile);
  }
  std::sort(out.times.begin(), out.times.end());
  if (!arguments.trace.empty()) {
    const auto tracing = std::make_shared<TracingPool>(pool);
    Context context(executable, tracing);
    context.run(inputs);
    std::vector<StepTime> steps;
    tracing->restart();
    context.run(inputs, &steps);
    write_file(arguments.trace, tracing->json(out.plan, steps));
  }
  return out;
}

Json to_json(const BenchArguments& arguments, const Measurement& m) {
  Json json = {{"isa", m.plan.isa},
               {"runs", arguments.runs},
               {"min_ms", m.times.front()},
               {"median_ms", m.median()},
               {"max_ms", m.times.back()},
               {"first_result_ms", m.first_result},
               {"peak_kilobytes", m.memory.peak},
               {"resident_kilobytes", m.memory.now},
               {"weight_bytes", m.plan.weight_bytes},
               {"arena_bytes", m.plan.arena_bytes},
               {"largest_live_bytes", m.plan.largest_live_bytes},
               {"scratch_bytes", m.plan.scratch_bytes}};
  for (const StepTime& t : m.profile) {
    const PlanStep& s = m.plan.steps[t.step];
    json["profile"].push_back(
        {{"node", s.node}, {"operator", s.op_type}, {"kernel", s.kernel}, {"ms", t.milliseconds}});
  }
  return json;
}

std::string profile_text(const Measurement& m) {
  Table steps({"ms", "node", "operator", "kernel"});
  std::map<std::string, std::pair<double, int>> by_kernel;
  for (const StepTime& t : m.profile) {
    const PlanStep& s = m.plan.steps[t.step];
    steps.add({fmt::format("{:.3f}", t.milliseconds), printable(s.node), printable(s.op_type), s.kernel});
    auto& [total, count] = by_kernel[s.kernel];
    total += t.milliseconds;
    ++count;
  }
  Table kernels({"ms", "steps", "kernel"});
  for (const auto& [name, sum] : by_kernel) {
    kernels.add({fmt::format("{:.3f}", sum.first), std::to_string(sum.second), name});
  }
  return steps.text() + kernels.text();
}

int bench(const BenchArguments& arguments) {
  if (arguments.runs < 1) throw Error(ErrorCode::usage, "--runs takes 1 or more");
  const Measurement m = measure(arguments);
  if (arguments.json) {
    print(to_json(arguments, m));
    return 0;
  }
  print(fmt::format(
      "{} runs: min {:.3f} ms, median {:.3f} ms, max {:.3f} ms; from file to first result {:.0f} ms; memory {} MB, "
      "at most {} MB\n",
      arguments.runs, m.times.front(), m.median(), m.times.back(), m.first_result, m.memory.now / 1024,
      m.memory.peak / 1024));
  if (!m.profile.empty()) print(profile_text(m));
  return 0;
}

}  // namespace

Command add_bench(CommandLine& line) {
  auto arguments = std::make_shared<BenchArguments>();
  BenchArguments& a = *arguments;
  Options options = line.add("bench", "Time a model on the CPU engine, warm, in this process");
  options.operand("MODEL", a.model, "ONNX file");
  options.list("-i,--input", "[NAME=]FILE", a.inputs.files, ".npy, .npz or .pb; inputs without a file are zeros");
  options.list("--shape", "NAME=DIMS", a.shapes, "of an input whose dimensions are open: NAME=1x3x224x224");
  add_engine_options(options, a.engine);
  options.option("--runs", "N", a.runs, "timed runs (default 20)");
  options.flag("--profile", a.profile, "time every step of one more run");
  options.flag("--plain-rounding", a.plain_rounding,
               "measure what exactness costs: convolutions round without checks, results may be wrong");
  options.option("--trace", "FILE", a.trace, "write a trace of one more run for chrome://tracing or Perfetto");
  options.flag("--json", a.json, "print JSON");
  return [arguments] { return bench(*arguments); };
}

}  // namespace halfeven::cli
