#include "onnx/import.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model_builder.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;

constexpr std::int64_t kHuge = std::int64_t{1} << 33;

TEST(Import, ReadsWhatAModelDeclares) {
  ModelProto model = relu_model();
  model.set_producer_name("maker");
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("N");
  shape->add_dim();
  declare(*model.mutable_graph()->mutable_output(0), "y", DType::float32, {2, 3, 4});
  const ir::Graph graph = import(model);
  EXPECT_EQ(graph.name, "g");
  EXPECT_EQ(graph.producer, "maker");
  EXPECT_EQ(graph.ir_version, 8);
  EXPECT_EQ(graph.opsets, (std::map<std::string, int>{{"", 17}}));
  const ir::Value& x = graph.value(graph.inputs.at(0));
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.dtype, DType::float32);
  EXPECT_EQ(x.shape, (Shape{2, kUnknownDim, kUnknownDim}));
  EXPECT_EQ(x.dim_names, (std::vector<std::string>{"", "N", ""}));
  EXPECT_EQ(graph.value(graph.outputs.at(0)).shape, (Shape{2, 3, 4}));
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].version, 17);
  EXPECT_EQ(ir::describe(graph, graph.nodes[0]), "Relu 'r'");
}

TEST(Import, NormalisesTheDefaultDomain) {
  ModelProto model = relu_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  const ir::Graph graph = import(model);
  EXPECT_EQ(graph.nodes[0].domain, "");
  EXPECT_EQ(graph.opsets.at(""), 17);
}

TEST(Import, KeepsAbsentInputsInside) {
  ModelProto model = relu_model();
  add_node(model, "Clip", "c", {"y", "", "y", "", ""}, {"z", ""});
  const ir::Graph graph = import(model);
  ASSERT_EQ(graph.nodes[1].inputs.size(), 3U);
  EXPECT_FALSE(graph.nodes[1].inputs[1].present());
  EXPECT_EQ(graph.nodes[1].outputs.size(), 2U);
}

TEST(Import, InitializersMayBeInputsAndOutputs) {
  ModelProto model = with_initializer(DType::int8, {2}, "ab");
  add_input(model, "w", DType::int8, {2});
  add_output(model, "w");
  add_output(model, "x");
  const ir::Graph graph = import(model);
  const ir::ValueId w = graph.find("w");
  EXPECT_TRUE(graph.is_input(w));
  EXPECT_TRUE(graph.initializers.contains(w));
  EXPECT_EQ(graph.outputs.at(1), w);

  declare(*model.mutable_graph()->mutable_input(1), "w", DType::uint8, {2});
  EXPECT_EQ(error_of(model), "graph input 'w' is declared as uint8[2], but its initializer is int8[2]");
}

TEST(Import, ReadsAttributes) {
  ModelProto model = relu_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  add_int(node, "i", -5);
  add_int(node, "zero", 0).clear_i();  // some writers leave zeros out
  auto* f = node.add_attribute();
  f->set_name("f");
  f->set_f(0.5F);  // files of the first format version have no type
  auto* ints = node.add_attribute();
  ints->set_name("ints");
  ints->set_type(7);
  ints->add_ints(3);
  auto* t = node.add_attribute();
  t->set_name("t");
  t->set_type(4);
  t->mutable_t()->set_data_type(6);
  t->mutable_t()->add_int32_data(42);
  auto* s = node.add_attribute();
  s->set_name("s");
  s->set_type(3);
  s->set_s("text");
  const ir::Graph graph = import(model);
  const auto& attributes = graph.nodes[0].attributes;
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("i")), -5);
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("zero")), 0);
  EXPECT_EQ(std::get<float>(attributes.at("f")), 0.5F);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes.at("ints")), std::vector<std::int64_t>{3});
  EXPECT_EQ(values_of<std::int32_t>(std::get<Tensor>(attributes.at("t"))), std::vector<std::int32_t>{42});
  EXPECT_EQ(std::get<std::string>(attributes.at("s")), "text");
}

TEST(Import, RefusesAttributesThatItCannotHold) {
  ModelProto model = relu_model();
  AttributeProto& attribute = add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  attribute.set_type(1);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' says that it is of type float, but holds a value of type int");
  attribute.clear_i();
  attribute.set_type(11);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is of type sparse tensor, which is not supported");
  attribute.set_type(99);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is of type number 99, which is not supported");
  attribute.clear_type();
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' has no type");
  attribute.set_type(4);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' holds no tensor");
  attribute.set_type(5);
  attribute.mutable_g();
  EXPECT_EQ(error_of(model), "operator Relu with a subgraph is not supported (node 'r', attribute 'a')");
  attribute.Clear();
  attribute.set_name("a");
  attribute.set_ref_attr_name("p");
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' refers to an attribute of a function, but stands in none");
  model = relu_model();
  add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is given twice");
}

TEST(Import, ChecksOpsets) {
  ModelProto model = relu_model();
  for (const int version : {7, 28}) {
    model.mutable_opset_import(0)->set_version(version);
    EXPECT_EQ(error_of(model), "no error");
  }
  model.mutable_opset_import(0)->set_version(6);
  EXPECT_EQ(error_of(model), "the model imports version 6 of domain 'ai.onnx'; versions 7 to 28 are supported");
  model.mutable_opset_import(0)->set_version(29);
  EXPECT_EQ(error_of(model), "the model imports version 29 of domain 'ai.onnx'; versions 7 to 28 are supported");
  model.mutable_opset_import(0)->set_version(std::int64_t{1} << 40);
  EXPECT_NE(error_of(model), "no error");
  model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  EXPECT_EQ(error_of(model), "the model imports no version of domain 'com.microsoft', which Relu 'r' belongs to");
  model.clear_opset_import();
  model.mutable_graph()->mutable_node(0)->clear_domain();
  EXPECT_EQ(error_of(model), "the model imports no version of domain 'ai.onnx', which Relu 'r' belongs to");
  model.set_ir_version(2);
  EXPECT_EQ(error_of(model), "the model imports version 1 of domain 'ai.onnx'; versions 7 to 28 are supported");
}

TEST(Import, RefusesWhatIsNoTensor) {
  ModelProto model = relu_model();
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type();
  type->mutable_sequence_type();
  EXPECT_EQ(error_of(model), "graph input 'x' is a sequence, which is not supported");
  type->mutable_optional_type();
  EXPECT_EQ(error_of(model), "graph input 'x' is an optional, which is not supported");
  type->mutable_tensor_type()->set_elem_type(27);
  EXPECT_EQ(error_of(model), "graph input 'x' has element type number 27, which is not known");
  type->Clear();
  EXPECT_EQ(error_of(model), "graph input 'x' has no element type");
  model = relu_model();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("s");
  EXPECT_EQ(error_of(model), "initializer 's' is a sparse tensor, which is not supported");
}

TEST(Import, RefusesBadDeclaredShapes) {
  ModelProto model = relu_model();
  declare(*model.mutable_graph()->mutable_input(0), "x", DType::float32, {2, -2});
  EXPECT_EQ(error_of(model), "graph input 'x' has a negative dimension: -2 at position 1");
  declare(*model.mutable_graph()->mutable_input(0), "x", DType::float32, {kHuge, kHuge});
  EXPECT_NE(error_of(model).find("more elements than can exist"), std::string::npos);
}

TEST(Import, NamesBrokenStructure) {
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(error_of(model),
            "tensor 'nowhere' read by Relu 'r' (input 0) is not an input, an initializer or the output of a node");
  model.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_EQ(error_of(model), "the graph has a cycle: Relu 'r' -> back to Relu 'r'");
  model = relu_model();
  add_node(model, "Abs", "", {"x"}, {"y"});
  EXPECT_EQ(error_of(model), "tensor 'y' is defined twice: as an output of Relu 'r' and as an output of Abs -> 'y'");
  model = with_initializer(DType::int8, {1}, "a");
  add_initializer(model, "w", DType::int8, {1}, "a");
  EXPECT_EQ(error_of(model), "initializer 'w' is defined twice");
  model = relu_model();
  model.mutable_graph()->mutable_node(0)->clear_op_type();
  EXPECT_EQ(error_of(model), "node 'r' has no operator");
  EXPECT_EQ(error_of(ModelProto()), "the model has no graph");
}

TEST(Import, CarriesTheNodeInItsErrors) {
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  try {
    import(model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node(), "r");
  }
}

TEST(Import, StandsOddBytesInNames) {
  const std::string odd("a\n\0\xff'", 5);
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_output(0, odd);
  model.mutable_graph()->mutable_output(0)->set_name(odd);
  EXPECT_TRUE(import(model).find(odd).present());
  model.mutable_graph()->mutable_node(0)->set_input(0, odd + "b");
  EXPECT_EQ(error_of(model).find("tensor 'a\\x0a\\x00\\xff\\x27b' read by Relu 'r'"), 0U) << error_of(model);
}

TEST(Import, SaysWhereProtobufIsBroken) {
  const std::string bytes = with_initializer(DType::uint8, {64}, std::string(64, 'w')).SerializeAsString();
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    try {
      import_model(std::as_bytes(std::span(bytes).first(length)));
      FAIL() << length;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::model);
    }
  }
  try {
    import_model(std::as_bytes(std::span(bytes).first(50)));
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "truncated or invalid protobuf: the file has 50 bytes, and the field that starts at byte 2 is broken");
  }
}

TEST(Import, RespectsLimits) {
  Limits limits;
  limits.model_bytes = 10;
  EXPECT_NE(error_of(relu_model(), limits).find("more than the limit of 10"), std::string::npos);
  limits = {};
  limits.nodes = 0;
  EXPECT_EQ(error_of(relu_model(), limits), "the model has 1 nodes, more than the limit of 0");
  limits = {};
  limits.tensor_bytes = 3;
  EXPECT_NE(error_of(with_initializer(DType::int8, {4}, "abcd"), limits).find("limit of 3 bytes"), std::string::npos);
}

// A length-delimited field as protobuf writes it.
std::string field(char key, const std::string& payload) {
  std::string bytes(1, key);
  std::size_t length = payload.size();
  for (; length > 127; length >>= 7) bytes += static_cast<char>((length & 127) | 128);
  bytes += static_cast<char>(length);
  return bytes + payload;
}

TEST(Import, StandsHostileNesting) {
  std::string type;
  for (int i = 0; i < 20'000; ++i) type = field('\x22', field('\x0A', type));  // a sequence of sequences of ...
  const std::string bytes = field('\x3A', field('\x5A', field('\x12', type)));
  EXPECT_THROW(import_model(std::as_bytes(std::span(bytes))), Error);
}

}  // namespace
}  // namespace halfeven::onnx
