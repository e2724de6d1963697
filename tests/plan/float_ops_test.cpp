// Single float32 operators: zeros of both signs, subnormal results, infinities, broadcasting.
#include <limits>

#include "plan/against_interpreter.hpp"

namespace halfeven::test {
namespace {

std::vector<double> draw_floats(Chooser& d, std::int64_t count) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < count; ++i) {
    double x = d.real() / 17;
    switch (d.pick({0, 0, 0, 0, 1, 2, 3, 4})) {
      case 1: x = 0; break;
      case 2: x *= 0x1p-80; break;
      case 3: x *= 0x1p70; break;
      case 4: x = static_cast<double>(d.between(-2, 2)); break;
      default: break;
    }
    v.push_back(static_cast<double>(static_cast<float>(x)));
  }
  return v;
}

TEST(FloatOps, Binary) {
  std::mt19937_64 random(20261701);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(200, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Shape shape{d.pick({1, 2}), d.pick({1, 3, 17}), d.pick({1, 4}), d.pick({1, 5, 16})};
    Shape other = shape;
    const auto style = d.pick({0, 1, 2, 3, 4});
    if (style == 1) other = {};
    if (style == 2) other = {1, shape[1], 1, 1};
    if (style == 3) other = {shape[3]};
    if (style == 4) other = {shape[1], 1, 1};
    properties::SmallGraph g;
    const auto count = [](const Shape& s) { return static_cast<std::int64_t>(element_count(s)); };
    g.inputs.push_back({"a", {DType::float32, shape, draw_floats(d, count(shape))}});
    (d.coin() ? g.inputs : g.constants).push_back({"b", {DType::float32, other, draw_floats(d, count(other))}});
    const bool swapped = d.coin();
    const char* op = std::vector<const char*>{"Add", "Sub", "Mul"}[static_cast<std::size_t>(d.between(0, 2))];
    g.nodes.push_back({op, {swapped ? "b" : "a", swapped ? "a" : "b"}, "y", {}, {}, {}, {}});
    g.nodes.push_back({"Relu", {"y"}, "r", {}, {}, {}, {}});
    g.outputs = {"y", "r"};
    with_kernel += compare_small(g, "float " + std::to_string(round), "float_");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

TEST(FloatOps, CastAndReduceMax) {
  std::mt19937_64 random(20261702);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(100, 30);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Shape shape{d.pick({1, 2}), d.pick({1, 3, 17}), d.pick({1, 4}), d.pick({1, 5, 16})};
    properties::SmallGraph g;
    std::vector<double> v;
    for (std::size_t i = 0; i < element_count(shape); ++i) {
      v.push_back(static_cast<double>(d.between(-2147483648LL, 2147483647LL) >> d.between(0, 31)));
    }
    g.inputs.push_back({"x", {DType::int32, shape, v}});
    g.nodes.push_back({"Cast", {"x"}, "y", {{"to", 1}}, {}, {}, {}});
    const std::vector<std::vector<double>> choices{{2, 3}, {3}, {1}, {-1, -2}, {0, 1}};
    const auto axes = choices[static_cast<std::size_t>(d.between(0, 4))];
    g.constants.push_back({"axes", {DType::int64, {static_cast<std::int64_t>(axes.size())}, axes}});
    g.nodes.push_back({"ReduceMax", {"y", "axes"}, "m", {{"keepdims", d.pick({0, 1})}}, {}, {}, {}});
    g.outputs = {"y", "m"};
    with_kernel += compare_small(g, "reduction " + std::to_string(round), "float_");
    if (HasFailure()) return;
  }
  EXPECT_GT(with_kernel, rounds);
}

}  // namespace
}  // namespace halfeven::test
