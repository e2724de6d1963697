// The passes change no bit: random graphs before and after them, and every version in between.
#include <random>

#include <gtest/gtest.h>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "properties/graph_generator.hpp"
#include "support/effort.hpp"
#include "support/files.hpp"
#include "verify/passes_check.hpp"

namespace halfeven::test {
namespace {

TEST(PassMeaning, RandomGraphs) {
  std::mt19937_64 random(20261203);
  std::size_t checked = 0;
  const std::size_t rounds = effort(500, 50);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto drawn = properties::draw_graph([&](std::size_t n) { return random() % n; });
    const std::string text = properties::to_onnx(drawn);
    verification::PassesReport report;
    try {
      const Model model = Model::load(std::as_bytes(std::span(text)));
      verification::InputSet inputs;
      for (const auto& [name, tensor] : drawn.inputs) inputs.push_back(properties::to_tensor(tensor));
      report = verification::check_passes(model.impl().graph, model.impl().facts, {inputs},
                                          [](const ir::Graph& graph, passes::Observer observer, void* context) {
                                            return passes::Pipeline::all().run(graph, observer, context);
                                          },
                                          {});
    } catch (const Error& e) {
      if (e.code() == ErrorCode::other) throw;
      continue;  // a graph without an answer
    }
    ++checked;
    for (const auto& step : report.steps) {
      ASSERT_TRUE(step.ok()) << step.pass << ": " << step.difference << "\n" << properties::to_text(drawn);
    }
  }
  std::cout << checked << " graphs\n";
  EXPECT_GT(2 * checked, rounds);
}

}  // namespace
}  // namespace halfeven::test
