// Add, Sub, Mul, Div (ai.onnx 7, 13, 14): NumPy broadcasting; floats exactly, integers wrap, integer division
// truncates.
#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::int64_t wrapped(std::uint64_t v) { return static_cast<std::int64_t>(v); }

std::vector<Data> add(const EvalContext& c) {
  if (c.reals(0)) return {map_binary(c, [](const auto& a, const auto& b) { return a + b; })};
  return {map_integers(c, [](std::int64_t a, std::int64_t b) {
    return wrapped(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  })};
}

std::vector<Data> sub(const EvalContext& c) {
  if (c.reals(0)) return {map_binary(c, [](const auto& a, const auto& b) { return a - b; })};
  return {map_integers(c, [](std::int64_t a, std::int64_t b) {
    return wrapped(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  })};
}

std::vector<Data> mul(const EvalContext& c) {
  if (c.reals(0)) return {map_binary(c, [](const auto& a, const auto& b) { return a * b; })};
  return {map_integers(c, [](std::int64_t a, std::int64_t b) {
    return wrapped(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  })};
}

std::vector<Data> div(const EvalContext& c) {
  if (c.reals(0)) return {map_binary(c, [](const auto& a, const auto& b) { return a / b; })};
  const bool unsigned64 = c.result_type() == DType::uint64;
  return {map_integers(c, [&](std::int64_t a, std::int64_t b) {
    if (b == 0) c.fail_input("integer division by zero (input '" + c.input_name(1) + "')");
    if (unsigned64) return wrapped(static_cast<std::uint64_t>(a) / static_cast<std::uint64_t>(b));
    if (b == -1) return wrapped(0 - static_cast<std::uint64_t>(a));  // the least integer wraps instead of trapping
    return a / b;
  })};
}

}  // namespace

std::vector<Operator> arithmetic_operators() {
  const std::vector<int> versions{7, 13, 14};
  return {
      {"", "Add", versions, 2, 2, 1, infer_broadcast, add},
      {"", "Sub", versions, 2, 2, 1, infer_broadcast, sub},
      {"", "Mul", versions, 2, 2, 1, infer_broadcast, mul},
      {"", "Div", versions, 2, 2, 1, infer_broadcast, div},
  };
}

}  // namespace halfeven::ops
