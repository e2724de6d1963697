// Softmax and LogSoftmax: random shapes and axes, rows of equal elements, masks, infinities.
#include <limits>

#include "plan/against_interpreter.hpp"

namespace halfeven::test {
namespace {

Shape draw_shape(Chooser& d) {
  Shape s(static_cast<std::size_t>(d.between(1, 4)), 1);
  for (auto& n : s) n = d.pick({1, 2, 3, 4, 5, 9});
  s[static_cast<std::size_t>(d.between(0, static_cast<std::int64_t>(s.size()) - 1))] = d.pick({1, 2, 7, 16, 33, 130});
  return s;
}

TEST(Softmax, RandomBytes) {
  std::mt19937_64 random(20261401);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(300, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    properties::SmallGraph g;
    const DType xt = d.byte();
    const DType yt = d.byte();
    const Shape shape = draw_shape(d);
    auto x = d.tensor(xt, shape);
    if (d.pick({0, 0, 1}) == 1) std::fill(x.values.begin(), x.values.end(), x.values[0]);
    g.inputs.push_back({"x", x});
    g.constants = {{"xs", d.number(DType::float32, (d.pick({0, 0, 0, 0, 1}) == 1 ? 0x1p90 : 1) *
                                                       (d.pick({1, 1, 1, -1}) < 0 ? -1 : 1) * d.scale())},
                   {"xz", d.zero_point(xt)},
                   {"ys", d.number(DType::float32, (d.pick({1, 1, 1, -1}) < 0 ? -1 : 1) * d.scale() / 16)},
                   {"yz", d.zero_point(yt)}};
    g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
    const auto axis = d.between(-static_cast<std::int64_t>(shape.size()), static_cast<std::int64_t>(shape.size()) - 1);
    g.nodes.push_back({d.pick({0, 0, 1}) == 1 ? "LogSoftmax" : "Softmax", {"xd"}, "y", {{"axis", axis}}, {}, {}, {}});
    g.nodes.push_back({"QuantizeLinear", {"y", "ys", "yz"}, "q", {}, {}, {}, {}});
    g.outputs = {"q"};
    with_kernel += compare_small(g, "softmax " + std::to_string(round), "softmax.");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

TEST(Softmax, RandomFloats) {
  std::mt19937_64 random(20261402);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(300, 40);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t round = 0; round < rounds; ++round) {
    properties::SmallGraph g;
    const Shape shape = draw_shape(d);
    std::vector<double> values;
    const int style = static_cast<int>(d.between(0, 4));
    for (std::size_t i = 0; i < element_count(shape); ++i) {
      double v = d.real() * (style == 1 ? 0.01 : (style == 2 ? 100.0 : 0.1));
      if (style == 3 && d.coin()) v = -kInfinity;
      if (style == 4 && d.pick({0, 0, 0, 0, 0, 1}) == 1) v = d.coin() ? kInfinity : std::nan("");
      values.push_back(static_cast<double>(static_cast<float>(v)));
    }
    g.inputs.push_back({"x", {DType::float32, shape, values}});
    const auto axis = d.between(-static_cast<std::int64_t>(shape.size()), static_cast<std::int64_t>(shape.size()) - 1);
    g.nodes.push_back({d.coin() ? "LogSoftmax" : "Softmax", {"x"}, "y", {{"axis", axis}}, {}, {}, {}});
    g.outputs = {"y"};
    with_kernel += compare_small(g, "softmax " + std::to_string(round), "float_softmax.");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

}  // namespace
}  // namespace halfeven::test
