// Elementwise functions of one input: Neg, Abs, Sign, Exp, Log, Sqrt, Erf, Sigmoid, Tanh, Reciprocal, Floor, Ceil,
// Round, Softplus, Softsign, Sin, Cos, Atan (ai.onnx). Neg, Abs and Sign take integers as well.
#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::number;

template <class F>
Operator float_unary(std::string_view name, std::vector<int> versions, F) {
  return {"", name, std::move(versions), 1,
          1,  1,    infer_same_float,    [](const EvalContext& c) -> std::vector<Data> { return {map_unary(c, F{})}; }};
}

// For integers, `g` works on int64; the result wraps to the type.
template <class F, class G>
Operator numeric_unary(std::string_view name, std::vector<int> versions, F, G) {
  return {"",
          name,
          std::move(versions),
          1,
          1,
          1,
          [](const InferContext& c) -> std::vector<TypeShape> {
            if (!is_integer(c.dtype(0))) c.require_float(0);
            return {c.type(0)};
          },
          [](const EvalContext& c) -> std::vector<Data> {
            if (c.reals(0)) return {map_unary(c, F{})};
            auto values = c.ints(0);
            for (auto& v : values) v = G{}(v, c.result_type());
            return {make_integers(c.result_type(), c.result_shape(), values)};
          }};
}

std::int64_t negated(std::int64_t v) { return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(v)); }

}  // namespace

std::vector<Operator> unary_operators() {
  return {
      numeric_unary(
          "Neg", {6, 13}, [](const auto& x) { return -x; }, [](std::int64_t v, DType) { return negated(v); }),
      numeric_unary(
          "Abs", {6, 13}, [](const auto& x) { return abs(x); },
          [](std::int64_t v, DType t) { return v < 0 && is_signed_integer(t) ? negated(v) : v; }),
      numeric_unary(
          "Sign", {9, 13},
          []<class N>(const N& x) -> N {
            if (is_nan(x)) return x;
            const int s = sign(x);
            return s == 2 ? undecided<N>() : number<N>(static_cast<double>(s));
          },
          [](std::int64_t v, DType t) -> std::int64_t {
            return v < 0 && is_signed_integer(t) ? -1 : (v != 0 ? 1 : 0);
          }),
      float_unary("Exp", {6, 13}, [](const auto& x) { return decaying_exp(x); }),
      float_unary("Log", {6, 13}, [](const auto& x) { return log(x); }),
      float_unary("Sqrt", {6, 13}, [](const auto& x) { return sqrt(x); }),
      float_unary("Erf", {9, 13}, [](const auto& x) { return erf(x); }),
      float_unary("Sigmoid", {6, 13}, [](const auto& x) { return sigmoid(x); }),
      float_unary("Tanh", {6, 13}, [](const auto& x) { return tanh(x); }),
      float_unary("Reciprocal", {6, 13}, []<class N>(const N& x) { return number<N>(1.0) / x; }),
      float_unary("Floor", {6, 13}, [](const auto& x) { return floor(x); }),
      float_unary("Ceil", {6, 13}, [](const auto& x) { return ceil(x); }),
      float_unary("Round", {11, 22}, [](const auto& x) { return round_half_even(x); }),
      float_unary("Softplus", {1, 22}, [](const auto& x) { return softplus_of(x); }),
      float_unary("Softsign", {1, 22}, []<class N>(const N& x) { return x / (number<N>(1.0) + abs(x)); }),
      float_unary("Sin", {7, 22}, [](const auto& x) { return sin(x); }),
      float_unary("Cos", {7, 22}, [](const auto& x) { return cos(x); }),
      float_unary("Tan", {7, 22}, [](const auto& x) { return sin(x) / cos(x); }),
      float_unary("Atan", {7, 22}, [](const auto& x) { return atan(x); }),
      float_unary("Asin", {7, 22},
                  []<class N>(const N& x) {
                    const N one = number<N>(1.0);
                    return number<N>(2.0) * atan(x / (one + sqrt((one - x) * (one + x))));
                  }),
      float_unary("Acos", {7, 22},
                  []<class N>(const N& x) {  // exactly 0 at 1, which pi / 2 - asin(1) would not show
                    const N one = number<N>(1.0);
                    return number<N>(2.0) * atan(sqrt((one - x) / (one + x)));
                  }),
      float_unary("Sinh", {9, 22}, []<class N>(const N& x) { return (exp(x) - exp(-x)) * number<N>(0.5); }),
      float_unary("Cosh", {9, 22}, []<class N>(const N& x) { return (exp(x) + exp(-x)) * number<N>(0.5); }),
      float_unary("Asinh", {9, 22},
                  []<class N>(const N& x) {
                    const auto of_positive = [](const N& v) { return log(v + sqrt(v * v + number<N>(1.0))); };
                    return by_sign(x, of_positive, [&](const N& v) { return -of_positive(-v); });
                  }),
      float_unary("Acosh", {9, 22},
                  []<class N>(const N& x) {
                    const N one = number<N>(1.0);
                    return log(x + sqrt((x - one) * (x + one)));
                  }),
      float_unary("Atanh", {9, 22},
                  []<class N>(const N& x) {
                    const N one = number<N>(1.0);
                    return log((one + x) / (one - x)) * number<N>(0.5);
                  }),
  };
}

}  // namespace halfeven::ops
