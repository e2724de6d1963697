#include "cpu/elementwise/binary_words.hpp"

namespace halfeven::kernels {

void binary_words_portable(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                           std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t k = in.b_period == 0 ? i : i / in.b_span * in.b_period + i % in.b_period;
    out[i] = binary_word(in, q, in.a[i], in.b[k]);
  }
}

}  // namespace halfeven::kernels
