#include "ir/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"

namespace halfeven::ir {
namespace {

ValueId add_value(Graph& graph, const std::string& name) {
  graph.values.push_back({name, DType::float32, Shape{2}, {}});
  return {static_cast<std::uint32_t>(graph.values.size() - 1)};
}

Node make_node(const std::string& op, const std::string& name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs) {
  return {name, "", op, 17, std::move(inputs), std::move(outputs), {}, nullptr};
}

std::string error_of(Graph graph) {
  try {
    sort_and_check(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::model);
    return error.what();
  }
  return "no error";
}

std::vector<std::string> order_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

// x -> a -> b -> y with a constant c added in b.
Graph chain() {
  Graph graph;
  const ValueId x = add_value(graph, "x");
  const ValueId c = add_value(graph, "c");
  const ValueId t = add_value(graph, "t");
  const ValueId y = add_value(graph, "y");
  graph.inputs = {x};
  graph.outputs = {y};
  const std::vector<float> data = {1, 2};
  graph.initializers.emplace(c, Tensor::of<float>(DType::float32, {2}, data));
  graph.nodes = {make_node("Relu", "a", {x}, {t}), make_node("Add", "b", {t, c}, {y})};
  return graph;
}

TEST(SortAndCheck, KeepsASortedGraph) {
  Graph graph = chain();
  sort_and_check(graph);
  EXPECT_EQ(order_of(graph), (std::vector<std::string>{"a", "b"}));
}

TEST(SortAndCheck, SortsWithTiesByPosition) {
  Graph graph;
  const ValueId x = add_value(graph, "x");
  std::vector<ValueId> v;
  for (int i = 0; i < 4; ++i) v.push_back(add_value(graph, "v" + std::to_string(i)));
  graph.inputs = {x};
  graph.outputs = {v[3]};
  graph.nodes = {make_node("Add", "late", {v[0], v[1]}, {v[3]}), make_node("Relu", "second", {x}, {v[1]}),
                 make_node("Relu", "first", {x}, {v[0]}), make_node("Relu", "dead", {v[0]}, {v[2]})};
  sort_and_check(graph);
  EXPECT_EQ(order_of(graph), (std::vector<std::string>{"second", "first", "late", "dead"}));
}

TEST(SortAndCheck, NamesATensorThatNothingDefines) {
  Graph graph = chain();
  graph.nodes[1].inputs[0] = add_value(graph, "nowhere");
  EXPECT_EQ(error_of(graph),
            "tensor 'nowhere' read by Add 'b' (input 0) is not an input, an initializer or the output of a node");
  graph = chain();
  graph.outputs[0] = add_value(graph, "nowhere");
  EXPECT_EQ(error_of(graph), "graph output 'nowhere' is not an input, an initializer or the output of a node");
}

TEST(SortAndCheck, NamesTheOperatorsOnACycle) {
  Graph graph = chain();
  graph.nodes[0].inputs[0] = graph.find("y");
  EXPECT_EQ(error_of(graph), "the graph has a cycle: Relu 'a' -> Add 'b' -> back to Relu 'a'");
  graph.nodes[0].inputs[0] = graph.find("t");
  EXPECT_EQ(error_of(graph), "the graph has a cycle: Relu 'a' -> back to Relu 'a'");
}

TEST(SortAndCheck, RefusesTwoDefinitions) {
  Graph graph = chain();
  graph.nodes[1].outputs[0] = graph.find("t");
  EXPECT_EQ(error_of(graph), "tensor 't' is defined twice: as an output of Relu 'a' and as an output of Add 'b'");
  graph.nodes[1].outputs[0] = graph.find("c");
  EXPECT_EQ(error_of(graph), "tensor 'c' is defined twice: as an initializer and as an output of Add 'b'");
  graph.nodes[1].outputs[0] = graph.find("x");
  EXPECT_EQ(error_of(graph), "tensor 'x' is defined twice: as a graph input and as an output of Add 'b'");
  graph = chain();
  graph.inputs.push_back(graph.inputs[0]);
  EXPECT_EQ(error_of(graph), "graph input 'x' is declared twice");
}

// Deep enough to overflow the stack of anything recursive, long enough to notice anything quadratic.
Graph long_chain(std::uint32_t length) {
  Graph graph;
  for (std::uint32_t i = 0; i <= length; ++i) add_value(graph, "v" + std::to_string(i));
  graph.inputs = {{0}};
  graph.outputs = {{length}};
  for (std::uint32_t i = length; i > 0; --i) graph.nodes.push_back(make_node("Relu", "", {{i - 1}}, {{i}}));
  return graph;
}

TEST(SortAndCheck, StandsDepth) {
  Graph graph = long_chain(300'000);
  sort_and_check(graph);
  EXPECT_EQ(graph.nodes.front().inputs[0], graph.inputs[0]);
  EXPECT_EQ(structural_hash(graph).size(), 64U);
}

TEST(SortAndCheck, ShortensALongCycle) {
  Graph graph = long_chain(100'000);
  graph.nodes.back().inputs[0] = graph.outputs[0];
  const std::string error = error_of(graph);
  EXPECT_NE(error.find("more) ->"), std::string::npos);
  EXPECT_LT(error.size(), 2000U);
}

TEST(StructuralHash, IgnoresNamesAndOrder) {
  Graph graph = chain();
  const std::string hash = structural_hash(graph);
  for (Value& value : graph.values) value.name += "_renamed";
  for (Node& node : graph.nodes) node.name = "n";
  EXPECT_EQ(structural_hash(graph), hash);

  Graph renumbered;
  const ValueId y = add_value(renumbered, "y");
  const ValueId t = add_value(renumbered, "t");
  const ValueId c = add_value(renumbered, "c");
  const ValueId x = add_value(renumbered, "x");
  renumbered.inputs = {x};
  renumbered.outputs = {y};
  renumbered.initializers.emplace(c, graph.initializers.begin()->second);
  renumbered.nodes = {make_node("Relu", "a", {x}, {t}), make_node("Add", "b", {t, c}, {y})};
  EXPECT_EQ(structural_hash(renumbered), hash);
}

TEST(StructuralHash, SeesWhatMatters) {
  const std::string hash = structural_hash(chain());
  const auto changed = [&](auto change) {
    Graph graph = chain();
    change(graph);
    return structural_hash(graph) != hash;
  };
  EXPECT_TRUE(changed([](Graph& g) { g.nodes[0].op_type = "Abs"; }));
  EXPECT_TRUE(changed([](Graph& g) { g.nodes[0].version = 18; }));
  EXPECT_TRUE(changed([](Graph& g) { g.nodes[0].attributes["a"] = std::int64_t{0}; }));
  EXPECT_TRUE(changed([](Graph& g) { std::swap(g.nodes[1].inputs[0], g.nodes[1].inputs[1]); }));
  EXPECT_TRUE(changed([](Graph& g) { g.value(g.inputs[0]).dtype = DType::float16; }));
  EXPECT_TRUE(changed([](Graph& g) { g.outputs.push_back(g.inputs[0]); }));
  EXPECT_TRUE(changed([](Graph& g) {
    const std::vector<float> other = {1, 3};
    g.initializers.begin()->second = Tensor::of<float>(DType::float32, {2}, other);
  }));
}

TEST(StructuralHash, TellsASharedNodeFromTwoEqualOnes) {
  Graph graph = chain();
  const std::string hash = structural_hash(graph);
  graph.nodes.push_back(make_node("Relu", "again", {graph.inputs[0]}, {add_value(graph, "t2")}));
  EXPECT_NE(structural_hash(graph), hash);
}

TEST(Graph, TellsConstantsFromDefaults) {
  Graph graph = chain();
  const ValueId c = graph.find("c");
  EXPECT_TRUE(graph.is_constant(c));
  graph.inputs.push_back(c);
  EXPECT_FALSE(graph.is_constant(c));
  EXPECT_FALSE(graph.find("absent").present());
}

TEST(Graph, PrintsANodeALine) {
  Graph graph = chain();
  graph.nodes[0].attributes = {{"alpha", 0.5F}, {"axes", std::vector<std::int64_t>{1, -1}}};
  graph.opsets = {{"", 17}};
  const std::string text = to_text(graph);
  EXPECT_NE(text.find("input 'x': float32[2]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("'t' = Relu-17('x') {alpha=0.5, axes=[1, -1]}  # 'a'\n"), std::string::npos) << text;
  EXPECT_NE(text.find("'y' = Add-17('t', 'c')  # 'b'\n"), std::string::npos) << text;
}

TEST(Quote, MakesAnyBytesPrintable) {
  EXPECT_EQ(quote("conv1/w:0"), "'conv1/w:0'");
  EXPECT_EQ(quote("größe"), "'größe'");
  EXPECT_EQ(quote(std::string("a\n\0'\\\xff", 6)), "'a\\x0a\\x00\\x27\\x5c\\xff'");
  EXPECT_EQ(quote("\xed\xa0\x80\xc0\xaf"), "'\\xed\\xa0\\x80\\xc0\\xaf'");
  EXPECT_LT(quote(std::string(100'000, 'x')).size(), 300U);
}

TEST(Tensor, ChecksItsBytes) {
  const std::vector<std::byte> six(6);
  EXPECT_EQ(Tensor::copy(DType::uint8, {2, 3}, six).size(), 6U);
  EXPECT_THROW(Tensor::copy(DType::uint16, {2, 3}, six), Error);
  EXPECT_THROW(Tensor::copy(DType::string, {6}, six), Error);
  EXPECT_THROW(element_count({-1}), Error);
  EXPECT_THROW(element_count({std::int64_t{1} << 33, std::int64_t{1} << 33}), Error);
  EXPECT_THROW(element_count({0, std::int64_t{1} << 33, std::int64_t{1} << 33}), Error);
  EXPECT_EQ(element_count({0, 5}), 0U);
  EXPECT_EQ(element_count({}), 1U);
}

TEST(Tensor, SharesMemoryWhenReshaped) {
  const std::vector<std::byte> six(6);
  const Tensor tensor = Tensor::copy(DType::int8, {2, 3}, six);
  EXPECT_EQ(tensor.reshaped({6}).data(), tensor.data());
  EXPECT_THROW(tensor.reshaped({5}), Error);
  EXPECT_TRUE(identical(tensor, Tensor::copy(DType::int8, {2, 3}, six)));
  EXPECT_FALSE(identical(tensor, tensor.reshaped({6})));
  EXPECT_FALSE(identical(tensor, Tensor::copy(DType::uint8, {2, 3}, six)));
}

TEST(Tensor, HashesItsBytes) {
  const std::string abc = "abc";
  const Tensor tensor = Tensor::copy(DType::uint8, {3}, std::as_bytes(std::span(abc)));
  EXPECT_EQ(hash(tensor), "ba7816bf8f01cfea");  // FIPS 180: SHA-256 of "abc"
}

TEST(Types, Bounds) {
  EXPECT_EQ(integer_min(DType::int2), -2);
  EXPECT_EQ(integer_max(DType::int2), 1);
  EXPECT_EQ(integer_max(DType::uint4), 15);
  EXPECT_EQ(integer_min(DType::int64), INT64_MIN);
  EXPECT_EQ(integer_max(DType::uint32), 4294967295);
  EXPECT_EQ(integer_max(DType::uint64), INT64_MAX);
  EXPECT_EQ(integer_min(DType::uint8), 0);
  EXPECT_EQ(to_string(DType::boolean), "bool");
  EXPECT_EQ(to_string(Shape{1, kUnknownDim, 224}), "[1, ?, 224]");
}

}  // namespace
}  // namespace halfeven::ir
