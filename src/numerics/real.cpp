#include "numerics/real.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <halfeven/error.hpp>

#include "numerics/interval.hpp"

namespace halfeven::numerics {

enum class Op : std::uint8_t {
  add,
  mul,
  div,
  neg,
  sum,
  exp,
  log,
  sqrt,
  erf,
  tanh,
  sigmoid,
  softplus,
  sin,
  cos,
  atan,
  pow,
  pi
};

/// A node of an expression over Reals. Expressions are small: one operator's formula for one element.
struct Formula {
  Op op;
  std::vector<Real> args;
};

namespace {

constexpr mpfr_prec_t kFirstPrecision = 128;
constexpr mpfr_prec_t kLastPrecision = 16384;
constexpr long kMostBits = 1 << 20;  // of an integer that is written out

Real formula(Op op, std::vector<Real> args) {
  return Real::from_formula(std::make_shared<const Formula>(Formula{op, std::move(args)}));
}

Interval enclose(const Real& x, mpfr_prec_t precision);

Interval enclose(const Formula& f, mpfr_prec_t precision) {
  const auto arg = [&](std::size_t i) { return enclose(f.args[i], precision); };
  const auto one = [&] { return Interval(Rational(1), precision); };
  switch (f.op) {
    case Op::add: return arg(0) + arg(1);
    case Op::mul: return arg(0) * arg(1);
    case Op::div: return arg(0) / arg(1);
    case Op::neg: return -arg(0);
    case Op::sum: {
      Interval total(Rational(0), precision);
      for (const Real& x : f.args) total = total + enclose(x, precision);
      return total;
    }
    case Op::exp: return exp(arg(0));
    case Op::log: return log(arg(0));
    case Op::sqrt: return sqrt(arg(0));
    case Op::erf: return erf(arg(0));
    case Op::tanh: return tanh(arg(0));
    case Op::sigmoid: return one() / (one() + exp(-arg(0)));
    case Op::softplus: {
      const Interval x = arg(0);
      // x + log1p(exp(-x)) keeps the small term apart, where log1p(exp(x)) would lose it or overflow.
      return x.sign() > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
    case Op::sin: return sin(arg(0));
    case Op::cos: return cos(arg(0));
    case Op::atan: return atan(arg(0));
    case Op::pow: return exp(arg(1) * log(arg(0)));  // made for positive bases only
    case Op::pi: return Interval::pi(precision);
  }
  throw Error(ErrorCode::other, "unknown formula");
}

Interval enclose(const Real& x, mpfr_prec_t precision) {
  return x.is_rational() ? Interval(x.rational(), precision) : enclose(*x.formula(), precision);
}

// Rounds the ends of an enclosure of a formula and answers where they agree. A formula is never a rational number: it
// lies strictly between two different ends, so an end that is a tie itself still decides (1 - e^-40000 lies in
// [1 - 2^-128, 1], and 1 / 2 of that is below the tie 1 / 2). `lowest`: no tie has a bit below 2^lowest.
template <class Round>
auto round_ends(const Interval& i, long lowest, Round round) -> std::optional<decltype(round(Rational()))> {
  const Rational low = i.low_from(lowest - 64);
  const Rational high = i.high_from(lowest - 64);
  if (low == high) return round(low);
  const auto inside = [&](const Rational& end, std::int64_t side) {
    // Less than the distance to any tie, since neither has a bit that small.
    const long step = end.is_zero() ? lowest : std::min(lowest, end.magnitude() - static_cast<long>(i.precision()));
    return end + Rational(side).scaled(step - 2);
  };
  const auto a = round(inside(low, 1));
  return a == round(inside(high, -1)) ? std::optional(a) : std::nullopt;
}

// Tightens the enclosure of x until `decide` answers. No tie that really exists comes here: those are rational.
template <class Decide>
auto refine(const Real& x, Decide decide) {
  for (mpfr_prec_t precision = kFirstPrecision; precision <= kLastPrecision; precision *= 2) {
    if (auto answer = decide(enclose(x, precision))) return *answer;
  }
  throw Error(ErrorCode::other, "a real number is too close to a boundary: 16384 bits do not decide how it rounds");
}

bool same(const Real& a, const Real& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_rational()) return a.rational() == b.rational();
  if (a.is_infinite()) return a.negative() == b.negative();
  if (a.is_nan()) return false;
  if (a.formula() == b.formula()) return true;
  const Formula& f = *a.formula();
  const Formula& g = *b.formula();
  if (f.op != g.op || f.args.size() != g.args.size()) return false;
  for (std::size_t i = 0; i < f.args.size(); ++i) {
    if (!same(f.args[i], g.args[i])) return false;
  }
  return true;
}

bool is_zero(const Real& x) { return x.is_rational() && x.rational().is_zero(); }
bool is_one(const Real& x) { return x.is_rational() && x.rational() == Rational(1); }

// Sign of a factor in a product with an infinity: 0 for zero.
int sign_of(const Real& x) { return x.is_infinite() ? (x.negative() ? -1 : 1) : sign(x); }

// The 2^k-th root of a non-negative rational, if it is rational.
std::optional<Rational> exact_root(const Rational& x, unsigned k) {
  mpz_class n = x.numerator();
  mpz_class d = x.denominator();
  const mpz_class g = gcd(n, d);
  n /= g;
  d /= g;
  for (; k > 0; --k) {
    if (mpz_perfect_square_p(n.get_mpz_t()) == 0 || mpz_perfect_square_p(d.get_mpz_t()) == 0) return std::nullopt;
    n = ::sqrt(n);
    d = ::sqrt(d);
  }
  return Rational::ratio(n, d);
}

// exp(x) overflows or vanishes in every format for these arguments; the enclosure shows it at once.
Real unary(Op op, const Real& x) { return formula(op, {x}); }

template <class Rounding>
std::int64_t limited(const Rational& x, std::int64_t lo, std::int64_t hi, Rounding rounding) {
  if (!x.is_zero() && x.magnitude() > 64) return x.sign() < 0 ? lo : hi;  // before a huge integer is written out
  const mpz_class n = rounding(x);
  if (n < mpz_class(static_cast<long>(lo))) return lo;
  if (n > mpz_class(static_cast<long>(hi))) return hi;
  return n.get_si();
}

// An integer-valued rounding of x, limited to [lo, hi].
template <class Rounding>
std::int64_t to_integer(const Real& x, std::int64_t lo, std::int64_t hi, Rounding rounding) {
  if (x.is_infinite()) return x.negative() ? lo : hi;
  if (x.is_rational()) return limited(x.rational(), lo, hi, rounding);
  return refine(x, [&](const Interval& i) -> std::optional<std::int64_t> {
    if (i.beyond(64)) return i.sign() > 0 ? hi : lo;  // an end may have overflowed MPFR's range
    if (!i.finite()) return std::nullopt;
    return round_ends(i, -1, [&](const Rational& q) { return limited(q, lo, hi, rounding); });
  });
}

template <class Rounding>
Real to_integral(const Real& x, Rounding rounding) {
  if (x.is_infinite() || x.is_nan()) return x;
  if (x.is_rational()) return Rational::ratio(rounding(x.rational()), 1);
  const mpz_class n = refine(x, [&](const Interval& i) -> std::optional<mpz_class> {
    if (!i.finite()) return std::nullopt;
    if (i.beyond(kMostBits)) throw Error(ErrorCode::other, "an integer has more than a million bits");
    return round_ends(i, -1, [&](const Rational& q) { return mpz_class(rounding(q)); });
  });
  return Rational::ratio(n, 1);
}

}  // namespace

Real Real::from_double(double value) {
  if (std::isnan(value)) return not_a_number();
  if (std::isinf(value)) return infinity(value < 0);
  Real r(Rational::from_double(value));
  r.negative_ = value == 0 && std::signbit(value);
  return r;
}

Real Real::infinity(bool negative) {
  Real r;
  r.kind_ = Kind::infinity;
  r.negative_ = negative;
  return r;
}

Real Real::not_a_number() {
  Real r;
  r.kind_ = Kind::nan;
  return r;
}

Real Real::from_formula(std::shared_ptr<const Formula> formula) {
  Real r;
  r.kind_ = Kind::formula;
  r.formula_ = std::move(formula);
  return r;
}

Real operator-(const Real& x) {
  switch (x.kind()) {
    case Real::Kind::rational: return -x.rational();
    case Real::Kind::infinity: return Real::infinity(!x.negative());
    case Real::Kind::nan: return x;
    case Real::Kind::formula: break;
  }
  return formula(Op::neg, {x});
}

Real operator+(const Real& a, const Real& b) {
  if (a.is_nan() || b.is_nan()) return Real::not_a_number();
  if (a.is_infinite()) return b.is_infinite() && a.negative() != b.negative() ? Real::not_a_number() : a;
  if (b.is_infinite()) return b;
  if (a.is_rational() && b.is_rational()) return a.rational() + b.rational();
  if (is_zero(a)) return b;
  if (is_zero(b)) return a;
  return formula(Op::add, {a, b});
}

Real operator-(const Real& a, const Real& b) {
  if (a.kind() == Real::Kind::formula && same(a, b)) return {};
  return a + (-b);
}

Real operator*(const Real& a, const Real& b) {
  if (a.is_nan() || b.is_nan()) return Real::not_a_number();
  if (a.is_infinite() || b.is_infinite()) {
    const int s = sign_of(a) * sign_of(b);
    return s == 0 ? Real::not_a_number() : Real::infinity(s < 0);
  }
  if (a.is_rational() && b.is_rational()) return a.rational() * b.rational();
  if (is_zero(a) || is_zero(b)) return {};
  if (is_one(a)) return b;
  if (is_one(b)) return a;
  return formula(Op::mul, {a, b});
}

Real operator/(const Real& a, const Real& b) {
  if (a.is_nan() || b.is_nan()) return Real::not_a_number();
  if (b.is_infinite()) return a.is_infinite() ? Real::not_a_number() : Real{};
  if (is_zero(b)) {
    const int s = sign_of(a);
    return s == 0 ? Real::not_a_number() : Real::infinity((s < 0) != b.negative());
  }
  if (a.is_infinite()) return Real::infinity(a.negative() != (sign(b) < 0));
  if (a.is_rational() && b.is_rational()) return a.rational() / b.rational();
  if (is_zero(a)) return {};
  return formula(Op::div, {a, b});
}

Real sum(std::vector<Real> terms) {
  Real rational;
  std::vector<Real> others;
  for (Real& t : terms) {
    if (t.kind() == Real::Kind::formula) {
      others.push_back(std::move(t));
    } else {
      rational = rational + t;  // infinities and NaN included
    }
  }
  if (others.empty() || !rational.is_rational()) return rational;
  if (!is_zero(rational)) others.push_back(rational);
  return others.size() == 1 ? others.front() : formula(Op::sum, std::move(others));
}

Real exp(const Real& x) {
  if (x.is_nan()) return x;
  if (x.is_infinite()) return x.negative() ? Real{} : x;
  return is_zero(x) ? Real(1) : unary(Op::exp, x);
}

Real log(const Real& x) {
  if (x.is_nan()) return x;
  if (x.is_infinite()) return x.negative() ? Real::not_a_number() : x;
  if (is_zero(x)) return Real::infinity(true);
  if (is_one(x)) return {};
  return sign(x) < 0 ? Real::not_a_number() : unary(Op::log, x);
}

Real sqrt(const Real& x) {
  if (x.is_nan()) return x;
  if (x.is_infinite()) return x.negative() ? Real::not_a_number() : x;
  if (is_zero(x)) return x;
  if (sign(x) < 0) return Real::not_a_number();
  if (x.is_rational()) {
    if (auto root = exact_root(x.rational(), 1)) return *root;
  }
  return unary(Op::sqrt, x);
}

Real erf(const Real& x) {
  if (x.is_nan() || is_zero(x)) return x;
  return x.is_infinite() ? Real(x.negative() ? -1 : 1) : unary(Op::erf, x);
}

Real tanh(const Real& x) {
  if (x.is_nan() || is_zero(x)) return x;
  return x.is_infinite() ? Real(x.negative() ? -1 : 1) : unary(Op::tanh, x);
}

Real sigmoid(const Real& x) {
  if (x.is_nan()) return x;
  if (x.is_infinite()) return x.negative() ? 0 : 1;
  return is_zero(x) ? Real(Rational::ratio(1, 2)) : unary(Op::sigmoid, x);
}

Real softplus(const Real& x) {
  if (x.is_nan()) return x;
  if (x.is_infinite()) return x.negative() ? Real{} : x;
  return unary(Op::softplus, x);
}

Real sin(const Real& x) {
  if (x.is_infinite() || x.is_nan()) return Real::not_a_number();
  return is_zero(x) ? x : unary(Op::sin, x);
}

Real cos(const Real& x) {
  if (x.is_infinite() || x.is_nan()) return Real::not_a_number();
  return is_zero(x) ? Real(1) : unary(Op::cos, x);
}

Real atan(const Real& x) {
  if (x.is_nan() || is_zero(x)) return x;
  if (x.is_infinite()) return Real(Rational::ratio(x.negative() ? -1 : 1, 2)) * formula(Op::pi, {});
  return unary(Op::atan, x);
}

Real sqrt_two_over_pi() { return formula(Op::sqrt, {formula(Op::div, {Real(2), formula(Op::pi, {})})}); }
Real sqrt_half() { return formula(Op::sqrt, {Real(Rational::ratio(1, 2))}); }

Real pow(const Real& x, const Real& y) {
  if (is_zero(y) || is_one(x)) return 1;
  if (x.is_nan() || y.is_nan()) return Real::not_a_number();
  const bool integral = y.is_rational() && y.rational().denominator() == 1;
  const bool odd = integral && mpz_odd_p(y.rational().numerator().get_mpz_t()) != 0;
  if (y.is_infinite()) {
    const int order = compare(abs(x), 1);
    if (order == 0) return 1;
    return (order > 0) == !y.negative() ? Real::infinity(false) : Real{};
  }
  const int y_sign = sign(y);
  if (x.is_infinite() || is_zero(x)) {
    const bool negative = x.negative() && odd;
    if (x.is_infinite() == (y_sign > 0)) return Real::infinity(negative);
    return {};
  }
  const int x_sign = sign(x);
  if (x_sign < 0 && !integral) return Real::not_a_number();
  if (x.is_rational() && y.is_rational()) {
    const Rational& e = y.rational();
    const mpz_class n = e.numerator();
    const mpz_class d = e.denominator();
    // x^(n / 2^k) is rational only where x is a 2^k-th power; a huge exponent leaves every format anyway, but exact
    // powers of one are caught above and powers of two by their size.
    const auto k = static_cast<unsigned>(mpz_scan1(d.get_mpz_t(), 0));
    const bool dyadic = mpz_popcount(d.get_mpz_t()) == 1;
    if (dyadic && k <= 16 && mpz_cmpabs_ui(n.get_mpz_t(), 1UL << 16U) <= 0) {
      if (const auto root = exact_root(abs(x.rational()), k)) {
        const Rational magnitude = pow(*root, n.get_si());
        return x_sign < 0 && odd ? -magnitude : magnitude;
      }
    }
  }
  const Real magnitude = formula(Op::pow, {abs(x), y});
  return x_sign < 0 && odd ? -magnitude : magnitude;
}

namespace {

// Whether the form of the formula keeps it strictly between -1 and 1.
bool is_fraction(const Real& x) {
  if (x.is_rational() || x.is_nan() || x.is_infinite()) return false;
  const Op op = x.formula()->op;
  return op == Op::erf || op == Op::tanh || op == Op::sigmoid || (op == Op::neg && is_fraction(x.formula()->args[0]));
}

// What the form of the formula tells of the sign: no interval keeps exp(-1e38) from zero.
std::optional<int> sign_by_form(const Real& x) {
  if (x.is_rational()) return x.rational().sign();
  if (x.is_nan() || x.is_infinite()) return std::nullopt;
  const Formula& f = *x.formula();
  const auto all_alike = [&]() -> std::optional<int> {  // in a sum
    std::optional<int> common;
    for (const Real& a : f.args) {
      const auto s = sign_by_form(a);
      if (!s || (common && *s != *common)) return std::nullopt;
      common = s;
    }
    return common;
  };
  // 1 + erf(x), 1 - sigmoid(x): what is added is less than 1.
  const auto dominated = [&](const Real& large, const Real& small) {
    return large.is_rational() && abs(large.rational()) >= Rational(1) && is_fraction(small);
  };
  switch (f.op) {
    case Op::exp:
    case Op::sigmoid:
    case Op::softplus:
    case Op::pi: return 1;
    case Op::add:
      if (dominated(f.args[0], f.args[1])) return f.args[0].rational().sign();
      if (dominated(f.args[1], f.args[0])) return f.args[1].rational().sign();
      return all_alike();
    case Op::sum: return all_alike();
    case Op::neg:
    case Op::sqrt:
    case Op::erf:
    case Op::tanh:
    case Op::atan: {
      const auto s = sign_by_form(f.args[0]);
      return s && f.op == Op::neg ? -*s : s;
    }
    case Op::mul:
    case Op::div: {
      const auto a = sign_by_form(f.args[0]);
      const auto b = sign_by_form(f.args[1]);
      return a && b ? std::optional(*a * *b) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace

int sign(const Real& x) {
  if (x.is_rational()) return x.rational().sign();
  if (x.is_infinite()) return x.negative() ? -1 : 1;
  if (const auto s = sign_by_form(x)) return *s;
  return refine(x, [](const Interval& i) -> std::optional<int> {
    return i.sign() == 0 ? std::nullopt : std::optional(i.sign());
  });
}

int compare(const Real& a, const Real& b) {
  if (a.is_infinite() || b.is_infinite()) {
    const int x = a.is_infinite() ? (a.negative() ? -1 : 1) : 0;
    const int y = b.is_infinite() ? (b.negative() ? -1 : 1) : 0;
    return x - y > 0 ? 1 : (x == y ? 0 : -1);
  }
  if (a.is_rational() && b.is_rational()) {
    const auto order = a.rational() <=> b.rational();
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
  }
  return sign(a - b);
}

Real min(const Real& a, const Real& b) {
  if (a.is_nan() || b.is_nan()) return Real::not_a_number();
  return compare(b, a) < 0 ? b : a;
}

Real max(const Real& a, const Real& b) {
  if (a.is_nan() || b.is_nan()) return Real::not_a_number();
  return compare(b, a) > 0 ? b : a;
}

Real abs(const Real& x) {
  if (x.is_nan()) return x;
  return sign(x) < 0 ? -x : x;
}

double round_to(const Real& x, const FloatFormat& format) {
  if (x.is_nan()) return std::nan("");
  if (x.is_infinite()) return x.negative() ? -HUGE_VAL : HUGE_VAL;
  if (x.is_rational()) return round_to(x.rational(), format);
  return refine(x, [&](const Interval& i) -> std::optional<double> {
    // Whatever lies so far out overflows alike; an end may have overflowed MPFR's range.
    const long far = std::ilogb(format.max) + 2;
    if (i.beyond(far)) return round_to(Rational(i.sign()).scaled(far), format);
    if (!i.finite()) return std::nullopt;
    return round_ends(i, format.lowest - 1, [&](const Rational& q) { return round_to(q, format); });
  });
}

std::int64_t round_half_even(const Real& x, std::int64_t lo, std::int64_t hi) {
  return to_integer(x, lo, hi, [](const Rational& q) { return q.round_half_even(); });
}

std::int64_t truncate(const Real& x, std::int64_t lo, std::int64_t hi) {
  return to_integer(x, lo, hi, [](const Rational& q) { return q.trunc(); });
}

std::int64_t floor(const Real& x, std::int64_t lo, std::int64_t hi) {
  return to_integer(x, lo, hi, [](const Rational& q) { return q.floor(); });
}

Real floor(const Real& x) {
  return to_integral(x, [](const Rational& q) { return q.floor(); });
}
Real ceil(const Real& x) {
  return to_integral(x, [](const Rational& q) { return q.ceil(); });
}
Real round_half_even(const Real& x) {
  return to_integral(x, [](const Rational& q) { return q.round_half_even(); });
}

}  // namespace halfeven::numerics
