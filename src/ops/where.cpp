// Where (ai.onnx 9): passes on its second and third input (contract section 1, rule 4).
#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer(const InferContext& c) {
  c.require_type(0, {DType::boolean});
  c.require_same_type(1, 2);
  return {{c.dtype(1), broadcast(c, {c.shape(0), c.shape(1), c.shape(2)})}};
}

std::vector<Data> where(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const auto condition = broadcast_indices(c.input(0).shape(), out);
  const std::vector<std::size_t> from[2] = {broadcast_indices(c.input(1).shape(), out),
                                            broadcast_indices(c.input(2).shape(), out)};
  const auto holds = c.input(0).tensor.values<std::uint8_t>();
  std::vector<numerics::Ref> refs(condition.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const std::uint32_t source = holds[condition[i]] != 0 ? 0 : 1;
    refs[i] = {source, from[source][i]};
  }
  return {select(c.result_type(), out, {c.input(1), c.input(2)}, std::move(refs))};
}

}  // namespace

std::vector<Operator> where_operators() { return {{"", "Where", {9, 16}, 3, 3, 1, infer, where, PassOn::last_two}}; }

}  // namespace halfeven::ops
