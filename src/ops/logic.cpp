// And, Or, Xor (ai.onnx 7), Not (1), BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot (18), BitShift (11), IsNaN (9),
// IsInf (10).
#include <cmath>

#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

void require_integer(const InferContext& c) {
  if (!is_integer(c.dtype(0))) c.fail(fmt::format("the inputs must be integers, not {}", to_string(c.dtype(0))));
}

// --- boolean and bitwise ---------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_boolean(const InferContext& c) {
  c.require_type(0, {DType::boolean});
  return infer_broadcast(c);
}

std::vector<TypeShape> infer_bitwise(const InferContext& c) {
  require_integer(c);
  return infer_broadcast(c);
}

// Booleans are 0 and 1, so the bitwise operation serves both.
std::vector<Data> conjunction(const EvalContext& c) {
  return {map_integers(c, [](std::int64_t a, std::int64_t b) { return a & b; })};
}

std::vector<Data> disjunction(const EvalContext& c) {
  return {map_integers(c, [](std::int64_t a, std::int64_t b) { return a | b; })};
}

std::vector<Data> exclusive(const EvalContext& c) {
  return {map_integers(c, [](std::int64_t a, std::int64_t b) { return a ^ b; })};
}

std::vector<Data> negation(const EvalContext& c) {
  std::vector<std::int64_t> values = c.ints(0);
  const bool boolean = c.result_type() == DType::boolean;
  for (std::int64_t& v : values) v = boolean ? (v == 0 ? 1 : 0) : ~v;
  return {make_integers(c.result_type(), c.result_shape(), values)};
}

// --- BitShift --------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_shift(const InferContext& c) {
  require_integer(c);
  if (c.version() < 28 && is_signed_integer(c.dtype(0))) c.fail("signed integers are not supported before version 28");
  const std::string direction = c.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    c.fail(fmt::format("attribute 'direction' must be LEFT or RIGHT, not '{}'", direction));
  }
  return infer_broadcast(c);
}

std::vector<Data> shift(const EvalContext& c) {
  const bool left = c.get_string("direction", "") == "LEFT";
  const std::int64_t width = bits(c.result_type());
  const bool is_signed = is_signed_integer(c.result_type());
  return {map_integers(c, [=](std::int64_t x, std::int64_t n) -> std::int64_t {
    // As version 28 says: shifting everything out leaves copies of the sign (which an unsigned number has not).
    if (n < 0 || n >= width) return !left && is_signed && x < 0 ? -1 : 0;
    if (left) return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << n);
    return is_signed ? x >> n : static_cast<std::int64_t>(static_cast<std::uint64_t>(x) >> n);
  })};
}

// --- IsNaN, IsInf ----------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_test(const InferContext& c) {
  if (!is_small_float(c.dtype(0))) c.require_float(0);
  return {{DType::boolean, c.shape(0)}};
}

template <class Test>
std::vector<Data> test_elements(const EvalContext& c, Test test) {
  const numerics::ExactPtr x = c.reals(0) ? c.reals(0) : numerics::make_floats(c.input(0).tensor);
  std::vector<std::byte> bytes(x->size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const numerics::Approx a = x->approx(i);
    bytes[i] = std::byte{test(a.exact() ? numerics::Real::from_double(a.special() ? a.mid : 0) : x->exact(i))};
  }
  return {Tensor::own(DType::boolean, c.result_shape(), std::move(bytes))};
}

std::vector<Data> is_nan(const EvalContext& c) {
  return test_elements(c, [](const numerics::Real& x) { return x.is_nan(); });
}

std::vector<Data> is_inf(const EvalContext& c) {
  const bool negative = c.get_int("detect_negative", 1) != 0;
  const bool positive = c.get_int("detect_positive", 1) != 0;
  return test_elements(
      c, [=](const numerics::Real& x) { return x.is_infinite() && (x.negative() ? negative : positive); });
}

}  // namespace

std::vector<Operator> logic_operators() {
  return {
      {"", "And", {7}, 2, 2, 1, infer_boolean, conjunction},
      {"", "Or", {7}, 2, 2, 1, infer_boolean, disjunction},
      {"", "Xor", {7}, 2, 2, 1, infer_boolean, exclusive},
      {"", "Not", {1}, 1, 1, 1, infer_boolean, negation},
      {"", "BitwiseAnd", {18}, 2, 2, 1, infer_bitwise, conjunction},
      {"", "BitwiseOr", {18}, 2, 2, 1, infer_bitwise, disjunction},
      {"", "BitwiseXor", {18}, 2, 2, 1, infer_bitwise, exclusive},
      {"", "BitwiseNot", {18}, 1, 1, 1, infer_bitwise, negation},
      {"", "BitShift", {11, 28}, 2, 2, 1, infer_shift, shift},
      {"", "IsNaN", {9, 13, 20}, 1, 1, 1, infer_test, is_nan},
      {"", "IsInf", {10, 20}, 1, 1, 1, infer_test, is_inf},
  };
}

}  // namespace halfeven::ops
