// Equal, Greater, GreaterOrEqual, Less, LessOrEqual (ai.onnx 7, 12): NumPy broadcasting; they read rounded values
// (contract section 1, rule 5), and NaN compares false.
#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer(const InferContext& c) {
  std::vector<TypeShape> out = infer_broadcast(c);
  if (storage_size(c.dtype(0)) == 0)
    c.fail("elements of type " + std::string(to_string(c.dtype(0))) + " are not supported");
  out[0].dtype = DType::boolean;
  return out;
}

// `holds` takes the sign of a - b.
template <bool (*holds)(int)>
std::vector<Data> compare(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const auto ia = broadcast_indices(c.input(0).shape(), out);
  const auto ib = broadcast_indices(c.input(1).shape(), out);
  std::vector<std::byte> bytes(ia.size());
  if (c.reals(0)) {
    const numerics::ExactTensor& a = *c.reals(0);
    const numerics::ExactTensor& b = *c.reals(1);
    numerics::parallel_for(bytes.size(), 4096, c.threads(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto order = numerics::compare(a, ia[i], b, ib[i]);
        bytes[i] = std::byte{order && holds(*order)};
      }
    });
  } else {
    const auto a = c.ints(0);
    const auto b = c.ints(1);
    const bool unsigned64 = c.input(0).dtype() == DType::uint64;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::int64_t x = a[ia[i]];
      const std::int64_t y = b[ib[i]];
      const bool greater = unsigned64 ? static_cast<std::uint64_t>(x) > static_cast<std::uint64_t>(y) : x > y;
      bytes[i] = std::byte{holds(greater ? 1 : (x == y ? 0 : -1))};
    }
  }
  return {Tensor::own(DType::boolean, out, std::move(bytes))};
}

bool equal(int s) { return s == 0; }
bool greater(int s) { return s > 0; }
bool greater_or_equal(int s) { return s >= 0; }
bool less(int s) { return s < 0; }
bool less_or_equal(int s) { return s <= 0; }

}  // namespace

std::vector<Operator> compare_operators() {
  return {
      {"", "Equal", {7, 11, 13, 19}, 2, 2, 1, infer, compare<equal>},
      {"", "Greater", {7, 9, 13}, 2, 2, 1, infer, compare<greater>},
      {"", "GreaterOrEqual", {12, 16}, 2, 2, 1, infer, compare<greater_or_equal>},
      {"", "Less", {7, 9, 13}, 2, 2, 1, infer, compare<less>},
      {"", "LessOrEqual", {12, 16}, 2, 2, 1, infer, compare<less_or_equal>},
  };
}

}  // namespace halfeven::ops
