#include "numerics/interval.hpp"

#include <utility>

namespace halfeven::numerics {
namespace {

using Function = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

// sin and cos move by at most the width of their argument: evaluated at the low end and widened.
void wide(mpfr_ptr low, mpfr_ptr high, mpfr_srcptr x_low, mpfr_srcptr x_high, Function f) {
  mpfr_t width;
  mpfr_init2(width, 64);
  mpfr_sub(width, x_high, x_low, MPFR_RNDU);
  f(low, x_low, MPFR_RNDD);
  f(high, x_low, MPFR_RNDU);
  mpfr_sub(low, low, width, MPFR_RNDD);
  mpfr_add(high, high, width, MPFR_RNDU);
  mpfr_clear(width);
}

}  // namespace

Interval::Interval(mpfr_prec_t precision) {
  mpfr_init2(low_, precision);
  mpfr_init2(high_, precision);
}

Interval::Interval(const Rational& value, mpfr_prec_t precision) : Interval(precision) {
  mpq_class q;
  q.get_num() = value.numerator();
  q.get_den() = value.denominator();
  mpfr_set_q(low_, q.get_mpq_t(), MPFR_RNDD);
  mpfr_set_q(high_, q.get_mpq_t(), MPFR_RNDU);
}

Interval::Interval(const Interval& other) : Interval(other.precision()) {
  mpfr_set(low_, other.low_, MPFR_RNDD);
  mpfr_set(high_, other.high_, MPFR_RNDU);
}

Interval& Interval::operator=(const Interval& other) {
  if (this != &other) {
    mpfr_set_prec(low_, other.precision());
    mpfr_set_prec(high_, other.precision());
    mpfr_set(low_, other.low_, MPFR_RNDD);
    mpfr_set(high_, other.high_, MPFR_RNDU);
  }
  return *this;
}

Interval::~Interval() {
  mpfr_clear(low_);
  mpfr_clear(high_);
}

namespace {

Rational rational_of(mpfr_srcptr x) {
  mpz_class n;
  const mpfr_exp_t e = mpfr_get_z_2exp(n.get_mpz_t(), x);
  return Rational::ratio(n, 1).scaled(static_cast<long>(e));
}

}  // namespace

Rational Interval::low() const { return rational_of(low_); }
Rational Interval::high() const { return rational_of(high_); }

int Interval::sign() const {
  if (mpfr_sgn(low_) > 0) return 1;
  if (mpfr_sgn(high_) < 0) return -1;
  return 0;
}

bool Interval::beyond(long e) const {
  const auto far = [e](mpfr_srcptr end) { return mpfr_inf_p(end) != 0 || mpfr_get_exp(end) > e; };
  return sign() != 0 && far(low_) && far(high_);
}

Rational Interval::low_from(long e) const {
  if (mpfr_zero_p(low_) != 0 || mpfr_get_exp(low_) > e) return low();
  return mpfr_sgn(low_) > 0 ? Rational() : Rational(-1).scaled(e);
}

Rational Interval::high_from(long e) const {
  if (mpfr_zero_p(high_) != 0 || mpfr_get_exp(high_) > e) return high();
  return mpfr_sgn(high_) < 0 ? Rational() : Rational(1).scaled(e);
}

Interval operator-(const Interval& x) {
  Interval r(x.precision());
  mpfr_neg(r.low_, x.high_, MPFR_RNDD);
  mpfr_neg(r.high_, x.low_, MPFR_RNDU);
  return r;
}

Interval operator+(const Interval& a, const Interval& b) {
  Interval r(a.precision());
  mpfr_add(r.low_, a.low_, b.low_, MPFR_RNDD);
  mpfr_add(r.high_, a.high_, b.high_, MPFR_RNDU);
  return r;
}

Interval operator*(const Interval& a, const Interval& b) {
  Interval r(a.precision());
  mpfr_t t;
  mpfr_init2(t, a.precision());
  mpfr_mul(r.low_, a.low_, b.low_, MPFR_RNDD);
  mpfr_mul(r.high_, a.low_, b.low_, MPFR_RNDU);
  const std::pair<mpfr_srcptr, mpfr_srcptr> others[] = {{a.low_, b.high_}, {a.high_, b.low_}, {a.high_, b.high_}};
  for (const auto& [x, y] : others) {
    mpfr_mul(t, x, y, MPFR_RNDD);
    mpfr_min(r.low_, r.low_, t, MPFR_RNDD);
    mpfr_mul(t, x, y, MPFR_RNDU);
    mpfr_max(r.high_, r.high_, t, MPFR_RNDU);
  }
  mpfr_clear(t);
  return r;
}

Interval operator/(const Interval& a, const Interval& b) {
  Interval inverse(a.precision());
  if (b.sign() == 0) {  // the divisor may be zero: no bound at this precision
    mpfr_set_inf(inverse.low_, -1);
    mpfr_set_inf(inverse.high_, 1);
    return inverse;
  }
  mpfr_ui_div(inverse.low_, 1, b.high_, MPFR_RNDD);
  mpfr_ui_div(inverse.high_, 1, b.low_, MPFR_RNDU);
  return a * inverse;
}

#define HALFEVEN_INCREASING(name, function) \
  Interval name(const Interval& x) {        \
    Interval r(x.precision());              \
    function(r.low_, x.low_, MPFR_RNDD);    \
    function(r.high_, x.high_, MPFR_RNDU);  \
    return r;                               \
  }
HALFEVEN_INCREASING(exp, mpfr_exp)
HALFEVEN_INCREASING(log, mpfr_log)
HALFEVEN_INCREASING(log1p, mpfr_log1p)
HALFEVEN_INCREASING(sqrt, mpfr_sqrt)
HALFEVEN_INCREASING(erf, mpfr_erf)
HALFEVEN_INCREASING(tanh, mpfr_tanh)
HALFEVEN_INCREASING(atan, mpfr_atan)
#undef HALFEVEN_INCREASING

Interval sin(const Interval& x) {
  Interval r(x.precision());
  wide(r.low_, r.high_, x.low_, x.high_, mpfr_sin);
  return r;
}

Interval cos(const Interval& x) {
  Interval r(x.precision());
  wide(r.low_, r.high_, x.low_, x.high_, mpfr_cos);
  return r;
}

Interval Interval::pi(mpfr_prec_t precision) {
  Interval r(precision);
  mpfr_const_pi(r.low_, MPFR_RNDD);
  mpfr_const_pi(r.high_, MPFR_RNDU);
  return r;
}

}  // namespace halfeven::numerics
