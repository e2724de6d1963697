#include "numerics/approx.hpp"

#include <algorithm>

namespace halfeven::numerics {
namespace {

// What is taken for granted of the C library's elementary functions: a relative error of at most 2^-46 (glibc states 1
// to 3 ulp, that is 2^-51; the margin costs nothing). Results near overflow or underflow are not used.
constexpr double kLibrary = 0x1p-46;

bool comfortable(double m) { return std::fabs(m) > 0x1p-1000 && std::fabs(m) < 0x1p1000; }

// f(x) with |f'| <= slope on the whole of [mid - err, mid + err].
Approx smooth(const Approx& x, double m, double slope) {
  if (!comfortable(m)) return Approx::unknown();
  return detail::bounded(m, (x.err * slope + std::fabs(m) * kLibrary) * 0x1.00001p0);
}

Approx nan_or_unknown(const Approx& x) { return x.exact() ? Approx{std::nan(""), 0} : Approx::unknown(); }

// An integer-valued step function: exact where both ends agree.
template <class F>
Approx step(const Approx& x, F f) {
  if (x.special()) return x;
  if (!std::isfinite(x.err)) return x;
  if (x.exact()) return {f(x.mid) + 0.0, 0};
  // One step outwards: the ends are rounded, maybe onto the integer that the true value does not reach.
  const double low = f(std::nextafter(x.mid - x.err, -HUGE_VAL));
  return low == f(std::nextafter(x.mid + x.err, HUGE_VAL)) ? Approx{low + 0.0, 0} : Approx::unknown();
}

}  // namespace

Approx exp(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{std::exp(x.mid), 0} : Approx::unknown();
  if (x.mid == 0 && x.exact()) return {1, 0};
  if (!(x.err < 0.5)) return Approx::unknown();
  const double m = std::exp(x.mid);
  return smooth(x, m, m * 2);  // e^0.5 < 2
}

Approx log(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{std::log(x.mid), 0} : Approx::unknown();
  const double least = x.mid - x.err;
  if (x.exact() && x.mid <= 0) return {x.mid == 0 ? -HUGE_VAL : std::nan(""), 0};
  if (!(least > 0)) return Approx::unknown();
  if (x.mid == 1 && x.exact()) return {0, 0};
  return smooth(x, std::log(x.mid), 1 / least * 0x1.00001p0);
}

Approx sqrt(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{std::sqrt(x.mid), 0} : Approx::unknown();
  const double least = x.mid - x.err;
  if (x.exact() && x.mid <= 0) return x.mid == 0 ? x : nan_or_unknown(x);
  if (!(least > 0)) return Approx::unknown();
  const double m = std::sqrt(x.mid);
  if (x.exact() && comfortable(x.mid) && std::fma(m, m, -x.mid) == 0) return {m, 0};
  return smooth(x, m, 0.5 / std::sqrt(least) * 0x1.00001p0);
}

Approx erf(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{std::erf(x.mid), 0} : Approx::unknown();
  if (x.mid == 0 && x.exact()) return {0, 0};
  return smooth(x, std::erf(x.mid), 1.13);
}

Approx tanh(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{std::tanh(x.mid), 0} : Approx::unknown();
  if (x.mid == 0 && x.exact()) return {0, 0};
  return smooth(x, std::tanh(x.mid), 1);
}

Approx sigmoid(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{1 / (1 + std::exp(-x.mid)), 0} : Approx::unknown();
  if (x.mid == 0 && x.exact()) return {0.5, 0};
  // exp(-x) carries kLibrary and the sum and the quotient a unit each; below, twice kLibrary covers all three.
  const double m = 1 / (1 + std::exp(-x.mid));
  if (!comfortable(m)) return Approx::unknown();
  return detail::bounded(m, (x.err * 0.25 + m * 2 * kLibrary) * 0x1.00001p0);
}

Approx softplus(const Approx& x) {
  if (x.special()) return x.exact() ? Approx{x.mid < 0 ? 0 : x.mid, 0} : Approx::unknown();
  const double m = x.mid > 0 ? x.mid + std::log1p(std::exp(-x.mid)) : std::log1p(std::exp(x.mid));
  if (!comfortable(m)) return Approx::unknown();
  return detail::bounded(m, (x.err + m * 4 * kLibrary) * 0x1.00001p0);
}

// Near their zeros sin and cos lose relative accuracy only in the argument's reduction, which glibc does exactly.
Approx sin(const Approx& x) {
  if (x.special()) return nan_or_unknown(x);
  if (x.mid == 0 && x.exact()) return {0, 0};
  return smooth(x, std::sin(x.mid), 1);
}

Approx cos(const Approx& x) {
  if (x.special()) return nan_or_unknown(x);
  if (x.mid == 0 && x.exact()) return {1, 0};
  return smooth(x, std::cos(x.mid), 1);
}

Approx atan(const Approx& x) {
  if (x.special()) return std::isnan(x.mid) && x.exact() ? x : Approx::unknown();
  if (x.mid == 0 && x.exact()) return {0, 0};
  return smooth(x, std::atan(x.mid), 1);
}

Approx pow(const Approx& x, const Approx& y) {
  if (!x.exact() || !y.exact()) return Approx::unknown();
  if (y.mid == 0 || x.mid == 1) return {1, 0};
  if (y.mid == 2) return x * x;
  const double m = std::pow(x.mid, y.mid);
  if (x.special() || y.special() || x.mid == 0 || std::isnan(m)) return {m, 0};
  return smooth({x.mid, 0}, m, 0);
}

Approx floor(const Approx& x) {
  return step(x, [](double v) { return std::floor(v); });
}
Approx ceil(const Approx& x) {
  return step(x, [](double v) { return std::ceil(v); });
}
Approx round_half_even(const Approx& x) {
  return step(x, [](double v) { return std::nearbyint(v); });
}

Approx min(const Approx& a, const Approx& b) { return -max(-a, -b); }

Approx max(const Approx& a, const Approx& b) {
  if (a.exact() && b.exact()) {
    if (std::isnan(a.mid) || std::isnan(b.mid)) return {std::nan(""), 0};
    return b.mid > a.mid ? b : a;
  }
  if (a.special() || b.special()) return Approx::unknown();
  // Enclosures that do not overlap decide; else the maximum lies between the larger of the low and of the high ends.
  if (a.mid - a.err > b.mid + b.err) return a;
  if (b.mid - b.err > a.mid + a.err) return b;
  const double mid = std::max(a.mid, b.mid);
  return detail::bounded(mid, (std::max(a.err, b.err) + std::fabs(a.mid - b.mid)) * 0x1.00001p0);
}

Approx abs(const Approx& x) {
  if (std::isnan(x.mid)) return x;
  return {std::fabs(x.mid), x.err};  // ||v| - |mid|| <= |v - mid|
}

}  // namespace halfeven::numerics
