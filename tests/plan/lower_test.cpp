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

// Chains around pools and movements, and com.microsoft's operators.
properties::SmallGraph draw_pattern(Draw& d) {
  properties::SmallGraph g;
  int next = 0;
  const auto name = [&] { return "v" + std::to_string(next++); };
  const auto add = [&](const std::string& op, std::vector<std::string> in,
                       std::map<std::string, std::int64_t> ints = {},
                       std::map<std::string, std::vector<std::int64_t>> lists = {},
                       std::map<std::string, std::string> strings = {}) {
    const std::string y = name();
    g.nodes.push_back({op, std::move(in), y, std::move(ints), std::move(lists), {}, std::move(strings)});
    return y;
  };
  const auto constant = [&](DType t, Shape shape, std::vector<double> v) {
    const std::string n = name();
    g.constants.push_back({n, {t, std::move(shape), std::move(v)}});
    return n;
  };
  const auto number = [&](DType t, double v) { return constant(t, {}, {v}); };
  const DType t = d.pick({DType::uint8, DType::int8});
  const auto parameters = [&](std::vector<std::string> in) {
    in.push_back(number(DType::float32, d.scale()));
    in.push_back(number(t, d.codes(t, 1)[0]));
    return in;
  };
  const auto input = [&](const Shape& shape) {
    const std::string x = name();
    g.inputs.push_back({x, {t, shape, d.codes(t, count_of(shape))}});
    return x;
  };
  const Shape shape{d.pick<std::int64_t>({1, 2}), d.pick<std::int64_t>({1, 3, 17}), 4, d.pick<std::int64_t>({2, 6})};
  const auto extended = [](std::vector<std::string> in, const std::vector<std::string>& more) {
    in.insert(in.end(), more.begin(), more.end());
    return in;
  };
  if (d.chance(3)) {
    std::string y;
    switch (d.below(5)) {
      case 0:
      case 1:
        y = add(d.chance(2) ? "QLinearAdd" : "QLinearMul",
                parameters(extended(parameters({input(shape)}),
                                    parameters({d.chance(3) ? number(t, d.codes(t, 1)[0]) : input(shape)}))));
        break;
      case 2:
        y = add("QLinearConcat",
                extended(parameters({}), extended(parameters({input(shape)}), parameters({input(shape)}))),
                {{"axis", 1}});
        break;
      case 3:
        y = add("QLinearGlobalAveragePool", parameters(parameters({input(shape)})),
                {{"channels_last", d.chance(3) ? 1 : 0}});
        break;
      default:
        y = add("QLinearAveragePool", parameters(parameters({input(shape)})), {{"count_include_pad", 1}},
                {{"kernel_shape", {2, 2}}, {"pads", {1, 0, 0, 1}}});
    }
    if (d.chance(2)) y = add(d.chance(2) ? "QLinearSigmoid" : "QLinearLeakyRelu", parameters(parameters({y})));
    g.outputs = {y};
    return g;
  }
  std::string x = add("DequantizeLinear", parameters({input(shape)}));
  const std::string first = x;
  switch (d.below(6)) {
    case 0: x = add("Div", {x, number(DType::float32, 6)}); break;
    case 1: x = add("PRelu", {x, constant(DType::float32, {shape[1], 1, 1}, d.floats(shape[1]))}); break;
    case 2:
      x = add("Mul",
              {x, add("HardSigmoid", {add("DequantizeLinear", parameters({input({shape[0], shape[1], 1, 1})}))})});
      break;
    case 3: x = add("Add", {x, add("DequantizeLinear", parameters({input(shape)}))}); break;
    case 4: x = add("Add", {add("Mul", {x, number(DType::float32, 1.5)}), number(DType::float32, -2)}); break;
    default: break;
  }
  const bool twice = d.chance(3);  // somebody else reads the chain
  if (twice) g.outputs.push_back(d.chance(2) ? add("GlobalAveragePool", {x}) : x);
  switch (d.below(5)) {
    case 0: x = add("MaxPool", {x}, {}, {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}}); break;
    case 1:
      x = add("Resize", {x, "", constant(DType::float32, {4}, {1, 1, d.pick({2.0, 1.5, 0.5}), 2})}, {}, {},
              {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
      break;
    case 2: x = add("Transpose", {x}, {}, {{"perm", {0, 2, 3, 1}}}); break;
    case 3: x = add("Relu", {x}); break;
    default: break;
  }
  if (d.chance(3)) x = add("Add", {x, number(DType::float32, 0.3125)});
  if (d.chance(4)) x = add("GlobalAveragePool", {x});
  if (d.chance(4)) {
    g.outputs.push_back(x);
  } else {
    g.outputs.push_back(add("QuantizeLinear", parameters({x})));
  }
  return g;
}

TEST(Lower, Patterns) {
  constexpr std::uint64_t kSeed = 20261214;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(600, 60); ++round) {
    const auto drawn = draw_pattern(d);
    const std::string what = "seed " + std::to_string(kSeed) + ", round " + std::to_string(round);
    const std::string text = properties::to_onnx(drawn);
    std::vector<Tensor> inputs;
    for (const auto& [_, tensor] : drawn.inputs) inputs.push_back(properties::to_tensor(tensor));
    try {
      check(Model::load(std::as_bytes(std::span(text))), inputs, what + "\n" + properties::to_text(drawn));
    } catch (const Error& e) {
      if (e.code() == ErrorCode::other || e.code() == ErrorCode::model)
        FAIL() << e.what() << "\n" << properties::to_text(drawn);
    }
    compare_engine(drawn, what, tally);
    if (HasFailure()) return;
  }
  std::cout << tally.kernels << " steps had a kernel, " << tally.references << " had none\n";
  EXPECT_GT(tally.kernels, 10 * tally.references);
}

}  // namespace
}  // namespace halfeven::test
