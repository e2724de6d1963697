// Slice (ai.onnx 1: attributes; 10: inputs, steps): passes on (contract section 1, rule 4).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// Along one axis: elements first, first + step, ... , `count` of them.
struct Range {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

// The operator's clamping: starts and ends beyond the axis mean its ends, so INT_MAX and INT_MIN say "all".
Range range_of(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t n) {
  if (start < 0) start += n;
  if (end < 0) end += n;
  // A step longer than the axis reaches one element, as any other does; limited, it cannot overflow.
  const std::int64_t most = std::max<std::int64_t>(n, 1);
  step = std::clamp(step, -most, most);
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, n);
    end = std::clamp<std::int64_t>(end, 0, n);
    return {start, step, end > start ? (end - start + step - 1) / step : 0};
  }
  start = std::clamp<std::int64_t>(start, -1, n - 1);
  end = std::clamp<std::int64_t>(end, -1, n - 1);
  return {start, step, start > end ? (start - end - step - 1) / -step : 0};
}

struct Slices {
  std::optional<std::vector<std::int64_t>> starts, ends, steps;
  std::optional<std::vector<std::int64_t>> axes;
  bool axes_given = false;
};

template <class Context>
Slices read(const Context& c) {
  Slices s;
  if (c.version() < 10) {
    if (!c.has_attribute("starts") || !c.has_attribute("ends")) c.fail("attributes 'starts' and 'ends' are needed");
    s.starts = c.get_ints("starts", {});
    s.ends = c.get_ints("ends", {});
    s.axes_given = c.has_attribute("axes");
    s.axes = c.get_ints("axes", {});
  } else {
    if (!c.has_input(1) || !c.has_input(2)) c.fail("inputs 1 (starts) and 2 (ends) are needed");
    s.starts = known_ints(c, 1);
    s.ends = known_ints(c, 2);
    s.axes_given = c.has_input(3);
    s.axes = known_ints(c, 3);
    s.steps = known_ints(c, 4);
  }
  if (!s.axes_given && s.starts) {
    s.axes.emplace();
    for (std::size_t k = 0; k < s.starts->size(); ++k) s.axes->push_back(static_cast<std::int64_t>(k));
  }
  if (!s.steps && !c.has_input(4) && s.starts) s.steps.emplace(s.starts->size(), 1);
  const std::size_t length = s.starts ? s.starts->size() : 0;
  const auto fits = [&](const auto& list) { return !s.starts || !list || list->size() == length; };
  if (!fits(s.ends) || !fits(s.axes) || !fits(s.steps)) c.fail("starts, ends, axes and steps differ in length");
  return s;
}

// The range along each axis of a shape; count is -1 where it is not known.
std::vector<Range> ranges(const NodeReader& node, const Slices& s, const Shape& in) {
  std::vector<Range> out;
  for (const std::int64_t n : in) out.push_back({0, 1, n});
  if (!s.axes) {
    for (Range& r : out) r.count = kUnknownDim;
    return out;
  }
  const std::vector<std::size_t> axes = normalize_axes(node, *s.axes, in.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Range& r = out[axes[k]];
    const std::int64_t n = in[axes[k]];
    if (s.steps && (*s.steps)[k] == 0) node.fail(fmt::format("the step along axis {} is 0", axes[k]));
    if (!s.starts || !s.ends || !s.steps || n < 0) {
      r.count = kUnknownDim;
    } else {
      r = range_of((*s.starts)[k], (*s.ends)[k], (*s.steps)[k], n);
    }
  }
  return out;
}

std::vector<TypeShape> infer(const InferContext& c) {
  for (std::size_t i = 1; i < c.inputs(); ++i) list_length(c, i);
  const Slices s = read(c);
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out;
  for (const Range& r : ranges(c, s, *c.shape(0))) out.push_back(r.count);
  return {{c.dtype(0), out}};
}

std::vector<Data> slice(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const std::vector<std::int64_t> strides = signed_strides(in);
  const std::vector<Range> along = ranges(c, read(c), in);
  std::int64_t offset = 0;
  std::vector<std::int64_t> steps;
  Shape out;
  for (std::size_t k = 0; k < in.size(); ++k) {
    offset += along[k].first * strides[k];
    steps.push_back(along[k].step * strides[k]);
    out.push_back(along[k].count);
  }
  return {gather(c.input(0), out, strided_indices(out, offset, steps))};
}

}  // namespace

std::vector<Operator> slice_operators() {
  return {{"", "Slice", {1, 10, 11, 13}, 1, 5, 1, infer, slice, PassOn::first}};
}

}  // namespace halfeven::ops
