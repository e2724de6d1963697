// Activations with parameters: LeakyRelu, PRelu, HardSigmoid, HardSwish, Elu, Selu, Celu, ThresholdedRelu, Shrink,
// Mish, Swish, Gelu (ai.onnx) and Gelu, FastGelu (com.microsoft). Float attributes are the exact values of their
// float32; HardSwish uses 1/6 and 1/2 (contract section 8).
#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::number;
using numerics::Rational;

// The value of a float attribute as the kind of number wanted.
template <class N>
N attribute(float value) {
  return number<N>(static_cast<double>(value));
}

template <class N>
N limited_to_unit(const N& x) {
  return max(number<N>(0.0), min(number<N>(1.0), x));
}

std::vector<Data> leaky_relu(const EvalContext& c) {
  return {map_unary(c, [alpha = c.get_float("alpha", 0.01F)]<class N>(const N& x) -> N {
    return by_sign(x, std::identity{}, [&](const N& v) { return attribute<N>(alpha) * v; });
  })};
}

std::vector<TypeShape> infer_prelu(const InferContext& c) {
  if (!is_integer(c.dtype(0))) c.require_float(0);
  c.require_same_type(0, 1);
  require_broadcast_to(c, 1, 0);
  return {c.type(0)};
}

std::vector<Data> prelu(const EvalContext& c) {
  if (c.reals(0)) {
    return {map_binary(c, []<class N>(const N& x, const N& slope) -> N {
      return by_sign(x, std::identity{}, [&](const N& v) { return slope * v; });
    })};
  }
  const bool is_signed = is_signed_integer(c.result_type());
  return {map_integers(c, [=](std::int64_t x, std::int64_t slope) {
    if (!is_signed || x >= 0) return x;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(slope));
  })};
}

std::vector<Data> hard_sigmoid(const EvalContext& c) {
  return {
      map_unary(c, [alpha = c.get_float("alpha", 0.2F), beta = c.get_float("beta", 0.5F)]<class N>(const N& x) -> N {
        return limited_to_unit(attribute<N>(alpha) * x + attribute<N>(beta));
      })};
}

std::vector<Data> hard_swish(const EvalContext& c) {
  return {
      map_unary(c, []<class N>(const N& x) -> N { return x * limited_to_unit(x / number<N>(6.0) + number<N>(0.5)); })};
}

std::vector<Data> elu(const EvalContext& c) {
  return {map_unary(c, [alpha = c.get_float("alpha", 1.0F)]<class N>(const N& x) -> N {
    return by_sign(x, std::identity{},
                   [&](const N& v) { return attribute<N>(alpha) * (decaying_exp(v) - number<N>(1.0)); });
  })};
}

std::vector<Data> selu(const EvalContext& c) {
  const float alpha = c.get_float("alpha", 1.67326319217681884765625F);
  const float gamma = c.get_float("gamma", 1.05070102214813232421875F);
  return {map_unary(c, [=]<class N>(const N& x) -> N {
    return attribute<N>(gamma) * by_sign(x, std::identity{}, [&](const N& v) {
             return attribute<N>(alpha) * (decaying_exp(v) - number<N>(1.0));
           });
  })};
}

std::vector<Data> celu(const EvalContext& c) {
  const float alpha = c.get_float("alpha", 1.0F);
  if (alpha == 0) c.fail("alpha must not be 0");
  return {map_unary(c, [=]<class N>(const N& x) -> N {
    return by_sign(x, std::identity{}, [&](const N& v) {
      return attribute<N>(alpha) * (decaying_exp(v / attribute<N>(alpha)) - number<N>(1.0));
    });
  })};
}

std::vector<Data> thresholded_relu(const EvalContext& c) {
  return {map_unary(c, [alpha = c.get_float("alpha", 1.0F)]<class N>(const N& x) -> N {
    if (is_nan(x)) return x;
    const int s = sign(x - attribute<N>(alpha));
    if (s == 2) return undecided<N>();
    return s > 0 ? x : number<N>(0.0);
  })};
}

std::vector<Data> shrink(const EvalContext& c) {
  return {
      map_unary(c, [bias = c.get_float("bias", 0.0F), lambda = c.get_float("lambd", 0.5F)]<class N>(const N& x) -> N {
        if (is_nan(x)) return x;
        const int below = sign(x + attribute<N>(lambda));
        const int above = sign(x - attribute<N>(lambda));
        if (below == 2 || above == 2) return undecided<N>();
        if (below < 0) return x + attribute<N>(bias);
        return above > 0 ? x - attribute<N>(bias) : number<N>(0.0);
      })};
}

std::vector<Data> mish(const EvalContext& c) {
  return {map_unary(c, [](const auto& x) { return x * tanh(softplus_of(x)); })};
}

std::vector<Data> swish(const EvalContext& c) {
  return {map_unary(c, [alpha = c.get_float("alpha", 1.0F)]<class N>(const N& x) -> N {
    return x * sigmoid(attribute<N>(alpha) * x);
  })};
}

template <class N>
N root_of_two_over_pi() {
  if constexpr (std::is_same_v<N, numerics::Real>) {
    return numerics::sqrt_two_over_pi();
  } else {
    return {0x1.9884533d43651p-1, 0x1p-53};
  }
}

// x / 2 * (1 + erf(x / sqrt(2)))
template <class N>
N gelu_of(const N& x) {
  return x * number<N>(0.5) * (number<N>(1.0) + erf(x * sqrt(number<N>(0.5))));
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
template <class N>
N tanh_gelu_of(const N& x) {
  const N cubic = number<N>(Rational::ratio(44715, 1000000)) * x * x * x;
  return x * number<N>(0.5) * (number<N>(1.0) + tanh(root_of_two_over_pi<N>() * (x + cubic)));
}

std::vector<Data> exact_gelu(const EvalContext& c) {
  return {map_unary(c, [](const auto& x) { return gelu_of(x); })};
}

std::vector<TypeShape> infer_gelu(const InferContext& c) {
  const std::string kind = c.get_string("approximate", "none");
  if (kind != "none" && kind != "tanh") c.fail("approximate = '" + kind + "' is not supported (none and tanh are)");
  return infer_same_float(c);
}

std::vector<Data> gelu(const EvalContext& c) {
  if (c.get_string("approximate", "none") == "none") return exact_gelu(c);
  return {map_unary(c, [](const auto& x) { return tanh_gelu_of(x); })};
}

std::vector<TypeShape> infer_fast_gelu(const InferContext& c) {
  c.require_same_type(0, 1);
  if (c.has_input(1)) c.require_rank(1, 1, 1);
  return infer_same_float(c);
}

// com.microsoft FastGelu: the tanh form of x + bias, the bias along the last axis.
std::vector<Data> fast_gelu(const EvalContext& c) {
  if (c.has_input(1)) return {map_binary(c, [](const auto& x, const auto& bias) { return tanh_gelu_of(x + bias); })};
  return {map_unary(c, [](const auto& x) { return tanh_gelu_of(x); })};
}

}  // namespace

std::vector<Operator> activation_operators() {
  return {
      {"", "LeakyRelu", {6, 16}, 1, 1, 1, infer_same_float, leaky_relu},
      {"", "PRelu", {7, 9, 16}, 2, 2, 1, infer_prelu, prelu},
      {"", "HardSigmoid", {6, 22}, 1, 1, 1, infer_same_float, hard_sigmoid},
      {"", "HardSwish", {14, 22}, 1, 1, 1, infer_same_float, hard_swish},
      {"", "Elu", {6, 22}, 1, 1, 1, infer_same_float, elu},
      {"", "Selu", {6, 22}, 1, 1, 1, infer_same_float, selu},
      {"", "Celu", {12, 28}, 1, 1, 1, infer_same_float, celu},
      {"", "ThresholdedRelu", {10, 22}, 1, 1, 1, infer_same_float, thresholded_relu},
      {"", "Shrink", {9}, 1, 1, 1, infer_same_float, shrink},
      {"", "Mish", {18, 22}, 1, 1, 1, infer_same_float, mish},
      {"", "Swish", {24}, 1, 1, 1, infer_same_float, swish},
      {"", "Gelu", {20}, 1, 1, 1, infer_gelu, gelu},
      {"com.microsoft", "Gelu", {1}, 1, 1, 1, infer_same_float, exact_gelu},
      {"com.microsoft", "FastGelu", {1}, 1, 2, 1, infer_fast_gelu, fast_gelu},
  };
}

}  // namespace halfeven::ops
