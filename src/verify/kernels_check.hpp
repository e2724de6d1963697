// Contract section 3.1: every kernel gives the interpreter's bits. Shown step by step, from identical inputs.
#pragma once

#include <vector>

#include <halfeven/halfeven.hpp>

#include "plan/plan.hpp"
#include "verify/passes_check.hpp"

namespace halfeven::verification {

/// Runs every step of the plan on what the interpreter gives its inputs, in the forms that the plan stores, on 1 and on
/// 4 threads, and compares every bit of its outputs with what the interpreter gives for them. Also checks that nothing
/// is written beyond the outputs. Steps of the interpreter itself are left out. The plan has kept its graph, and
/// `inputs` have its shapes. Throws Error{input} as the interpreter does.
std::vector<KernelCheck> check_plan(const plan::Plan& plan, const InputSet& inputs, int interpreter_threads);

struct KernelsReport {
  std::vector<KernelCheck> checks;
  std::string note;  ///< why there is no plan; usually empty
};

/// What plans to check: for one instruction set, or for all if it is empty; kernels to be preferred.
struct KernelChoice {
  std::string isa;
  std::vector<std::string> kernels;
};

/// check_plan for every instruction set up to this processor's, with the plans that the input sets' shapes lead to.
/// Kernels that an earlier plan had at the same node are not run again. Throws Error{usage} for an instruction set that
/// there is not.
KernelsReport check_kernels(const ir::Graph& graph, const std::vector<InputSet>& inputs, const RunPasses& run,
                            const KernelChoice& choice, const CheckOptions& options);

}  // namespace halfeven::verification
