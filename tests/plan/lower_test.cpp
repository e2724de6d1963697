// Lowering changes no bit: the interpreter on a graph before and after it.
#include "plan/lower.hpp"

#include "api/model_impl.hpp"
#include "interpreter/interpreter.hpp"
#include "passes/pass.hpp"
#include "plan/compare.hpp"
#include "properties/graph_generator.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

std::vector<Tensor> answers(ir::Graph graph, const std::vector<Tensor>& inputs) {
  const ops::Facts facts = ops::validate(graph);
  return interpreter::run(graph, facts, inputs, {});
}

// True where the graph has an answer.
bool check(const Model& model, const std::vector<Tensor>& inputs, const std::string& what) {
  ir::Graph fused = passes::Pipeline::all().run(model.impl().graph).graph;
  for (std::size_t k = 0; k < inputs.size(); ++k) fused.value(fused.inputs[k]).shape = inputs[k].shape();
  ops::validate(fused);
  const auto wanted = answers(fused, inputs);
  const ir::Graph lowered = plan::lower(fused);
  const auto got = answers(lowered, inputs);
  EXPECT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    expect_identical(got[k], wanted[k], what + ir::to_text(lowered) + ", output " + std::to_string(k));
  }
  return true;
}

TEST(Lower, RandomGraphs) {
  constexpr std::uint64_t kSeed = 20261211;
  std::mt19937_64 random(kSeed);
  std::size_t checked = 0;
  const std::size_t rounds = effort(1000, 50);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto drawn = properties::draw_graph([&](std::size_t n) { return random() % n; });
    const std::string text = properties::to_onnx(drawn);
    std::vector<Tensor> inputs;
    for (const auto& [name, tensor] : drawn.inputs) inputs.push_back(properties::to_tensor(tensor));
    try {
      const Model model = Model::load(std::as_bytes(std::span(text)));
      checked += check(model, inputs, "seed " + std::to_string(kSeed) + "\n" + properties::to_text(drawn)) ? 1 : 0;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::other) FAIL() << e.what() << "\n" << properties::to_text(drawn);
    }
    if (HasFailure()) return;
  }
  std::cout << checked << " graphs\n";
  EXPECT_GT(2 * checked, rounds);
}

}  // namespace
}  // namespace halfeven::test
