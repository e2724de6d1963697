// Elementwise kernels give the interpreter's bits: chains of operators over every type, broadcast and layout.
#include "plan/compare.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;
using properties::SmallTensor;

class Chain {
 public:
  explicit Chain(Draw& draw) : d(draw) {}
  Draw& d;
  SmallGraph g;

  std::string name() { return "v" + std::to_string(next_++); }

  void constant(const std::string& n, DType t, Shape shape, std::vector<double> values) {
    g.constants.push_back({n, {t, std::move(shape), std::move(values)}});
  }

  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, std::int64_t> integers = {}, std::map<std::string, float> floats = {}) {
    const std::string out = name();
    g.nodes.push_back({op, std::move(inputs), out, std::move(integers), {}, std::move(floats), {}});
    return out;
  }

  /// A float tensor of the shape: an input, dequantized or float, or a constant.
  std::string operand(const Shape& shape, bool may_be_constant) {
    const std::string x = name();
    if (may_be_constant && d.chance(3)) {
      constant(x, DType::float32, shape, d.floats(count_of(shape)));
      return x;
    }
    if (d.chance(5)) {
      g.inputs.push_back({x, {DType::float32, shape, d.floats(count_of(shape))}});
      return x;
    }
    const DType t = d.pick({DType::uint8, DType::int8, DType::uint8, DType::int8, DType::uint16, DType::int16});
    g.inputs.push_back({x, {t, shape, d.codes(t, count_of(shape))}});
    std::string q = x;
    if (shape.size() == 4 && d.chance(2) && (t == DType::uint8 || t == DType::int8) && count_of(shape) > 0) {
      q = name();  // its kernel leaves channels last
      g.nodes.push_back({"MaxPool", {x}, q, {}, {{"kernel_shape", {2, 2}}, {"pads", {1, 1, 0, 0}}}, {}, {}});
    }
    const bool axis = shape.size() > 1 && d.chance(5);
    const std::int64_t channels = axis ? shape[1] : 1;
    std::vector<double> scales;
    for (std::int64_t c = 0; c < channels; ++c) scales.push_back(d.scale());
    constant(x + "s", DType::float32, axis ? Shape{channels} : Shape{}, scales);
    constant(x + "z", t, axis ? Shape{channels} : Shape{}, d.codes(t, channels));
    return node("DequantizeLinear", {q, x + "s", x + "z"}, {{"axis", axis ? 1 : 0}});
  }

  std::string unary(const std::string& x, const Shape& shape) {
    switch (d.below(9)) {
      case 0: return node("Relu", {x});
      case 1: {
        const std::string lo = name();
        const std::string hi = name();
        constant(lo, DType::float32, {}, {d.pick({0.0, -1.0, -0.5, 0.25})});
        constant(hi, DType::float32, {}, {d.pick({6.0, 1.0, 2.5, 0.75})});
        return node("Clip", {x, lo, hi});
      }
      case 2: return node("HardSigmoid", {x}, {}, {{"alpha", d.pick({0.2F, 0.25F, 1.0F / 6, 2.0F})}});
      case 3: return node("Neg", {x});
      case 4: return node("Abs", {x});
      case 5: return node("LeakyRelu", {x}, {}, {{"alpha", d.pick({0.1F, 0.5F, 1.5F})}});
      case 6: return node("Sigmoid", {x});
      case 7: {
        if (shape.size() < 2) return node("Relu", {x});
        const std::string p = name();
        const std::int64_t channels = shape[1];
        const auto parameters = [&](const char* suffix, bool positive) {
          std::vector<double> v = d.floats(channels);
          for (double& w : v) w = positive ? std::fabs(w) + 0.125 : w;
          constant(p + suffix, DType::float32, {channels}, v);
          return p + suffix;
        };
        return node("BatchNormalization",
                    {x, parameters("w", false), parameters("b", false), parameters("m", false), parameters("v", true)});
      }
      default: return node(d.pick({"HardSwish", "Tanh", "Erf", "Exp", "Sqrt", "Reciprocal", "Gelu"}), {x});
    }
  }

 private:
  int next_ = 0;
};

SmallGraph draw_chain(Draw& d) {
  Chain c(d);
  Shape shape;
  switch (d.below(5)) {
    case 0: shape = {d.pick<std::int64_t>({1, 7, 300})}; break;
    case 1: shape = {d.pick<std::int64_t>({1, 3}), d.pick<std::int64_t>({1, 5, 130})}; break;
    default:
      shape = {d.pick<std::int64_t>({1, 1, 2, 3}), d.pick<std::int64_t>({1, 3, 8, 17, 64, 150}),
               d.pick<std::int64_t>({1, 2, 5}), d.pick<std::int64_t>({1, 3, 7})};
  }
  std::string x = c.operand(shape, false);
  const std::size_t length = 1 + d.below(4);
  for (std::size_t k = 0; k < length; ++k) {
    if (d.chance(2)) {
      x = c.unary(x, shape);
      continue;
    }
    const Shape other = smaller(d, shape);
    std::string y = c.operand(other, true);
    if (d.chance(3)) y = c.unary(y, other);
    const auto op = d.pick<const char*>({"Add", "Sub", "Mul", "Div", "Min", "Max", "Add", "Mul", "PRelu"});
    const bool swap = std::string(op) != "PRelu" && d.chance(2);
    x = swap ? c.node(op, {y, x}) : c.node(op, {x, y});
  }
  if (d.chance(4)) {
    c.g.outputs = {x};
    return c.g;
  }
  const DType t = d.pick({DType::uint8, DType::int8, DType::uint8, DType::uint16, DType::int16});
  c.constant("ys", DType::float32, {}, {d.scale() * d.pick({1.0, 0.125, 8.0})});
  c.constant("yz", t, {}, d.codes(t, 1));
  c.g.outputs = {c.node("QuantizeLinear", {x, "ys", "yz"})};
  return c.g;
}

TEST(Elementwise, RandomChains) {
  constexpr std::uint64_t kSeed = 20261210;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(400, 60); ++round) {
    compare_engine(draw_chain(d), "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  std::cout << tally.kernels << " steps had a kernel, " << tally.references << " had none\n";
  EXPECT_GT(tally.kernels, tally.references);
}

// The first quantization: quotients that are ties, next to ties, far beyond the grid, infinite.
TEST(Elementwise, QuantizesFloats) {
  constexpr std::uint64_t kSeed = 20261215;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(200, 40); ++round) {
    SmallGraph g;
    const double scale = d.scale() * (d.chance(6) ? -1 : 1);
    std::vector<double> x;
    for (std::size_t i = 0; i < 100; ++i) {
      const double steps = static_cast<double>(d.below(700)) - 350 + (d.chance(2) ? 0.5 : 0);
      float v = static_cast<float>(steps * scale);
      if (d.chance(3)) v = std::nextafter(v, d.chance(2) ? 1e30F : -1e30F);
      if (d.chance(20)) v = d.pick({1e30F, -1e30F, 1e-40F, HUGE_VALF});
      x.push_back(static_cast<double>(v));
    }
    g.inputs.push_back({"x", {DType::float32, {100}, x}});
    const DType t = d.pick({DType::uint8, DType::int8, DType::uint16});
    g.constants.push_back({"s", {DType::float32, {}, {scale}}});
    g.constants.push_back({"z", {t, {}, d.codes(t, 1)}});
    g.nodes.push_back({"QuantizeLinear", {"x", "s", "z"}, "y", {}, {}, {}, {}});
    g.outputs = {"y"};
    compare_engine(g, "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  EXPECT_EQ(tally.references, 0U);
}

// Every pair of bytes, with scales that make ties, and with decimal ones whose ratios would: the nearest floats are a
// little off, to either side.
TEST(Elementwise, SumsNextToTies) {
  std::vector<double> rows;
  std::vector<double> columns;
  for (int i = 0; i < 256 * 256; ++i) {
    rows.push_back(i / 256);
    columns.push_back(i % 256);
  }
  const float scales[][3] = {{0.5F, 0.25F, 1},       {0.1F, 0.15F, 0.3F},   {0.7F, 0.35F, 1.4F},
                             {0.09F, 0.06F, 0.18F},  {0.11F, 0.33F, 0.66F}, {0.03F, 0.05F, 0.06F},
                             {0.013F, 0.07F, 0.02F}, {0.3F, 0.7F, 0.2F}};
  Tally tally;
  for (const char* op : {"Add", "Sub"}) {
    for (const auto& [first, second, result] : scales) {
      SmallGraph g;
      g.inputs.push_back({"a", {DType::uint8, {256, 256}, rows}});
      g.inputs.push_back({"b", {DType::uint8, {256, 256}, columns}});
      g.constants.push_back({"as", {DType::float32, {}, {first}}});
      g.constants.push_back({"bs", {DType::float32, {}, {second}}});
      g.constants.push_back({"ys", {DType::float32, {}, {result}}});
      g.constants.push_back({"az", {DType::uint8, {}, {101}}});
      g.constants.push_back({"bz", {DType::uint8, {}, {7}}});
      g.nodes.push_back({"DequantizeLinear", {"a", "as", "az"}, "x", {}, {}, {}, {}});
      g.nodes.push_back({"DequantizeLinear", {"b", "bs", "bz"}, "w", {}, {}, {}, {}});
      g.nodes.push_back({op, {"x", "w"}, "t", {}, {}, {}, {}});
      g.nodes.push_back({"QuantizeLinear", {"t", "ys", "az"}, "y", {}, {}, {}, {}});
      g.outputs = {"y"};
      compare_engine(g, std::string(op) + " with scales " + std::to_string(first) + ", " + std::to_string(second),
                     tally);
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(tally.references, 0U);
}

// Functions of a code and its channel: lines, lines with a bend at the zero point, and what is neither.
TEST(Elementwise, FunctionsByChannel) {
  constexpr std::uint64_t kSeed = 20261201;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(60, 12); ++round) {
    SmallGraph g;
    const auto channels = d.pick<std::int64_t>({2, 3, 16, 24, 65, 96, 256});
    const Shape shape{d.pick<std::int64_t>({1, 2}), channels, d.pick<std::int64_t>({1, 3, 8}), 7};
    const DType t = d.pick({DType::uint8, DType::int8});
    g.inputs.push_back({"x", {t, shape, d.codes(t, count_of(shape))}});
    g.nodes.push_back({"MaxPool", {"x"}, "q", {}, {{"kernel_shape", {1, 1}}}, {}, {}});  // leaves channels last
    g.constants.push_back({"s", {DType::float32, {}, {d.scale()}}});
    g.constants.push_back({"z", {t, {}, d.codes(t, 1)}});
    g.nodes.push_back({"DequantizeLinear", {"q", "s", "z"}, "f", {}, {}, {}, {}});
    const auto parameters = [&](const std::string& name, bool positive) {
      std::vector<double> v = d.floats(channels);
      for (double& w : v) w = positive ? std::fabs(w) + 0.125 : w;
      g.constants.push_back({name, {DType::float32, {channels}, v}});
    };
    if (d.chance(2)) {
      g.constants.push_back({"slope", {DType::float32, {channels, 1, 1}, d.floats(channels)}});
      g.nodes.push_back({"PRelu", {"f", "slope"}, "r", {}, {}, {}, {}});
    } else {
      for (const char* name : {"w", "b", "m"}) parameters(name, false);
      parameters("v", true);
      g.nodes.push_back({"BatchNormalization", {"f", "w", "b", "m", "v"}, "r", {}, {}, {}, {}});
      if (d.chance(3)) g.nodes.push_back({"Abs", {"r"}, "a", {}, {}, {}, {}});
    }
    const DType u = d.pick({DType::uint8, DType::int8});
    g.constants.push_back({"ys", {DType::float32, {}, {d.scale() * d.pick({1.0, 0.25, 4.0})}}});
    g.constants.push_back({"yz", {u, {}, d.codes(u, 1)}});
    g.nodes.push_back({"QuantizeLinear", {g.nodes.back().output, "ys", "yz"}, "y", {}, {}, {}, {}});
    g.outputs = {"y"};
    compare_engine(g, "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  EXPECT_EQ(tally.references, 0U);
}

// A sum halfway between two floats but for a rest that no double holds: the rest decides what others read.
TEST(Elementwise, RestsDecideHalfwaySums) {
  SmallGraph g;
  std::vector<double> codes;
  std::vector<double> rests;
  for (int i = 0; i < 300; ++i) {
    codes.push_back(i % 7);
    rests.push_back(i % 5 - 2);
  }
  g.inputs.push_back({"a", {DType::uint8, {300}, codes}});
  g.inputs.push_back({"b", {DType::int8, {300}, rests}});
  g.constants.push_back({"as", {DType::float32, {}, {1 + 0x1p-23}}});
  g.constants.push_back({"bs", {DType::float32, {}, {0x1p-60}}});
  g.constants.push_back({"az", {DType::uint8, {}, {0}}});
  g.constants.push_back({"bz", {DType::int8, {}, {0}}});
  g.constants.push_back({"three", {DType::float32, {}, {3}}});
  g.constants.push_back({"step", {DType::float32, {}, {0x1p-22}}});
  g.nodes.push_back({"DequantizeLinear", {"a", "as", "az"}, "x", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"b", "bs", "bz"}, "w", {}, {}, {}, {}});
  g.nodes.push_back({"Add", {"x", "w"}, "t", {}, {}, {}, {}});  // 3 + 1.5 steps, and a little
  g.nodes.push_back({"Sub", {"t", "three"}, "u", {}, {}, {}, {}});
  g.nodes.push_back({"QuantizeLinear", {"u", "step", "az"}, "y", {}, {}, {}, {}});
  g.outputs = {"y"};
  Tally tally;
  compare_engine(g, "3 + 1.5 * 2^-22 and a rest", tally);
  EXPECT_EQ(tally.references, 0U);
}

// A zero that is only passed on keeps its sign (contract section 6).
TEST(Elementwise, ZerosKeepTheirSign) {
  properties::SmallGraph g;
  g.inputs.push_back({"x", {DType::float32, {1, 2, 2, 3}, {1, -1, 0, 0, 2, -2, 0, 0.5, -0.5, 0, 3, 0}}});
  g.constants.push_back({"lo", {DType::float32, {}, {-1}}});
  g.constants.push_back({"hi", {DType::float32, {}, {1}}});
  g.nodes.push_back({"Clip", {"x", "lo", "hi"}, "y", {}, {}, {}, {}});
  g.nodes.push_back({"Relu", {"x"}, "r", {}, {}, {}, {}});
  g.outputs = {"y", "r"};
  const std::string text = properties::to_onnx(g);
  const Model model = Model::load(std::as_bytes(std::span(text)));
  std::vector<float> values(12, -0.0F);
  values[0] = 5;
  values[7] = 0.0F;
  const auto bytes = std::as_bytes(std::span(values));
  const NamedTensors inputs{{"x", Tensor::copy(DType::float32, {1, 2, 2, 3}, bytes)}};
  const auto wanted = interpret(model, inputs);
  const auto got = Context(Executable::compile(model)).run(inputs);
  for (std::size_t k = 0; k < wanted.size(); ++k) expect_identical(got[k], wanted[k], "output " + std::to_string(k));
}

}  // namespace
}  // namespace halfeven::test
