#include "cpu/elementwise/lookup.hpp"

namespace halfeven::kernels {

void lookup_portable(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                     std::size_t last) {
  for (std::size_t i = first; i < last; ++i) out[i] = table[in[i]];
}

}  // namespace halfeven::kernels
