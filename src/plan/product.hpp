// Products of quantized matrices, whichever way they are written.
#pragma once

#include "cpu/matmul/matmul.hpp"
#include "numerics/rational.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

/// MatMul or Gemm of two quantized tensors: QLinearMatMul, com.microsoft QGemm, MatMulInteger, or a group of
/// DequantizeLinear, MatMul or Gemm, and either QuantizeLinear or nothing or an Add of a constant behind.
struct Product {
  enum class Result : std::uint8_t { bytes, floats, integers } result = Result::bytes;
  QuantizedOperator op;  ///< operands 0 and 1; result and limits where these are bytes
  bool transpose_left = false;
  bool transpose_right = false;
  numerics::Rational alpha = 1;
  /// Zero points that are tensors of the run instead (MatMulInteger).
  ir::ValueId left_zero;
  ir::ValueId right_zero;
  /// In the sum, by column: one, as many as columns, or none.
  std::vector<numerics::Rational> bias;
  /// Added to the rounded product, likewise.
  std::vector<numerics::Rational> addend;
};

/// The same of the node's result: fills the out_ fields and limits. False where they are no constants per tensor.
bool read_result(const Site& site, QuantizedOperator& q, ir::ValueId scale, ir::ValueId zero, std::string& refusal);

/// The exact values of a constant float tensor, all finite.
std::optional<std::vector<numerics::Rational>> constant_numbers(const Site& site, ir::ValueId id, std::string& refusal);
/// Of a constant dequantized tensor whose scales are one or run along its last axis.
std::optional<std::vector<numerics::Rational>> constant_numbers(const Site& site, const Operand& o,
                                                                std::string& refusal);

/// The best functions for products that the instruction set has.
kernels::MatMulFunctions matmul_functions(Isa isa);

/// Reads the node, or says why not.
std::optional<Product> read_product(const Site& site, std::string& refusal);

}  // namespace halfeven::plan
