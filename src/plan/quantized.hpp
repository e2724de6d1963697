// What kernels need to know of a quantized operator, whichever way it is written.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/requantize.hpp"
#include "cpu/conv/conv.hpp"
#include "cpu/elementwise/binary.hpp"
#include "cpu/elementwise/binary_words.hpp"
#include "numerics/closest_approach.hpp"
#include "numerics/rational.hpp"
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

/// Exact ratios of a requantisation, what a kernel gets of them, and the proof of what decides its roundings (contract
/// section 4). Kept alive by the kernel.
class Requantization {
 public:
  /// y = round(a * ratios[k] + b * second + offsets[k]) + zero, |a| <= a_bounds[k] (or the only one), |b| <= b_bound.
  /// Arrays are padded to whole vectors. Throws nothing; usable() is false where doubles are too coarse.
  Requantization(std::vector<numerics::Rational> ratios, std::vector<numerics::Rational> offsets,
                 numerics::Rational second, std::vector<double> a_bounds, double b_bound, const QuantizedOperator& op);
  /// One bound for all channels.
  Requantization(std::vector<numerics::Rational> ratios, std::vector<numerics::Rational> offsets,
                 numerics::Rational second, double a_bound, double b_bound, const QuantizedOperator& op)
      : Requantization(std::move(ratios), std::move(offsets), std::move(second), std::vector<double>{a_bound}, b_bound,
                       op) {}

  bool usable() const { return usable_; }
  /// What was proved, for reports.
  PlanRounding rounding() const;
  kernels::Requantize view(bool per_tensor) const;
  /// The 16.16 form for kernels that have it, by lane; `lanes` holds each lane's channel, -1 where there is none.
  /// nullopt where its error is too large, or where float32 is exact and ties are common.
  std::optional<kernels::Fixed> fixed(const std::vector<std::int64_t>& lanes) const;
  /// The same for sums of bytes a - a_zero and b - b_zero; without safe_bits where there is none.
  kernels::FixedSum fixed_sum(std::int32_t a_zero, std::int32_t b_zero) const;
  /// By channel the least b for which ratio / 2^b is no more than 1/2, as the next function needs it.
  std::vector<int> word_bits() const;
  /// The 32.16 form of 16-bit results, by lane; channel c's sums are 2^bits[c] times those that were described above
  /// plus shifts[c]. nullopt where a ratio / 2^b is none between 0 and 1/2, or where ties are common.
  std::optional<kernels::FixedWords> fixed_words(const std::vector<std::int64_t>& lanes,
                                                 const std::vector<std::int64_t>& shifts,
                                                 const std::vector<int>& bits) const;
  /// The same for a * ratio + b * ratio2 of two words less their zero points.
  std::optional<kernels::FixedWordsSum> fixed_words_sum(std::int32_t a_zero, std::int32_t b_zero) const;
  std::string describe() const;

 private:
  double reach() const;
  double largest_first(std::size_t channel) const;
  bool sums_are_exact(int bits) const;
  double double_error(std::size_t channel) const;
  numerics::ClosestApproach approach(std::size_t channel) const;
  void prove();
  static std::int64_t exact(const void* self, std::size_t channel, std::int64_t a, std::int64_t b);

  std::vector<numerics::Rational> ratios_;
  std::vector<numerics::Rational> offsets_;
  numerics::Rational second_;
  std::vector<double> ratio_;
  std::vector<double> offset_;
  std::vector<float> float_ratio_;
  std::vector<float> float_offset_;
  std::vector<double> a_bounds_;
  double b_bound_ = 0;
  double second_size_ = 0;  // the largest |b * second|
  double slack_ = 0;        // what double results may be off by
  double float_slack_ = 0;  // likewise; infinite where floats are of no use
  // The closest to a tie that any result comes that does not saturate, ties apart.
  numerics::ClosestApproach closest_{0, true};
  bool exact_ = false;         // double results are not off at all
  bool floats_exact_ = false;  // likewise
  bool decided_ = false;       // double results within the slack of a tie are ties
  bool floats_decide_ = false;
  bool usable_ = true;
  bool fits_ = false;  // no value before rounding exceeds 2^30
  std::int32_t zero_;
  std::int32_t lo_;
  std::int32_t hi_;
};

}  // namespace halfeven::plan
