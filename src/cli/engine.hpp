// What `plan`, `bench` and `run` have in common: options of the engine.
#pragma once

#include <string>
#include <vector>

#include <halfeven/executable.hpp>

#include "cli/options.hpp"

namespace halfeven::cli {

struct EngineOptions {
  std::string isa;
  std::vector<std::string> kernels;
  int threads = 0;
};

/// --isa, --kernel and --threads.
void add_engine_options(Options& options, EngineOptions& engine);

/// The options for compile(). Throws Error{usage} for a negative number of threads.
CompileOptions compile_options(const EngineOptions& options);

/// Kilobytes that the process has in memory: now, and at most so far. 0 where the system does not say.
struct Residence {
  long now = 0;
  long peak = 0;
};
Residence residence();

}  // namespace halfeven::cli
