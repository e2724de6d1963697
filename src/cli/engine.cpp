#include "cli/engine.hpp"

#include <fstream>

#include <fmt/format.h>

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
