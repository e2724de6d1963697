// Masks: logical operators on booleans (bytes of 0 or 1), casts to and from them, and choices by them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Where element i of the result finds its operand: index[i], or i * step where there is no index (step 0: a scalar).
struct MaskOperand {
  const std::byte* data = nullptr;
  const std::size_t* index = nullptr;
  std::size_t step = 1;

  std::size_t at(std::int64_t i) const { return index != nullptr ? index[i] : static_cast<std::size_t>(i) * step; }
};

enum class MaskOperation : std::uint8_t { conjunction, disjunction, difference };  ///< And, Or, Xor

/// Elements [first, last) of the result.
void mask_combine(MaskOperation op, const MaskOperand& a, const MaskOperand& b, std::byte* out, std::int64_t first,
                  std::int64_t last);
void mask_invert(const std::byte* in, std::byte* out, std::int64_t first, std::int64_t last);
/// Elements of 1, 2, 4 or 8 bytes: a where the condition holds, else b.
void mask_choose(const MaskOperand& condition, const MaskOperand& a, const MaskOperand& b, std::size_t element,
                 std::byte* out, std::int64_t first, std::int64_t last);
/// Whether integers of `element` bytes are not 0.
void mask_of_integers(const std::byte* in, std::size_t element, std::byte* out, std::int64_t first, std::int64_t last);
/// Integers of `element` bytes: 0 or 1.
void integers_of_mask(const std::byte* in, std::size_t element, std::byte* out, std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
