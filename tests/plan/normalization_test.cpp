// Normalisations: random shapes and parameters, rows of equal elements, ties.
#include "plan/against_interpreter.hpp"

namespace halfeven::test {
namespace {

struct Case {
  std::string op;
  Shape shape;
  Shape parameters;
  std::map<std::string, std::int64_t> integers;
};

Case draw_case(Chooser& d) {
  Case c;
  const std::int64_t last = d.pick({1, 2, 3, 4, 16, 17, 64, 100});
  c.shape = {d.pick({1, 2, 3}), d.pick({2, 4, 6}), last};
  const auto kind = d.pick({0, 0, 1, 2});
  if (kind == 0) {
    c.op = "LayerNormalization";
    c.parameters = {last};
    if (d.coin()) {
      c.integers["axis"] = 1;
      if (d.coin()) c.parameters = {c.shape[1], last};
    }
    if (d.pick({0, 0, 0, 1}) == 1) c.parameters = {1};
  } else {
    if (d.coin()) c.shape.push_back(d.pick({1, 3, 5}));
    c.parameters = {c.shape[1]};
    c.op = kind == 1 ? "InstanceNormalization" : "GroupNormalization";
    if (kind == 2) c.integers["num_groups"] = d.pick({1, 2});
  }
  return c;
}

TEST(Normalization, RandomBytes) {
  std::mt19937_64 random(20261501);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(300, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Case c = draw_case(d);
    properties::SmallGraph g;
    const DType xt = d.byte();
    const DType yt = d.byte();
    auto x = d.tensor(xt, c.shape);
    if (d.pick({0, 0, 0, 1}) == 1) std::fill(x.values.begin(), x.values.end(), x.values[0]);
    g.inputs.push_back({"x", x});
    g.constants = {{"xs", d.number(DType::float32, d.pick({1, 1, -1}) < 0 ? -d.scale() : d.scale())},
                   {"xz", d.zero_point(xt)},
                   {"ys", d.number(DType::float32, d.scale() / (d.coin() ? 1 : 16))},
                   {"yz", d.zero_point(yt)}};
    g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
    const auto count = static_cast<std::int64_t>(element_count(c.parameters));
    std::vector<std::string> inputs{"xd", "g", "b"};
    if (d.coin()) {
      g.constants.push_back({"gq", {DType::int8, c.parameters, d.integers(DType::int8, count)}});
      g.constants.push_back({"bq", {DType::int32, c.parameters, d.integers(DType::int16, count)}});
      g.constants.push_back({"gs", d.number(DType::float32, d.scale())});
      g.constants.push_back({"bs", d.number(DType::float32, d.scale() / 100)});
      g.constants.back().second.values[0] =
          static_cast<double>(static_cast<float>(g.constants.back().second.values[0]));
      g.nodes.push_back({"DequantizeLinear", {"gq", "gs"}, "g", {}, {}, {}, {}});
      g.nodes.push_back({"DequantizeLinear", {"bq", "bs"}, "b", {}, {}, {}, {}});
    } else {
      for (const char* name : {"g", "b"}) {
        std::vector<double> v;
        for (std::int64_t i = 0; i < count; ++i) v.push_back(d.real() / 64);
        g.constants.push_back({name, {DType::float32, c.parameters, v}});
      }
    }
    if (c.op == "LayerNormalization" && d.pick({0, 0, 1}) == 1) inputs.pop_back();
    g.nodes.push_back({c.op, inputs, "y", c.integers, {}, {{"epsilon", d.coin() ? 1e-5F : 1.0F}}, {}});
    g.nodes.push_back({"QuantizeLinear", {"y", "ys", "yz"}, "q", {}, {}, {}, {}});
    g.outputs = {"q"};
    with_kernel += compare_small(g, "normalisation " + std::to_string(round), "normalization.");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

TEST(Normalization, RandomFloats) {
  std::mt19937_64 random(20261502);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(150, 30);
  for (std::size_t round = 0; round < rounds; ++round) {
    const Case c = draw_case(d);
    properties::SmallGraph g;
    std::vector<double> values;
    const auto style = d.pick({0, 1, 2, 3});
    for (std::size_t i = 0; i < element_count(c.shape); ++i) {
      double v = d.real() * (style == 1 ? 0.01 : 1.0);
      if (style == 2) v = static_cast<double>(d.between(-1, 1));
      if (style == 3 && d.pick({0, 0, 0, 0, 0, 0, 0, 1}) == 1) v = std::nan("");  // infinities give NaN of either sign
      values.push_back(static_cast<double>(static_cast<float>(v)));
    }
    g.inputs.push_back({"x", {DType::float32, c.shape, values}});
    const auto count = static_cast<std::int64_t>(element_count(c.parameters));
    for (const char* name : {"g", "b"}) {
      std::vector<double> v;
      for (std::int64_t i = 0; i < count; ++i) v.push_back(d.real() / 64);
      g.constants.push_back({name, {DType::float32, c.parameters, v}});
    }
    g.nodes.push_back({c.op, {"x", "g", "b"}, "y", c.integers, {}, {}, {}});
    g.outputs = {"y"};
    with_kernel += compare_small(g, "normalisation " + std::to_string(round), "float_normalization.", {1});
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

}  // namespace
}  // namespace halfeven::test
