// The check of kernels passes on what is right and names what is wrong.
#include "verify/kernels_check.hpp"

#include <random>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

// Another kernel's results with one bit turned, or a byte written behind the output.
class Mutant final : public plan::Kernel {
 public:
  Mutant(std::unique_ptr<plan::Kernel> right, std::size_t byte, int bit)
      : right_(std::move(right)), byte_(byte), bit_(bit) {
    name = "mutant";
    scratch = right_->scratch;
    in_forms = right_->in_forms;
    out_form = right_->out_form;
  }
  void run(const plan::Buffers& b, const plan::ParallelFor& parallel) const override {
    right_->run(b, parallel);
    b.out[0][byte_] ^= static_cast<std::byte>(1 << bit_);
  }

  std::unique_ptr<plan::Kernel> give_back() { return std::move(right_); }

 private:
  std::unique_ptr<plan::Kernel> right_;
  std::size_t byte_;
  int bit_;
};

plan::Plan plan_of(const Model& model, const NamedTensors& inputs) {
  ir::Graph graph = model.impl().graph;
  for (const ir::ValueId id : graph.inputs) {
    if (const auto at = inputs.find(graph.value(id).name); at != inputs.end())
      graph.value(id).shape = at->second.shape();
  }
  return plan::make_plan(passes::Pipeline::all().run(graph).graph, {.isa = plan::detect_isa(), .keep_graph = true});
}

std::vector<std::filesystem::path> good_cases() {
  std::vector<std::filesystem::path> out;
  for (const auto& folder : folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases")) {
    if (!std::filesystem::exists(folder / "expected_error.txt")) out.push_back(folder);
  }
  return out;
}

TEST(KernelsCheck, EveryMutantIsCaught) {
  std::mt19937_64 random(20261204);
  std::size_t mutants = 0;
  for (const auto& folder : good_cases()) {
    const Model model = Model::load(folder / "model.onnx");
    const NamedTensors inputs = load_inputs(model, folder);
    plan::Plan plan = plan_of(model, inputs);
    const auto bound = bind_inputs(model, inputs);
    for (const KernelCheck& c : verification::check_plan(plan, bound, 1)) {
      EXPECT_TRUE(c.ok()) << folder << " " << c.node << " " << c.kernel << ": " << c.difference;
    }
    for (plan::Step& step : plan.steps) {
      if (step.kernel->name == "reference" || step.kernel->alias) continue;
      const std::size_t bytes = plan.places[step.outputs[0]].bytes;
      if (bytes == 0) continue;
      const bool behind = random() % 4 == 0;
      const std::string node = step.node;
      step.kernel = std::make_unique<Mutant>(std::move(step.kernel), behind ? bytes : random() % bytes,
                                             static_cast<int>(random() % 8));
      ++mutants;
      std::size_t caught = 0;
      for (const KernelCheck& c : verification::check_plan(plan, bound, 1)) {
        if (c.ok() || c.kernel != "mutant" || c.node != node) continue;
        ++caught;
        EXPECT_EQ(behind, c.differing == 0) << c.difference;
      }
      step.kernel = dynamic_cast<Mutant&>(*step.kernel).give_back();
      EXPECT_EQ(caught, 2U) << folder << ", step " << node << ": on 1 and on 4 threads";
    }
  }
  std::cout << mutants << " mutants\n";
  EXPECT_GT(mutants, 30U);
}

TEST(KernelsCheck, VerifyReportsKernels) {
  std::size_t runs = 0;
  for (const auto& folder : good_cases()) {
    const Model model = Model::load(folder / "model.onnx");
    VerifyOptions options;
    options.contracts = false;
    const VerifyReport report = verify(model, {load_inputs(model, folder)}, options);
    EXPECT_TRUE(report.ok()) << folder << "\n" << report.text();
    runs += report.kernels.size();
    for (const KernelCheck& c : report.kernels) EXPECT_FALSE(c.isa.empty());
  }
  EXPECT_GT(runs, 100U);
  const Model model = Model::load(HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  VerifyOptions options;
  options.isa = "z80";
  options.random = 1;
  EXPECT_THROW(verify(model, {}, options), Error);
}

}  // namespace
}  // namespace halfeven::test
