// Approx: a double with a bound on its error, the fast side of every decision.
//
// Operators write their formula once, for Approx and for Real (real.hpp). Approx answers nearly always; where the bound
// leaves a rounding open, the element is computed again as a Real.
#pragma once

#include <cmath>
#include <limits>

#include "numerics/rational.hpp"

namespace halfeven::numerics {

/// The true value lies in [mid - err, mid + err]. An infinite or NaN `mid` with err == 0 is that value itself; an
/// infinite `err` says that nothing is known (overflow, underflow, a branch that could not be decided).
struct Approx {
  double mid = 0;
  double err = 0;

  static Approx unknown() { return {0, std::numeric_limits<double>::infinity()}; }
  bool exact() const { return err == 0; }
  bool special() const { return !std::isfinite(mid); }
};

namespace detail {

// 2^-53 times a little more than one: the relative error of one rounding, with room for rounding the bound itself.
inline constexpr double kUnit = 0x1.00001p-53;
// Products below this may have lost bits to underflow.
inline constexpr double kTiny = 0x1p-960;

// Of two operands where one is an infinity or NaN: IEEE 754's result if both are exact.
inline Approx special(const Approx& a, const Approx& b, double result) {
  return a.exact() && b.exact() ? Approx{result, 0} : Approx::unknown();
}

inline Approx bounded(double mid, double err) {
  return std::isfinite(mid) && std::isfinite(err) ? Approx{mid, err} : Approx::unknown();
}

}  // namespace detail

inline Approx operator-(const Approx& x) { return {-x.mid, x.err}; }

inline Approx operator+(const Approx& a, const Approx& b) {
  const double m = a.mid + b.mid;
  if (a.special() || b.special()) return detail::special(a, b, m);
  // The exact error of a floating-point sum (Knuth): zero where the sum fits, so exact stays exact.
  const double t = m - a.mid;
  const double rounding = std::fabs((a.mid - (m - t)) + (b.mid - t));
  const double carried = a.err + b.err;
  return detail::bounded(m, carried == 0 ? rounding : (carried + rounding) * 0x1.00001p0);
}

inline Approx operator-(const Approx& a, const Approx& b) { return a + (-b); }

inline Approx operator*(const Approx& a, const Approx& b) {
  const double m = a.mid * b.mid;
  if (a.special() || b.special()) return detail::special(a, b, m);
  double rounding = 0;
  if (m != 0 || (a.mid != 0 && b.mid != 0)) {
    if (std::fabs(m) < detail::kTiny) return Approx::unknown();
    rounding = std::fabs(std::fma(a.mid, b.mid, -m));
  }
  if (a.err == 0 && b.err == 0) return detail::bounded(m, rounding);
  const double carried = std::fabs(a.mid) * b.err + std::fabs(b.mid) * a.err + a.err * b.err;
  return detail::bounded(m, (carried + rounding) * 0x1.00001p0 + std::numeric_limits<double>::min());
}

inline Approx operator/(const Approx& a, const Approx& b) {
  const double m = a.mid / b.mid;
  if (a.special() || b.special() || (b.mid == 0 && b.err == 0)) return detail::special(a, b, m);
  const double least = std::fabs(b.mid) - b.err;
  if (!(least > 0)) return Approx::unknown();
  if (m == 0 && a.exact() && a.mid == 0) return {0, 0};
  if (std::fabs(m) < detail::kTiny && a.exact()) return Approx::unknown();
  if (a.exact() && b.exact() && std::fma(m, b.mid, -a.mid) == 0 && std::fabs(a.mid) > detail::kTiny) return {m, 0};
  const double err = (a.err + std::fabs(m) * b.err) / least + std::fabs(m) * detail::kUnit;
  return detail::bounded(m, err * 0x1.00001p0 + std::numeric_limits<double>::min());
}

Approx exp(const Approx& x);
Approx log(const Approx& x);
Approx sqrt(const Approx& x);
Approx erf(const Approx& x);
Approx tanh(const Approx& x);
Approx sigmoid(const Approx& x);
Approx softplus(const Approx& x);
Approx sin(const Approx& x);
Approx cos(const Approx& x);
Approx atan(const Approx& x);
Approx pow(const Approx& x, const Approx& y);
Approx floor(const Approx& x);
Approx ceil(const Approx& x);
Approx round_half_even(const Approx& x);
Approx min(const Approx& a, const Approx& b);
Approx max(const Approx& a, const Approx& b);
Approx abs(const Approx& x);

/// -1, 0, 1, or 2 where the bound does not decide. x is not NaN.
inline int sign(const Approx& x) {
  if (x.err == 0) return x.mid > 0 ? 1 : (x.mid < 0 ? -1 : 0);
  if (x.mid > x.err) return 1;
  return x.mid < -x.err ? -1 : 2;
}

}  // namespace halfeven::numerics
