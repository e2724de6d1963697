#include "numerics/closest_approach.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace halfeven::numerics {
namespace {

using U64 = std::uint64_t;
__extension__ using U128 = unsigned __int128;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr int kMostBits = 126;  // of what 128 bits compute with: one addition never overflows

template <class T>
struct Extremes {
  T least;
  T greatest;
};

// Of (step * i + start) mod modulus, 0 <= i < count; step, start < modulus, 0 < count. Wide holds step * count + start.
//
// With a step of at most half the modulus (else the sequence is read from its end) the values rise, and wrap some
// times. The least one is the first, or follows a wrap; the greatest is the last, or precedes one. Values that follow a
// wrap are below the step, and again a linear function, of the number of wraps, modulo the step.
template <class T, class Wide>
Extremes<T> extremes(T modulus, T step, T start, T count) {
  T least = start;
  T greatest = start;
  T raised = 0;  // from a value of the sequence at hand to one of the first that is as close to its upper end
  for (;;) {
    const Wide total = Wide(step) * Wide(count - 1) + Wide(start);
    T wraps = T(total / Wide(modulus));
    T end = T(total - Wide(wraps) * Wide(modulus));
    if (step + step > modulus) {
      step = modulus - step;
      std::swap(start, end);
      wraps = count - 1 - wraps;
    }
    least = std::min(least, start);
    greatest = std::max(greatest, T(raised + end));
    if (wraps == 0) return {least, greatest};
    raised += modulus - step;
    const T rest = modulus % step;
    const T next = rest == 0 ? T(0) : T(step - rest);
    start = start % step + next;
    if (start >= step) start -= step;
    modulus = step;
    step = next;
    count = wraps;
    if constexpr (std::is_same_v<T, U128>) {  // much faster
      if (modulus >> 63 != 0 || count >> 63 != 0) continue;
      const auto inner = extremes<U64, U128>(static_cast<U64>(modulus), static_cast<U64>(step), static_cast<U64>(start),
                                             static_cast<U64>(count));
      return {std::min(least, U128{inner.least}), std::max(greatest, raised + inner.greatest)};
    }
  }
}

Extremes<U128> extremes_of(U128 modulus, U128 step, U128 start, U64 count) {
  if (modulus >> 63 != 0 || count >> 63 != 0) return extremes<U128, U128>(modulus, step, start, count);
  const auto e = extremes<U64, U128>(static_cast<U64>(modulus), static_cast<U64>(step), static_cast<U64>(start), count);
  return {e.least, e.greatest};
}
Extremes<mpz_class> extremes_of(const mpz_class& modulus, const mpz_class& step, const mpz_class& start, U64 count) {
  static_assert(sizeof(unsigned long) == sizeof(U64));
  return extremes<mpz_class, mpz_class>(modulus, step, start, mpz_class(static_cast<unsigned long>(count)));
}

// part / whole, both rounded to double: off by less than a relative 2^-51.
double quotient(U128 part, U128 whole) { return static_cast<double>(part) / static_cast<double>(whole); }
double quotient(const mpz_class& part, const mpz_class& whole) {
  long e = 0;
  long f = 0;
  const double x = mpz_get_d_2exp(&e, part.get_mpz_t());
  const double y = mpz_get_d_2exp(&f, whole.get_mpz_t());
  return std::ldexp(x / y, static_cast<int>(std::max(-2000L, e - f)));
}

// a * ratio + b * second + offset - 1/2 = (step * a + second * b + start) / modulus: ties are where the numerator is 0
// modulo the modulus. All are less than it.
template <class T>
struct Lattice {
  T modulus;
  T step;
  T second;
  T start;
};

template <class T>
ClosestApproach nearest(const Lattice<T>& l, const T& start, U64 count) {
  const Extremes<T> e = extremes_of(l.modulus, l.step, start, count);
  T distance = l.modulus;  // none
  if (e.greatest != 0) distance = T(l.modulus - e.greatest);
  const bool ties = e.least == 0;
  // Where there are ties, one less than each number: they become the greatest.
  if (ties) {
    const T below = start == 0 ? T(l.modulus - 1) : T(start - 1);
    distance = std::min(distance, T(extremes_of(l.modulus, l.step, below, count).least + 1));
  } else {
    distance = std::min(distance, e.least);
  }
  if (distance == l.modulus) return {kNone, ties};
  return {quotient(distance, l.modulus) * (1 - 0x1p-49), ties};
}

U128 product(const U128& factor, std::int64_t n, const U128& modulus) {
  const U128 r = factor * static_cast<U128>(std::abs(n)) % modulus;
  return n < 0 && r != 0 ? modulus - r : r;
}
mpz_class product(const mpz_class& factor, std::int64_t n, const mpz_class& modulus) {
  mpz_class r = factor * mpz_class(static_cast<long>(n));
  mpz_fdiv_r(r.get_mpz_t(), r.get_mpz_t(), modulus.get_mpz_t());
  return r;
}

template <class T>
ClosestApproach nearest(const Lattice<T>& l, IntegerRange a, IntegerRange b) {
  ClosestApproach closest{kNone, false};
  if (a.first > a.last) return closest;
  const auto count = static_cast<U64>(a.last - a.first) + 1;
  T start = T(l.start + product(l.step, a.first, l.modulus)) % l.modulus;
  start = T(start + product(l.second, b.first, l.modulus)) % l.modulus;
  for (std::int64_t k = b.first; k <= b.last; ++k) {
    closest = closest & nearest(l, start, count);
    start += l.second;
    if (start >= l.modulus) start -= l.modulus;
  }
  return closest;
}

int bits_of(U64 n) { return 64 - std::countl_zero(n); }

// Significands of so few bits, shifted by so much, modulo the modulus.
U128 residue(const mpz_class& significand, long shift, U128 modulus) {
  const U128 size = static_cast<U128>(mpz_getlimbn(significand.get_mpz_t(), 0)) << shift;
  const U128 r = size < modulus ? size : size % modulus;
  return sgn(significand) < 0 && r != 0 ? modulus - r : r;
}

// In 128 bits, where everything fits: significands of 64 bits and one denominator for all, which is what scales give.
// `range`: bits of the largest number that a step is multiplied by.
std::optional<Lattice<U128>> small_lattice(const Rational& ratio, const Rational& second, const Rational& offset,
                                           int range) {
  const mpz_class* den = nullptr;
  long exponent = 0;
  for (const Rational* r : {&ratio, &second, &offset}) {
    if (r->is_zero()) continue;
    if (den != nullptr && *den != r->odd_denominator()) return std::nullopt;
    den = &r->odd_denominator();
    if (mpz_size(r->significand().get_mpz_t()) > 1 || mpz_size(den->get_mpz_t()) > 1) return std::nullopt;
    exponent = std::min(exponent, r->exponent());
  }
  const U64 odd = den == nullptr ? 1 : mpz_getlimbn(den->get_mpz_t(), 0);
  const long shift = 1 - exponent;  // of the modulus, twice the denominator
  if (shift + bits_of(odd) + range > kMostBits) return std::nullopt;
  Lattice<U128> l{static_cast<U128>(odd) << shift, 0, 0, 0};
  for (const auto& [r, to] :
       {std::pair(&ratio, &l.step), std::pair(&second, &l.second), std::pair(&offset, &l.start)}) {
    if (r->is_zero()) continue;
    const long by = r->exponent() + shift;
    if (by + 64 > kMostBits) return std::nullopt;
    *to = residue(r->significand(), by, l.modulus);
  }
  const U128 half = l.modulus / 2;
  l.start = l.start < half ? l.start + half : l.start - half;
  return l;
}

Lattice<mpz_class> large_lattice(const Rational& ratio, const Rational& second, const Rational& offset) {
  mpz_class den = lcm(ratio.denominator(), lcm(second.denominator(), offset.denominator()));
  const auto numerator = [&](const Rational& r) { return mpz_class(2 * r.numerator() * (den / r.denominator())); };
  const auto modulo = [&](const mpz_class& x) { return product(x, 1, 2 * den); };
  return {2 * den, modulo(numerator(ratio)), modulo(numerator(second)), modulo(numerator(offset) - den)};
}

}  // namespace

ClosestApproach closest_approach(const Rational& ratio, const Rational& offset, IntegerRange a) {
  return closest_approach(ratio, Rational(), offset, a, {0, 0});
}

ClosestApproach closest_approach(const Rational& ratio, const Rational& second, const Rational& offset, IntegerRange a,
                                 IntegerRange b) {
  const auto size = [](IntegerRange r) {
    return static_cast<U64>(std::max(std::abs(r.first), std::abs(r.last))) * 2;  // more than how many they are, less 2
  };
  const int range = bits_of(std::max(size(a), size(b)) + 2);
  if (const auto small = small_lattice(ratio, second, offset, range)) return nearest(*small, a, b);
  return nearest(large_lattice(ratio, second, offset), a, b);
}

ClosestApproach closest_approach(const Rational& ratio, const Rational& second, const Rational& offset) {
  const Lattice<mpz_class> l = large_lattice(ratio, second, offset);
  // Numerators are the start and all multiples of one number from there.
  const mpz_class unit = gcd(l.modulus, gcd(l.step, l.second));
  mpz_class distance = l.start % unit;
  const bool ties = distance == 0;
  distance = ties ? unit : mpz_class(std::min(distance, mpz_class(unit - distance)));
  if (distance == l.modulus) return {kNone, ties};
  return {quotient(distance, l.modulus) * (1 - 0x1p-49), ties};
}

}  // namespace halfeven::numerics
