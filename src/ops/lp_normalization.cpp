// LpNormalization (ai.onnx 1, 22): x divided by the 1- or 2-norm along an axis; a row of zeros stays zero.
#include "ops/formulas.hpp"

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::number;
using numerics::Real;

std::vector<TypeShape> infer_lp(const InferContext& c) {
  if (const std::int64_t p = c.get_int("p", 2); p != 1 && p != 2)
    c.fail(fmt::format("p = {} is not supported (1, 2)", p));
  if (c.shape(0)) normalize_axis(c, c.get_int("axis", -1), c.shape(0)->size());
  return infer_same_float(c);
}

std::vector<Data> lp(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const AxisSplit split = split_at(shape, normalize_axis(c, c.get_int("axis", -1), shape.size()));
  const bool absolute = c.get_int("p", 2) == 1;
  const auto norm = [split, absolute, x = c.reals(0)]<class N>(std::size_t row, std::type_identity<N>) -> N {
    const std::size_t first = row / split.inner * split.inner * split.length + row % split.inner;
    const N total = sum_of<N>(split.length, [&](std::size_t j) {
      const N v = numerics::load<N>(*x, first + j * split.inner);
      return absolute ? abs(v) : v * v;
    });
    return absolute ? total : sqrt(total);
  };
  std::vector<Approx> norms(split.length == 0 ? 0 : split.outer * split.inner);
  for (std::size_t r = 0; r < norms.size(); ++r) norms[r] = norm(r, std::type_identity<Approx>{});
  const auto divide = []<class N>(const N& x, const N& length) -> N {
    return !is_nan(length) && sign(length) == 0 ? number<N>(0.0) : x / length;
  };
  const auto row_of = [split](std::size_t i) {
    return i / (split.length * split.inner) * split.inner + i % split.inner;
  };
  std::vector<Approx> values(c.reals(0)->size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = divide(c.reals(0)->approx(i), norms[row_of(i)]);
  auto exact = std::make_shared<SharedValues<Real>>();
  return {numerics::make_computed(c.result_type(), shape, std::move(values),
                                  [x = c.reals(0), norm, divide, row_of, exact](std::size_t i) {
                                    const std::size_t row = row_of(i);
                                    const auto length = [&] { return norm(row, std::type_identity<Real>{}); };
                                    return divide(x->exact(i), exact->get(row, length));
                                  })};
}

}  // namespace

std::vector<Operator> lp_normalization_operators() { return {{"", "LpNormalization", {1, 22}, 1, 1, 1, infer_lp, lp}}; }

}  // namespace halfeven::ops
