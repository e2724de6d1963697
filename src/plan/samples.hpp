// Small QDQ graphs of one operator each, as quantizer tools write them: for self-tests and benchmarks.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace halfeven::plan {

/// What fills the operands. Scales are chosen so that results stay within the range, whichever it is.
enum class Operands : std::uint8_t {
  random,  ///< every code equally likely
  worst,   ///< greatest and least codes in every neighbourhood: what wrong accumulators stumble over
};

/// An unfused graph with concrete shapes, and a tensor for each input.
struct Sample {
  std::string name;
  ir::Graph graph;
  std::vector<Tensor> inputs;
  double operations = 0;  ///< multiplications and additions of one run; 0 where bytes are what counts
  double bytes = 0;       ///< activations read and written once
};

struct ConvSample {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1, out_channels = 1, kernel_h = 1, kernel_w = 1, stride = 1,
               pad = 0, groups = 1;
  DType x = DType::uint8;
  DType w = DType::int8;
  bool relu = false;
  bool ties = false;  ///< scales are powers of two: a good part of the results lies on a tie
};

struct ProductSample {
  std::int64_t batch = 1, rows = 1, depth = 1, columns = 1;
  DType a = DType::uint8;
  DType b = DType::int8;
  bool constant_b = true;
  bool gemm = false;  ///< Gemm with a bias instead of MatMul
};

Sample sample_conv(const ConvSample& c, Operands operands = Operands::random);
Sample sample_product(const ProductSample& p, Operands operands = Operands::random);
/// Add, Sub, Mul ...; b has the shape `b_shape`.
Sample sample_binary(const std::string& op_type, const Shape& shape, const Shape& b_shape, DType type,
                     Operands operands = Operands::random);
/// One quantized input and output: GlobalAveragePool, MaxPool (2 x 2, stride 2), AveragePool (the same), Sigmoid, Relu,
/// Softmax, LayerNormalization, Transpose (last two dimensions) ...
Sample sample_unary(const std::string& op_type, const Shape& shape, DType type, Operands operands = Operands::random);
/// QuantizeLinear from float32, DequantizeLinear to it.
Sample sample_quantize(const Shape& shape, DType type);
Sample sample_dequantize(const Shape& shape, DType type);

}  // namespace halfeven::plan
