#include "cpu/conv/split_words.hpp"

namespace halfeven::kernels {

void split_words_portable(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                          std::uint16_t flip) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<std::uint16_t>(words[i] ^ flip);
    high[i] = static_cast<std::uint8_t>(v >> 8);
    low[i] = static_cast<std::uint8_t>(v);
  }
}

}  // namespace halfeven::kernels
