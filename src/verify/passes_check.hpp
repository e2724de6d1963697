// Contract section 3.2: no pass changes a bit. Shown by running the graphs before and after it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

#include "ops/validate.hpp"
#include "passes/pass.hpp"

namespace halfeven::verification {

/// A tensor for each graph input, in the graph's order.
using InputSet = std::vector<Tensor>;

/// What is checked: applies passes to the graph and calls the observer after each step that changed something.
using RunPasses =
    std::function<passes::PipelineResult(const ir::Graph& graph, passes::Observer observer, void* context)>;

struct CheckOptions {
  int threads = 1;
  std::function<void(std::size_t done, const std::string& next)> progress;
};

struct PassesReport {
  std::vector<std::string> ran;  ///< every step, those that changed nothing too
  std::vector<PassCheck> steps;  ///< the others
};

/// Runs every version of the graph once per input set and compares it with the version before: outputs by place, and
/// every computed or constant tensor whose name both have. A pass that throws, or leaves a graph that cannot be run,
/// fails with the message. Errors of the original graph are thrown.
PassesReport check_passes(const ir::Graph& graph, const ops::Facts& facts, const std::vector<InputSet>& inputs,
                          const RunPasses& run, const CheckOptions& options);

}  // namespace halfeven::verification
