#include "ops/integer_result.hpp"

#include <limits>

#include <fmt/format.h>

namespace halfeven::ops {

numerics::ExactPtr integers_with_zero_point(const EvalContext& c, std::size_t i, std::size_t zero_point,
                                            std::size_t axis) {
  const Data& q = c.input(i);
  numerics::Affine affine{integers(q.tensor), {1.0}, {}};
  if (c.has_input(zero_point)) {
    const auto zeros = integers(c.input(zero_point).tensor);
    const AxisSplit s =
        zeros.size() == 1 ? AxisSplit{1, 1, std::max<std::size_t>(q.size(), 1)} : split_at(q.shape(), axis);
    for (std::size_t k = 0; k < affine.integers.size(); ++k) affine.integers[k] -= zeros.at(k / s.inner % s.length);
  }
  return numerics::make_affine(DType::float64, q.shape(), std::move(affine));
}

Tensor int32_result(const EvalContext& c, const numerics::ExactTensor& sums) {
  std::vector<std::int64_t> values(sums.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    constexpr std::int64_t lo = std::numeric_limits<std::int32_t>::min();
    constexpr std::int64_t hi = std::numeric_limits<std::int32_t>::max();
    values[i] = numerics::quantize_element(sums, i, 1.0, lo - 1, hi + 1);
    if (values[i] < lo || values[i] > hi) {
      c.fail_input(fmt::format("element {} of '{}' does not fit int32", i,
                               c.node().name.empty() ? "the result" : c.node().name));
    }
  }
  return make_integers(DType::int32, sums.shape(), values);
}

numerics::ExactPtr bias_of_products(const EvalContext& c, const Data& bias, const numerics::ExactTensor& x,
                                    const numerics::ExactTensor& w) {
  const auto& xs = x.affine()->scales;
  const auto& ws = w.affine()->scales;
  if (xs.size() != 1) c.fail("a bias needs a per-tensor activation scale");
  const std::vector<std::int64_t> q = integers(bias.tensor);
  // The product of two float32 scales is exact in double; wider scales make a formula of it.
  return numerics::make_elements(DType::float32, bias.shape(), 1,
                                 [q, s = xs[0], ws]<class N>(std::size_t i, std::type_identity<N>) -> N {
                                   return numerics::number<N>(static_cast<double>(q[i])) * numerics::number<N>(s) *
                                          numerics::number<N>(ws[ws.size() == 1 ? 0 : i]);
                                 });
}

}  // namespace halfeven::ops
