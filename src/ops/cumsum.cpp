// CumSum (ai.onnx 11): sums along an axis, floats exactly, integers wrap.
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer(const InferContext& c) {
  if (!is_integer(c.dtype(0))) c.require_float(0);
  c.require_type(1, {DType::int32, DType::int64});
  const auto axis = c.constant_ints(1);
  if (axis && axis->size() != 1) c.fail_input("axis must hold one element");
  if (axis && c.shape(0)) normalize_axis(c, (*axis)[0], c.shape(0)->size());
  return {c.type(0)};
}

// The rows along the axis, walked in the direction of summation.
struct Walk {
  AxisSplit split;
  bool exclusive;
  bool reverse;

  std::size_t element(std::size_t row, std::size_t k) const {
    const std::size_t at = reverse ? split.length - 1 - k : k;
    return (row / split.inner * split.length + at) * split.inner + row % split.inner;
  }
  std::size_t rows() const { return split.outer * split.inner; }
};

// Calls put(element, sum of the elements so far) in order.
template <class Value, class Get, class Add, class Put>
void accumulate(const Walk& w, Value zero, Get get, Add add, Put put) {
  for (std::size_t row = 0; row < w.rows(); ++row) {
    Value total = zero;
    for (std::size_t k = 0; k < w.split.length; ++k) {
      const std::size_t i = w.element(row, k);
      if (w.exclusive) put(i, total);
      total = add(total, get(i));
      if (!w.exclusive) put(i, total);
    }
  }
}

std::vector<Data> cumsum(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const Walk walk{split_at(shape, normalize_axis(c, c.ints(1).at(0), shape.size())), c.get_int("exclusive", 0) != 0,
                  c.get_int("reverse", 0) != 0};
  if (!c.reals(0)) {
    std::vector<std::int64_t> values = c.ints(0);
    std::vector<std::int64_t> sums(values.size());
    accumulate(
        walk, std::uint64_t{0}, [&](std::size_t i) { return static_cast<std::uint64_t>(values[i]); },
        [](std::uint64_t a, std::uint64_t b) { return a + b; },
        [&](std::size_t i, std::uint64_t v) { sums[i] = static_cast<std::int64_t>(v); });
    return {make_integers(c.result_type(), shape, sums)};
  }
  const numerics::ExactPtr& x = c.reals(0);
  std::vector<numerics::Approx> sums(x->size());
  accumulate(
      walk, numerics::Approx{}, [&](std::size_t i) { return x->approx(i); },
      [](const numerics::Approx& a, const numerics::Approx& b) { return a + b; },
      [&](std::size_t i, const numerics::Approx& v) { sums[i] = v; });
  const auto exact = [x, walk](std::size_t i) {
    const AxisSplit& s = walk.split;
    const std::size_t row = i / (s.length * s.inner) * s.inner + i % s.inner;
    const std::size_t at = i / s.inner % s.length;
    const std::size_t count = (walk.reverse ? s.length - 1 - at : at) + (walk.exclusive ? 0 : 1);
    std::vector<numerics::Real> terms;
    for (std::size_t k = 0; k < count; ++k) terms.push_back(x->exact(walk.element(row, k)));
    return numerics::sum(std::move(terms));
  };
  return {numerics::make_computed(c.result_type(), shape, std::move(sums), exact)};
}

}  // namespace

std::vector<Operator> cumsum_operators() { return {{"", "CumSum", {11, 14}, 2, 2, 1, infer, cumsum}}; }

}  // namespace halfeven::ops
