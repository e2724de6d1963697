// Runs a graph with every instruction set and compares it with the interpreter, bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include <halfeven/executable.hpp>

#include "plan/kernel.hpp"
#include "properties/small_graph.hpp"
#include "support/effort.hpp"
#include "support/files.hpp"

namespace halfeven::test {

/// Runs the model, which has concrete shapes with these inputs, with every instruction set up to this processor's and
/// the given numbers of threads, twice each (the second run finds the arena used), and expects `wanted`. Calls on_step
/// for each step of each plan. Stops after the first failure.
template <class OnStep>
void expect_from_engine(const Model& model, const NamedTensors& inputs, const std::vector<Tensor>& wanted,
                        const std::vector<int>& threads, const std::string& what, OnStep on_step) {
  for (int isa = 0; isa <= static_cast<int>(plan::detect_isa()); ++isa) {
    for (const int t : threads) {
      CompileOptions options;
      options.isa = plan::to_string(static_cast<plan::Isa>(isa));
      options.threads = t;
      for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
      const Executable executable = Executable::compile(model, options);
      std::string steps;
      for (const PlanStep& step : executable.plan().steps) {
        on_step(step);
        steps += step.op_type + " " + step.kernel + "\n";
      }
      Context context(executable);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const auto got = context.run(inputs);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t o = 0; o < got.size(); ++o) {
          expect_identical(got[o], wanted[o],
                           what + ", " + options.isa + ", " + std::to_string(t) + " threads, output " +
                               std::to_string(o) + "\n" + steps);
        }
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Compares the engine with the interpreter; returns how many steps ran kernels whose name starts with `family`.
inline std::size_t compare_small(const properties::SmallGraph& graph, const std::string& what,
                                 const std::string& family, const std::vector<int>& threads = {1, 3}) {
  const std::string text = properties::to_onnx(graph);
  const Model model = Model::load(std::as_bytes(std::span(text)));
  NamedTensors inputs;
  for (const auto& [name, tensor] : graph.inputs) inputs[name] = properties::to_tensor(tensor);
  std::size_t with_kernel = 0;
  expect_from_engine(model, inputs, interpret(model, inputs), threads, what + "\n" + properties::to_text(graph),
                     [&](const PlanStep& step) { with_kernel += step.kernel.starts_with(family) ? 1 : 0; });
  return with_kernel;
}

/// Draws that look for boundaries.
class Chooser {
 public:
  explicit Chooser(std::mt19937_64& random) : random_(random) {}

  std::int64_t pick(std::vector<std::int64_t> v) { return v[random_() % v.size()]; }
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool coin() { return random_() % 2 == 0; }
  DType byte() { return coin() ? DType::uint8 : DType::int8; }
  /// A power of two, which makes ties, or a decimal.
  double scale() {
    return coin() ? std::ldexp(1.0, -static_cast<int>(random_() % 6))
                  : static_cast<double>(static_cast<float>(0.001 * static_cast<double>(1 + random_() % 300)));
  }
  double real() { return static_cast<double>(static_cast<float>(0.25 * static_cast<double>(between(-499, 499)))); }
  std::vector<double> integers(DType t, std::int64_t count) {
    std::vector<double> v;
    const std::int64_t lo = integer_min(t);
    const std::int64_t hi = integer_max(t);
    const int style = static_cast<int>(random_() % 3);
    for (std::int64_t i = 0; i < count; ++i) {
      v.push_back(static_cast<double>(style == 0 || (style == 2 && coin()) ? (coin() ? lo : hi) : between(lo, hi)));
    }
    return v;
  }
  properties::SmallTensor number(DType t, double v) { return {t, {}, {v}}; }
  properties::SmallTensor zero_point(DType t) { return {t, {}, integers(t, 1)}; }
  properties::SmallTensor tensor(DType t, const Shape& shape) {
    return {t, shape, integers(t, static_cast<std::int64_t>(element_count(shape)))};
  }
  std::vector<double> scales(std::int64_t count) {
    std::vector<double> v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(scale());
    return v;
  }

 private:
  std::mt19937_64& random_;
};

}  // namespace halfeven::test
