#include "numerics/rational.hpp"

#include <cmath>

#include "numerics/format.hpp"

namespace halfeven::numerics {
namespace {

// Denominators below this size are left unreduced: a gcd costs more than the few limbs it saves.
constexpr std::size_t kReduceBits = 256;

mpz_class shifted(const mpz_class& x, long n) {
  mpz_class r;
  mpz_mul_2exp(r.get_mpz_t(), x.get_mpz_t(), static_cast<mp_bitcnt_t>(n));
  return r;
}

std::size_t bit_length(const mpz_class& x) { return sgn(x) == 0 ? 0 : mpz_sizeinbase(x.get_mpz_t(), 2); }

}  // namespace

Rational::Rational(std::int64_t n) {
  static_assert(sizeof(long) == sizeof(std::int64_t));
  num_ = static_cast<long>(n);
  normalize();
}

Rational Rational::from_double(double value) {
  Rational r;
  if (value == 0.0) return r;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  r.num_ = static_cast<long>(std::ldexp(mantissa, 53));
  r.exp_ = exponent - 53;
  r.normalize();
  return r;
}

Rational Rational::ratio(const mpz_class& numerator, const mpz_class& denominator) {
  Rational r;
  r.num_ = numerator;
  r.den_ = denominator;
  if (sgn(r.den_) < 0) {
    r.num_ = -r.num_;
    r.den_ = -r.den_;
  }
  r.normalize();
  return r;
}

void Rational::normalize() {
  if (sgn(num_) == 0) {
    den_ = 1;
    exp_ = 0;
    return;
  }
  if (const auto low = mpz_scan1(num_.get_mpz_t(), 0); low > 0) {
    num_ >>= low;
    exp_ += static_cast<long>(low);
  }
  if (den_ == 1) return;
  if (const auto low = mpz_scan1(den_.get_mpz_t(), 0); low > 0) {
    den_ >>= low;
    exp_ -= static_cast<long>(low);
  }
  if (bit_length(den_) > kReduceBits) {
    const mpz_class g = gcd(num_, den_);
    if (g != 1) {
      mpz_divexact(num_.get_mpz_t(), num_.get_mpz_t(), g.get_mpz_t());
      mpz_divexact(den_.get_mpz_t(), den_.get_mpz_t(), g.get_mpz_t());
    }
  }
}

Rational Rational::operator-() const {
  Rational r = *this;
  r.num_ = -r.num_;
  return r;
}

Rational operator+(const Rational& a, const Rational& b) {
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  Rational r;
  mpz_class x = a.num_;
  mpz_class y = b.num_;
  if (a.den_ == b.den_) {
    r.den_ = a.den_;
  } else {
    const mpz_class g = gcd(a.den_, b.den_);
    const mpz_class fa = a.den_ / g;
    x *= b.den_ / g;
    y *= fa;
    r.den_ = fa * b.den_;
  }
  r.exp_ = std::min(a.exp_, b.exp_);
  if (a.exp_ > r.exp_) x = shifted(x, a.exp_ - r.exp_);
  if (b.exp_ > r.exp_) y = shifted(y, b.exp_ - r.exp_);
  r.num_ = x + y;
  r.normalize();
  return r;
}

Rational operator-(const Rational& a, const Rational& b) { return a + (-b); }

Rational operator*(const Rational& a, const Rational& b) {
  Rational r;
  r.num_ = a.num_ * b.num_;
  r.den_ = a.den_ * b.den_;
  r.exp_ = a.exp_ + b.exp_;
  r.normalize();
  return r;
}

Rational operator/(const Rational& a, const Rational& b) {
  Rational r;
  r.num_ = a.num_ * b.den_;
  r.den_ = a.den_ * b.num_;
  r.exp_ = a.exp_ - b.exp_;
  if (sgn(r.den_) < 0) {
    r.num_ = -r.num_;
    r.den_ = -r.den_;
  }
  r.normalize();
  return r;
}

std::strong_ordering operator<=>(const Rational& a, const Rational& b) {
  if (a.sign() != b.sign()) return a.sign() <=> b.sign();
  return (a - b).sign() <=> 0;
}

bool operator==(const Rational& a, const Rational& b) { return (a <=> b) == 0; }

mpz_class Rational::numerator() const { return exp_ > 0 ? shifted(num_, exp_) : num_; }
mpz_class Rational::denominator() const { return exp_ < 0 ? shifted(den_, -exp_) : den_; }

mpz_class Rational::floor() const {
  if (is_zero() || magnitude() <= 0) return sign() < 0 ? -1 : 0;  // |value| < 1: no shift by a huge exponent
  mpz_class r;
  mpz_fdiv_q(r.get_mpz_t(), numerator().get_mpz_t(), denominator().get_mpz_t());
  return r;
}

mpz_class Rational::ceil() const { return -(-*this).floor(); }

mpz_class Rational::trunc() const { return sign() < 0 ? ceil() : floor(); }

mpz_class Rational::round_half_even() const {
  if (is_zero() || magnitude() < 0) return 0;  // |value| < 1/2
  const mpz_class n = numerator();
  const mpz_class d = denominator();
  mpz_class quotient;
  mpz_class remainder;
  mpz_fdiv_qr(quotient.get_mpz_t(), remainder.get_mpz_t(), n.get_mpz_t(), d.get_mpz_t());
  const int order = cmp(mpz_class(2 * remainder), d);
  if (order > 0 || (order == 0 && mpz_odd_p(quotient.get_mpz_t()))) ++quotient;
  return quotient;
}

long Rational::magnitude() const {
  const mpz_class n = ::abs(num_);
  const long e = static_cast<long>(bit_length(n)) - static_cast<long>(bit_length(den_));
  // 2^(e-1) < n/den < 2^(e+1): one comparison decides which.
  const bool reaches = e >= 0 ? n >= shifted(den_, e) : shifted(n, -e) >= den_;
  return e + (reaches ? 1 : 0) + exp_;
}

Rational Rational::scaled(long n) const {
  Rational r = *this;
  if (!r.is_zero()) r.exp_ += n;
  return r;
}

double Rational::to_double() const { return round_to(*this, format_of(DType::float64)); }

Rational abs(const Rational& x) { return x.sign() < 0 ? -x : x; }

Rational pow(const Rational& x, long n) {
  Rational base = n < 0 ? Rational(1) / x : x;
  unsigned long count = n < 0 ? 0UL - static_cast<unsigned long>(n) : static_cast<unsigned long>(n);
  Rational result(1);
  for (; count != 0; count >>= 1U) {
    if ((count & 1U) != 0) result = result * base;
    if (count > 1) base = base * base;
  }
  return result;
}

}  // namespace halfeven::numerics
