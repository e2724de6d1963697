// Products: random shapes, types, zero points and results.
#include "plan/against_interpreter.hpp"

namespace halfeven::test {
namespace {

struct Sides {
  Shape left, right;
  bool gemm = false, transpose_left = false, transpose_right = false;
};

Sides draw_sides(Chooser& d) {
  Sides s;
  const std::int64_t m = d.pick({1, 2, 3, 8, 13, 17, 40});
  const std::int64_t k = d.pick({1, 2, 3, 4, 7, 16, 33, 64, 130});
  const std::int64_t n = d.pick({1, 3, 15, 16, 17, 48, 50, 100});
  s.gemm = d.pick({0, 0, 1}) == 1;
  if (s.gemm) {
    s.transpose_left = d.coin();
    s.transpose_right = d.coin();
    s.left = s.transpose_left ? Shape{k, m} : Shape{m, k};
    s.right = s.transpose_right ? Shape{n, k} : Shape{k, n};
    return s;
  }
  s.left = {m, k};
  s.right = {k, n};
  switch (d.pick({0, 1, 2, 3, 4, 5, 6})) {
    case 1: s.left = {2, m, k}; break;
    case 2: s.right = {3, k, n}; break;
    case 3: s.left = {2, 1, m, k}, s.right = {3, k, n}; break;
    case 4: s.left = {3, 2, m, k}, s.right = {3, 2, k, n}; break;
    case 5: s.left = {k}; break;
    case 6: s.right = {k}; break;
    default: break;
  }
  return s;
}

properties::SmallGraph draw_product(std::mt19937_64& random) {
  Chooser d(random);
  properties::SmallGraph g;
  const Sides s = draw_sides(d);
  const DType at = d.byte();
  const DType bt = d.byte();
  const DType yt = d.byte();
  const bool constant = d.coin();
  const bool by_column = constant && s.right.size() == 2 && d.coin();
  const std::int64_t columns = s.right.size() == 1 ? 1 : (s.transpose_right ? s.right[0] : s.right.back());
  g.inputs.push_back({"a", d.tensor(at, s.left)});
  (constant ? g.constants : g.inputs).push_back({"b", d.tensor(bt, s.right)});
  g.constants.push_back({"as", d.number(DType::float32, d.scale())});
  g.constants.push_back({"az", d.zero_point(at)});
  if (by_column) {
    g.constants.push_back({"bs", {DType::float32, {columns}, d.scales(columns)}});
    g.constants.push_back({"bz", d.coin() ? d.tensor(bt, {columns})
                                          : properties::SmallTensor{bt, {columns}, std::vector<double>(columns, 0.0)}});
  } else {
    g.constants.push_back({"bs", d.number(DType::float32, d.scale())});
    g.constants.push_back({"bz", d.zero_point(bt)});
  }
  g.nodes.push_back({"DequantizeLinear", {"a", "as", "az"}, "ad", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"b", "bs", "bz"}, "bd", {{"axis", s.transpose_right ? 0 : 1}}, {}, {}, {}});
  std::vector<std::string> inputs{"ad", "bd"};
  const auto bias = d.pick({0, 1, 2});
  if (bias == 1) {
    std::vector<double> v;
    for (std::int64_t n = 0; n < columns; ++n) v.push_back(d.real());
    g.constants.push_back({"c", {DType::float32, {columns}, v}});
  } else if (bias == 2) {
    std::vector<double> v;
    for (std::int64_t n = 0; n < columns; ++n) v.push_back(static_cast<double>(d.between(-100000, 100000)));
    g.constants.push_back({"cq", {DType::int32, {columns}, v}});
    const double exact = g.constants[0].second.values[0] * d.scale();
    g.constants.push_back({"cs", d.number(DType::float32, static_cast<double>(static_cast<float>(exact)))});
    g.nodes.push_back({"DequantizeLinear", {"cq", "cs"}, "c", {}, {}, {}, {}});
  }
  std::string last = "y";
  if (s.gemm) {
    if (bias != 0) inputs.push_back("c");
    std::map<std::string, float> factors;
    if (d.pick({0, 0, 1}) == 1) factors = {{"alpha", 0.75F}, {"beta", 0.3F}};
    g.nodes.push_back({"Gemm",
                       inputs,
                       "y",
                       {{"transA", s.transpose_left ? 1 : 0}, {"transB", s.transpose_right ? 1 : 0}},
                       {},
                       factors,
                       {}});
  } else {
    g.nodes.push_back({"MatMul", inputs, "y", {}, {}, {}, {}});
  }
  const bool quantized = d.coin();
  if (!quantized && !s.gemm && bias != 0) {
    g.nodes.push_back({"Add", {d.coin() ? "y" : "c", "c"}, "sum", {}, {}, {}, {}});
    if (g.nodes.back().inputs[0] == "c") g.nodes.back().inputs[1] = "y";
    last = "sum";
  }
  if (quantized) {
    const double span = d.scale() * static_cast<double>(d.between(1, 2000));
    g.constants.push_back({"ys", d.number(DType::float32, static_cast<double>(static_cast<float>(span)))});
    g.constants.push_back({"yz", d.zero_point(yt)});
    g.nodes.push_back({"QuantizeLinear", {last, "ys", "yz"}, "q", {}, {}, {}, {}});
    last = "q";
  }
  g.outputs = {last};
  return g;
}

TEST(MatMul, RandomProducts) {
  std::mt19937_64 random(20261301);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(400, 60);
  for (std::size_t round = 0; round < rounds; ++round) {
    with_kernel += compare_small(draw_product(random), "product " + std::to_string(round), "matmul.");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

// Sums at the ends of what 8-bit products give.
TEST(MatMul, Extremes) {
  std::mt19937_64 random(20261302);
  Chooser d(random);
  std::size_t with_kernel = 0;
  for (const DType at : {DType::uint8, DType::int8}) {
    for (const DType bt : {DType::uint8, DType::int8}) {
      for (const int zero : {0, 1}) {
        properties::SmallGraph g;
        const auto ends = [&](DType t, bool high) {
          return static_cast<double>(high ? integer_max(t) : integer_min(t));
        };
        g.inputs.push_back({"a", {at, {3, 300}, std::vector<double>(900, ends(at, true))}});
        g.inputs.push_back({"b", {bt, {300, 20}, std::vector<double>(6000, ends(bt, zero == 0))}});
        g.constants = {{"as", d.number(DType::float32, 1)},
                       {"az", d.number(at, ends(at, false))},
                       {"bz", d.number(bt, ends(bt, zero == 1))}};
        g.nodes.push_back({"DequantizeLinear", {"a", "as", "az"}, "ad", {}, {}, {}, {}});
        g.nodes.push_back({"DequantizeLinear", {"b", "as", "bz"}, "bd", {}, {}, {}, {}});
        g.nodes.push_back({"MatMul", {"ad", "bd"}, "y", {}, {}, {}, {}});
        g.outputs = {"y"};
        with_kernel += compare_small(g, "extremes", "matmul.");
      }
    }
  }
  EXPECT_GT(with_kernel, 8U);
}

TEST(MatMul, Integers) {
  std::mt19937_64 random(20261303);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(100, 20);
  for (std::size_t round = 0; round < rounds; ++round) {
    Sides s;
    do s = draw_sides(d);
    while (s.gemm);
    properties::SmallGraph g;
    const DType at = d.byte();
    const DType bt = d.byte();
    g.inputs.push_back({"a", d.tensor(at, s.left)});
    (d.coin() ? g.constants : g.inputs).push_back({"b", d.tensor(bt, s.right)});
    (d.coin() ? g.constants : g.inputs).push_back({"az", d.zero_point(at)});
    const std::int64_t columns = s.right.size() == 2 && d.coin() ? s.right.back() : 1;
    if (columns > 1) {
      g.constants.push_back({"bz", d.tensor(bt, {columns})});
    } else {
      (d.coin() ? g.constants : g.inputs).push_back({"bz", d.zero_point(bt)});
    }
    const auto given = d.pick({2, 3, 4});
    std::vector<std::string> inputs{"a", "b", "az", "bz"};
    inputs.resize(static_cast<std::size_t>(given));
    g.nodes.push_back({"MatMulInteger", inputs, "y", {}, {}, {}, {}});
    g.outputs = {"y"};
    with_kernel += compare_small(g, "integers " + std::to_string(round), "matmul.");
    if (HasFailure()) return;
  }
  EXPECT_GT(with_kernel, rounds);
}

TEST(MatMul, WeightOnly) {
  std::mt19937_64 random(20261304);
  Chooser d(random);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(200, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    properties::SmallGraph g;
    const std::int64_t m = d.pick({1, 3, 4, 9});
    const std::int64_t k = d.pick({1, 4, 16, 33, 64});
    const std::int64_t n = d.pick({1, 7, 8, 17, 40});
    const bool gemm = d.coin();
    const bool transposed = gemm && d.coin();
    const DType wt = d.pick({0, 0, 1}) == 1 ? DType::int4 : d.byte();
    std::vector<double> values;
    const auto style = d.pick({0, 1, 2});
    for (std::int64_t i = 0; i < m * k; ++i) {
      const double v = style == 0 ? static_cast<double>(d.between(-3, 3)) : d.real() / (style == 1 ? 17 : 1);
      values.push_back(static_cast<double>(static_cast<float>(v)));
    }
    g.inputs.push_back({"x", {DType::float32, gemm || d.coin() ? Shape{m, k} : Shape{1, m, k}, values}});
    const Shape ws = transposed ? Shape{n, k} : Shape{k, n};
    g.constants.push_back({"w", d.tensor(wt, ws)});
    const auto kind = d.pick({0, 1, 2});
    const std::int64_t axis = d.between(0, 1);
    Shape ss;
    std::map<std::string, std::int64_t> attributes{{"axis", axis}};
    if (kind == 1) ss = {ws[static_cast<std::size_t>(axis)]};
    if (kind == 2) {
      const std::int64_t block = d.pick({1, 4, 16});
      ss = ws;
      ss[static_cast<std::size_t>(axis)] = (ws[static_cast<std::size_t>(axis)] + block - 1) / block;
      attributes["block_size"] = block;
    }
    g.constants.push_back({"ws", {DType::float32, ss, d.scales(static_cast<std::int64_t>(element_count(ss)))}});
    std::vector<std::string> dequantize{"w", "ws"};
    if (d.coin()) {
      g.constants.push_back({"wz", d.tensor(wt, ss)});
      dequantize.push_back("wz");
    }
    g.nodes.push_back({"DequantizeLinear", dequantize, "wd", attributes, {}, {}, {}});
    std::vector<double> bias;
    for (std::int64_t i = 0; i < n; ++i) bias.push_back(static_cast<double>(static_cast<float>(d.real() / 3)));
    g.constants.push_back({"b", {DType::float32, {n}, bias}});
    std::vector<std::string> inputs{"x", "wd"};
    const bool biased = d.coin();
    if (biased && gemm) inputs.push_back("b");
    g.nodes.push_back({gemm ? "Gemm" : "MatMul",
                       inputs,
                       "y",
                       gemm ? std::map<std::string, std::int64_t>{{"transB", transposed ? 1 : 0}}
                            : std::map<std::string, std::int64_t>{},
                       {},
                       {},
                       {}});
    g.outputs = {"y"};
    if (biased && !gemm) {
      g.nodes.push_back({"Add", {"y", "b"}, "z", {}, {}, {}, {}});
      g.outputs = {"z"};
    }
    with_kernel += compare_small(g, "weights " + std::to_string(round), "weight_only.");
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

}  // namespace
}  // namespace halfeven::test
