#include "cli/engine.hpp"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "cli/output.hpp"

namespace halfeven::cli {

void add_engine_options(Options& options, EngineOptions& engine) {
  options.option("--isa", "NAME", engine.isa,
                 "kernels for sse2, avx2, avx512, vnni or amx (default: the best that the processor has)");
  options.list("--kernel", "NAME", engine.kernels, "take this one where it serves; may be given several times");
  options.option("--threads", "N", engine.threads, "0 (default): as many as the machine has; changes no bit");
}

CompileOptions compile_options(const EngineOptions& options) {
  if (options.threads < 0) throw Error(ErrorCode::usage, "--threads takes 0 or more");
  CompileOptions out;
  out.isa = options.isa;
  out.kernels = options.kernels;
  out.threads = options.threads;
  out.only_these_shapes = true;
  return out;
}

void check_inputs(const std::vector<ValueInfo>& declared, const NamedTensors& inputs) {
  std::map<std::string, std::int64_t> symbols;
  for (const ValueInfo& v : declared) {
    const auto at = inputs.find(v.name);
    if (at == inputs.end()) {
      if (v.optional) continue;
      throw Error(ErrorCode::input, fmt::format("no value for input '{}' ({} {})", v.name, to_string(v.dtype),
                                                v.shape ? to_string(*v.shape) : "of any shape"));
    }
    const Tensor& t = at->second;
    if (t.dtype() != v.dtype) {
      throw Error(ErrorCode::input, fmt::format("input '{}': type {} is needed, not {}", v.name, to_string(v.dtype),
                                                to_string(t.dtype())));
    }
    const auto fits = [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; };
    if (v.shape && !std::equal(v.shape->begin(), v.shape->end(), t.shape().begin(), t.shape().end(), fits)) {
      throw Error(ErrorCode::input, fmt::format("input '{}': shape {} is needed, not {}", v.name, to_string(*v.shape),
                                                to_string(t.shape())));
    }
    // Worth a warning only: exporters call every unknown dimension by one name.
    for (std::size_t k = 0; k < t.rank() && k < v.dim_names.size(); ++k) {
      if (v.dim_names[k].empty() || (v.shape && (*v.shape)[k] >= 0)) continue;
      const auto [known, fresh] = symbols.try_emplace(v.dim_names[k], t.shape()[k]);
      if (!fresh && known->second != t.shape()[k]) {
        warn(fmt::format("dimension '{}' is {} in one place and {} in input '{}'", v.dim_names[k], known->second,
                         t.shape()[k], v.name));
      }
    }
  }
}

Residence residence() {
  Residence out;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto value = [&](const char* name) { return std::stol(line.substr(std::string(name).size())); };
    if (line.starts_with("VmRSS:")) out.now = value("VmRSS:");
    if (line.starts_with("VmHWM:")) out.peak = value("VmHWM:");
  }
  return out;
}

}  // namespace halfeven::cli
