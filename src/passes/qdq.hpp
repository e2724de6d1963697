// Questions about QuantizeLinear and DequantizeLinear nodes.
#pragma once

#include <optional>
#include <vector>

#include "passes/editor.hpp"

namespace halfeven::passes {

bool is_quantize(const ir::Node& node);
bool is_dequantize(const ir::Node& node);
std::optional<std::size_t> quantize_at(const Editor& e, ir::ValueId output);    ///< the QuantizeLinear making a value
std::optional<std::size_t> dequantize_at(const Editor& e, ir::ValueId output);  ///< the DequantizeLinear making a value

/// Constant quantisation parameters of a QuantizeLinear or DequantizeLinear.
struct Parameters {
  DType type = DType::undefined;  ///< of the quantized tensor
  DType real = DType::undefined;  ///< of the float tensor
  std::vector<double> scales;
  std::vector<std::int64_t> zeros;  ///< as long as scales; 0 where there is no zero point
  std::int64_t axis = 1;
  std::int64_t block = 0;

  bool per_tensor() const { return scales.size() == 1 && block == 0; }
  bool ascending() const;  ///< every scale > 0
  bool operator==(const Parameters&) const = default;
};

/// The node's parameters if they are finite constants of an integer type; nullopt otherwise.
std::optional<Parameters> parameters_of(const Editor& e, std::size_t n);

/// round_half_even(value / scale) + zero point, saturated: what QuantizeLinear makes of a constant.
std::int64_t quantize_value(const Parameters& p, double value);

/// A 0-dimensional constant of the integer type.
Tensor scalar(DType type, std::int64_t value);

/// Movements of one data input, the first, to one output: Reshape, Transpose, Slice, nearest Resize ...
bool moves_data(const ir::Node& node);

/// Contract section 1, rule 4, apart from Cast: the operators that only pass values on.
bool passes_values_on(const ir::Node& node);
/// True if ordinary readers see the value as it is, unrounded and rounded alike: a dequantized value or a float tensor
/// of the caller or the model, passed on or not.
bool reads_as_is(const Editor& e, ir::ValueId id);
/// True if no element can be NaN: dequantized values and sums of products of them and of finite constants, passed on or
/// not. QuantizeLinear refuses a NaN (contract section 6), so it may go in front of an operator that drops elements
/// only where there is none.
bool never_nan(const Editor& e, ir::ValueId id);
/// False for operators whose output holds every element of their data inputs: those quantize what they were given.
bool may_drop_elements(const ir::Node& node);

}  // namespace halfeven::passes
