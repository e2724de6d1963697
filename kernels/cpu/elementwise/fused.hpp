// Chains of elementwise operators in one pass, exactly: an interpreter of small vector programs on blocks of elements.
//
// A value between two operators is a double that holds exactly what the next operator reads (a dequantized integer or a
// float32). An operator's unrounded result is a pair t + e: the double nearest to it and the exact rest (Knuth's and
// Dekker's error-free sums and products). Rounding such a pair to float32 or to an integer grid looks at the sign of e
// only where t alone leaves it open, so ties are decided here and no element needs another computation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Where element i of the result (in the order in which it is stored) finds its operand.
struct FusedAddress {
  enum class Kind : std::uint8_t {
    full,      ///< i
    scalar,    ///< 0
    periodic,  ///< i / span * period + i % period: channels that lie last
    repeat,    ///< i / span % period: channels that lie in front of pixels
    indexed,   ///< index[i]
  };
  Kind kind = Kind::full;
  std::size_t period = 1;
  std::size_t span = SIZE_MAX;
  const std::uint32_t* index = nullptr;
};

enum class FusedOp : std::uint8_t {
  load_u8,   ///< (in[a] - p0) * p1
  load_s8,   ///< the same
  load_u16,  ///< the same
  load_s16,  ///< the same
  load_f32,  ///< in[a]
  table,     ///< table[in[a]], bytes
  constant,  ///< table[address]
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  negate,
  absolute,
  relu,          ///< passes on
  clip,          ///< passes on; min(max(a, p0), p1)
  prelu,         ///< a < 0 ? a * b : a
  hard_sigmoid,  ///< max(0, min(1, p0 * a + p1))
  affine,        ///< a * (b + b's rest) + (c + c's rest): the last two are constants given as pairs
  pair,          ///< b as the rest of a
  function,      ///< f(a), float32 already
  round,         ///< to float32
};

/// What becomes of an operator's result.
enum class FusedResult : std::uint8_t {
  exact,     ///< t is the result, nothing else to store
  narrowed,  ///< t is the result, to be rounded to float32
  rounded,   ///< t + e rounded to float32
  pair,      ///< t and e
};

struct FusedStep {
  FusedOp op = FusedOp::load_f32;
  FusedResult result = FusedResult::exact;
  std::uint16_t to = 0;  ///< registers
  std::uint16_t a = 0;   ///< a register; the input's number for loads
  std::uint16_t b = 0;
  std::uint16_t c = 0;
  bool a_pair = false;     ///< a's rest counts
  bool invariant = false;  ///< depends on scalar and periodic operands only; such steps come first
  double p0 = 0;
  double p1 = 0;
  FusedAddress address;
  const double* table = nullptr;
  double (*function)(double) = nullptr;
};

enum class FusedType : std::uint8_t { u8, u16, s16, f32 };

struct FusedProgram {
  const FusedStep* steps = nullptr;
  std::size_t step_count = 0;
  std::uint16_t result = 0;  ///< register
  bool result_pair = false;
  FusedType type = FusedType::u8;
  /// Quantized results: clamp(round_half_even(value / scale) + zero, lo, hi).
  double scale = 1;
  double inverse = 1;  ///< 1 / scale, rounded
  double zero = 0;
  double lo = 0;
  double hi = 0;
  double doubt = 0;  ///< greatest error of the rest; 0 where at least its sign is exact
};

inline constexpr std::size_t kFusedBlock = 128;
inline constexpr std::size_t kFusedRegisters = 40;

/// Elements [first, last) of the result; false if an element could not be decided (a NaN to be quantized, above all):
/// the caller then computes all by another way.
using FusedFunction = bool (*)(const FusedProgram& program, const std::byte* const* in, std::byte* out,
                               std::size_t first, std::size_t last);

bool fused_portable(const FusedProgram& program, const std::byte* const* in, std::byte* out, std::size_t first,
                    std::size_t last);
bool fused_avx2(const FusedProgram& program, const std::byte* const* in, std::byte* out, std::size_t first,
                std::size_t last);
bool fused_avx512(const FusedProgram& program, const std::byte* const* in, std::byte* out, std::size_t first,
                  std::size_t last);

}  // namespace halfeven::kernels
