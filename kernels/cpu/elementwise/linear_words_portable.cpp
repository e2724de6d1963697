#include <algorithm>
#include <cmath>

#include "cpu/elementwise/linear_words.hpp"

namespace halfeven::kernels {

std::uint16_t linear_word(const LinearWords& f, std::uint16_t in) {
  const double t = std::fma(static_cast<double>(in ^ f.in_flip), f.ratio, f.offset);
  const double y = std::clamp(std::nearbyint(t), static_cast<double>(f.lo), static_cast<double>(f.hi));
  return static_cast<std::uint16_t>(static_cast<std::int32_t>(y) ^ f.out_flip);
}

std::uint16_t linear_word_in_units(const LinearWords& f, std::uint16_t in) {
  const double t = std::fma(static_cast<double>(in ^ f.in_flip), f.ratio * kLinearUnit, linear_offset(f));
  const double y =
      std::clamp(std::floor((t - kLinearWhole) / kLinearUnit), static_cast<double>(f.lo), static_cast<double>(f.hi));
  return static_cast<std::uint16_t>(static_cast<std::int32_t>(y) ^ f.out_flip);
}

}  // namespace halfeven::kernels
