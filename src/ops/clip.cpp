// Clip (ai.onnx 6, 11, 12, 13): min(max(x, lo), hi), an element of x or a bound passed on (contract section 1, rule 4,
// and section 8). A bound that is absent is none: infinities stay infinities.
#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer_clip(const InferContext& c) {
  if (!is_integer(c.dtype(0))) c.require_float(0);
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    if (c.version() < 11) c.fail("bounds are attributes before opset 11, not inputs");
    if (!c.has_input(i)) continue;
    c.require_same_type(0, i);
    // ONNX asks for scalars; one element of rank 1 is common and means the same.
    c.require_rank(i, 0, 1);
    if (c.shape(i) && c.shape(i)->size() == 1 && (*c.shape(i))[0] > 1) {
      c.fail("bound '" + c.input_name(i) + "' of shape " + to_string(*c.shape(i)) + " must be a scalar");
    }
  }
  return {c.type(0)};
}

// -1, 0, 1 for the order of two elements of one type; nothing for NaN.
std::optional<int> order(const Data& a, std::size_t i, const Data& b, std::size_t j) {
  if (a.reals) return numerics::compare(*a.reals, i, *b.reals, j);
  return visit_integer(a.dtype(), [&]<class T>(T) -> std::optional<int> {
    T u;
    T v;
    std::memcpy(&u, a.tensor.data() + i * sizeof u, sizeof u);
    std::memcpy(&v, b.tensor.data() + j * sizeof v, sizeof v);
    return u < v ? -1 : (u > v ? 1 : 0);
  });
}

// Bound `which` (1: lo, 2: hi), if there is one.
Data bound(const EvalContext& c, std::size_t which) {
  if (c.version() < 11) {
    const char* name = which == 1 ? "min" : "max";
    if (!c.has_attribute(name)) return {};
    const float value = c.get_float(name, 0);
    return numerics::make_floats(Tensor::of<float>(DType::float32, {}, std::span(&value, 1)));
  }
  if (!c.has_input(which)) return {};
  if (c.input(which).size() != 1) {
    c.fail_input("bound '" + c.input_name(which) + "' has shape " + to_string(c.input(which).shape()) +
                 "; it must be a scalar");
  }
  return c.input(which);
}

std::vector<Data> clip(const EvalContext& c) {
  const Data& x = c.input(0);
  std::vector<Data> sources{x};
  const Data lo = bound(c, 1);
  const Data hi = bound(c, 2);
  std::vector<numerics::Ref> refs(x.size());
  // Sources: 0 x, 1 lo, 2 hi, where present.
  numerics::parallel_for(refs.size(), 4096, c.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Data* from = &x;
      numerics::Ref ref{0, i};
      if (lo.present()) {
        const auto o = order(x, i, lo, 0);
        const bool nan_bound = !o && order(x, i, x, i);
        if (nan_bound || (o && *o < 0)) {
          from = &lo;
          ref = {1, 0};
        }
      }
      if (hi.present()) {
        const auto o = order(*from, ref.index, hi, 0);
        const bool nan_bound = !o && order(*from, ref.index, *from, ref.index);
        if (nan_bound || (o && *o > 0)) ref = {2, 0};
      }
      refs[i] = ref;
    }
  });
  // A bound that no element meets is no source: a dequantized tensor stays one.
  std::uint32_t place = 1;
  for (std::uint32_t which = 1; which <= 2; ++which) {
    const auto meets = [&](const numerics::Ref& r) { return r.source == which; };
    if (std::none_of(refs.begin(), refs.end(), meets)) continue;
    sources.push_back(which == 1 ? lo : hi);
    if (place != which) {
      for (auto& r : refs) r.source = r.source == which ? place : r.source;
    }
    ++place;
  }
  return {select(x.dtype(), c.result_shape(), sources, std::move(refs))};
}

}  // namespace

std::vector<Operator> clip_operators() {
  return {{"", "Clip", {6, 11, 12, 13}, 1, 3, 1, infer_clip, clip, PassOn::first}};
}

}  // namespace halfeven::ops
