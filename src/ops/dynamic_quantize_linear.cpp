// DynamicQuantizeLinear (ai.onnx 11), contract section 8: never expanded into its function body.
#include <fmt/format.h>

#include "ops/quantize_linear.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer(const InferContext& c) {
  c.require_type(0, {DType::float32});
  return {{DType::uint8, c.shape(0)}, {DType::float32, Shape{}}, {DType::uint8, Shape{}}};
}

std::vector<Data> evaluate(const EvalContext& c) {
  const numerics::ExactPtr& x = c.reals(0);
  numerics::Real least;
  numerics::Real greatest;
  // Candidates by their doubles; exactly only where these do not tell.
  std::size_t lo = x->size();
  std::size_t hi = x->size();
  for (std::size_t i = 0; i < x->size(); ++i) {
    if (numerics::is_nan(*x, i)) c.fail_input(fmt::format("element {} of '{}' is NaN", i, c.input_name(0)));
    if (lo == x->size() || *numerics::compare(*x, i, *x, lo) < 0) lo = i;
    if (hi == x->size() || *numerics::compare(*x, i, *x, hi) > 0) hi = i;
  }
  if (x->size() > 0) {
    least = min(x->exact(lo), numerics::Real(0));
    greatest = max(x->exact(hi), numerics::Real(0));
  }
  numerics::Real scale = (greatest - least) / numerics::Real(255);
  if (scale.is_rational() && scale.rational().is_zero()) scale = numerics::Rational::ratio(1, 255);
  const double rounded = numerics::round_to(scale, numerics::format_of(DType::float32));
  if (!(rounded > 0) || rounded > std::numeric_limits<float>::max()) {
    c.fail_input(fmt::format("the range of '{}' gives no usable scale", c.input_name(0)));
  }
  const auto value = static_cast<float>(rounded);
  const Tensor scale_tensor = Tensor::of<float>(DType::float32, {}, std::span(&value, 1));
  const std::optional<DType> quotient = c.exact_contract() ? std::nullopt : std::optional(DType::float32);

  numerics::Real start = -least / numerics::Real::from_double(rounded);
  if (quotient) start = numerics::Real::from_double(numerics::round_to(start, numerics::format_of(*quotient)));
  const std::int64_t zero = numerics::round_half_even(start, 0, 255);
  const Tensor zero_tensor = make_integers(DType::uint8, {}, std::span(&zero, 1));
  const Tensor y = quantize(c, *x, c.input_name(0), Data(scale_tensor), Data(zero_tensor), {}, DType::uint8, quotient,
                            true, c.threads());
  return {y, scale_tensor, zero_tensor};
}

}  // namespace

std::vector<Operator> dynamic_quantize_linear_operators() {
  return {{"", "DynamicQuantizeLinear", {11}, 1, 1, 3, infer, evaluate}};
}

}  // namespace halfeven::ops
