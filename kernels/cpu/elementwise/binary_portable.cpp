#include "cpu/elementwise/binary.hpp"

namespace halfeven::kernels {
namespace {

std::int32_t value_a(const BinaryOperands& in, std::size_t i) { return in.a[i] - in.a_zero; }
std::int32_t value_b(const BinaryOperands& in, std::size_t i) {
  return in.b[in.b_period == 0 ? i : i / in.b_span * in.b_period + i % in.b_period] - in.b_zero;
}

}  // namespace

void add_portable(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                  std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    out[i] = static_cast<std::uint8_t>(requantize(q, 0, value_a(in, i), value_b(in, i)));
  }
}

void multiply_portable(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                       std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    out[i] = static_cast<std::uint8_t>(requantize(q, 0, value_a(in, i) * value_b(in, i)));
  }
}

}  // namespace halfeven::kernels
