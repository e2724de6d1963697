// The graph on which a compiler's two ways of calling its passes disagreed: here every way gives the exact outputs.
#include <gtest/gtest.h>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / "seed-pass-order";

void expect_exact(const ir::Graph& graph, const std::string& how) {
  const Model model = ModelAccess::make(graph);
  const auto outputs = interpret(model, load_inputs(model, kFolder));
  const auto expected = load_numbered(kFolder, "expected");
  ASSERT_EQ(outputs.size(), 6U);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    expect_identical(outputs[k], expected[k], how + ", output " + std::to_string(k));
}

// The two passes in question, by what they do: one moves data and layouts, one makes integer operators.
TEST(SeedPassOrder, DirectlyAndByPipelineInEitherOrder) {
  const ir::Graph graph = Model::load(kFolder / "model.onnx").impl().graph;
  const passes::Pass& data = *passes::find_pass("move-data");
  const passes::Pass& integers = *passes::find_pass("fuse-qdq");
  const auto data_first = passes::apply(integers, passes::apply(data, graph).graph).graph;
  const auto integers_first = passes::apply(data, passes::apply(integers, graph).graph).graph;
  expect_exact(data_first, "move-data, then fuse-qdq, applied directly");
  expect_exact(integers_first, "fuse-qdq, then move-data, applied directly");
  const auto by_pipeline = passes::Pipeline::parse("move-data,fuse-qdq").run(graph).graph;
  const auto reversed = passes::Pipeline::parse("fuse-qdq,move-data").run(graph).graph;
  expect_exact(by_pipeline, "pipeline move-data,fuse-qdq");
  expect_exact(reversed, "pipeline fuse-qdq,move-data");
  expect_exact(passes::Pipeline::all().run(graph).graph, "all passes");
  EXPECT_EQ(ir::to_text(data_first), ir::to_text(by_pipeline));
  EXPECT_EQ(ir::to_text(integers_first), ir::to_text(reversed));
  EXPECT_EQ(ir::structural_hash(data_first), ir::structural_hash(integers_first));
}

}  // namespace
}  // namespace halfeven::test
