// Pow (ai.onnx 7, 12, 13, 15): broadcasting; the result has the base's type. Integer powers of integers wrap; a real
// power of an integer is truncated.
#include "ops/formulas.hpp"

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::Real;

Real power_of(const Real& x, const Real& y) { return pow(x, y); }

// numerics::pow answers for exact operands only; a dequantized base has an error.
Approx power_of(const Approx& x, const Approx& y) {
  if (!x.special() && y.exact()) {
    if (y.mid == 1) return x;
    if (y.mid == 2) return x * x;
    if (y.mid == 3) return x * x * x;
    if (y.mid == -1 && x.mid != 0) return Approx{1, 0} / x;
    if (y.mid == 0.5 && x.mid != 0) return sqrt(x);
    if (!x.exact() && x.mid > x.err && !y.special()) return exp(y * log(x));
  }
  return pow(x, y);
}

std::vector<TypeShape> infer_pow(const InferContext& c) {
  for (const std::size_t i : {0U, 1U}) {
    if (!is_integer(c.dtype(i))) c.require_float(i);
  }
  if (c.version() < 12) c.require_same_type(0, 1);
  return {{c.dtype(0), broadcast(c, {c.shape(0), c.shape(1)})}};
}

// Integers as real numbers.
numerics::ExactPtr reals_of(const EvalContext& c, std::size_t i) {
  if (c.reals(i)) return c.reals(i);
  return numerics::make_affine(DType::float64, c.input(i).shape(), {c.ints(i), {1.0}, {}});
}

std::int64_t integer_power(const EvalContext& c, std::int64_t base, std::int64_t exponent, bool unsigned_exponent) {
  if (exponent < 0 && !unsigned_exponent) {
    if (base == 0) c.fail_input(fmt::format("0 to the power {} has no integer value", exponent));
    if (base == 1) return 1;
    if (base == -1 && is_signed_integer(c.result_type())) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  std::uint64_t result = 1;
  auto square = static_cast<std::uint64_t>(base);
  for (auto e = static_cast<std::uint64_t>(exponent); e != 0; e >>= 1U, square *= square) {
    if ((e & 1U) != 0) result *= square;
  }
  return static_cast<std::int64_t>(result);
}

// An integer base and a float exponent: the real power, truncated.
Data truncated_power(const EvalContext& c) {
  const auto power = map_pairs(reals_of(c, 0), c.reals(1), DType::float64, c.result_shape(), c.threads(),
                               [](const auto& x, const auto& y) { return power_of(x, y); });
  const std::int64_t lo = integer_min(c.result_type());
  const std::int64_t hi = integer_max(c.result_type());
  std::vector<std::int64_t> values(power->size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Real v = power->exact(i);
    if (v.is_nan() || v.is_infinite() || compare(v, Real(lo) - Real(1)) <= 0 || compare(v, Real(hi) + Real(1)) >= 0) {
      c.fail_input(fmt::format("element {} of the result does not fit {}", i, to_string(c.result_type())));
    }
    values[i] = truncate(v, lo, hi);
  }
  return make_integers(c.result_type(), c.result_shape(), values);
}

std::vector<Data> power(const EvalContext& c) {
  if (c.reals(0)) {
    return {map_pairs(c.reals(0), reals_of(c, 1), c.result_type(), c.result_shape(), c.threads(),
                      [](const auto& x, const auto& y) { return power_of(x, y); })};
  }
  if (c.reals(1)) return {truncated_power(c)};
  const bool unsigned_exponent = !is_signed_integer(c.input(1).dtype());
  return {map_integers(c, [&](std::int64_t a, std::int64_t b) { return integer_power(c, a, b, unsigned_exponent); })};
}

}  // namespace

std::vector<Operator> power_operators() { return {{"", "Pow", {7, 12, 13, 15}, 2, 2, 1, infer_pow, power}}; }

}  // namespace halfeven::ops
