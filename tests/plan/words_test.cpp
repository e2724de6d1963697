// 16-bit activations outside convolutions: sums and products, tables that are lines, maxima.
#include <cmath>
#include <iostream>

#include "plan/compare.hpp"
#include "plan/linear_table.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;

constexpr std::uint64_t kSeed = 20261219;

class Words {
 public:
  explicit Words(Draw& draw) : d(draw) {}
  Draw& d;
  SmallGraph g;

  DType type() { return d.pick({DType::uint16, DType::int16}); }
  // A step that is small beside the range of the codes, or a power of two, which makes ties.
  double scale() {
    const double s = d.chance(3) ? std::ldexp(1.0, -static_cast<int>(d.below(16))) : d.scale() / 257;
    return static_cast<double>(static_cast<float>(s));
  }
  void parameters(const std::string& name, DType type, double scale) {
    g.constants.push_back({name + "s", {DType::float32, {}, {scale}}});
    g.constants.push_back({name + "z", {type, {}, d.codes(type, 1)}});
  }
  double operand(const std::string& name, const Shape& shape) {
    const DType t = type();
    const double s = scale();
    g.inputs.push_back({name, {t, shape, d.codes(t, count_of(shape))}});
    parameters(name, t, s);
    node("DequantizeLinear", {name, name + "s", name + "z"}, name + "d");
    return s;
  }
  void node(const std::string& op, std::vector<std::string> inputs, const std::string& output,
            std::map<std::string, std::vector<std::int64_t>> lists = {}) {
    g.nodes.push_back({op, std::move(inputs), output, {}, std::move(lists), {}, {}});
  }
  void result(const std::string& x, double scale) {
    const DType t = type();
    parameters("y", t, static_cast<double>(static_cast<float>(scale)));
    node("QuantizeLinear", {x, "ys", "yz"}, "q");
    g.outputs = {"q"};
  }
};

Shape draw_shape(Draw& d) {
  return {d.pick<std::int64_t>({1, 2}), d.pick<std::int64_t>({1, 3, 17, 40}), d.pick<std::int64_t>({1, 4, 7}),
          d.pick<std::int64_t>({1, 5, 33})};
}

SmallGraph draw_binary(Draw& d) {
  Words w(d);
  const Shape shape = draw_shape(d);
  Shape other = shape;
  if (d.chance(2)) other = d.chance(3) ? Shape{} : Shape{d.chance(2) ? 1 : shape[0], shape[1], 1, 1};
  const std::string op = d.pick<std::string>({"Add", "Sub", "Mul"});
  const double a = w.operand("a", shape);
  const double b = w.operand("b", other);
  const bool swap = d.chance(3);
  std::string x = "ad";
  if (d.chance(2)) {  // a convolution leaves channels last
    w.g.constants.push_back({"w", {DType::int8, {shape[1], 1, 1, 1}, d.codes(DType::int8, shape[1])}});
    w.g.constants.push_back({"ws", {DType::float32, {}, {1.0}}});
    w.g.constants.push_back({"wz", {DType::int8, {}, {0.0}}});
    w.node("DequantizeLinear", {"w", "ws", "wz"}, "wd");
    w.g.nodes.push_back({"Conv", {"ad", "wd"}, "c", {{"group", shape[1]}}, {}, {}, {}});
    w.parameters("c", w.type(), static_cast<double>(static_cast<float>(a * 100)));
    w.node("QuantizeLinear", {"c", "cs", "cz"}, "cq");
    w.node("DequantizeLinear", {"cq", "cs", "cz"}, "cd");
    x = "cd";
  }
  w.node(op, swap ? std::vector<std::string>{"bd", x} : std::vector<std::string>{x, "bd"}, "f");
  w.result("f", op == "Mul" ? a * b * d.pick({1.0, 6553.6, 65535.0, 30000.0}) : (a + b) * d.pick({0.01, 0.5, 1.0}));
  return w.g;
}

SmallGraph draw_table(Draw& d) {
  Words w(d);
  const double s = w.operand("a", draw_shape(d));
  const auto number = [&](const std::string& name, double v) {
    w.g.constants.push_back({name, {DType::float32, {}, {static_cast<double>(static_cast<float>(v))}}});
  };
  switch (d.below(4)) {
    case 0:
      number("lo", -s * static_cast<double>(d.below(30000)));
      number("hi", s * static_cast<double>(d.below(40000)));
      w.node("Clip", {"ad", "lo", "hi"}, "f");
      break;
    case 1:
      number("c", d.pick({6.0, 0.1, -3.0}));
      w.node(d.pick<std::string>({"Div", "Mul"}), {"ad", "c"}, "f");
      break;
    case 2: w.node("HardSigmoid", {"ad"}, "f"); break;
    default: w.node(d.pick<std::string>({"Sigmoid", "HardSwish", "Relu"}), {"ad"}, "f"); break;
  }
  w.result("f", s * d.pick({0.2, 1.0, 1.0, 3.7}));
  return w.g;
}

SmallGraph draw_maximum(Draw& d) {
  Words w(d);
  const Shape shape{1, d.pick<std::int64_t>({1, 3, 17, 70}), d.pick<std::int64_t>({3, 6, 9}),
                    d.pick<std::int64_t>({3, 8})};
  const double s = w.operand("a", shape);
  std::string x = "ad";
  if (d.chance(2)) {
    w.g.constants.push_back({"c", {DType::float32, {}, {6.0}}});
    w.node("Div", {x, "c"}, "f");
    x = "f";
  }
  const std::int64_t k = d.pick<std::int64_t>({2, 3});
  const std::int64_t pad = static_cast<std::int64_t>(d.below(2));
  w.node("MaxPool", {x}, "p", {{"kernel_shape", {k, k}}, {"strides", {1 + pad, 2}}, {"pads", {pad, 0, 0, pad}}});
  w.result("p", s * d.pick({0.1, 1.0}));
  return w.g;
}

void check(SmallGraph (*draw)(Draw&), std::uint64_t seed, std::size_t full, std::size_t least) {
  Draw d(seed);
  Tally tally;
  const std::size_t rounds = effort(full, least);
  for (std::size_t round = 0; round < rounds; ++round) {
    compare_engine(draw(d), "seed " + std::to_string(seed) + ", round " + std::to_string(round), tally);
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "seed " << seed << ": " << tally.kernels << " steps had a kernel, " << tally.references << " none\n";
  EXPECT_LE(tally.references * 50, tally.kernels);
}

TEST(Words, SumsAndProducts) { check(draw_binary, kSeed, 150, 15); }
TEST(Words, Tables) { check(draw_table, kSeed + 1, 100, 10); }
TEST(Words, Maxima) { check(draw_maximum, kSeed + 2, 100, 10); }

std::vector<std::uint16_t> table_of(double ratio, double offset, int lo, int hi) {
  std::vector<std::uint16_t> t(65536);
  for (std::size_t x = 0; x < t.size(); ++x) {
    const double y = std::nearbyint(static_cast<double>(x) * ratio + offset);
    t[x] = static_cast<std::uint16_t>(std::clamp(y, static_cast<double>(lo), static_cast<double>(hi)));
  }
  return t;
}

TEST(Words, FindsLines) {
  for (const double ratio : {1.0, 0.5, 0.73105293, -0.25, -1.3717171, 0.16646464, 3.9123456, 0.0}) {
    for (const double offset : {0.0, 17.25, 30000.12345}) {
      EXPECT_TRUE(plan::find_line(table_of(ratio, offset, 0, 65535), 0, 0)) << ratio << " " << offset;
      EXPECT_TRUE(plan::find_line(table_of(ratio, offset, 100, 40000), 0, 0)) << ratio << " " << offset;
    }
  }
  auto bent = table_of(0.7, 3, 0, 65535);
  bent[1000] += 2;
  EXPECT_FALSE(plan::find_line(bent, 0, 0));
}

}  // namespace
}  // namespace halfeven::test
