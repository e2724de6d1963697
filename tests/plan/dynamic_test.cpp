// Dynamic quantization: ranges found at run time, integer convolutions, and the chains between them.
#include "plan/against_interpreter.hpp"

namespace halfeven::test {
namespace {

// Adds DynamicQuantizeLinear of `x` with results q, q_scale, q_zero.
void add_dynamic(properties::SmallGraph& g, const std::string& x, const std::string& q) {
  g.nodes.push_back({"DynamicQuantizeLinear", {x}, q, {}, {}, {}, {}, {q + "_scale", q + "_zero"}});
}

std::vector<double> floats(Chooser& d, std::int64_t count) {
  std::vector<double> v;
  const auto style = d.pick({0, 1, 2, 3, 4});
  for (std::int64_t i = 0; i < count; ++i) {
    double x = d.real();
    if (style == 1) x = std::fabs(x);                                   // one-sided
    if (style == 2) x = static_cast<double>(d.between(-510, 255)) / 2;  // quotients at ties
    if (style == 3) x = 0;
    if (style == 0) x /= 3 * static_cast<double>(d.between(1, 100));
    if (style == 4) x *= 1e-3 * static_cast<double>(d.between(1, 1000));
    v.push_back(static_cast<double>(static_cast<float>(x)));
  }
  return v;
}

// A float that fills its mantissa.
double real(Chooser& d) { return static_cast<double>(static_cast<float>(d.real() / 17 + 0.01)); }

TEST(Dynamic, Quantize) {
  std::mt19937_64 random(20261601);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(200, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    properties::SmallGraph g;
    const std::int64_t n = d.pick({1, 2, 15, 16, 33, 300, 1000});
    g.inputs.push_back({"x", {DType::float32, {n}, floats(d, n)}});
    add_dynamic(g, "x", "q");
    g.outputs = {"q", "q_scale", "q_zero"};
    with_kernel += compare_small(g, "range " + std::to_string(round), "dynamic.");
    if (HasFailure()) return;
  }
  EXPECT_GT(with_kernel, rounds);
}

// x -> DynamicQuantizeLinear -> ConvInteger -> Cast -> Mul -> Add -> Relu -> MaxPool -> DynamicQuantizeLinear.
properties::SmallGraph draw_chain(Chooser& d) {
  properties::SmallGraph g;
  const std::int64_t channels = d.pick({1, 2, 3, 5, 16});
  const std::int64_t out = d.pick({1, 3, 16, 17, 40});
  const std::int64_t kh = d.pick({1, 2, 3});
  const std::int64_t kw = d.pick({1, 3, 4});
  const std::int64_t h = kh + d.between(2, 7);
  const std::int64_t w = kw + d.between(2, 9);
  const std::int64_t batch = d.pick({1, 1, 2});
  g.inputs.push_back({"x", {DType::float32, {batch, channels, h, w}, floats(d, batch * channels * h * w)}});
  add_dynamic(g, "x", "q");
  const DType wt = d.byte();
  g.constants.push_back({"w", d.tensor(wt, {out, channels, kh, kw})});
  g.constants.push_back({"ws", d.number(DType::float32, real(d))});
  std::vector<std::string> inputs{"q", "w", "q_zero"};
  if (d.coin()) {
    g.constants.push_back({"wz", d.zero_point(wt)});
    inputs.push_back("wz");
  }
  const std::vector<std::int64_t> pads{d.pick({0, 1}), d.pick({0, 2}), d.pick({0, 1}), d.pick({0, 1})};
  g.nodes.push_back({"ConvInteger",
                     inputs,
                     "sum",
                     {},
                     {{"pads", pads}, {"strides", {d.pick({1, 1, 2}), d.pick({1, 1, 2})}}, {"dilations", {1, 1}}},
                     {},
                     {}});
  g.nodes.push_back({"Cast", {"sum"}, "cast", {{"to", 1}}, {}, {}, {}});
  g.nodes.push_back({"Mul", {"q_scale", "ws"}, "scale", {}, {}, {}, {}});
  g.nodes.push_back({"Mul", {"cast", "scale"}, "y", {}, {}, {}, {}});
  const bool one = d.pick({0, 0, 1}) == 1;
  std::vector<double> bias;
  for (std::int64_t i = 0; i < (one ? 1 : out); ++i) bias.push_back(real(d));
  g.constants.push_back({"b", {DType::float32, {one ? 1 : out, 1, 1}, bias}});
  g.nodes.push_back({"Add", {"y", "b"}, "z", {}, {}, {}, {}});
  std::string last = "z";
  if (d.coin()) {
    g.nodes.push_back({"Relu", {last}, "r", {}, {}, {}, {}});
    last = "r";
  }
  if (d.coin()) {
    g.nodes.push_back(
        {"MaxPool", {last}, "p", {}, {{"kernel_shape", {2, 1}}, {"strides", {d.pick({1, 2}), 1}}}, {}, {}});
    last = "p";
  }
  add_dynamic(g, last, "t");
  g.outputs = {"t", "t_scale", "t_zero"};
  return g;
}

TEST(Dynamic, Chains) {
  std::mt19937_64 random(20261602);
  Chooser d(random);
  std::size_t with_kernel = 0;
  std::size_t rounds = effort(200, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto g = draw_chain(d);
    try {
      with_kernel += compare_small(g, "chain " + std::to_string(round), "dynamic.");
      with_kernel += compare_small(g, "chain " + std::to_string(round), "conv_integer.", {2});
    } catch (const Error& e) {
      if (e.code() != ErrorCode::input && e.code() != ErrorCode::model) throw;  // pooled away
    }
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds * 4);
}

// A vector in front of DynamicQuantizeLinear: channels and elements are one axis.
TEST(Dynamic, Vectors) {
  properties::SmallGraph g;
  g.inputs.push_back({"x", {DType::float32, {8}, {1, -2, 3, 0.5, -7, 2.25, 4, 0}}});
  g.constants.push_back({"b", {DType::float32, {8}, {0.25, 1, 2, 3, -1, 0, 5, 6}}});
  g.nodes.push_back({"Add", {"x", "b"}, "s", {}, {}, {}, {}});
  g.nodes.push_back({"DynamicQuantizeLinear", {"s"}, "q", {}, {}, {}, {}, {"scale", "zero"}});
  g.outputs = {"q", "scale", "zero"};
  compare_small(g, "vector", "dynamic");
}

// Two pools in front of it are not one.
TEST(Dynamic, TwoPools) {
  properties::SmallGraph g;
  std::vector<double> values;
  for (int i = 0; i < 2 * 8 * 8; ++i) values.push_back((i * 37 % 101) - 50);
  g.inputs.push_back({"x", {DType::float32, {1, 2, 8, 8}, values}});
  g.constants.push_back({"b", {DType::float32, {1, 2, 1, 1}, {0.25, -1}}});
  g.nodes.push_back({"Add", {"x", "b"}, "s", {}, {}, {}, {}});
  const std::map<std::string, std::vector<std::int64_t>> lists{{"kernel_shape", {2, 2}}, {"strides", {2, 2}}};
  g.nodes.push_back({"MaxPool", {"s"}, "p", {}, lists, {}, {}});
  g.nodes.push_back({"MaxPool", {"p"}, "pp", {}, lists, {}, {}});
  g.nodes.push_back({"DynamicQuantizeLinear", {"pp"}, "q", {}, {}, {}, {}, {"scale", "zero"}});
  g.outputs = {"q", "scale", "zero"};
  compare_small(g, "two pools", "dynamic");
}

}  // namespace
}  // namespace halfeven::test
