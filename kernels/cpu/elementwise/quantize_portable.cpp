#include <algorithm>
#include <cmath>

#include "cpu/elementwise/quantize.hpp"

namespace halfeven::kernels {

std::size_t quantize_portable(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                              std::size_t last) {
  const double scale = static_cast<double>(q.scale);
  for (std::size_t i = first; i < last; ++i) {
    if (std::isnan(in[i])) return i;
    const double x = static_cast<double>(in[i]);
    // The quotient of two floats in double errs by 2^-53 of itself, at most 2^-40 where it does not saturate.
    const double t = std::clamp(x / scale, -1e6, 1e6);
    double r = std::nearbyint(t);
    if (std::fabs(t - r) > 0.5 - 0x1p-32 && std::fabs(t) < 1e5) {
      // A tie times the scale is exact in double, and so is the comparison with it.
      const double below = std::floor(t);
      const double tie = (below + 0.5) * scale;
      const double side = scale < 0 ? tie - x : x - tie;
      const bool odd = (static_cast<std::int64_t>(below) & 1) != 0;
      r = side > 0 || (side == 0 && odd) ? below + 1 : below;
    }
    out[i] = static_cast<std::uint8_t>(std::clamp(static_cast<std::int32_t>(r) + q.zero, q.lo, q.hi));
  }
  return last;
}

}  // namespace halfeven::kernels
