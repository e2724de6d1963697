// Graphs that once came out of the passes wrong.
#include <gtest/gtest.h>

#include <cmath>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "onnx/model_builder.hpp"

namespace halfeven::test {
namespace {

using namespace halfeven::onnx::testing;

void add_scalar(ModelProto& model, const char* name, DType type, const std::string& bytes, bool scalar = true) {
  auto* t = model.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(static_cast<int>(type));
  if (!scalar) t->add_dims(1);
  t->set_raw_data(bytes);
}

std::string raw(float value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

NodeProto& add(ModelProto& model, const char* op, const Names& inputs, const Names& outputs, const char* domain = "") {
  NodeProto& node = *model.mutable_graph()->add_node();
  fill(node, op, outputs[0].c_str(), inputs, outputs, domain);
  return node;
}

Model load(const ModelProto& model) {
  const std::string text = model.SerializeAsString();
  return Model::load(std::as_bytes(std::span(text)));
}

// Shape(x) follows from the declared shape, but is no constant: the product behind it is not rounded at once (contract
// section 1, rule 6), folded or not. 3 * k lies just above a tie that float32 rounds it to.
TEST(FoldConstants, ShapesDoNotMakeFloatsConstant) {
  float k = 0;
  for (int n = 0;; n += 2) {
    const double tie = n + 0.5;
    k = static_cast<float>(tie / 3);
    if (3.0 * k > tie && 3.0F * k == static_cast<float>(tie)) break;
    ASSERT_LT(n, 1000);
  }
  ModelProto model = empty_model();
  add_input(model, "x", DType::float32, {3});
  add_output(model, "y");
  add_scalar(model, "k", DType::float32, raw(k));
  add_scalar(model, "scale", DType::float32, raw(1));
  add_scalar(model, "zero", DType::uint8, std::string(1, '\0'));
  add(model, "Shape", {"x"}, {"shape"});
  auto* to = add(model, "Cast", {"shape"}, {"three"}).add_attribute();
  to->set_name("to");
  to->set_type(2);  // INT
  to->set_i(1);
  add(model, "Mul", {"three", "k"}, {"product"});
  add(model, "QuantizeLinear", {"product", "scale", "zero"}, {"y"});
  const Model before = load(model);
  const NamedTensors inputs{{"x", Tensor::of<float>(DType::float32, {3}, std::vector<float>(3, 0))}};
  const Tensor y = interpret(before, inputs)[0];
  EXPECT_EQ(y.values<std::uint8_t>()[0], static_cast<int>(std::floor(3.0 * k)) + 1);
  EXPECT_TRUE(identical(y, interpret(fuse(before).model, inputs)[0]));
}

// com.microsoft quantizes in opsets that have no QLinearConv yet.
TEST(LowerStandard, NeedsOpset10) {
  ModelProto model = empty_model(9);
  add_opset(*model.mutable_opset_import(), "com.microsoft", 1);
  add_input(model, "x", DType::uint8, {1, 1, 4});
  add_output(model, "y");
  add_scalar(model, "scale", DType::float32, raw(0.5F));
  add_scalar(model, "zero", DType::uint8, std::string(1, '\1'));
  add_scalar(model, "w", DType::uint8, std::string(1, '\3'), false);
  for (int k = 0; k < 2; ++k) model.mutable_graph()->mutable_initializer(2)->add_dims(1);
  add(model, "DequantizeLinear", {"x", "scale", "zero"}, {"xf"}, "com.microsoft");
  add(model, "DequantizeLinear", {"w", "scale", "zero"}, {"wf"}, "com.microsoft");
  add(model, "Conv", {"xf", "wf"}, {"c"});
  add(model, "QuantizeLinear", {"c", "scale", "zero"}, {"y"}, "com.microsoft");
  EXPECT_EQ(fuse(load(model)).fused_operators, 1U);
}

TEST(KeepOrder, LongChains) {
  ModelProto model = empty_model();
  add_input(model, "v0", DType::float32, {1, 1, 2});
  add_output(model, "y");
  add_scalar(model, "scale", DType::float32, raw(0.5F));
  add_scalar(model, "zero", DType::uint8, std::string(1, '\1'));
  constexpr int kLength = 1500;
  for (int k = 0; k < kLength; ++k) {
    auto* window = add(model, "MaxPool", {"v" + std::to_string(k)}, {"v" + std::to_string(k + 1)}).add_attribute();
    window->set_name("kernel_shape");
    window->set_type(7);  // INTS
    window->add_ints(1);
  }
  add(model, "QuantizeLinear", {"v" + std::to_string(kLength), "scale", "zero"}, {"y"});
  EXPECT_NO_THROW(fuse(load(model)));
}

// Larger than any tensor, but never computed.
TEST(Summary, HugeShapesHaveNoMacs) {
  ModelProto model = empty_model();
  add_input(model, "x", DType::float32, {1, 1, 2, 2});
  add_output(model, "y");
  add_scalar(model, "w", DType::float32, raw(1), false);
  for (int k = 0; k < 3; ++k) model.mutable_graph()->mutable_initializer(0)->add_dims(1);
  auto* pads = add(model, "Conv", {"x", "w"}, {"y"}).add_attribute();
  pads->set_name("pads");
  pads->set_type(7);  // INTS
  for (int k = 0; k < 4; ++k) pads->add_ints(std::int64_t{1} << 31);
  EXPECT_FALSE(load(model).summary().macs);
}

// An operator that drops elements may drop a NaN; QuantizeLinear in front of it would refuse the whole tensor (contract
// section 6).
TEST(MoveData, QuantizationStaysBehindWhatMayDropNan) {
  ModelProto model = empty_model();
  add_input(model, "x", DType::float32, {4});
  add_output(model, "y");
  add_scalar(model, "scale", DType::float32, raw(0.5F));
  add_scalar(model, "zero", DType::uint8, std::string(1, '\3'));
  add(model, "IsNaN", {"x"}, {"nan"});
  add_scalar(model, "nothing", DType::float32, raw(0));
  add(model, "Where", {"nan", "nothing", "x"}, {"clean"});
  add(model, "QuantizeLinear", {"clean", "scale", "zero"}, {"y"});
  const Model before = load(model);
  const float values[] = {1.0F, std::nanf(""), 2.25F, -1.0F};
  const NamedTensors inputs{{"x", Tensor::of<float>(DType::float32, {4}, values)}};
  const auto wanted = interpret(before, inputs);
  EXPECT_TRUE(identical(interpret(fuse(before).model, inputs)[0], wanted[0]));
}

TEST(MoveData, NanConstantIsNotQuantized) {
  ModelProto model = empty_model();
  add_input(model, "x", DType::float32, {1});
  add_output(model, "y");
  add_scalar(model, "scale", DType::float32, raw(0.5F));
  add_scalar(model, "zero", DType::uint8, std::string(1, '\3'));
  add_scalar(model, "nan", DType::float32, raw(std::nanf("")), false);
  auto* axis = add(model, "Concat", {"x", "nan"}, {"both"}).add_attribute();
  axis->set_name("axis");
  axis->set_type(2);  // INT
  axis->set_i(0);
  add(model, "QuantizeLinear", {"both", "scale", "zero"}, {"y"});
  EXPECT_NO_THROW(fuse(load(model)));
}

}  // namespace
}  // namespace halfeven::test
