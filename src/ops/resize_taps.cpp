#include "ops/resize_taps.hpp"

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::Rational;

const Rational kHalf = Rational::from_double(0.5);

// The coordinate in the input of output position i.
Rational coordinate(const AxisPlan& p, const std::string& mode, std::int64_t i) {
  const Rational x = i;
  if (mode == "asymmetric") return x / p.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + kHalf) / p.scale;
  if (mode == "align_corners") return p.out > 1 ? x * Rational(p.in - 1) / Rational(p.out - 1) : Rational(0);
  if (mode == "tf_crop_and_resize") {
    const Rational last = p.in - 1;
    if (p.out <= 1) return kHalf * (p.roi_start + p.roi_end) * last;
    return p.roi_start * last + x * (p.roi_end - p.roi_start) * last / Rational(p.out - 1);
  }
  if (mode == "pytorch_half_pixel" && p.out <= 1) return 0;
  const Rational centre = (x + kHalf) / p.scale - kHalf;
  if (mode != "half_pixel_symmetric") return centre;
  const Rational adjustment = Rational(p.out) / (p.scale * Rational(p.in));
  return Rational(p.in) * kHalf * (Rational(1) - adjustment) + centre;
}

std::size_t clamped(const mpz_class& index, std::int64_t n) {
  if (sgn(index) < 0) return 0;
  return index < n ? static_cast<std::size_t>(index.get_ui()) : static_cast<std::size_t>(n - 1);
}

mpz_class nearest(const Rational& x, const std::string& mode) {
  if (mode == "floor") return x.floor();
  if (mode == "ceil") return x.ceil();
  return mode == "round_prefer_floor" ? (x - kHalf).ceil() : (x + kHalf).floor();
}

// The cubic convolution kernel at distance d >= 0.
Rational cubic(const Rational& a, const Rational& d) {
  if (d <= Rational(1)) return ((a + Rational(2)) * d - (a + Rational(3))) * d * d + Rational(1);
  if (d < Rational(2)) return ((a * d - a * Rational(5)) * d + a * Rational(8)) * d - a * Rational(4);
  return 0;
}

void add_tap(Taps& taps, std::size_t index, const Rational& weight) {
  for (Tap& t : taps) {
    if (t.index == index) {
      t.weight = t.weight + weight;
      return;
    }
  }
  taps.push_back({index, weight, {}});
}

Taps cubic_taps(const NodeReader& node, const AxisPlan& p, const Rational& x) {
  const Rational a = Rational::from_double(static_cast<double>(node.get_float("cubic_coeff_a", -0.75F)));
  const bool exclude = node.get_int("exclude_outside", 0) != 0;
  const mpz_class base = x.floor();
  Taps taps;
  Rational total = 0;
  for (int k = -1; k <= 2; ++k) {
    const mpz_class index = base + k;
    if (exclude && (sgn(index) < 0 || index >= p.in)) continue;
    const Rational weight = cubic(a, abs(x - Rational::ratio(index, 1)));
    total = total + weight;
    add_tap(taps, clamped(index, p.in), weight);
  }
  if (exclude && !total.is_zero()) {
    for (Tap& t : taps) t.weight = t.weight / total;
  }
  return taps;
}

}  // namespace

Taps taps_at(const NodeReader& node, const AxisPlan& p, const ResizeMode& mode, std::int64_t i) {
  const Rational x = coordinate(p, mode.coordinates, i);
  const Rational last = p.in - 1;
  if (mode.coordinates == "tf_crop_and_resize" && (x < Rational(0) || x > last)) return {};
  if (mode.name == "nearest") return {{clamped(nearest(x, mode.nearest), p.in), 1, {1, 0}}};
  Taps taps;
  if (mode.name == "cubic") {
    taps = cubic_taps(node, p, x);
  } else if (x <= Rational(0)) {
    add_tap(taps, 0, 1);
  } else if (x >= last) {
    add_tap(taps, static_cast<std::size_t>(p.in - 1), 1);
  } else {
    const mpz_class low = x.floor();
    const Rational upper = x - Rational::ratio(low, 1);
    add_tap(taps, clamped(low, p.in), Rational(1) - upper);
    add_tap(taps, clamped(low + 1, p.in), upper);
  }
  std::erase_if(taps, [](const Tap& t) { return t.weight.is_zero(); });
  for (Tap& t : taps) {
    t.approx = numerics::number<Approx>(t.weight);
    if (Rational::from_double(t.approx.mid) == t.weight) t.approx.err = 0;
  }
  return taps;
}

}  // namespace halfeven::ops
