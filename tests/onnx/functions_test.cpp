#include "onnx/functions.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_builder.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;

FunctionProto& add_function(ModelProto& model, const char* name, const Names& inputs, const Names& outputs,
                            int opset = 17) {
  FunctionProto& function = *model.add_functions();
  function.set_domain("local");
  function.set_name(name);
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  add_opset(*function.mutable_opset_import(), "", opset);
  return function;
}

// x -> local.F 'call' -> y; F is t = Relu(a), b = Relu(t).
ModelProto call_model() {
  ModelProto model = empty_model();
  add_opset(*model.mutable_opset_import(), "local", 1);
  add_input(model, "x");
  add_node(model, "F", "call", {"x"}, {"y"}, "local");
  add_output(model, "y");
  FunctionProto& function = add_function(model, "F", {"a"}, {"b"});
  fill(*function.add_node(), "Relu", "first", {"a"}, {"t"});
  fill(*function.add_node(), "Abs", "", {"t"}, {"b"});
  return model;
}

FunctionProto& function(ModelProto& model, int index = 0) { return *model.mutable_functions(index); }

std::string nodes_of(const ModelProto& model) {
  std::string text;
  for (const std::string all = ir::to_text(import(model)); const char c : all) text += c;
  const std::size_t begin = text.find(" = ");
  return text.substr(text.rfind('\n', begin) + 1, text.find("output ") - text.rfind('\n', begin) - 1);
}

TEST(Functions, AreExpandedUnderTheNameOfTheirCall) {
  EXPECT_EQ(nodes_of(call_model()), "'call/t' = Relu-17('x')  # 'call/first'\n'y' = Abs-17('call/t')\n");
}

TEST(Functions, HaveOpsetsOfTheirOwn) {
  ModelProto model = call_model();
  function(model).mutable_opset_import(0)->set_version(13);
  EXPECT_EQ(import(model).nodes[0].version, 13);
  function(model).mutable_opset_import(0)->set_version(3);
  EXPECT_EQ(error_of(model),
            "function 'local.F' imports version 3 of domain 'ai.onnx'; versions 7 to 28 are supported");
  function(model).clear_opset_import();
  EXPECT_EQ(error_of(model),
            "function 'local.F' imports no version of domain 'ai.onnx', which Relu 'first' in function 'local.F' "
            "belongs to");
}

TEST(Functions, MakeUniqueNames) {
  ModelProto model = call_model();
  add_node(model, "Neg", "", {"x"}, {"call/t"});
  add_node(model, "F", "call", {"y"}, {"z"}, "local");
  add_node(model, "F", "", {"z"}, {"u"}, "local");
  const ir::Graph graph = import(model);
  EXPECT_TRUE(graph.find("call/t_1").present());
  EXPECT_TRUE(graph.find("call/t_2").present());
  EXPECT_TRUE(graph.find("u/t").present());
}

TEST(Functions, PassAttributesOn) {
  ModelProto model = call_model();
  FunctionProto& f = function(model);
  f.add_attribute("axis");
  AttributeProto& standard = *f.add_attribute_proto();
  standard.set_name("keep");
  standard.set_type(2);
  standard.set_i(7);
  f.add_attribute("unset");
  add_reference(*f.mutable_node(0), "a", "axis", 2);
  add_reference(*f.mutable_node(0), "k", "keep", 2);
  add_reference(*f.mutable_node(0), "u", "unset", 1);
  add_int(*model.mutable_graph()->mutable_node(0), "axis", -3);
  auto attributes = import(model).nodes[0].attributes;
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("a")), -3);
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("k")), 7);
  EXPECT_FALSE(attributes.contains("u"));

  add_int(*model.mutable_graph()->mutable_node(0), "keep", 8);
  attributes = import(model).nodes[0].attributes;
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("k")), 8);
}

TEST(Functions, CheckAttributes) {
  ModelProto model = call_model();
  add_int(*model.mutable_graph()->mutable_node(0), "axis", 1);
  EXPECT_EQ(error_of(model), "local.F 'call' sets attribute 'axis', which function 'local.F' does not have");
  function(model).add_attribute("axis");
  add_reference(*function(model).mutable_node(0), "a", "axis", 1);
  EXPECT_EQ(error_of(model),
            "attribute 'axis' of local.F 'call' is of another type than float, which Relu 'call/first' expects");
  model = call_model();
  add_reference(*function(model).mutable_node(0), "a", "nothing", 1);
  EXPECT_EQ(
      error_of(model),
      "attribute 'a' of Relu 'first' in function 'local.F' refers to attribute 'nothing', which the function does "
      "not have");
}

TEST(Functions, MayLeaveInputsAndOutputsOut) {
  ModelProto model = empty_model();
  add_input(model, "x");
  add_node(model, "F", "call", {"x", ""}, {"", "y"}, "local");
  add_output(model, "y");
  FunctionProto& f = add_function(model, "F", {"a", "b", "c"}, {"p", "q"});
  fill(*f.add_node(), "Clip", "", {"a", "b", "c"}, {"p"});
  fill(*f.add_node(), "Neg", "", {"p"}, {"q"});
  EXPECT_EQ(nodes_of(model), "'call/p' = Clip-17('x')\n'y' = Neg-17('call/p')\n");
  model.mutable_graph()->mutable_node(0)->add_output("z");
  EXPECT_EQ(error_of(model), "local.F 'call' has 1 inputs and 3 outputs, but function 'local.F' has 3 and 2");
}

TEST(Functions, MayPassInputsOn) {
  ModelProto model = empty_model();
  add_input(model, "x");
  add_node(model, "F", "call", {"x"}, {"y", "z", "w"}, "local");
  add_output(model, "y");
  FunctionProto& f = add_function(model, "F", {"a"}, {"a", "p", "p"});
  fill(*f.add_node(), "Neg", "", {"a"}, {"p"});
  EXPECT_EQ(nodes_of(model), "'z' = Neg-17('x')\n'y' = Identity-17('x')\n'w' = Identity-17('z')\n");
  model.mutable_graph()->mutable_node(0)->clear_input();
  EXPECT_EQ(error_of(model), "output 'y' of local.F 'call' is an input of function 'local.F' that the call leaves out");
}

TEST(Functions, Nest) {
  ModelProto model = call_model();
  fill(*function(model).mutable_node(1), "", "", {}, {});
  function(model).mutable_node(1)->Clear();
  fill(*function(model).mutable_node(1), "G", "inner", {"t"}, {"b"}, "local");
  FunctionProto& g = add_function(model, "G", {"a"}, {"b"}, 18);
  fill(*g.add_node(), "Neg", "n", {"a"}, {"t"});
  fill(*g.add_node(), "Abs", "m", {"t"}, {"b"});
  EXPECT_EQ(nodes_of(model),
            "'call/t' = Relu-17('x')  # 'call/first'\n'call/inner/t' = Neg-18('call/t')  # 'call/inner/n'\n"
            "'y' = Abs-18('call/inner/t')  # 'call/inner/m'\n");
}

TEST(Functions, MatchOverloadsAndWinOverOperators) {
  ModelProto model = call_model();
  function(model).set_overload("o");
  model.mutable_graph()->mutable_node(0)->set_overload("o");
  EXPECT_EQ(import(model).nodes.size(), 2U);
  model.mutable_graph()->mutable_node(0)->clear_overload();
  EXPECT_EQ(import(model).nodes.size(), 1U);  // not that function: an operator, whose name the operator table refuses
  model = call_model();
  function(model).set_domain("ai.onnx");
  function(model).set_name("Gelu");
  fill(*model.mutable_graph()->mutable_node(0), "Gelu", "call", {}, {});
  EXPECT_EQ(import(model).nodes[0].op_type, "Relu");
}

TEST(Functions, AreRefusedWhenBroken) {
  ModelProto model = call_model();
  *model.add_functions() = function(model);
  EXPECT_EQ(error_of(model), "the model defines function 'local.F' twice");
  model = call_model();
  function(model).mutable_node(0)->set_input(0, "x");  // names of the graph are not visible inside
  EXPECT_EQ(
      error_of(model),
      "tensor 'x' read by Relu 'first' in function 'local.F' is not an input of the function or the output of one "
      "of its nodes");
  model = call_model();
  function(model).mutable_node(0)->set_output(0, "a");
  EXPECT_EQ(error_of(model), "tensor 'a' is defined twice in function 'local.F'");
  model = call_model();
  function(model).set_output(0, "nothing");
  EXPECT_EQ(error_of(model), "output 'nothing' of function 'local.F' is not computed by its nodes");
  model = call_model();
  function(model).mutable_node(0)->set_input(0, "b");
  EXPECT_NE(error_of(model).find("the graph has a cycle"), std::string::npos);
}

TEST(Functions, MustNotRecur) {
  ModelProto model = call_model();
  fill(*function(model).mutable_node(0), "F", "again", {}, {}, "local");
  EXPECT_EQ(error_of(model), "local.F 'call/again' calls function 'local.F' recursively");
}

std::string numbered(std::string name, int number) { return name += std::to_string(number); }

// F0 calls F1 twice, F1 calls F2 twice ...: 2^depth calls from a small file.
ModelProto bomb(int depth) {
  ModelProto model = empty_model();
  add_input(model, "x");
  add_node(model, "F0", "call", {"x"}, {"y"}, "local");
  add_output(model, "y");
  for (int i = 0; i < depth; ++i) {
    const std::string name = numbered("F", i);
    FunctionProto& f = add_function(model, name.c_str(), {"a"}, {"b"});
    const std::string next = numbered("F", i + 1);
    fill(*f.add_node(), next.c_str(), "", {"a"}, {"t"}, "local");
    fill(*f.add_node(), next.c_str(), "", {"t"}, {"b"}, "local");
  }
  FunctionProto& last = add_function(model, numbered("F", depth).c_str(), {"a"}, {"a"});
  last.clear_node();
  return model;
}

TEST(Functions, CannotBlowUp) {
  Limits limits;
  limits.nodes = 10'000;
  EXPECT_EQ(error_of(bomb(30), limits), "the model has more than 10000 nodes after its functions are expanded");
  limits.function_depth = 3;
  EXPECT_NE(error_of(bomb(10), limits).find("at a depth of more than 3"), std::string::npos);
}

TEST(Functions, CannotCopyWithoutEnd) {
  ModelProto model = bomb(12);
  auto* attribute = function(model, 11).mutable_node(0)->add_attribute();
  attribute->set_name("long");
  attribute->set_type(3);
  attribute->set_s(std::string(100'000, 'x'));
  function(model, 12).add_attribute("long");
  Limits limits;
  limits.model_bytes = 1'000'000;
  EXPECT_EQ(error_of(model, limits), "expanding the model's functions takes more than 1000000 bytes");
}

}  // namespace
}  // namespace halfeven::onnx
