#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/softmax/softmax.hpp"

namespace halfeven::kernels {
namespace {

// results[j] of values[j] * factor; false where one of them lies too close to a tie.
bool round_chunk(const double* values, std::int64_t count, double factor, double relative, double absolute, double low,
                 double high, const SoftmaxBytes& s, std::int32_t* results) {
  bool safe = true;
  constexpr double kShift = 0x1.8p52;  // adding it rounds to integers, half to even
  for (std::int64_t j = 0; j < count; ++j) {
    const double t = std::min(std::max(values[j] * factor, low), high);
    const double r = t + kShift - kShift;
    safe = safe && std::fabs(t - r) < 0.5 - (std::fabs(t) * relative + absolute);
    const auto y = static_cast<std::int32_t>(r) + s.zero;
    results[j] = std::min(std::max(y, s.lo), s.hi);
  }
  return safe;
}

#include "cpu/softmax/softmax_bytes.inc"

}  // namespace

void softmax_bytes_portable(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in, std::uint8_t* out,
                            std::int64_t first, std::int64_t last) {
  softmax_bytes(rows, s, in, out, first, last);
}

void softmax_floats_portable(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers,
                             float* out, std::int64_t first, std::int64_t last) {
  const std::int64_t step = rows.inner;
  for (std::int64_t r = first; r < last; ++r) {
    const float* row = in + rows.begin(r);
    float* to = out + rows.begin(r);
    double* power = powers + r * rows.length;
    double top = -std::numeric_limits<double>::infinity();
    bool nan = false;
    for (std::int64_t j = 0; j < rows.length; ++j) {
      const auto v = static_cast<double>(row[j * step]);
      nan = nan || v != v;
      top = v > top ? v : top;
    }
    if (nan || std::isinf(top)) {
      for (std::int64_t j = 0; j < rows.length; ++j) to[j * step] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    double rest = -1;  // of the sum, beside the top's 1: added up apart, a small one keeps its accuracy
    double small = 0;
    for (std::int64_t j = 0; j < rows.length; ++j) {
      // The difference may round: a relative 2^-53, so exp errs by |x| * 2^-53 < 2^-43 (beyond -700 it is 0 for
      // float32).
      const double x = static_cast<double>(row[j * step]) - top;
      const double e = x < -700 ? 0 : std::exp(x);
      power[j] = s.logarithm ? x : e;
      (x == 0 ? rest : small) += e;
    }
    rest += small;
    const double sum = 1 + rest;
    // Powers 2^-42.9 and 2^-46; of the sum as much, length * 2^-53 and 2^-1000 besides.
    const double error = 0x1p-42 + static_cast<double>(rows.length + 8) * 0x1p-53;
    const double log = std::log1p(rest);
    for (std::int64_t j = 0; j < rows.length; ++j) {
      double t = power[j] / sum;
      double e = 2 * error * t;
      if (s.logarithm) {
        t = power[j] - log;
        e = std::fabs(power[j]) * 0x1p-45 + log * (error + 0x1p-45);
        if (std::isinf(power[j])) {
          to[j * step] = -std::numeric_limits<float>::infinity();
          continue;
        }
      }
      const auto y = static_cast<float>(t - e);
      to[j * step] = y == static_cast<float>(t + e) ? y + 0.0F : s.exact(s.context, row, step, j);
    }
  }
}

}  // namespace halfeven::kernels
