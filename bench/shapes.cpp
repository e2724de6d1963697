#include "shapes.hpp"

#include <fmt/format.h>

#include <halfeven/error.hpp>

namespace halfeven::bench {
namespace {

using plan::ConvSample;
using plan::Operands;
using plan::ProductSample;

BenchShape conv(const ConvSample& c, Operands operands = Operands::random, const std::string& prefix = "") {
  const std::string name = fmt::format("{}{} {}x{}{} {}x{}x{} -> {}{}", prefix,
                                       c.groups == c.channels && c.groups > 1 ? "depthwise" : "conv", c.kernel_h,
                                       c.kernel_w, c.stride == 1 ? "" : fmt::format("/{}", c.stride), c.channels,
                                       c.height, c.width, c.out_channels, c.x == DType::int8 ? " int8" : "");
  return {name, "Conv", [c, operands] { return sample_conv(c, operands); }};
}

BenchShape product(const ProductSample& p, Operands operands = Operands::random, const std::string& prefix = "") {
  const std::string name = fmt::format("{}{} {}{}x{}x{}{}", prefix, p.gemm ? "gemm" : "matmul",
                                       p.batch > 1 ? fmt::format("{}x", p.batch) : "", p.rows, p.depth, p.columns,
                                       p.constant_b ? "" : " both computed");
  return {name, p.gemm ? "Gemm" : "MatMul", [p, operands] { return sample_product(p, operands); }};
}

BenchShape unary(const std::string& op_type, const Shape& shape) {
  return {fmt::format("{} {}", op_type, to_string(shape)), op_type == "Sigmoid" ? "Table" : op_type,
          [op_type, shape] { return plan::sample_unary(op_type, shape, DType::uint8); }};
}

BenchShape binary(const std::string& op_type, const Shape& shape, const Shape& b) {
  return {fmt::format("{} {}{}", op_type, to_string(shape), b == shape ? "" : " and " + to_string(b)), op_type,
          [op_type, shape, b] { return plan::sample_binary(op_type, shape, b, DType::uint8); }, true};
}

ConvSample square(std::int64_t channels, std::int64_t side, std::int64_t out, std::int64_t kernel,
                  std::int64_t stride = 1) {
  return {.channels = channels,
          .height = side,
          .width = side,
          .out_channels = out,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride = stride,
          .pad = kernel / 2,
          .relu = true};
}

ConvSample depthwise(std::int64_t channels, std::int64_t side, std::int64_t kernel, std::int64_t stride = 1) {
  ConvSample c = square(channels, side, channels, kernel, stride);
  c.groups = channels;
  return c;
}

std::vector<BenchShape> resnet50() {
  std::vector<BenchShape> out{conv(square(3, 224, 64, 7, 2))};
  struct Stage {
    std::int64_t side, in, middle, out;
  };
  for (const Stage& s : {Stage{56, 256, 64, 256}, {28, 512, 128, 512}, {14, 1024, 256, 1024}, {7, 2048, 512, 2048}}) {
    out.push_back(conv(square(s.in, s.side, s.middle, 1)));
    out.push_back(conv(square(s.middle, s.side, s.middle, 3)));
    out.push_back(conv(square(s.middle, s.side, s.out, 1)));
    if (s.side > 7) out.push_back(conv(square(s.out, s.side, 2 * s.out, 1, 2)));
    out.push_back(binary("Add", {1, s.out, s.side, s.side}, {1, s.out, s.side, s.side}));
  }
  out.push_back(unary("MaxPool", {1, 64, 112, 112}));
  out.push_back(unary("GlobalAveragePool", {1, 2048, 7, 7}));
  out.push_back(product({.rows = 1, .depth = 2048, .columns = 1000, .gemm = true}));
  return out;
}

std::vector<BenchShape> mobilenetv2() {
  std::vector<BenchShape> out{conv(square(3, 224, 32, 3, 2))};
  struct Block {
    std::int64_t side, in, wide, out, stride;
  };
  for (const Block& b : {Block{112, 32, 32, 16, 1},
                         {112, 16, 96, 24, 2},
                         {56, 24, 144, 24, 1},
                         {28, 32, 192, 32, 1},
                         {14, 64, 384, 64, 1},
                         {14, 96, 576, 96, 1},
                         {7, 160, 960, 160, 1}}) {
    if (b.wide != b.in) out.push_back(conv(square(b.in, b.side, b.wide, 1)));
    out.push_back(conv(depthwise(b.wide, b.side, 3, b.stride)));
    out.push_back(conv(square(b.wide, b.side / b.stride, b.out, 1)));
  }
  out.push_back(binary("Add", {1, 24, 56, 56}, {1, 24, 56, 56}));
  return out;
}

std::vector<BenchShape> bert() {
  return {product({.rows = 128, .depth = 384, .columns = 384}),
          product({.rows = 128, .depth = 384, .columns = 1536}),
          product({.rows = 128, .depth = 1536, .columns = 384}),
          product({.batch = 12, .rows = 128, .depth = 32, .columns = 128, .b = DType::uint8, .constant_b = false}),
          product({.batch = 12, .rows = 128, .depth = 128, .columns = 32, .b = DType::uint8, .constant_b = false}),
          unary("Softmax", {12, 128, 128}),
          unary("LayerNormalization", {128, 384}),
          unary("Sigmoid", {128, 1536}),
          unary("Transpose", {12, 128, 32}),
          binary("Add", {1, 128, 384}, {1, 128, 384}),
          binary("Add", {1, 128, 384}, {384}),
          binary("Mul", {1, 128, 1536}, {1, 128, 1536})};
}

std::vector<BenchShape> ppocr() {
  return {conv(square(3, 320, 8, 3, 2)),
          conv(square(8, 160, 16, 1)),
          conv(depthwise(16, 160, 3)),
          conv(depthwise(32, 160, 3, 2)),
          conv(square(40, 80, 16, 1)),
          conv(depthwise(40, 80, 5)),
          conv(square(96, 40, 24, 3)),
          conv(square(96, 20, 24, 3)),
          conv({.channels = 8, .height = 24, .width = 96, .out_channels = 32, .relu = true}),
          unary("GlobalAveragePool", {1, 56, 40, 40}),
          unary("Sigmoid", {1, 56, 40, 40}),
          binary("Mul", {1, 56, 40, 40}, {1, 56, 1, 1}),
          binary("Add", {1, 96, 40, 40}, {1, 96, 40, 40})};
}

std::vector<BenchShape> worst() {
  ConvSample wide = square(256, 14, 256, 3);
  ConvSample flipped = wide;
  flipped.x = DType::int8;
  return {conv(wide, Operands::worst, "worst "), conv(flipped, Operands::worst, "worst "),
          conv(square(256, 14, 256, 1), Operands::worst, "worst "),
          conv(depthwise(128, 28, 3), Operands::worst, "worst "),
          product({.rows = 128, .depth = 768, .columns = 768}, Operands::worst, "worst "),
          // Odd sizes, where nothing fits a vector.
          conv(square(17, 13, 33, 3)), conv(square(1, 97, 3, 5)), product({.rows = 7, .depth = 131, .columns = 19})};
}

// How results become 8 bits: decided in float32 or double, or on ties exactly.
std::vector<BenchShape> requantise() {
  ConvSample plain = square(64, 56, 64, 1);
  ConvSample ties = plain;
  ties.ties = true;
  return {conv(plain, Operands::random, "float32: "),
          conv(ties, Operands::random, "ties: "),
          binary("Add", {1, 64, 56, 56}, {1, 64, 56, 56}),
          binary("Mul", {1, 64, 56, 56}, {1, 64, 56, 56}),
          {"QuantizeLinear [1, 3, 224, 224]", "QuantizeLinear",
           [] {
             return plan::sample_quantize({1, 3, 224, 224}, DType::uint8);
           },
           true},
          {"DequantizeLinear [1, 64, 56, 56]", "DequantizeLinear",
           [] {
             return plan::sample_dequantize({1, 64, 56, 56}, DType::uint8);
           },
           true}};
}

struct Suite {
  const char* name;
  std::vector<BenchShape> (*make)();
};
constexpr Suite kSuites[] = {{"resnet50", resnet50}, {"mobilenetv2", mobilenetv2}, {"bert", bert}, {"ppocr", ppocr},
                             {"worst", worst},       {"requantise", requantise}};

}  // namespace

std::vector<std::string> shape_suites() {
  std::vector<std::string> out;
  for (const Suite& s : kSuites) out.emplace_back(s.name);
  return out;
}

std::vector<BenchShape> shapes(const std::string& suite) {
  for (const Suite& s : kSuites) {
    if (suite == s.name) return s.make();
  }
  throw Error(ErrorCode::usage, "there is no suite '" + suite + "'");
}

}  // namespace halfeven::bench
