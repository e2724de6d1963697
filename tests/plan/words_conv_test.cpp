// Convolutions of 16-bit activations at the limits of one int32 sum.
#include <cmath>

#include "plan/compare.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;
using properties::SmallTensor;

struct Case {
  DType type = DType::uint16;
  double x_zero = 0;
  double y_scale = 65536.37;
  double y_zero = 0;
  std::int64_t groups = 1;
  Shape image;                  // [N, C, H, W]
  Shape kernel;                 // [M, C / groups, H, W]
  std::vector<double> weights;  // int8
  std::vector<double> codes;
};

SmallGraph graph_of(const Case& c) {
  SmallGraph g;
  const auto number = [](DType t, double v) { return SmallTensor{t, {}, {v}}; };
  g.inputs.push_back({"x", {c.type, c.image, c.codes}});
  g.constants.push_back({"w", {DType::int8, c.kernel, c.weights}});
  g.constants.push_back({"one", number(DType::float32, 1)});
  g.constants.push_back({"ys", number(DType::float32, static_cast<double>(static_cast<float>(c.y_scale)))});
  g.constants.push_back({"xz", number(c.type, c.x_zero)});
  g.constants.push_back({"wz", number(DType::int8, 0)});
  g.constants.push_back({"yz", number(c.type, c.y_zero)});
  g.nodes.push_back({"DequantizeLinear", {"x", "one", "xz"}, "xd", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"w", "one", "wz"}, "wd", {}, {}, {}, {}});
  g.nodes.push_back({"Conv", {"xd", "wd"}, "y", {{"group", c.groups}}, {}, {}, {}});
  g.nodes.push_back({"QuantizeLinear", {"y", "ys", "yz"}, "q", {}, {}, {}, {}});
  g.outputs = {"q"};
  return g;
}

// How the best plan for this processor adds up.
std::string note_of(const SmallGraph& g) {
  const std::string text = properties::to_onnx(g);
  const Executable executable = Executable::compile(Model::load(std::as_bytes(std::span(text))));
  for (const PlanStep& step : executable.plan().steps) {
    if (step.note.find("|sum|") != std::string::npos) return step.note;
  }
  return "";
}

void check(const Case& c, bool fits, const std::string& what) {
  const SmallGraph g = graph_of(c);
  Tally tally;
  compare_engine(g, what, tally);
  EXPECT_EQ(tally.references, 0U) << what;
  if (plan::detect_isa() >= plan::Isa::vnni) {
    EXPECT_EQ(note_of(g).find("one int32 sum") != std::string::npos, fits) << what << ": " << note_of(g);
  }
}

// Magnitudes that together are `sum`.
std::vector<double> magnitudes(std::int64_t count, std::int64_t sum) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < count; ++i) {
    v.push_back(static_cast<double>(std::min<std::int64_t>(127, sum)));
    sum -= static_cast<std::int64_t>(v.back());
  }
  EXPECT_EQ(sum, 0);
  return v;
}

// Codes at either end of the type, by sign of the weights: the greatest sum, the least, all low, all high, and one that
// is short of the greatest by one.
void extremes(Case& c, std::int64_t depth, const std::vector<double>& signs) {
  const auto lo = static_cast<double>(integer_min(c.type));
  const auto hi = static_cast<double>(integer_max(c.type));
  for (std::int64_t i = 0; i < depth; ++i) {
    const bool up = signs[static_cast<std::size_t>(i)] > 0;
    for (const double v : {up ? hi : lo, up ? lo : hi, lo, hi, i == 0 ? (up ? hi - 1 : lo + 1) : (up ? hi : lo)}) {
      c.codes.push_back(v);
    }
  }
}

// 65,535 * 65,537 = 2^32 - 1: the weights' magnitudes may be 65,537 together and no more.
TEST(WordsConv, SumsThatJustFit) {
  constexpr std::int64_t kDepth = 518;
  for (const std::int64_t sum : {65537, 65538}) {
    for (const DType type : {DType::uint16, DType::int16}) {
      for (const double place : {0.0, 0.25, 1.0}) {
        Case c;
        c.type = type;
        const auto code = [&](double at) { return std::floor(at * 65535) + static_cast<double>(integer_min(type)); };
        c.x_zero = code(place);
        c.y_zero = code(1 - place);
        c.image = {1, kDepth, 1, 5};
        c.kernel = {3, kDepth, 1, 1};
        const std::vector<double> size = magnitudes(kDepth, sum);
        std::vector<double> mixed;
        for (std::size_t i = 0; i < size.size(); ++i) mixed.push_back(i % 3 == 0 ? -size[i] : size[i]);
        for (const double sign : {1.0, -1.0}) {
          for (const double v : size) c.weights.push_back(sign * v);
        }
        c.weights.insert(c.weights.end(), mixed.begin(), mixed.end());
        extremes(c, kDepth, mixed);
        check(c, sum == 65537, "sum " + std::to_string(sum) + ", zero point at " + std::to_string(place));
      }
    }
  }
}

// Ratios 2^-8 and close to it: one sum in 256 meets a tie, or comes within 2^-16 of one.
TEST(WordsConv, Ties) {
  for (const DType type : {DType::uint16, DType::int16}) {
    for (const double scale : {256.0, 255.99998474121094, 256.000030517578125}) {
      for (const bool depthwise : {false, true}) {
        Draw d(static_cast<std::uint64_t>(scale) + (depthwise ? 1 : 0));
        Case c;
        c.type = type;
        c.x_zero = static_cast<double>(integer_min(type)) + 32768;
        c.y_zero = static_cast<double>(integer_min(type)) + 32767;
        c.y_scale = scale;
        c.groups = depthwise ? 40 : 1;
        c.image = {1, 40, 6, 9};
        c.kernel = depthwise ? Shape{40, 1, 3, 3} : Shape{70, 40, 1, 1};
        c.weights = d.codes(DType::int8, count_of(c.kernel));
        c.codes = d.codes(type, count_of(c.image));
        check(c, true, "scale " + std::to_string(scale) + (depthwise ? ", depthwise" : ""));
      }
    }
  }
}

// Depthwise weights are multiplied by powers of two where a ratio exceeds 1/2, as far as sums fit.
TEST(WordsConv, DepthwiseRatiosAboveOneHalf) {
  constexpr std::int64_t kChannels = 33;
  for (const DType type : {DType::uint16, DType::int16}) {
    for (const double scale : {0.001, 0.01, 0.3, 1.0, 1.7, 2.0, 2.3, 300.7}) {
      Case c;
      c.type = type;
      c.x_zero = static_cast<double>(integer_min(type)) + 32769;
      c.y_zero = static_cast<double>(integer_max(type)) - 30001;
      c.y_scale = scale;
      c.groups = kChannels;
      c.image = {1, kChannels, 3, 7};
      c.kernel = {kChannels, 1, 3, 3};
      std::vector<double> signs;
      for (std::int64_t i = 0; i < kChannels * 9; ++i) {
        const std::int64_t size = i / 9 % 3 == 0 ? 1 : (i % 9 == 4 ? 127 : i % 5);
        c.weights.push_back(static_cast<double>(i % 4 == 0 ? -size : size));
      }
      Draw d(static_cast<std::uint64_t>(scale * 1000));
      c.codes = d.codes(type, kChannels * 21);
      for (std::size_t i = 0; i < c.codes.size(); i += 2) {  // small results beside the zero point
        c.codes[i] = c.x_zero + static_cast<double>(d.below(9)) - 4;
      }
      // 2 makes ties, which the doubles decide better.
      check(c, scale > 0.005 && scale != 1.0 && scale != 2.0, "scale " + std::to_string(scale));
    }
  }
}

}  // namespace
}  // namespace halfeven::test
