// Relu (ai.onnx 6, 13, 14): passes on what is greater than zero, and a constant +0 for the rest (contract section 1,
// rule 4).
#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer_relu(const InferContext& c) {
  if (!is_signed_integer(c.dtype(0))) c.require_float(0);
  return {c.type(0)};
}

std::vector<Data> relu(const EvalContext& c) {
  const Data& x = c.input(0);
  const Data zero = Tensor::own(x.dtype(), {}, std::vector<std::byte>(storage_size(x.dtype())));
  std::vector<numerics::Ref> refs(x.size());
  if (x.reals) {
    numerics::parallel_for(refs.size(), 4096, c.threads(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto s = numerics::sign(*x.reals, i);  // nothing for NaN, which passes
        refs[i] = !s || *s > 0 ? numerics::Ref{0, i} : numerics::Ref{1, 0};
      }
    });
  } else {
    const auto values = c.ints(0);
    for (std::size_t i = 0; i < refs.size(); ++i) refs[i] = values[i] > 0 ? numerics::Ref{0, i} : numerics::Ref{1, 0};
  }
  return {select(x.dtype(), c.result_shape(), {x, zero}, std::move(refs))};
}

}  // namespace

std::vector<Operator> relu_operators() { return {{"", "Relu", {6, 13, 14}, 1, 1, 1, infer_relu, relu, PassOn::first}}; }

}  // namespace halfeven::ops
