// Real: one exact real number, rational or given by a formula that can be enclosed as tightly as a decision needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "numerics/format.hpp"
#include "numerics/rational.hpp"

namespace halfeven::numerics {

class Interval;
struct Formula;

/// An exact real number, an infinity or NaN. Arithmetic follows IEEE 754 for the last two and is exact otherwise:
/// rational results stay rational, others become a formula. Functions recognise their rational results (exp(0), the
/// root of a square ...), since no precision decides a tie that is really there. A zero has no sign, except one loaded
/// from a float tensor as -0, which keeps it for 1 / x.
class Real {
 public:
  enum class Kind : std::uint8_t { rational, infinity, nan, formula };

  Real() = default;
  Real(Rational value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Real(std::int64_t value) : value_(value) {}         // NOLINT(google-explicit-constructor)
  static Real from_double(double value);              ///< any double, infinities and NaN included
  static Real infinity(bool negative);
  static Real not_a_number();
  static Real from_formula(std::shared_ptr<const Formula> formula);

  Kind kind() const { return kind_; }
  bool is_rational() const { return kind_ == Kind::rational; }
  bool is_nan() const { return kind_ == Kind::nan; }
  bool is_infinite() const { return kind_ == Kind::infinity; }
  /// Of an infinity or a zero.
  bool negative() const { return negative_; }
  const Rational& rational() const { return value_; }
  const std::shared_ptr<const Formula>& formula() const { return formula_; }

 private:
  Kind kind_ = Kind::rational;
  bool negative_ = false;
  Rational value_;
  std::shared_ptr<const Formula> formula_;
};

Real operator-(const Real& x);
Real operator+(const Real& a, const Real& b);
Real operator-(const Real& a, const Real& b);
Real operator*(const Real& a, const Real& b);
Real operator/(const Real& a, const Real& b);
/// Sum of many terms, flat where a chain of additions would nest.
Real sum(std::vector<Real> terms);

Real exp(const Real& x);
Real log(const Real& x);
Real sqrt(const Real& x);
Real erf(const Real& x);
Real tanh(const Real& x);
Real sigmoid(const Real& x);   ///< 1 / (1 + exp(-x))
Real softplus(const Real& x);  ///< log(1 + exp(x))
Real sin(const Real& x);
Real cos(const Real& x);
Real atan(const Real& x);
/// x to the power y as IEEE 754's pow gives it; exact where the result is rational.
Real pow(const Real& x, const Real& y);
/// sqrt(2 / pi), the constant of the tanh approximation of Gelu, and 1 / sqrt(2).
Real sqrt_two_over_pi();
Real sqrt_half();

/// -1, 0 or 1. x is not NaN. Throws Error{other} where 16,384 bits do not decide.
int sign(const Real& x);
/// Sign of a - b, infinities included; neither is NaN. Equal formulas are equal.
int compare(const Real& a, const Real& b);
Real min(const Real& a, const Real& b);  ///< NaN if one is NaN
Real max(const Real& a, const Real& b);
Real abs(const Real& x);

/// x rounded once, half to even, to the format (contract section 1, rule 5); NaN and infinities pass.
double round_to(const Real& x, const FloatFormat& format);
/// The nearest integer, ties to even, limited to [lo, hi]; infinities saturate. x is not NaN.
std::int64_t round_half_even(const Real& x, std::int64_t lo, std::int64_t hi);
/// The integer part limited to [lo, hi].
std::int64_t truncate(const Real& x, std::int64_t lo, std::int64_t hi);
std::int64_t floor(const Real& x, std::int64_t lo, std::int64_t hi);
/// floor, ceil and round half even as a Real (a float operator's result).
Real floor(const Real& x);
Real ceil(const Real& x);
Real round_half_even(const Real& x);

}  // namespace halfeven::numerics
