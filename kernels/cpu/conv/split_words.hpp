// 16-bit activations as two planes of bytes.
#pragma once

#include <cstdint>

namespace halfeven::kernels {

/// high[i] and low[i] become the bytes of words[i] ^ flip.
using SplitFunction = void (*)(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                               std::uint16_t flip);

void split_words_portable(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                          std::uint16_t flip);
void split_words_avx512(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                        std::uint16_t flip);

}  // namespace halfeven::kernels
