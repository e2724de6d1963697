// LRN (ai.onnx 1, 13): x / (bias + alpha / size * sum of squares of `size` neighbouring channels)^beta.
#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::number;

std::vector<TypeShape> infer_lrn(const InferContext& c) {
  c.require_rank(0, 2, 1000);
  if (c.get_int("size", 0) < 1) c.fail("attribute size must be positive");
  return infer_same_float(c);
}

std::vector<Data> lrn(const EvalContext& c) {
  const AxisSplit split = split_at(c.result_shape(), 1);
  const auto size = static_cast<std::size_t>(c.get_int("size", 1));
  const double alpha = static_cast<double>(c.get_float("alpha", 1e-4F));
  const double beta = static_cast<double>(c.get_float("beta", 0.75F));
  const double bias = static_cast<double>(c.get_float("bias", 1.0F));
  return {numerics::make_elements(
      c.result_type(), c.result_shape(), c.threads(),
      [=, x = c.reals(0)]<class N>(std::size_t i, std::type_identity<N>) -> N {
        const std::size_t channel = i / split.inner % split.length;
        const std::size_t first = channel - std::min(channel, (size - 1) / 2);
        const std::size_t last = channel + std::min(split.length - 1 - channel, size / 2);
        const N squares = sum_of<N>(last - first + 1, [&](std::size_t j) {
          const N v = numerics::load<N>(*x, i + j * split.inner - (channel - first) * split.inner);
          return v * v;
        });
        const N base = number<N>(bias) + number<N>(alpha) * squares / number<N>(static_cast<double>(size));
        const N v = numerics::load<N>(*x, i);
        if constexpr (std::is_same_v<N, numerics::Approx>) {
          // numerics::pow answers for exact operands only.
          return base.mid > base.err ? v / exp(number<N>(beta) * log(base)) : N::unknown();
        } else {
          return v / pow(base, number<N>(beta));
        }
      })};
}

}  // namespace

std::vector<Operator> lrn_operators() { return {{"", "LRN", {1, 13}, 1, 1, 1, infer_lrn, lrn}}; }

}  // namespace halfeven::ops
