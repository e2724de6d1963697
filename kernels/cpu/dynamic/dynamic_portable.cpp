
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/dynamic/dynamic.hpp"

namespace halfeven::kernels {
namespace {
#include "cpu/dynamic/dynamic.inc"
}  // namespace

DynamicFunctions dynamic_portable() { return {integers, floats, range, quantize}; }

std::int32_t dynamic_quantize_one(const DynamicQuantize& q, float u) {
  const double t = static_cast<double>(u) / static_cast<double>(q.scale);
  const double r = std::nearbyint(t);
  if (std::fabs(t) < 1000 && std::fabs(t - r) < 0.5 - 0x1p-40) return static_cast<std::int32_t>(r);
  return q.exact(u, q.scale);
}

}  // namespace halfeven::kernels
