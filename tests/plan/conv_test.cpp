// Convolutions of every kind against the interpreter: transposed, one-dimensional, wide images, 16-bit activations,
// weights whose zero point leaves the range of 8 bits, many channels.
#include <iostream>

#include "plan/compare.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

struct Kind {
  bool transposed = false;
  bool one_dimensional = false;
  bool wide_image = false;
  bool words = false;           // 16-bit activations
  bool any_zero_point = false;  // of u8 weights
  bool many_channels = false;
  bool depthwise = false;
  bool edges = false;  // channels next to whole vectors, depths next to what is summed at once, small images
};

properties::SmallGraph draw_conv(Draw& d, const Kind& kind) {
  properties::SmallGraph g;
  const bool deep = kind.many_channels || kind.edges;
  const std::int64_t groups = kind.depthwise && kind.edges ? d.pick<std::int64_t>({2, 5, 8, 9, 15, 16, 31, 33})
                              : kind.depthwise             ? d.pick<std::int64_t>({3, 17, 64, 80, 144})
                                                           : (kind.transposed ? 1 : d.pick<std::int64_t>({1, 1, 1, 2}));
  const std::int64_t channels = kind.depthwise       ? 1
                                : kind.edges         ? d.pick<std::int64_t>({1, 4, 5, 60, 127, 512, 513, 600})
                                : kind.many_channels ? d.pick<std::int64_t>({64, 129, 1000})
                                                     : d.pick<std::int64_t>({1, 3, 4, 7, 16, 33});
  const std::int64_t per_group = kind.depthwise       ? 1
                                 : kind.many_channels ? d.pick<std::int64_t>({48, 64, 100, 1000})
                                 : kind.edges ? d.pick<std::int64_t>({1, 7, 9, 15, 17, 31, 32, 33, 47, 48, 49, 63, 65})
                                              : d.pick<std::int64_t>({1, 2, 16, 17, 40, 64, 70});
  const std::size_t rank = kind.one_dimensional ? 1 : 2;
  Shape kernel;
  Shape size;
  std::vector<std::int64_t> pads(2 * rank);
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  for (std::size_t k = 0; k < rank; ++k) {
    kernel.push_back(kind.depthwise && kind.edges ? d.pick<std::int64_t>({1, 3, 5, 7, 17})
                     : deep                       ? d.pick<std::int64_t>({1, 1, 3})
                                                  : d.pick<std::int64_t>({1, 2, 3, 3, 5}));
    strides.push_back(d.pick<std::int64_t>({1, 1, 2, 3}));
    dilations.push_back(d.pick<std::int64_t>({1, 1, 1, 2}));
    pads[k] = static_cast<std::int64_t>(d.below(3));
    pads[k + rank] = static_cast<std::int64_t>(d.below(3));
    const std::int64_t reach = (kernel[k] - 1) * dilations[k] + 1;
    if (kind.transposed) {
      size.push_back(1 + static_cast<std::int64_t>(d.below(9)));
      pads[k] = std::min(pads[k], reach - 1);
      pads[k + rank] = 0;
    } else {
      size.push_back(reach + static_cast<std::int64_t>(d.below(deep ? 4 : 12)));
    }
  }
  if (kind.wide_image) size.back() += 40 + static_cast<std::int64_t>(d.below(120));
  const DType xt = kind.words ? d.pick({DType::uint16, DType::int16}) : d.pick({DType::uint8, DType::int8});
  const DType yt = kind.words ? d.pick({DType::uint16, DType::int16}) : d.pick({DType::uint8, DType::int8});
  const DType wt = kind.any_zero_point ? DType::uint8 : d.pick({DType::int8, DType::int8, DType::uint8});
  const auto number = [](DType t, double v) { return properties::SmallTensor{t, {}, {v}}; };
  Shape xs{d.pick<std::int64_t>({1, 1, 2}), groups * channels};
  xs.insert(xs.end(), size.begin(), size.end());
  const std::int64_t m = groups * per_group;
  Shape ws = kind.transposed ? Shape{channels, m} : Shape{m, channels};
  ws.insert(ws.end(), kernel.begin(), kernel.end());
  g.inputs.push_back({"x", {xt, xs, d.codes(xt, count_of(xs))}});
  g.constants.push_back({"w", {wt, ws, d.codes(wt, count_of(ws))}});
  g.constants.push_back({"xs", number(DType::float32, d.scale())});
  g.constants.push_back({"xz", number(xt, d.codes(xt, 1)[0])});
  std::vector<double> scales;
  std::vector<double> zeros;
  for (std::int64_t i = 0; i < m; ++i) {
    scales.push_back(d.scale());
    zeros.push_back(kind.any_zero_point ? d.codes(wt, 1)[0] : (wt == DType::uint8 ? 128.0 : 0.0));
  }
  g.constants.push_back({"ws", {DType::float32, {m}, scales}});
  g.constants.push_back({"wz", {wt, {m}, zeros}});
  const double depth = std::sqrt(static_cast<double>(channels * count_of(kernel)));
  const double spread = (kind.words ? d.pick({1.0, 256.0, 2000.0}) : 40.0) * depth * (d.chance(3) ? 0.1 : 1.0);
  g.constants.push_back({"ys", number(DType::float32, static_cast<double>(static_cast<float>(d.scale() * spread)))});
  g.constants.push_back({"yz", number(yt, d.codes(yt, 1)[0])});
  g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"w", "ws", "wz"}, "wd", {{"axis", kind.transposed ? 1 : 0}}, {}, {}, {}});
  std::vector<std::string> inputs{"xd", "wd"};
  if (d.chance(2)) {
    std::vector<double> b;
    std::vector<double> bs;
    for (std::int64_t i = 0; i < m; ++i) {
      b.push_back(static_cast<double>(d.below(20001)) - 10000);
      bs.push_back(static_cast<double>(
          static_cast<float>(g.constants[1].second.values[0] * scales[static_cast<std::size_t>(i)])));
    }
    g.constants.push_back({"b", {DType::int32, {m}, b}});
    g.constants.push_back({"bs", {DType::float32, {m}, bs}});
    g.nodes.push_back({"DequantizeLinear", {"b", "bs"}, "bd", {{"axis", 0}}, {}, {}, {}});
    inputs.push_back("bd");
  }
  std::map<std::string, std::vector<std::int64_t>> lists{
      {"pads", pads}, {"strides", strides}, {"dilations", dilations}};
  if (kind.transposed && d.chance(3)) {
    std::vector<std::int64_t> more;
    for (std::size_t k = 0; k < rank; ++k) {
      more.push_back(static_cast<std::int64_t>(d.below(static_cast<std::size_t>(std::max(strides[k], dilations[k])))));
    }
    lists["output_padding"] = more;
  }
  g.nodes.push_back({kind.transposed ? "ConvTranspose" : "Conv", inputs, "y", {{"group", groups}}, lists, {}, {}});
  g.nodes.push_back({"QuantizeLinear", {"y", "ys", "yz"}, "q", {}, {}, {}, {}});
  g.outputs = {"q"};
  return g;
}

void check(std::uint64_t seed, const Kind& kind, std::size_t full, std::size_t least) {
  Draw d(seed);
  Tally tally;
  const std::size_t rounds = effort(full, least);
  for (std::size_t round = 0; round < rounds; ++round) {
    compare_engine(draw_conv(d, kind), "seed " + std::to_string(seed) + ", round " + std::to_string(round), tally);
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "seed " << seed << ": " << tally.kernels << " steps had a kernel, " << tally.references << " none\n";
  EXPECT_GT(tally.kernels, 4 * tally.references);
}

TEST(Conv, Transposed) { check(20261210, {.transposed = true}, 150, 15); }
TEST(Conv, OneDimensional) { check(20261211, {.one_dimensional = true}, 100, 10); }
TEST(Conv, WideImages) { check(20261212, {.wide_image = true}, 60, 6); }
TEST(Conv, Words) { check(20261213, {.words = true}, 120, 12); }
TEST(Conv, DepthwiseWords) { check(20261214, {.words = true, .depthwise = true}, 60, 6); }
TEST(Conv, AnyZeroPoint) { check(20261215, {.any_zero_point = true}, 120, 12); }
TEST(Conv, DepthwiseAnyZeroPoint) { check(20261216, {.any_zero_point = true, .depthwise = true}, 60, 6); }
TEST(Conv, DepthwiseWideImages) { check(20261217, {.wide_image = true, .depthwise = true}, 40, 4); }
TEST(Conv, Edges) { check(20261219, {.edges = true}, 150, 15); }
TEST(Conv, DepthwiseEdges) { check(20261220, {.depthwise = true, .edges = true}, 150, 15); }
TEST(Conv, EdgesAnyZeroPoint) { check(20261221, {.any_zero_point = true, .edges = true}, 60, 6); }
TEST(Conv, ManyChannels) { check(20261218, {.many_channels = true}, 20, 2); }

struct Corner {
  std::int64_t batch, channels, size, out_channels, kernel, stride, groups;
};

properties::SmallGraph conv_at(Draw& d, const Corner& c, DType xt, DType wt) {
  properties::SmallGraph g;
  const auto number = [](DType t, double v) { return properties::SmallTensor{t, {}, {v}}; };
  const Shape xs{c.batch, c.channels, c.size, c.size};
  const Shape ws{c.out_channels, c.channels / c.groups, c.kernel, c.kernel};
  g.inputs.push_back({"x", {xt, xs, d.codes(xt, count_of(xs))}});
  g.constants.push_back({"w", {wt, ws, d.codes(wt, count_of(ws))}});
  g.constants.push_back({"xs", number(DType::float32, d.scale())});
  g.constants.push_back({"xz", number(xt, d.codes(xt, 1)[0])});
  std::vector<double> scales;
  for (std::int64_t i = 0; i < c.out_channels; ++i) scales.push_back(d.scale());
  g.constants.push_back({"ws", {DType::float32, {c.out_channels}, scales}});
  const std::vector<double> middle(scales.size(), wt == DType::uint8 ? 128 : 0);
  g.constants.push_back({"wz", {wt, {c.out_channels}, middle}});
  const double depth = std::sqrt(static_cast<double>(count_of(ws) / c.out_channels));
  g.constants.push_back(
      {"ys", number(DType::float32, static_cast<double>(static_cast<float>(d.scale() * 30 * depth)))});
  g.constants.push_back({"yz", number(xt, d.codes(xt, 1)[0])});
  g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"w", "ws", "wz"}, "wd", {{"axis", 0}}, {}, {}, {}});
  g.nodes.push_back({"Conv",
                     {"xd", "wd"},
                     "y",
                     {{"group", c.groups}},
                     {{"strides", {c.stride, c.stride}}, {"pads", {1, 0, 0, 1}}},
                     {},
                     {}});
  g.nodes.push_back({"QuantizeLinear", {"y", "ys", "yz"}, "q", {}, {}, {}, {}});
  g.outputs = {"q"};
  return g;
}

// Every pair of types at the corners of the shapes, on one to four threads.
TEST(Conv, Corners) {
  constexpr std::uint64_t kSeed = 20261202;
  Draw d(kSeed);
  const Corner corners[] = {
      {1, 1000, 1, 1000, 1, 1, 1}, {2, 3, 1, 17, 1, 1, 1},         {1, 17, 5, 1, 3, 4, 1},    // strides beyond
      {1, 1, 7, 3, 1, 3, 1},       {0, 3, 5, 17, 3, 1, 1},                                    // an empty batch
      {1, 3, 3, 1000, 3, 1, 1},    {1, 1000, 2, 3, 2, 5, 1},       {0, 17, 3, 17, 3, 1, 17},  // depthwise
      {3, 17, 1, 17, 1, 2, 17},    {1, 1000, 3, 1000, 3, 2, 1000}, {1, 1, 1, 1, 1, 1, 1},    {1, 51, 9, 17, 3, 2, 17}};
  for (const Corner& c : corners) {
    for (const DType xt : {DType::uint8, DType::int8}) {
      for (const DType wt : {DType::uint8, DType::int8}) {
        const std::size_t kernels = compare_small(
            conv_at(d, c, xt, wt), "seed " + std::to_string(kSeed) + ", " + std::to_string(c.channels) + " channels",
            "conv.", {1, 2, 3, 4});
        if (HasFailure()) return;
        EXPECT_TRUE(kernels > 0 || c.batch == 0) << c.channels << " x " << c.size << " to " << c.out_channels;
      }
    }
  }
}

// Scales that bring a sum of each channel as close to a tie as float32 scales can, on either side of it: one weight a
// channel, every code.
TEST(Conv, SumsNextToTies) {
  constexpr std::uint64_t kSeed = 20261204;
  constexpr std::int64_t kChannels = 128;
  Draw d(kSeed);
  for (std::size_t round = 0; round < effort(40, 20); ++round) {
    const std::int64_t groups = round % 2 == 0 ? 1 : kChannels;
    const double zero = round % 4 < 2 ? 0 : 101;
    const auto between = [&](double lo, double hi) {
      return static_cast<float>(lo + (hi - lo) * static_cast<double>(d.below(1 << 24)) * 0x1p-24);
    };
    const float in_scale = between(0.01, 0.02);
    const float out_scale = between(0.01, 0.02);
    std::vector<double> weights;
    std::vector<double> scales;
    for (std::int64_t k = 0; k < kChannels; ++k) {
      weights.push_back(static_cast<double>(60 + d.below(68)));
      const double sum = weights.back() * (static_cast<double>(200 + d.below(56)) - zero);
      const double tie = static_cast<double>(235 + d.below(20)) - zero + 0.5;
      const auto scale = static_cast<float>(tie / sum * static_cast<double>(out_scale) / static_cast<double>(in_scale));
      scales.push_back(static_cast<double>(std::nextafter(scale, d.pick({0.0F, scale, 1.0F}))));
    }
    properties::SmallGraph g;
    const Shape xs{1, groups, 16, 16};
    std::vector<double> codes;
    for (std::int64_t i = 0; i < count_of(xs); ++i) codes.push_back(static_cast<double>(i % 256));
    g.inputs.push_back({"x", {DType::uint8, xs, codes}});
    g.constants.push_back({"w", {DType::int8, {kChannels, 1, 1, 1}, weights}});
    g.constants.push_back({"xs", {DType::float32, {}, {static_cast<double>(in_scale)}}});
    g.constants.push_back({"xz", {DType::uint8, {}, {zero}}});
    g.constants.push_back({"ws", {DType::float32, {kChannels}, scales}});
    g.constants.push_back({"ys", {DType::float32, {}, {static_cast<double>(out_scale)}}});
    g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
    g.nodes.push_back({"DequantizeLinear", {"w", "ws"}, "wd", {{"axis", 0}}, {}, {}, {}});
    g.nodes.push_back({"Conv", {"xd", "wd"}, "y", {{"group", groups}}, {}, {}, {}});
    g.nodes.push_back({"QuantizeLinear", {"y", "ys", "xz"}, "q", {}, {}, {}, {}});
    g.outputs = {"q"};
    Tally tally;
    compare_engine(g, "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
    EXPECT_EQ(tally.references, 0U);
  }
}

// Channels are read in fours: where these are not whole, the caller's memory, and every view of it, is copied first.
TEST(Conv, ReadsNothingBehindTheCallersMemory) {
  for (const bool viewed : {false, true}) {
    properties::SmallGraph g;
    const auto number = [](DType t, double v) { return properties::SmallTensor{t, {}, {v}}; };
    g.inputs.push_back(
        {"x", {DType::uint8, viewed ? Shape{12, 1, 1, 1} : Shape{1, 12, 1, 1}, std::vector<double>(12, 7)}});
    g.constants.push_back({"w", {DType::int8, {8, 3, 1, 1}, std::vector<double>(24, 3)}});
    g.constants.push_back({"s", number(DType::float32, 0.5)});
    g.constants.push_back({"xz", number(DType::uint8, 1)});
    g.constants.push_back({"wz", number(DType::int8, 0)});
    if (viewed) g.nodes.push_back({"Transpose", {"x"}, "t", {}, {{"perm", {1, 0, 2, 3}}}, {}, {}});
    g.nodes.push_back({"DequantizeLinear", {viewed ? "t" : "x", "s", "xz"}, "xd", {}, {}, {}, {}});
    g.nodes.push_back({"DequantizeLinear", {"w", "s", "wz"}, "wd", {}, {}, {}, {}});
    g.nodes.push_back({"Conv", {"xd", "wd"}, "y", {{"group", 4}}, {}, {}, {}});
    g.nodes.push_back({"QuantizeLinear", {"y", "s", "xz"}, "q", {}, {}, {}, {}});
    g.outputs = {"q"};
    Tally tally;
    compare_engine(g, viewed ? "viewed" : "direct", tally);
    EXPECT_EQ(tally.references, 0U);
    const std::string text = properties::to_onnx(g);
    const Executable executable = Executable::compile(Model::load(std::as_bytes(std::span(text))));
    std::size_t copies = 0;
    for (const PlanStep& step : executable.plan().steps) copies += step.kernel == "convert" ? 1 : 0;
    EXPECT_EQ(copies, 1U);
  }
}

}  // namespace
}  // namespace halfeven::test
