// What kernels need to know of a quantized operator, whichever way it is written.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/kernel.hpp"

namespace halfeven::plan {

/// A quantized tensor read by the operator.
struct Operand {
  ir::ValueId id;
  std::vector<double> scales;
  std::vector<std::int64_t> zeros;  ///< one, or one per scale
  std::int64_t axis = 0;

  bool per_tensor() const { return scales.size() == 1 && zeros.size() == 1; }
  std::int64_t zero(std::size_t k) const { return zeros[zeros.size() == 1 ? 0 : k]; }
  double scale(std::size_t k) const { return scales[scales.size() == 1 ? 0 : k]; }
};

/// Reads the parameters of a DequantizeLinear, or of an operator that quantizes by itself: constants, per tensor or per
/// axis; block 0. Otherwise says why not.
std::optional<Operand> read_operand(const Site& site, ir::ValueId tensor, ir::ValueId scale, ir::ValueId zero,
                                    std::int64_t axis, std::int64_t block, std::string& refusal);

/// chief(dequantized operands, float constants) -> QuantizeLinear -> Clip of integers.
struct QuantizedOperator {
  const ir::Node* chief = nullptr;               ///< the float operator (for QLinear*: the node itself)
  std::string op_type;                           ///< Conv, Gemm, Add ...
  std::vector<std::optional<Operand>> operands;  ///< by input of the chief; nullopt: absent or a float constant
  std::vector<ir::ValueId> float_constants;      ///< by input of the chief; absent where it is none
  double out_scale = 1;
  std::int64_t out_zero = 0;
  DType out_type = DType::undefined;
  std::int64_t lo = 0;  ///< least and greatest stored result
  std::int64_t hi = 0;

  /// Adds 128 to an int8 result, so that it is stored in byte_form.
  void store_biased() {
    if (out_type != DType::int8) return;
    out_zero += 128;
    lo += 128;
    hi += 128;
  }
};

/// 8-bit tensors between kernels are unsigned: signed ones are stored with 128 added.
inline bool is_byte(DType type) { return type == DType::uint8 || type == DType::int8; }
inline Form byte_form(Layout layout, DType type) { return {layout, type == DType::int8}; }
/// The zero point of an operand whose form is byte_form.
inline std::int32_t byte_zero(const Site& site, const Operand& o, std::size_t k = 0) {
  return static_cast<std::int32_t>(o.zero(k)) + (site.dtype(o.id) == DType::int8 ? 128 : 0);
}
inline std::int64_t elements(const Shape& s) { return static_cast<std::int64_t>(element_count(s)); }
/// Which input of the node a value is.
std::size_t input_of(const ir::Node& node, ir::ValueId id);

/// Reads a QLinearConv or a group whose body has exactly that form; otherwise says why not.
std::optional<QuantizedOperator> read_quantized(const Site& site, std::string& refusal);

}  // namespace halfeven::plan
