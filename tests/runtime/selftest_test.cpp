// Self-tests pass on this machine, catch kernels that are wrong, and cost little.
#include "plan/selftest.hpp"

#include <chrono>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "plan/plan.hpp"
#include "plan/samples.hpp"
#include "support/files.hpp"

namespace halfeven::plan {

Offer make_conv(const Site& site);

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST(SelfTest, EveryKernelPassesHere) {
  const auto start = Clock::now();
  for (const Entry& entry : kernel_table()) {
    if (entry.isa > detect_isa()) continue;
    const auto begin = Clock::now();
    EXPECT_EQ(self_test(entry), "") << entry.name;
    std::cout << entry.name << ": " << ms_since(begin) << " ms\n";
  }
  std::cout << "all: " << ms_since(start) << " ms\n";
}

// A convolution that is wrong by one bit.
class Wrong final : public Kernel {
 public:
  explicit Wrong(std::unique_ptr<Kernel> right) : right_(std::move(right)) {
    scratch = right_->scratch;
    in_forms = right_->in_forms;
    out_form = right_->out_form;
  }
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    right_->run(b, parallel);
    b.out[0][0] ^= std::byte{4};
  }

 private:
  std::unique_ptr<Kernel> right_;
};

// One that cannot run here.
class Failing final : public Kernel {
 public:
  explicit Failing(const Kernel& right) {
    in_forms = right.in_forms;
    out_form = right.out_form;
  }
  void run(const Buffers&, const ParallelFor&) const override { throw Error(ErrorCode::other, "no such instruction"); }
};

Offer make_wrong(const Site& site) {
  Offer offer = make_conv(site);
  if (offer.kernel) offer.kernel = std::make_unique<Wrong>(std::move(offer.kernel));
  return offer;
}

Offer make_failing(const Site& site) {
  Offer offer = make_conv(site);
  if (offer.kernel) offer.kernel = std::make_unique<Failing>(*offer.kernel);
  return offer;
}

TEST(SelfTest, AWrongKernelIsDroppedAndTheNextServes) {
  const Entry table[] = {{"conv.wrong", Isa::sse2, make_wrong, "Conv"},
                         {"conv.failing", Isa::sse2, make_failing, "Conv"},
                         {"conv.right", Isa::sse2, make_conv, "Conv"}};
  EXPECT_NE(self_test(table[0]).find("is wrong"), std::string::npos);
  const Sample sample = sample_conv({.channels = 8, .height = 4, .width = 4, .out_channels = 8});
  const Plan plan = make_plan(passes::Pipeline::all().run(sample.graph).graph, {.table = table});
  ASSERT_FALSE(plan.steps.empty());
  EXPECT_TRUE(
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& s) { return s.kernel->name == "conv.right"; }));
  ASSERT_EQ(plan.dropped.size(), 2U);
  EXPECT_TRUE(plan.dropped[0].starts_with("conv.wrong: element ")) << plan.dropped[0];
  EXPECT_EQ(plan.dropped[1], "conv.failing: it failed: no such instruction");
}

TEST(SelfTest, CompilingANetworkCostsLittleMore) {
  const Model model = Model::load(HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
  CompileOptions options;
  for (const ValueInfo& v : model.inputs()) {
    Shape shape = *v.shape;
    for (std::size_t k = 0; k < shape.size(); ++k)
      shape[k] = shape[k] >= 0 ? shape[k] : (k == 0 ? 1 : 48 * static_cast<std::int64_t>(k - 1));
    options.shapes[v.name] = shape;
  }
  EXPECT_TRUE(Executable::compile(model, options).plan().dropped.empty());
}

}  // namespace
}  // namespace halfeven::plan
