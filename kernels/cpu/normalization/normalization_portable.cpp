#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/normalization/normalization.hpp"

namespace halfeven::kernels {

NormalizationRow normalization_row(const NormalizationBytes& n, std::int64_t sum, std::int64_t squares) {
  NormalizationRow row{};
  row.sum = sum;
  row.squares = squares;
  const std::int64_t length = n.places.length;
  const auto count = static_cast<double>(length);
  // Everything below is positive, so that each operation adds a relative 2^-53; there are fewer than 16.
  if (n.centred) {
    row.step = length;
    row.start = sum;
    const auto spread = static_cast<double>(length * squares - sum * sum);
    const double variance = n.x_scale * n.x_scale * (spread / (count * count));
    row.factor = n.x_scale / (count * std::sqrt(variance + n.epsilon));
  } else {
    row.step = 1;
    row.start = n.x_zero;
    const std::int64_t zero = n.x_zero;
    const auto spread = static_cast<double>(squares - 2 * zero * sum + length * zero * zero);
    row.factor = n.x_scale / std::sqrt(n.x_scale * n.x_scale * (spread / count) + n.epsilon);
  }
  return row;
}

std::int32_t normalize_byte(const NormalizationBytes& n, const NormalizationRow& row, std::int64_t q,
                            std::int64_t parameter) {
  const double u = static_cast<double>(row.step * q - row.start) * row.factor * n.scale[parameter];
  const double b = n.bias[parameter];
  const double t = u + b;
  const double r = std::nearbyint(t);
  const double error = (std::fabs(u) + std::fabs(b)) * 0x1p-48;
  const double low = n.lo - n.zero;
  const double high = n.hi - n.zero;
  if (t - error > high + 1) return n.hi;
  if (t + error < low - 1) return n.lo;
  if (!(std::fabs(t - r) < 0.5 - error)) return n.exact(n.context, row.sum, row.squares, q, parameter);
  return static_cast<std::int32_t>(std::min(std::max(r, low), high)) + n.zero;
}

void normalization_bytes_portable(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                  std::int64_t first, std::int64_t last) {
  const NormalizationPlaces& p = n.places;
  for (std::int64_t r = first; r < last; ++r) {
    const std::uint8_t* x = in + r * p.length;
    std::uint8_t* y = out + r * p.length;
    std::uint32_t sum = 0;  // rows are short enough
    std::uint64_t squares = 0;
    for (std::int64_t from = 0; from < p.length; from += 1 << 15) {
      std::uint32_t part = 0;
      for (std::int64_t j = from; j < std::min(p.length, from + (1 << 15)); ++j) {
        sum += x[j];
        part += static_cast<std::uint32_t>(x[j]) * x[j];
      }
      squares += part;
    }
    const NormalizationRow row = normalization_row(n, sum, static_cast<std::int64_t>(squares));
    for (std::int64_t j = 0; j < p.length; ++j) {
      y[j] = static_cast<std::uint8_t>(normalize_byte(n, row, x[j], p.base(r) + j / p.run));
    }
  }
}

// Sums of floats in double: n of them err by n * 2^-53 of the sum of their magnitudes.
void normalization_floats(const NormalizationFloats& n, const float* in, float* out, std::int64_t first,
                          std::int64_t last) {
  const NormalizationPlaces& p = n.places;
  const auto count = static_cast<double>(p.length);
  const double unit = (count + 8) * 0x1p-53;
  for (std::int64_t r = first; r < last; ++r) {
    const float* x = in + r * p.length;
    float* y = out + r * p.length;
    double mean = 0;
    double mean_error = 0;
    bool equal = n.centred;
    bool finite = true;
    bool nan = false;
    for (std::int64_t j = 0; j < p.length; ++j) {
      equal = equal && x[j] == x[0];
      finite = finite && std::isfinite(x[j]);
      nan = nan || x[j] != x[j];
    }
    if (nan || (n.centred && !finite)) {  // the mean or the root is infinite or NaN, and so is x or the quotient
      std::fill_n(y, p.length, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (n.centred) {
      double sums[4] = {};
      double sizes[4] = {};
      for (std::int64_t j = 0; j < p.length; ++j) {
        const auto v = static_cast<double>(x[j]);
        sums[j % 4] += v;
        sizes[j % 4] += std::fabs(v);
      }
      mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / count;
      mean_error = ((sizes[0] + sizes[1]) + (sizes[2] + sizes[3])) / count * unit;
    }
    double squares[4] = {};
    for (std::int64_t j = 0; j < p.length; ++j) {
      const double v = static_cast<double>(x[j]) - mean;
      squares[j % 4] += v * v;
    }
    const double variance = ((squares[0] + squares[1]) + (squares[2] + squares[3])) / count;
    // Each v errs by mean_error and a rounding; so does their mean square by 2 * |v| * mean_error + mean_error^2.
    const double deviation = std::sqrt(variance);
    const double variance_error =
        variance * unit * 2 + 2 * deviation * mean_error * 1.0001 + mean_error * mean_error * 1.0001;
    const double total = variance + n.epsilon;
    const double root = std::sqrt(total);
    const double relative = variance_error / total + 0x1p-50;  // of the root half of it would do
    const std::int64_t base = p.base(r);
    for (std::int64_t j = 0; j < p.length; ++j) {
      const std::int64_t k = base + j / p.run;
      const auto scale = static_cast<double>(n.scale[k]);
      const double bias = n.bias == nullptr ? 0 : static_cast<double>(n.bias[k]);
      const bool zero = n.centred ? equal && std::isfinite(x[j]) : x[j] == 0;
      if (zero && std::isfinite(scale) && std::isfinite(root)) {  // (x - mean) is 0, which no bound would tell
        y[j] = static_cast<float>(bias) + 0.0F;
        continue;
      }
      const double v = (static_cast<double>(x[j]) - mean) * scale / root;
      const double t = v + bias + 0.0;
      const double e = std::fabs(v) * (relative + 0x1p-50) + std::fabs(scale) / root * mean_error * 1.0001 +
                       std::fabs(bias) * 0x1p-51;
      const auto z = static_cast<float>(t - e);
      // Zeros and infinities (NaN fails, too) are the exact side's.
      const bool decided = z == static_cast<float>(t + e) && std::fabs(t) > 0x1p-100 && std::fabs(t) < 0x1p120;
      y[j] = decided && relative < 0x1p-20 ? z : n.exact(n.context, x, j, n.scale[k], static_cast<float>(bias));
    }
  }
}

}  // namespace halfeven::kernels
