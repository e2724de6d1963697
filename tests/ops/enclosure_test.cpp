// Both sides of every float formula must agree: what the bound decides is what the exact value rounds to.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/operator.hpp"

namespace halfeven {
namespace {

using ops::Data;

// Calls the operator on inputs of float32; they may be dequantized ones.
std::vector<Data> evaluate(const std::string& domain, const std::string& name, int version,
                           const std::map<std::string, ir::Attribute>& attributes, std::vector<Data> inputs,
                           std::size_t outputs = 1) {
  ir::Graph graph;
  ir::Node node;
  node.op_type = name;
  node.version = version;
  node.attributes = attributes;
  std::vector<ops::TypeShape> types;
  std::vector<std::optional<Tensor>> constants;
  for (const Data& d : inputs) {
    node.inputs.push_back({static_cast<std::uint32_t>(graph.values.size())});
    graph.values.push_back({"x" + std::to_string(graph.values.size()), d.dtype(), d.shape(), {}});
    types.push_back({d.dtype(), d.shape()});
    constants.push_back(d.reals ? std::nullopt : std::optional(d.tensor));
  }
  for (std::size_t k = 0; k < outputs; ++k) {
    node.outputs.push_back({static_cast<std::uint32_t>(graph.values.size())});
    graph.values.push_back({"y" + std::to_string(k), DType::undefined, std::nullopt, {}});
  }
  const ops::Operator* op = ops::find_operator(domain, name);
  if (op == nullptr) throw std::runtime_error("no operator " + name);
  const auto results = op->infer(ops::InferContext(graph, node, types, constants));
  return op->evaluate(ops::EvalContext(graph, node, std::move(inputs), results, true, 2));
}

class Inputs {
 public:
  Data floats(const Shape& shape, bool special) {
    std::vector<float> v(element_count(shape));
    for (float& x : v) {
      x = std::ldexp(std::normal_distribution<float>()(random_), static_cast<int>(random_() % 9) - 5);
      if (random_() % 4 == 0) x = std::round(x * 4) / 4;
      if (special && random_() % 8 == 0) x = kSpecial[random_() % kSpecial.size()];
    }
    return Tensor::of<float>(DType::float32, shape, v);
  }

  Data dequantized(const Shape& shape) {
    numerics::Affine a{std::vector<std::int64_t>(element_count(shape)), {static_cast<double>(0.0371F)}, {}};
    for (auto& q : a.integers) q = static_cast<std::int64_t>(random_() % 256) - 128;
    return numerics::make_affine(DType::float32, shape, std::move(a));
  }

  Data positive(const Shape& shape) {
    std::vector<float> v(element_count(shape));
    for (float& x : v) x = std::uniform_real_distribution<float>(0.01F, 4)(random_);
    return Tensor::of<float>(DType::float32, shape, v);
  }

 private:
  static constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> kSpecial{0.0F,  -0.0F, kInf,   -kInf,  std::numeric_limits<float>::quiet_NaN(),
                                    1e30F, -1e9F, 1e-40F, -88.5F, std::numeric_limits<float>::max(),
                                    1.0F,  -1.0F, 0.5F};
  std::mt19937 random_{1};
};

void expect_agreement(const Data& y, const std::string& what) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double decided = numerics::round_element(*y.reals, i, DType::float32);
    const double exact = numerics::round_to(y.reals->exact(i), numerics::format_of(DType::float32));
    EXPECT_TRUE(decided == exact || (std::isnan(decided) && std::isnan(exact)))
        << what << ", element " << i << ": " << decided << " by the bound, " << exact << " exactly";
  }
}

struct Case {
  std::string name;
  int version;
  std::map<std::string, ir::Attribute> attributes;
  std::vector<Shape> shapes;
  bool positive_last = false;
};

using Ints = std::vector<std::int64_t>;

class Enclosure : public ::testing::TestWithParam<Case> {};

TEST_P(Enclosure, AgreesWithTheExactValue) {
  const Case& c = GetParam();
  Inputs make;
  for (int round = 0; round < 12; ++round) {
    std::vector<Data> inputs;
    for (std::size_t k = 0; k < c.shapes.size(); ++k) {
      if (c.positive_last && k + 1 == c.shapes.size()) {
        inputs.push_back(make.positive(c.shapes[k]));
      } else {
        inputs.push_back(k == 0 && round % 3 == 2 ? make.dequantized(c.shapes[k])
                                                  : make.floats(c.shapes[k], round % 3 == 1));
      }
    }
    for (const Data& y : evaluate("", c.name, c.version, c.attributes, inputs)) {
      if (y.reals) expect_agreement(y, c.name + " in round " + std::to_string(round));
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"Neg",         "Abs",       "Sign",
                           "Exp",         "Log",       "Sqrt",
                           "Erf",         "Sigmoid",   "Tanh",
                           "Reciprocal",  "Floor",     "Ceil",
                           "Round",       "Softplus",  "Softsign",
                           "Sin",         "Cos",       "Tan",
                           "Atan",        "Asin",      "Acos",
                           "Sinh",        "Cosh",      "Asinh",
                           "Acosh",       "Atanh",     "LeakyRelu",
                           "HardSigmoid", "HardSwish", "Elu",
                           "Selu",        "Celu",      "ThresholdedRelu",
                           "Shrink",      "Mish",      "Swish",
                           "Gelu",        "Relu"}) {
    all.push_back({name, 28, {}, {{5, 7}}});
  }
  all.push_back({"Gelu", 28, {{"approximate", std::string("tanh")}}, {{5, 7}}});
  for (const char* name : {"Pow", "Min", "Max", "Sum", "Mean", "Mod", "PRelu"})
    all.push_back({name, 28, {}, {{5, 7}, {7}}});
  all.push_back({"Mod", 28, {{"fmod", std::int64_t{1}}}, {{5, 7}, {7}}});
  for (const char* name : {"Softmax", "LogSoftmax", "LpNormalization"}) {
    all.push_back({name, 28, {}, {{5, 4}}});
    all.push_back({name, 28, {{"axis", std::int64_t{1}}}, {{2, 3, 4}}});
  }
  for (const char* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
                           "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    all.push_back({name, 11, {{"axes", Ints{1}}}, {{4, 5, 3}}});
  }
  for (const char* name : {"MaxPool", "AveragePool", "LpPool"}) {
    all.push_back({name,
                   22,
                   {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 2}}, {"strides", Ints{1, 2}}},
                   {{1, 2, 4, 5}}});
  }
  for (const char* name : {"GlobalAveragePool", "GlobalMaxPool"}) all.push_back({name, 22, {}, {{1, 3, 3, 2}}});
  all.push_back({"LRN", 13, {{"size", std::int64_t{3}}, {"alpha", 0.5F}}, {{1, 5, 2, 2}}});
  all.push_back({"BatchNormalization", 15, {}, {{2, 3, 4}, {3}, {3}, {3}, {3}}, true});
  all.push_back({"LayerNormalization", 17, {}, {{4, 5}, {5}, {5}}});
  all.push_back({"RMSNormalization", 23, {}, {{4, 5}, {5}}});
  all.push_back({"InstanceNormalization", 22, {}, {{2, 3, 4}, {3}, {3}}});
  all.push_back({"GroupNormalization", 21, {{"num_groups", std::int64_t{2}}}, {{2, 4, 3}, {4}, {4}}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Float, Enclosure, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name + "_" + std::to_string(c.index); });

}  // namespace
}  // namespace halfeven
