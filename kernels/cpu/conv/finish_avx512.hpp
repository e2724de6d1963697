// Rounding of a tile's sums, sixteen lanes at a time; finish.hpp says what it means.
#pragma once

#include "cpu/conv/conv.hpp"

#ifdef __AVX512F__
#include "cpu/requantize_avx512.hpp"
#endif

namespace halfeven::kernels {

void finish_bytes_avx512(const FinishArgs& f);
void finish_words_avx512(const FinishArgs& f);

}  // namespace halfeven::kernels
