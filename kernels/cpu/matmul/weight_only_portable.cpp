#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/matmul/weight_only.hpp"

namespace halfeven::kernels {
namespace {
#include "cpu/matmul/weight_only.inc"
}  // namespace

void weight_only_portable(const WeightOnly& w, const float* in, float* out, std::int64_t first, std::int64_t last) {
  weight_only(w, in, out, first, last);
}

}  // namespace halfeven::kernels
