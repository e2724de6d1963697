// NonZero (ai.onnx 9), OneHot (9), Compress (9), Trilu (14).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// --- NonZero ---------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_non_zero(const InferContext& c) {
  const std::int64_t rank = c.shape(0) ? static_cast<std::int64_t>(c.shape(0)->size()) : kUnknownDim;
  return {{DType::int64, Shape{rank, kUnknownDim}}};
}

// Column k of the result is the position of the k-th element that is not zero (NaN is not).
std::vector<Data> non_zero(const EvalContext& c) {
  const Data& x = c.input(0);
  const std::vector<std::int64_t> values = x.reals ? std::vector<std::int64_t>{} : c.ints(0);
  std::vector<std::vector<std::int64_t>> found(x.rank());
  std::size_t count = 0;
  std::size_t i = 0;
  for (Odometer p(x.shape()); p.more(); p.step(), ++i) {
    const bool zero = x.reals ? numerics::sign(*x.reals, i) == 0 : values[i] == 0;
    if (zero) continue;
    for (std::size_t k = 0; k < x.rank(); ++k) found[k].push_back(p[k]);
    ++count;
  }
  std::vector<std::int64_t> flat;
  for (const auto& row : found) flat.insert(flat.end(), row.begin(), row.end());
  const Shape out{static_cast<std::int64_t>(x.rank()), static_cast<std::int64_t>(count)};
  return {make_integers(DType::int64, out, flat)};
}

// --- OneHot ----------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> depth_of(const InferContext& c) {
  if (is_float(c.dtype(1))) {
    const auto v = c.constant_floats(1);
    if (!v) return std::nullopt;
    if (v->size() != 1 || !((*v)[0] >= 0 && (*v)[0] < 0x1p53))
      c.fail_input("depth must be one number that is not negative");
    return static_cast<std::int64_t>((*v)[0]);
  }
  const auto v = c.constant_ints(1);
  if (!v) return std::nullopt;
  if (v->size() != 1 || (*v)[0] < 0) c.fail_input("depth must be one number that is not negative");
  return (*v)[0];
}

std::vector<TypeShape> infer_one_hot(const InferContext& c) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!is_integer(c.dtype(i))) c.require_float(i);
  }
  c.require_rank(2, 1, 1);
  if (c.shape(2) && (*c.shape(2))[0] >= 0 && (*c.shape(2))[0] != 2) c.fail("values must hold two elements");
  const std::optional<std::int64_t> depth = depth_of(c);
  if (!c.shape(0)) return {{c.dtype(2), std::nullopt}};
  Shape out = *c.shape(0);
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), out.size() + 1);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), depth.value_or(kUnknownDim));
  return {{c.dtype(2), out}};
}

std::vector<Data> one_hot(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), out.size());
  const AxisSplit s = split_at(out, axis);
  const Data& in = c.input(0);
  const std::vector<std::int64_t> given = in.reals ? std::vector<std::int64_t>{} : c.ints(0);
  std::vector<std::size_t> from(element_count(out), 0);
  for (std::size_t k = 0; k < in.size(); ++k) {
    std::int64_t at = -1;
    if (in.reals) {
      const double v = numerics::round_element(*in.reals, k, in.dtype());
      if (!(std::abs(v) < 0x1p53)) continue;  // outside any depth, or NaN
      at = static_cast<std::int64_t>(v);
    } else {
      at = given[k];
      if (in.dtype() == DType::uint64 && at < 0) continue;
    }
    const auto depth = static_cast<std::int64_t>(s.length);
    if (at < 0) at += depth;
    if (at < 0 || at >= depth) continue;
    from[(k / s.inner * s.length + static_cast<std::size_t>(at)) * s.inner + k % s.inner] = 1;
  }
  return {gather(c.input(2), out, from)};
}

// --- Compress --------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_compress(const InferContext& c) {
  c.require_type(1, {DType::boolean});
  c.require_rank(1, 1, 1);
  if (!c.has_attribute("axis")) return {{c.dtype(0), Shape{kUnknownDim}}};
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out = *c.shape(0);
  out[normalize_axis(c, c.get_int("axis", 0), out.size())] = kUnknownDim;
  return {{c.dtype(0), out}};
}

std::vector<Data> compress(const EvalContext& c) {
  const bool flat = !c.has_attribute("axis");
  Shape out = flat ? Shape{static_cast<std::int64_t>(c.input(0).size())} : c.input(0).shape();
  const std::size_t axis = flat ? 0 : normalize_axis(c, c.get_int("axis", 0), out.size());
  const AxisSplit s = split_at(out, axis);
  const std::vector<std::int64_t> condition = c.ints(1);
  if (condition.size() > s.length) {
    c.fail_input(fmt::format("the condition holds {} elements for an axis of length {}", condition.size(), s.length));
  }
  std::vector<std::size_t> from;
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (std::size_t k = 0; k < condition.size(); ++k) {
      for (std::size_t i = 0; condition[k] != 0 && i < s.inner; ++i) from.push_back((o * s.length + k) * s.inner + i);
    }
  }
  out[axis] = std::count_if(condition.begin(), condition.end(), [](std::int64_t v) { return v != 0; });
  return {gather(c.input(0), out, from)};
}

// --- Trilu -----------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_trilu(const InferContext& c) {
  c.require_rank(0, 2, SIZE_MAX);
  c.require_type(1, {DType::int64});
  const auto k = c.constant_ints(1);
  if (k && k->size() != 1) c.fail_input("k must hold one element");
  return {c.type(0)};
}

std::vector<Data> trilu(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const bool upper = c.get_int("upper", 1) != 0;
  const std::int64_t k = c.has_input(1) ? c.ints(1).at(0) : 0;
  const std::int64_t columns = shape.back();
  const std::int64_t rows = shape[shape.size() - 2];
  std::vector<numerics::Ref> refs(c.input(0).size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t diagonal = at % columns - at / columns % rows;
    const bool kept = upper ? diagonal >= k : diagonal <= k;
    refs[i] = kept ? numerics::Ref{0, i} : numerics::Ref{1, 0};
  }
  const Data zero = Tensor::own(c.result_type(), {}, std::vector<std::byte>(storage_size(c.result_type())));
  return {select(c.result_type(), shape, {c.input(0), zero}, std::move(refs))};
}

}  // namespace

std::vector<Operator> pick_operators() {
  return {
      {"", "NonZero", {9, 13}, 1, 1, 1, infer_non_zero, non_zero},
      {"", "OneHot", {9, 11, 28}, 3, 3, 1, infer_one_hot, one_hot},
      {"", "Compress", {9, 11, 28}, 2, 2, 1, infer_compress, compress},
      {"", "Trilu", {14}, 1, 2, 1, infer_trilu, trilu},
  };
}

}  // namespace halfeven::ops
