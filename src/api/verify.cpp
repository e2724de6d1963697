// verify: the passes and the two contracts, checked by computing.
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "ir/quote.hpp"
#include "verify/contracts_check.hpp"
#include "verify/kernels_check.hpp"
#include "verify/passes_check.hpp"
#include "verify/random_inputs.hpp"

namespace halfeven {
namespace {

std::string describe(const ir::Graph& graph, const verification::InputSet& inputs) {
  std::string text;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    text += fmt::format("{}{} {}", k == 0 ? "" : ", ", ir::quote(graph.value(graph.inputs[k]).name),
                        to_string(inputs[k].shape()));
  }
  return text;
}

}  // namespace

VerifyReport verify(const Model& model, const std::vector<NamedTensors>& inputs, const VerifyOptions& options) {
  const ir::Graph& graph = model.impl().graph;
  const ops::Facts& facts = model.impl().facts;
  const auto pipeline = options.passes.empty() ? passes::Pipeline::all() : passes::Pipeline::parse(options.passes);
  if (options.random < 0) throw Error(ErrorCode::usage, "the number of random input sets is negative");

  std::vector<verification::InputSet> sets;
  for (const NamedTensors& named : inputs) sets.push_back(bind_inputs(model, named));
  const std::size_t given = sets.size();
  const auto draw = [&](int tameness) {
    sets.resize(given);
    for (int k = 0; k < options.random; ++k) {
      sets.push_back(verification::random_inputs(graph, facts, options.shapes, options.seed,
                                                 static_cast<std::size_t>(k), tameness));
    }
  };
  draw(0);
  if (sets.empty()) {
    throw Error(ErrorCode::usage, "there is nothing to verify with: give inputs, or ask for random ones");
  }

  verification::CheckOptions check;
  check.threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  check.progress = options.progress;

  VerifyReport report;
  report.input_sets = sets.size();
  const auto run = [&](const ir::Graph& g, passes::Observer observer, void* context) {
    return pipeline.run(g, observer, context);
  };
  verification::PassesReport passes;
  for (int tameness = 0;; draw(++tameness)) {
    try {
      passes = verification::check_passes(graph, facts, sets, run, check);
      break;
    } catch (const Error& e) {
      if (options.random == 0 || e.code() != ErrorCode::input) throw;
      if (tameness < verification::kTamest) continue;
      throw Error(e.code(),
                  fmt::format("{} (the random inputs are {}; another shape, or inputs from files, may suit the model "
                              "better)",
                              e.what(), describe(graph, sets.back())),
                  e.node());
    }
  }
  report.passes = std::move(passes.ran);
  report.steps = std::move(passes.steps);
  if (options.kernels) {
    auto kernels = verification::check_kernels(graph, sets, run, {options.isa, options.prefer}, check);
    report.kernels = std::move(kernels.checks);
    report.note = std::move(kernels.note);
  }
  if (!options.contracts) return report;
  auto contracts = verification::check_contracts(graph, sets, check);
  report.groups = std::move(contracts.groups);
  report.in_groups = std::move(contracts.in_groups);
  report.whole = std::move(contracts.whole);
  report.note += (report.note.empty() || contracts.note.empty() ? "" : "\n") + contracts.note;
  return report;
}

}  // namespace halfeven
