// Min, Max, Sum, Mean (n-ary, broadcasting; Min and Max take integers) and Mod (ai.onnx). NaN wins in Min and Max.
// Mod with fmod = 0 has the divisor's sign, with fmod = 1 the dividend's; floats with fmod = 0 since opset 28.
#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::number;
using numerics::Real;

void require_all(const InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has_input(i)) c.fail("input " + std::to_string(i) + " is left out, but none is optional");
  }
}

std::vector<TypeShape> infer_numeric(const InferContext& c) {
  require_all(c);
  if (!is_integer(c.dtype(0))) c.require_float(0);
  return infer_broadcast(c);
}

std::vector<TypeShape> infer_floats(const InferContext& c) {
  require_all(c);
  c.require_float(0);
  return infer_broadcast(c);
}

// y[i] = f(one value an input) for a fold f over the inputs' values; `last` finishes it.
template <class Fold, class Last>
Data fold_reals(const EvalContext& c, Fold fold, Last last) {
  std::vector<numerics::ExactPtr> sources;
  std::vector<std::vector<std::size_t>> index;
  for (std::size_t k = 0; k < c.input_count(); ++k) {
    sources.push_back(c.reals(k));
    const bool same = c.input(k).shape() == c.result_shape();
    index.push_back(same ? std::vector<std::size_t>{} : broadcast_indices(c.input(k).shape(), c.result_shape()));
  }
  return numerics::make_elements(
      c.result_type(), c.result_shape(), c.threads(),
      [sources, index = std::move(index), fold, last]<class N>(std::size_t i, std::type_identity<N>) -> N {
        const auto value = [&](std::size_t k) {
          return numerics::load<N>(*sources[k], index[k].empty() ? i : index[k][i]);
        };
        if (sources.size() == 1) return last(value(0), 1);
        N total = value(0);
        for (std::size_t k = 1; k < sources.size(); ++k) total = fold(total, value(k));
        return last(total, sources.size());
      });
}

Data fold_integers(const EvalContext& c, bool greatest) {
  std::vector<std::int64_t> result;
  const bool by_bits = c.result_type() == DType::uint64;
  for (std::size_t k = 0; k < c.input_count(); ++k) {
    const auto values = c.ints(k);
    const auto index = broadcast_indices(c.input(k).shape(), c.result_shape());
    if (k == 0) result.resize(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
      const std::int64_t v = values[index[i]];
      const bool less = by_bits ? static_cast<std::uint64_t>(v) < static_cast<std::uint64_t>(result[i]) : v < result[i];
      if (k == 0 || (v != result[i] && less != greatest)) result[i] = v;
    }
  }
  return make_integers(c.result_type(), c.result_shape(), result);
}

const auto kAsItIs = [](const auto& total, std::size_t) { return total; };

std::vector<Data> minimum(const EvalContext& c) {
  if (!c.reals(0)) return {fold_integers(c, false)};
  return {fold_reals(
      c, [](const auto& a, const auto& b) { return min(a, b); }, kAsItIs)};
}

std::vector<Data> maximum(const EvalContext& c) {
  if (!c.reals(0)) return {fold_integers(c, true)};
  return {fold_reals(
      c, [](const auto& a, const auto& b) { return max(a, b); }, kAsItIs)};
}

std::vector<Data> sum_all(const EvalContext& c) {
  return {fold_reals(
      c, [](const auto& a, const auto& b) { return a + b; }, kAsItIs)};
}

std::vector<Data> mean(const EvalContext& c) {
  return {fold_reals(
      c, [](const auto& a, const auto& b) { return a + b; },
      []<class N>(const N& total, std::size_t n) { return total / number<N>(static_cast<double>(n)); })};
}

std::vector<TypeShape> infer_mod(const InferContext& c) {
  const std::int64_t fmod = c.get_int("fmod", 0);
  if (fmod != 0 && fmod != 1) c.fail("fmod must be 0 or 1");
  if (!is_integer(c.dtype(0))) {
    c.require_float(0);
    if (fmod == 0 && c.version() < 28) c.fail("floats need fmod = 1 before opset 28");
  }
  return infer_broadcast(c);
}

// x - y * trunc(x / y), exact for any two floats.
Approx remainder_of(const Approx& x, const Approx& y) {
  return x.exact() && y.exact() ? Approx{std::fmod(x.mid, y.mid), 0} : Approx::unknown();
}

Real remainder_of(const Real& x, const Real& y) {
  if (x.is_nan() || y.is_nan() || x.is_infinite() || (y.is_rational() && y.rational().is_zero())) {
    return Real::not_a_number();
  }
  if (y.is_infinite()) return x;
  const Real quotient = x / y;
  return x - y * (sign(quotient) < 0 ? ceil(quotient) : floor(quotient));
}

// The same moved to the sign of the divisor: x - y * floor(x / y).
template <class N>
N modulus_of(const N& x, const N& y) {
  const N r = remainder_of(x, y);
  if (is_nan(r)) return r;
  const int a = sign(r);
  const int b = sign(y);
  if (a == 2 || b == 2) return undecided<N>();
  return a * b < 0 ? r + y : r;
}

std::vector<Data> mod(const EvalContext& c) {
  const bool sign_of_divisor = c.get_int("fmod", 0) == 0;
  if (c.reals(0)) {
    return {map_binary(
        c, [=](const auto& x, const auto& y) { return sign_of_divisor ? modulus_of(x, y) : remainder_of(x, y); })};
  }
  const bool by_bits = c.result_type() == DType::uint64;
  return {map_integers(c, [&](std::int64_t a, std::int64_t b) -> std::int64_t {
    if (b == 0) c.fail_input("integer modulo zero (input '" + c.input_name(1) + "')");
    if (by_bits) return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) % static_cast<std::uint64_t>(b));
    if (b == -1) return 0;  // the least integer % -1 would trap
    const std::int64_t r = a % b;
    return sign_of_divisor && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  })};
}

}  // namespace

std::vector<Operator> minmax_operators() {
  return {
      {"", "Min", {6, 8, 12, 13}, 1, kVariadic, 1, infer_numeric, minimum},
      {"", "Max", {6, 8, 12, 13}, 1, kVariadic, 1, infer_numeric, maximum},
      {"", "Sum", {6, 8, 13}, 1, kVariadic, 1, infer_floats, sum_all},
      {"", "Mean", {6, 8, 13}, 1, kVariadic, 1, infer_floats, mean},
      {"", "Mod", {10, 13, 28}, 2, 2, 1, infer_mod, mod},
  };
}

}  // namespace halfeven::ops
