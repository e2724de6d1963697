#include "cpu/float_ops/float_ops.hpp"

#include <algorithm>
#include <limits>

namespace halfeven::kernels {
namespace {

// A zero that is computed is +0, a NaN the positive quiet one: processors differ in its sign.
float settled(float v) { return v == v ? v + 0.0F : std::numeric_limits<float>::quiet_NaN(); }

template <class F>
void binary(const float* a, const float* b, std::int64_t inner, std::int64_t count, float* out, std::int64_t first,
            std::int64_t last, F f) {
  // Runs in which b moves as a does (inner 1) or stays (count 1, or one run of inner elements).
  for (std::int64_t i = first; i < last;) {
    const std::int64_t k = i / inner % count;
    if (inner == 1 && count > 1) {
      const std::int64_t run = std::min(last - i, count - k);
      for (std::int64_t j = 0; j < run; ++j) out[i + j] = settled(f(a[i + j], b[k + j]));
      i += run;
    } else {
      const std::int64_t run = count == 1 ? last - i : std::min(last - i, inner - i % inner);
      const float v = b[k];
      for (std::int64_t j = 0; j < run; ++j) out[i + j] = settled(f(a[i + j], v));
      i += run;
    }
  }
}

}  // namespace

void float_binary(FloatOperation op, const float* a, const float* b, std::int64_t inner, std::int64_t count, float* out,
                  std::int64_t first, std::int64_t last) {
  switch (op) {
    case FloatOperation::add:
      return binary(a, b, inner, count, out, first, last, [](float x, float y) { return x + y; });
    case FloatOperation::subtract:
      return binary(a, b, inner, count, out, first, last, [](float x, float y) { return x - y; });
    case FloatOperation::reverse_subtract:
      return binary(a, b, inner, count, out, first, last, [](float x, float y) { return y - x; });
    case FloatOperation::multiply:
      return binary(a, b, inner, count, out, first, last, [](float x, float y) { return x * y; });
  }
}

void float_of_int32(const std::int32_t* in, float* out, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) out[i] = static_cast<float>(in[i]);
}

void float_relu(const float* in, float* out, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) out[i] = in[i] > 0 || in[i] != in[i] ? in[i] : 0.0F;  // -0 becomes +0
}

void float_reduce_max(const float* in, float* out, std::int64_t length, std::int64_t columns, std::int64_t first,
                      std::int64_t last) {
  for (std::int64_t r = first; r < last; ++r) {
    float* to = out + r * columns;
    std::copy_n(in + r * length * columns, columns, to);
    for (std::int64_t k = 1; k < length; ++k) {
      const float* from = in + (r * length + k) * columns;
      for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c] > to[c] || from[c] != from[c] ? from[c] : to[c];
    }
    for (std::int64_t c = 0; c < columns; ++c) to[c] += 0.0F;  // a zero that is computed is +0
  }
}

}  // namespace halfeven::kernels
