// Rational: exact numbers for the few elements that a double with an error bound cannot decide.
#pragma once

#include <compare>
#include <cstdint>

#include <gmpxx.h>

namespace halfeven::numerics {

/// num * 2^exp / den with den odd and positive. Nearly everything here is dyadic (den == 1), so common factors are
/// taken out only when a denominator grows.
class Rational {
 public:
  Rational() = default;
  Rational(std::int64_t n);  // NOLINT(google-explicit-constructor): integers are rationals
  /// The exact value of a finite double.
  static Rational from_double(double value);
  /// numerator / denominator, the latter not zero.
  static Rational ratio(const mpz_class& numerator, const mpz_class& denominator);

  int sign() const { return sgn(num_); }
  bool is_zero() const { return sgn(num_) == 0; }

  Rational operator-() const;
  friend Rational operator+(const Rational& a, const Rational& b);
  friend Rational operator-(const Rational& a, const Rational& b);
  friend Rational operator*(const Rational& a, const Rational& b);
  /// b is not zero.
  friend Rational operator/(const Rational& a, const Rational& b);
  friend std::strong_ordering operator<=>(const Rational& a, const Rational& b);
  friend bool operator==(const Rational& a, const Rational& b);

  mpz_class floor() const;
  mpz_class ceil() const;
  /// Toward zero.
  mpz_class trunc() const;
  mpz_class round_half_even() const;

  /// Full numerator and denominator as integers, not reduced: value == numerator() / denominator(), denominator() > 0.
  mpz_class numerator() const;
  mpz_class denominator() const;

  /// value == significand() * 2^exponent() / odd_denominator(), the significand odd or zero; not reduced.
  const mpz_class& significand() const { return num_; }
  const mpz_class& odd_denominator() const { return den_; }
  long exponent() const { return exp_; }

  /// The exponent e with 2^(e-1) <= |value| < 2^e. The value is not zero.
  long magnitude() const;
  /// value * 2^n.
  Rational scaled(long n) const;
  /// The nearest double, ties to even.
  double to_double() const;

 private:
  void normalize();

  mpz_class num_ = 0;
  mpz_class den_ = 1;
  long exp_ = 0;
};

Rational abs(const Rational& x);
/// x^n for n of either sign; x is not zero where n is negative.
Rational pow(const Rational& x, long n);

}  // namespace halfeven::numerics
