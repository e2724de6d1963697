// Concat (ai.onnx 4): passes on (contract section 1, rule 4).
#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::int64_t axis_of(const NodeReader& node) {
  if (!node.has_attribute("axis")) node.fail("attribute 'axis' is missing");
  return node.get_int("axis", 0);
}

std::vector<TypeShape> infer(const InferContext& c) {
  std::optional<Shape> out;
  std::size_t axis = 0;
  bool all_known = true;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has_input(i)) c.fail(fmt::format("input {} is missing", i));
    c.require_same_type(0, i);
    if (!c.shape(i)) {
      all_known = false;
      continue;
    }
    const Shape& in = *c.shape(i);
    if (!out) {
      out = in;
      axis = normalize_axis(c, axis_of(c), in.size());
    }
    c.require_rank(i, out->size(), out->size());
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (k == axis) continue;
      if (in[k] >= 0 && (*out)[k] >= 0 && in[k] != (*out)[k]) {
        c.fail(fmt::format("input {} '{}' has shape {}, which does not fit {} outside axis {}", i, c.input_name(i),
                           to_string(in), to_string(*out), axis));
      }
      if ((*out)[k] < 0) (*out)[k] = in[k];
    }
    if (in[axis] < 0) {
      all_known = false;
    } else if (__builtin_add_overflow(length, in[axis], &length)) {
      c.fail("the sum of the lengths is out of range");
    }
  }
  if (out) (*out)[axis] = all_known ? length : kUnknownDim;
  return {{c.dtype(0), out}};
}

std::vector<Data> concat(const EvalContext& c) {
  const Shape& out = c.result_shape();
  const std::size_t axis = normalize_axis(c, axis_of(c), out.size());
  const AxisSplit whole = split_at(out, axis);
  std::vector<Data> sources;
  std::vector<std::size_t> run;  // elements that each input gives in one go
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    sources.push_back(c.input(i));
    run.push_back(split_at(c.input(i).shape(), axis).length * whole.inner);
  }
  std::vector<numerics::Ref> refs;
  refs.reserve(element_count(out));
  for (std::size_t o = 0; o < whole.outer; ++o) {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      for (std::size_t k = 0; k < run[s]; ++k) refs.push_back({static_cast<std::uint32_t>(s), o * run[s] + k});
    }
  }
  return {select(c.result_type(), out, sources, std::move(refs))};
}

}  // namespace

std::vector<Operator> concat_operators() {
  return {{"", "Concat", {4, 11, 13}, 1, kVariadic, 1, infer, concat, PassOn::all}};
}

}  // namespace halfeven::ops
