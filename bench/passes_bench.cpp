// All passes on the classic networks, validation after every change included. Models come from HALFEVEN_MODELS (a
// folder of folders with model.onnx), else the example's.
#include <cstdlib>
#include <filesystem>

#include <benchmark/benchmark.h>

#include <halfeven/executable.hpp>
#include <halfeven/halfeven.hpp>

namespace {

void all_passes(benchmark::State& state, const std::filesystem::path& path) {
  const halfeven::Model model = halfeven::Model::load(path);
  for (auto _ : state) benchmark::DoNotOptimize(halfeven::fuse(model));
}

void import_model(benchmark::State& state, const std::filesystem::path& path) {
  for (auto _ : state) benchmark::DoNotOptimize(halfeven::Model::load(path));
}

const bool registered = [] {
  std::vector<std::filesystem::path> models{HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx"};
  if (const char* folder = std::getenv("HALFEVEN_MODELS")) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (std::filesystem::exists(entry.path() / "model.onnx")) models.push_back(entry.path() / "model.onnx");
    }
  }
  for (const auto& path : models) {
    const std::string name = path.parent_path().filename().string();
    benchmark::RegisterBenchmark(("passes/" + name).c_str(), all_passes, path)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("import/" + name).c_str(), import_model, path)->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
