// Interval: an enclosure of a real number by two MPFR numbers, every operation rounded outwards.
#pragma once

#include <mpfr.h>

#include "numerics/rational.hpp"

namespace halfeven::numerics {

/// [low, high] with both ends at `precision` bits. MPFR rounds each elementary function correctly, so one rounding
/// outwards per end is all the error there is. The only place that sees MPFR.
class Interval {
 public:
  explicit Interval(mpfr_prec_t precision);
  Interval(const Rational& value, mpfr_prec_t precision);
  Interval(const Interval& other);
  Interval& operator=(const Interval& other);
  ~Interval();

  mpfr_prec_t precision() const { return mpfr_get_prec(low_); }
  /// Ends as rationals; nullopt semantics are avoided: call only where finite().
  Rational low() const;
  Rational high() const;
  bool finite() const { return mpfr_number_p(low_) != 0 && mpfr_number_p(high_) != 0; }
  /// -1 or 1 if both ends are on that side of zero, else 0.
  int sign() const;
  /// Whether all of it lies at least 2^e away from zero, on one side.
  bool beyond(long e) const;
  /// low() and high(), but ends within 2^e of zero are moved outwards, to zero or to 2^e: no numbers of billions of
  /// bits.
  Rational low_from(long e) const;
  Rational high_from(long e) const;
  /// Ends rounded to double outwards (infinities where they are beyond).
  double low_double() const { return mpfr_get_d(low_, MPFR_RNDD); }
  double high_double() const { return mpfr_get_d(high_, MPFR_RNDU); }

  friend Interval operator-(const Interval& x);
  friend Interval operator+(const Interval& a, const Interval& b);
  friend Interval operator*(const Interval& a, const Interval& b);
  friend Interval operator/(const Interval& a, const Interval& b);
  friend Interval exp(const Interval& x);
  friend Interval log(const Interval& x);
  friend Interval sqrt(const Interval& x);
  friend Interval erf(const Interval& x);
  friend Interval tanh(const Interval& x);
  friend Interval log1p(const Interval& x);
  friend Interval atan(const Interval& x);
  friend Interval sin(const Interval& x);
  friend Interval cos(const Interval& x);
  static Interval pi(mpfr_prec_t precision);

 private:
  mpfr_t low_;
  mpfr_t high_;
};

}  // namespace halfeven::numerics
