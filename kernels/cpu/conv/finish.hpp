// Rounding of a tile's sums, one by one: the definition.
#pragma once

#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

/// The whole sum of channel c of pixel m: both planes, and what zero points of weights take away.
[[maybe_unused]] static inline std::int64_t wide_sum(const FinishArgs& f, std::int64_t m, std::int64_t c) {
  std::int64_t a = f.sums[m * f.stride + c];
  if (f.low_sums != nullptr) a = a * 256 + f.low_sums[m * f.stride + c];
  if (f.pixel_terms != nullptr) {
    a -= static_cast<std::int64_t>(f.weight_zeros[f.first_channel + static_cast<std::size_t>(c)]) * f.pixel_terms[m];
  }
  return a;
}

void finish_bytes(const FinishArgs& f);
void finish_words(const FinishArgs& f);

}  // namespace halfeven::kernels
