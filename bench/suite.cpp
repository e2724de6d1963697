// halfeven-bench: every kernel of the table on the layers of known networks, and what surrounds the kernels.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <halfeven/executable.hpp>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "plan/lower.hpp"
#include "plan/memory.hpp"
#include "plan/plan.hpp"
#include "plan/runner.hpp"
#include "roofline_probe.hpp"
#include "runtime/bind.hpp"
#include "runtime/thread_pool.hpp"
#include "shapes.hpp"

namespace halfeven::bench {
namespace {

const std::vector<std::string> kOtherSuites{"roofline", "planner", "import", "passes", "pool"};

struct Arguments {
  std::vector<std::string> suites;
  std::set<std::string> kernels;
  int threads = 1;
};

double rate(double amount) { return amount; }

benchmark::Counter per_second(double amount) { return {rate(amount), benchmark::Counter::kIsIterationInvariantRate}; }

// One kernel on one shape: a graph of one operator, fused and planned with this entry alone.
void run_kernel(benchmark::State& state, const plan::Sample& sample, const ir::Graph& fused, const plan::Entry& entry,
                int threads) {
  const plan::Plan plan = plan::make_plan(fused, {.isa = entry.isa, .self_test = false, .table = {&entry, 1}});
  const plan::Runner runner(plan, sample.inputs);
  const auto pool = make_thread_pool(threads);
  const auto parallel = runtime::parallel_on(*pool);
  runner.run(parallel);
  std::vector<std::size_t> steps;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    if (plan.steps[k].kernel->name == entry.name) steps.push_back(k);
  }
  const auto cold = std::chrono::steady_clock::now();
  for (auto _ : state) {
    for (const std::size_t k : steps) runner.step(k, parallel);
    benchmark::ClobberMemory();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - cold).count();
  const double each = seconds / static_cast<double>(state.iterations());
  const double top = attainable(entry.isa, sample.operations, sample.bytes) * threads;
  if (sample.operations > 0) state.counters["operations"] = per_second(sample.operations);
  state.counters["bytes"] = per_second(sample.bytes);
  state.counters["intensity"] = sample.operations / sample.bytes;
  state.counters["of_peak"] = (sample.operations > 0 ? sample.operations : sample.bytes) / each / top;
  state.SetLabel(plan.steps[steps.front()].kernel->note);
}

void register_shapes(const std::string& suite, const Arguments& arguments) {
  for (const BenchShape& shape : shapes(suite)) {
    // Made once, when the first kernel is asked whether it takes it.
    std::shared_ptr<const plan::Sample> sample;
    std::shared_ptr<const ir::Graph> fused;
    for (const plan::Entry& entry : plan::kernel_table()) {
      const bool named =
          names_operator(entry, shape.op_type) || (shape.elementwise && names_operator(entry, "elementwise"));
      if (entry.isa > plan::detect_isa() || !named) continue;
      if (!arguments.kernels.empty() && !arguments.kernels.contains(std::string(entry.name))) continue;
      if (!fused) {
        sample = std::make_shared<const plan::Sample>(shape.make());
        ir::Graph graph = plan::lower(passes::Pipeline::all().run(sample->graph).graph);
        ops::validate(graph);
        fused = std::make_shared<const ir::Graph>(std::move(graph));
      }
      const std::vector<plan::Form> forms(fused->values.size());
      const bool taken = std::any_of(fused->nodes.begin(), fused->nodes.end(), [&](const ir::Node& node) {
        return entry.make({*fused, node, entry.isa, forms}).kernel != nullptr;
      });
      if (!taken) continue;
      benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", suite, shape.name, entry.name).c_str(),
                                   [sample, fused, &entry, &arguments](benchmark::State& state) {
                                     run_kernel(state, *sample, *fused, entry, arguments.threads);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

void register_roofline() {
  for (int k = 0; k <= static_cast<int>(plan::detect_isa()); ++k) {
    const auto isa = static_cast<plan::Isa>(k);
    if (isa == plan::Isa::amx) continue;
    benchmark::RegisterBenchmark(fmt::format("roofline/peak/{}", plan::to_string(isa)).c_str(),
                                 [isa](benchmark::State& state) {
                                   for (auto _ : state) benchmark::DoNotOptimize(peak_operations(isa));
                                   state.counters["peak_operations"] = peak_operations(isa);
                                 })
        ->Iterations(1);
  }
  for (const std::size_t kilobytes : {24UL, 512UL, 8UL << 10, 128UL << 10}) {
    benchmark::RegisterBenchmark(fmt::format("roofline/read/{} KiB", kilobytes).c_str(), [kilobytes](
                                                                                             benchmark::State& state) {
      for (auto _ : state) benchmark::DoNotOptimize(read_bandwidth(kilobytes << 10));
      state.counters["read_bytes"] = read_bandwidth(kilobytes << 10);
    })->Iterations(1);
  }
}

std::vector<std::filesystem::path> models() {
  std::vector<std::filesystem::path> out{HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx"};
  if (const char* folder = std::getenv("HALFEVEN_MODELS")) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (std::filesystem::exists(entry.path() / "model.onnx")) out.push_back(entry.path() / "model.onnx");
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Open dimensions as the networks at hand have them.
std::vector<Shape> shapes_of(const Model& model) {
  std::vector<Shape> out;
  for (const ValueInfo& v : model.inputs()) {
    Shape s = v.shape.value_or(Shape{});
    for (std::size_t k = 0; k < s.size(); ++k) {
      if (s[k] < 0) s[k] = k == 0 ? 1 : 96;
    }
    out.push_back(std::move(s));
  }
  return out;
}

void register_planner() {
  for (const std::size_t count : {100UL, 1000UL}) {
    benchmark::RegisterBenchmark(fmt::format("planner/memory/{} blocks", count).c_str(), [count](
                                                                                             benchmark::State& state) {
      std::mt19937_64 random(1);
      std::vector<plan::Block> blocks(count);
      for (std::size_t k = 0; k < count; ++k) {
        blocks[k] = {k, k + 1 + random() % 4, 64 * (1 + random() % 1000), 0};
      }
      std::size_t all = 0;
      for (auto _ : state) benchmark::DoNotOptimize(all = plan::place_blocks(blocks));
      state.counters["of_least"] = static_cast<double>(all) / static_cast<double>(plan::largest_live(blocks));
    })->Unit(benchmark::kMicrosecond);
  }
  for (const auto& path : models()) {
    const std::string name = path.parent_path().filename().string();
    benchmark::RegisterBenchmark(("planner/plan/" + name).c_str(), [path](benchmark::State& state) {
      const Model model = Model::load(path);
      ir::Graph fused = passes::Pipeline::all().run(runtime::bind_shapes(model.impl().graph, shapes_of(model))).graph;
      for (auto _ : state) benchmark::DoNotOptimize(plan::make_plan(fused, {.isa = plan::detect_isa()}).arena_bytes);
    })->Unit(benchmark::kMillisecond);
  }
}

void register_models(bool import) {
  for (const auto& path : models()) {
    const std::string name = path.parent_path().filename().string();
    if (import) {
      benchmark::RegisterBenchmark(("import/" + name).c_str(), [path](benchmark::State& state) {
        for (auto _ : state) benchmark::DoNotOptimize(Model::load(path));
        state.counters["bytes"] = per_second(static_cast<double>(std::filesystem::file_size(path)));
      })->Unit(benchmark::kMillisecond);
    } else {
      benchmark::RegisterBenchmark(("passes/" + name).c_str(), [path](benchmark::State& state) {
        const Model model = Model::load(path);
        for (auto _ : state) benchmark::DoNotOptimize(fuse(model));
      })->Unit(benchmark::kMillisecond);
    }
  }
}

// From call to return of a job with a piece for each thread.
void register_pool() {
  for (const int threads : {1, 2, 4}) {
    benchmark::RegisterBenchmark(fmt::format("pool/{} threads", threads).c_str(), [threads](benchmark::State& state) {
      const auto pool = make_thread_pool(threads);
      const auto parallel = runtime::parallel_on(*pool);
      std::atomic<std::int64_t> sum{0};
      for (auto _ : state) {
        parallel(threads, [&](std::int64_t a, std::int64_t b) { sum += b - a; });
      }
    })->UseRealTime();
  }
}

int usage(const std::string& message) {
  std::string suites;
  for (const std::string& s : shape_suites()) suites += s + ", ";
  for (const std::string& s : kOtherSuites) suites += s + ", ";
  std::cerr << fmt::format(
      "{}\nhalfeven-bench [--suite NAME]... [--kernel NAME]... [--threads N] [--json] [--smoke] [--benchmark_...]\n"
      "Suites: {}all (default). --smoke: one iteration each.\n",
      message, suites);
  return 2;
}

int run(int argc, char** argv) {
  static Arguments arguments;
  std::vector<std::string> rest{argv[0]};
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const bool takes_value = a == "--suite" || a == "--kernel" || a == "--threads";
    if (takes_value && k + 1 == argc) return usage(a + " needs a value");
    if (a == "--suite") {
      arguments.suites.emplace_back(argv[++k]);
    } else if (a == "--kernel") {
      arguments.kernels.emplace(argv[++k]);
    } else if (a == "--threads") {
      arguments.threads = std::max(1, std::atoi(argv[++k]));
    } else if (a == "--json") {
      rest.emplace_back("--benchmark_format=json");
    } else if (a == "--smoke") {
      rest.emplace_back("--benchmark_min_time=0");
    } else if (a.starts_with("--benchmark_")) {
      rest.push_back(a);
    } else {
      return usage("unknown argument " + a);
    }
  }
  const auto kernel_suites = shape_suites();
  if (arguments.suites.empty() ||
      std::find(arguments.suites.begin(), arguments.suites.end(), "all") != arguments.suites.end()) {
    arguments.suites = kernel_suites;
    arguments.suites.insert(arguments.suites.end(), kOtherSuites.begin(), kOtherSuites.end());
  }
  for (const std::string& suite : arguments.suites) {
    if (std::find(kernel_suites.begin(), kernel_suites.end(), suite) != kernel_suites.end()) {
      register_shapes(suite, arguments);
    } else if (suite == "roofline") {
      register_roofline();
    } else if (suite == "planner") {
      register_planner();
    } else if (suite == "import" || suite == "passes") {
      register_models(suite == "import");
    } else if (suite == "pool") {
      register_pool();
    } else {
      return usage("there is no suite " + suite);
    }
  }
  std::vector<char*> pointers;
  for (std::string& s : rest) pointers.push_back(s.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace halfeven::bench

int main(int argc, char** argv) {
  try {
    return halfeven::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "halfeven-bench: error: " << e.what() << "\n";
    return 1;
  }
}
