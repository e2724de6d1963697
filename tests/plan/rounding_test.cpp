// What is proved of requantisation holds: where double is said to decide, no rational is asked, and ties go to even.
#include <gtest/gtest.h>

#include <random>

#include "plan/against_interpreter.hpp"
#include "plan/requantization.hpp"

namespace halfeven::test {
namespace {

using numerics::Rational;
using plan::QuantizedOperator;
using plan::Requantization;
using properties::SmallGraph;

QuantizedOperator bytes(std::int64_t zero, std::int64_t lo = 0, std::int64_t hi = 255) {
  QuantizedOperator op;
  op.out_zero = zero;
  op.lo = lo;
  op.hi = hi;
  return op;
}

std::int64_t rounded(const Rational& v, const QuantizedOperator& op) {
  const mpz_class n = v.round_half_even() + static_cast<long>(op.out_zero);
  return n < op.lo ? op.lo : (n > op.hi ? op.hi : n.get_si());
}

int asked = 0;

// The scalar requantisation, counting how often it asks for rationals.
std::int64_t requantized(const Requantization& r, std::int64_t a, std::int64_t b = 0) {
  kernels::Requantize q = r.view(true);
  static kernels::Requantize inner;
  inner = q;
  q.exact = [](const void* context, std::size_t k, std::int64_t x, std::int64_t y) {
    ++asked;
    return inner.exact(context, k, x, y);
  };
  return kernels::requantize(q, 0, a, b);
}

TEST(Rounding, TiesOfEveryKindAreDecidedByDouble) {
  const double most = 1000;
  std::size_t with_ties = 0;
  for (int den = 1; den <= 60; ++den) {
    for (const int num : {1, 3, 5, den + 1, 2 * den + 1}) {
      for (const auto& offset : {Rational(), Rational::ratio(1, 2), Rational::ratio(-7, den)}) {
        const Rational ratio = Rational::ratio(num, den);
        const QuantizedOperator op = bytes(den % 256);
        const Requantization r({ratio}, {offset}, Rational(), most, 0, op);
        const PlanRounding proved = r.rounding();
        ASSERT_TRUE(proved.double_decides) << num << "/" << den;
        with_ties += proved.ties ? 1 : 0;
        asked = 0;
        for (std::int64_t a = -1000; a <= 1000; ++a) {
          ASSERT_EQ(requantized(r, a), rounded(Rational(a) * ratio + offset, op)) << num << "/" << den << " * " << a;
        }
        EXPECT_EQ(asked, 0);
      }
    }
  }
  EXPECT_GT(with_ties, 200U);
}

// A sum that comes closer to a tie than double sees, at the end of the range: one sum less, and all is proved.
TEST(Rounding, WhatDoubleCannotSeeIsLeftToRationals) {
  const Rational little = Rational::ratio(1, mpz_class(1) << 60);
  for (const int sign : {-1, 1}) {
    for (const std::int64_t at : {1, 3, 21, 509}) {  // times 1/2 it is a tie, but for a little
      const Rational ratio = Rational::ratio(1, 2) + Rational(sign) * little;
      for (const std::int64_t zero : {0, 255, 128}) {
        const QuantizedOperator op = bytes(zero);
        const Requantization r({ratio}, {Rational()}, Rational(), static_cast<double>(at), 0, op);
        EXPECT_FALSE(r.rounding().double_decides);
        for (const std::int64_t a : {at, -at}) EXPECT_EQ(requantized(r, a), rounded(Rational(a) * ratio, op));
      }
    }
  }
  // a = 1 is far from a tie, a = 2 too close to one.
  const Rational ratio = Rational::ratio(1, 4) + little;
  EXPECT_TRUE(Requantization({ratio}, {Rational()}, Rational(), 1.0, 0, bytes(9)).rounding().double_decides);
  EXPECT_FALSE(Requantization({ratio}, {Rational()}, Rational(), 2.0, 0, bytes(9)).rounding().double_decides);
}

// The last tie before results saturate counts, the next one does not.
TEST(Rounding, SaturatedResultsNeedNoProof) {
  const Rational little = Rational::ratio(1, mpz_class(1) << 60);
  const auto at = [&](const Rational& v) {  // one sum, which gives v; the others are whole numbers far away
    return Requantization({Rational(1000)}, {v}, Rational(), 1.0, 0, bytes(0)).rounding().double_decides;
  };
  EXPECT_FALSE(at(Rational::ratio(1, 2) - little));
  EXPECT_FALSE(at(Rational::ratio(509, 2) - little));
  EXPECT_TRUE(at(Rational::ratio(1, 2)));
  EXPECT_TRUE(at(Rational::ratio(509, 2)));
  EXPECT_TRUE(at(Rational(300) + Rational::ratio(1, 2) - little));
  EXPECT_TRUE(at(Rational(-40) + Rational::ratio(1, 2) - little));
}

// One channel that cannot be proved keeps the check for all.
TEST(Rounding, EveryChannelCounts) {
  const Rational little = Rational::ratio(1, mpz_class(1) << 60);
  const std::vector<Rational> offsets(3);
  const std::vector<Rational> good{Rational::ratio(1, 6), Rational::ratio(2, 7), Rational::ratio(1, 98)};
  EXPECT_TRUE(Requantization(good, offsets, Rational(), 500.0, 0, bytes(3)).rounding().double_decides);
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<Rational> ratios = good;
    ratios[k] = Rational::ratio(1, 2) + little;
    EXPECT_FALSE(Requantization(ratios, offsets, Rational(), 500.0, 0, bytes(3)).rounding().double_decides);
  }
}

TEST(Rounding, ProofsOfFloatsAndDoublesHoldForRandomScales) {
  std::mt19937_64 random(5);
  Chooser choose(random);
  std::size_t floats = 0;
  for (int k = 0; k < 120; ++k) {
    const auto exact = [&] { return Rational::from_double(choose.scale()); };
    const Rational y = exact();
    const Rational ratio = exact() / y;
    const Rational second = k % 2 == 0 ? Rational() : -exact() / y;
    const Rational offset = k % 3 == 0 ? Rational() : Rational(choose.between(-99, 99)) * exact() / y;
    const QuantizedOperator op = bytes(choose.between(0, 255));
    const Requantization r({ratio}, {offset}, second, 255.0, 255.0, op);
    ASSERT_TRUE(r.usable());
    const PlanRounding proved = r.rounding();
    floats += proved.float_decides ? 1 : 0;
    const kernels::Requantize q = r.view(true);
    asked = 0;
    for (std::int64_t a = -255; a <= 255; a += 1 + k % 3) {
      for (std::int64_t b = -255; b <= 255; b += 17) {
        const std::int64_t want = rounded(Rational(a) * ratio + Rational(b) * second + offset, op);
        ASSERT_EQ(requantized(r, a, b), want);
        if (!proved.float_decides) continue;
        const float t =
            static_cast<float>(a) * q.float_ratio[0] + (static_cast<float>(b) * q.float_ratio2 + q.float_offset[0]);
        const auto y_float = static_cast<std::int64_t>(std::nearbyint(t)) + op.out_zero;
        ASSERT_EQ(std::clamp(y_float, op.lo, op.hi), want);
      }
    }
    EXPECT_TRUE(asked == 0 || !proved.double_decides);
  }
  EXPECT_GT(floats, 20U);
}

// --- through kernels: all pairs of bytes, every instruction set

SmallGraph pairs(const std::string& op, double a, double b, double y, DType type) {
  std::vector<double> left;
  std::vector<double> right;
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) {
      left.push_back(static_cast<double>(integer_min(type)) + (type == DType::uint16 ? 257 * i : i));
      right.push_back(static_cast<double>(integer_min(type)) + (type == DType::uint16 ? 7 * j + 31000 : j));
    }
  }
  const double zero = type == DType::uint8 ? 128 : (type == DType::uint16 ? 32768 : 3);
  SmallGraph g;
  g.inputs = {{"a", {type, {256, 256}, left}}, {"b", {type, {256, 256}, right}}};
  g.constants = {{"sa", {DType::float32, {}, {a}}},
                 {"sb", {DType::float32, {}, {b}}},
                 {"sy", {DType::float32, {}, {y}}},
                 {"z", {type, {}, {zero}}}};
  g.nodes = {{"DequantizeLinear", {"a", "sa", "z"}, "af", {}, {}, {}, {}},
             {"DequantizeLinear", {"b", "sb", "z"}, "bf", {}, {}, {}, {}},
             {op, {"af", "bf"}, "yf", {}, {}, {}, {}},
             {"QuantizeLinear", {"yf", "sy", "z"}, "y", {}, {}, {}, {}}};
  g.outputs = {"y"};
  return g;
}

void compare(const SmallGraph& graph, const std::string& what, const std::string& family, bool ties) {
  const std::string text = properties::to_onnx(graph);
  const Model model = Model::load(std::as_bytes(std::span(text)));
  NamedTensors inputs;
  for (const auto& [name, tensor] : graph.inputs) inputs[name] = properties::to_tensor(tensor);
  std::size_t proved = 0;
  expect_from_engine(model, inputs, interpret(model, inputs), {1}, what, [&](const PlanStep& step) {
    if (!step.kernel.starts_with(family)) return;
    ASSERT_TRUE(step.rounding) << what;
    EXPECT_TRUE(step.rounding->double_decides) << what;
    EXPECT_EQ(step.rounding->ties, ties) << what;
    ++proved;
  });
  EXPECT_GT(proved, 0U) << what;
}

TEST(Rounding, SumsAndProductsOfAllPairs) {
  compare(pairs("Add", 0.25, 0.25, 0.5, DType::uint8), "halves", "binary", true);
  compare(pairs("Add", 0.25, 0.5, 1.5, DType::uint8), "sixths", "binary", true);
  compare(pairs("Sub", 0.25, 0.75, 3.5, DType::int8), "fourteenths", "binary", true);
  compare(pairs("Add", static_cast<double>(0.05F), static_cast<double>(0.05F), static_cast<double>(0.1F), DType::int8),
          "decimals", "binary", true);
  compare(pairs("Mul", 0.25, 0.25, 24, DType::uint8), "products", "binary", true);
  compare(pairs("Add", static_cast<double>(0.0371F), static_cast<double>(0.0523F), static_cast<double>(0.0711F),
                DType::uint8),
          "no ties", "binary", false);
  compare(pairs("Add", 0x1p-9, 0x1p-8, 0x1.8p-7, DType::uint16), "words, sixths", "binary_words", true);
  compare(pairs("Add", 0x1p-9, 0x1p-9, 0x1p-8, DType::uint16), "words, halves", "binary_words", true);
}

TEST(Rounding, Averages) {
  std::mt19937_64 random(6);
  Chooser choose(random);
  for (const DType type : {DType::uint8, DType::int8, DType::uint16}) {
    for (const std::int64_t pad : {0, 1}) {  // windows of 9, 6 and 4 elements; without padding of 4
      SmallGraph g;
      const std::int64_t kernel = pad == 0 ? 2 : 3;
      g.inputs = {{"x", choose.tensor(type, {1, 19, 20, 20})}};
      g.constants = {{"s", {DType::float32, {}, {static_cast<double>(0.05F)}}}, {"z", {type, {}, {7}}}};
      g.nodes = {{"DequantizeLinear", {"x", "s", "z"}, "xf", {}, {}, {}, {}},
                 {"AveragePool",
                  {"xf"},
                  "yf",
                  {},
                  {{"kernel_shape", {kernel, kernel}}, {"pads", {pad, pad, pad, pad}}},
                  {},
                  {}},
                 {"QuantizeLinear", {"yf", "s", "z"}, "y", {}, {}, {}, {}}};
      g.outputs = {"y"};
      compare(g, "averages", "average", true);
    }
  }
}

TEST(Rounding, Convolutions) {
  std::mt19937_64 random(8);
  Chooser choose(random);
  for (const double y : {98.0, 6.0 * 64, 0x1p8}) {
    for (const std::int64_t group : {1, 24}) {
      SmallGraph g;
      g.inputs = {{"x", choose.tensor(DType::uint8, {1, 24, 12, 12})}};
      g.constants = {{"one", {DType::float32, {}, {1}}},
                     {"s", {DType::float32, {}, {y}}},
                     {"z", {DType::uint8, {}, {128}}},
                     {"w", choose.tensor(DType::int8, {24, 24 / group, 3, 3})}};
      g.nodes = {{"DequantizeLinear", {"x", "one", "z"}, "xf", {}, {}, {}, {}},
                 {"DequantizeLinear", {"w", "one"}, "wf", {}, {}, {}, {}},
                 {"Conv", {"xf", "wf"}, "yf", {{"group", group}}, {}, {}, {}},
                 {"QuantizeLinear", {"yf", "s", "z"}, "y", {}, {}, {}, {}}};
      g.outputs = {"y"};
      compare(g, "convolutions", "conv.", true);
    }
  }
}

}  // namespace
}  // namespace halfeven::test
