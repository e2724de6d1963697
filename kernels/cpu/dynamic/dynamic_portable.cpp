
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/dynamic/dynamic.hpp"

namespace halfeven::kernels {
namespace {
#include "cpu/dynamic/dynamic.inc"
}  // namespace

DynamicFunctions dynamic_portable() { return {integers, floats, range, quantize}; }

std::int32_t dynamic_quantize_one(const DynamicQuantize& q, float x, float bias) {
  const double u = static_cast<double>(x) + static_cast<double>(bias);
  if (q.relu && u <= 0) return 0;  // the sign of a sum is that of the rounded one
  const double t = u / static_cast<double>(q.scale);
  const double r = std::nearbyint(t);
  if (std::fabs(t) < 1000 && std::fabs(t - r) < 0.5 - 0x1p-40) return static_cast<std::int32_t>(r);
  return q.exact(x, bias, q.scale);
}

}  // namespace halfeven::kernels
