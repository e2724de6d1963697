// Gather, GatherElements, GatherND (ai.onnx 1, 11, 13): pass on (contract section 1, rule 4). Negative indices count
// from the end; others outside the axis are an error.
#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

// The indices, each in [0, length(k)).
template <class Length>
std::vector<std::size_t> checked_indices(const EvalContext& c, std::size_t input, Length length) {
  const std::vector<std::int64_t> raw = c.ints(input);
  std::vector<std::size_t> out(raw.size());
  for (std::size_t k = 0; k < raw.size(); ++k) {
    const std::int64_t n = length(k);
    const std::int64_t i = raw[k] < 0 ? raw[k] + n : raw[k];
    if (i < 0 || i >= n) {
      c.fail_input(fmt::format("index {} (element {} of '{}') is out of range for an axis of length {}", raw[k], k,
                               c.input_name(input), n));
    }
    out[k] = static_cast<std::size_t>(i);
  }
  return out;
}

void require_indices(const InferContext& c) { c.require_type(1, {DType::int64, DType::int32}); }

std::vector<TypeShape> infer_gather(const InferContext& c) {
  require_indices(c);
  const auto& data = c.shape(0);
  const auto& indices = c.shape(1);
  if (!data) return {{c.dtype(0), std::nullopt}};
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data->size());
  if (!indices) return {{c.dtype(0), std::nullopt}};
  const auto at = data->begin() + static_cast<std::ptrdiff_t>(axis);
  Shape out(data->begin(), at);
  out.insert(out.end(), indices->begin(), indices->end());
  out.insert(out.end(), at + 1, data->end());
  return {{c.dtype(0), out}};
}

std::vector<Data> gather_axis(const EvalContext& c) {
  const Shape& data = c.input(0).shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data.size());
  const AxisSplit s = split_at(data, axis);
  const auto picks = checked_indices(c, 1, [&](std::size_t) { return data[axis]; });
  std::vector<std::size_t> from;
  from.reserve(s.outer * picks.size() * s.inner);
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (const std::size_t p : picks) {
      for (std::size_t i = 0; i < s.inner; ++i) from.push_back((o * s.length + p) * s.inner + i);
    }
  }
  return {gather(c.input(0), c.result_shape(), from)};
}

std::vector<TypeShape> infer_elements(const InferContext& c) {
  require_indices(c);
  const auto& data = c.shape(0);
  const auto& indices = c.shape(1);
  if (!data) return {{c.dtype(0), indices}};
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data->size());
  c.require_rank(1, data->size(), data->size());
  for (std::size_t k = 0; indices && k < data->size(); ++k) {
    if (k != axis && (*data)[k] >= 0 && (*indices)[k] > (*data)[k]) {
      c.fail(fmt::format("the indices {} exceed the data {} along axis {}", to_string(*indices), to_string(*data), k));
    }
  }
  return {{c.dtype(0), indices}};
}

std::vector<Data> gather_elements(const EvalContext& c) {
  const Shape& data = c.input(0).shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data.size());
  const std::vector<std::size_t> strides = strides_of(data);
  const auto picks = checked_indices(c, 1, [&](std::size_t) { return data[axis]; });
  std::vector<std::size_t> from;
  from.reserve(picks.size());
  for (Odometer p(c.result_shape()); p.more(); p.step()) {
    std::size_t index = picks[from.size()] * strides[axis];
    for (std::size_t k = 0; k < data.size(); ++k) {
      if (k != axis) index += static_cast<std::size_t>(p[k]) * strides[k];
    }
    from.push_back(index);
  }
  return {gather(c.input(0), c.result_shape(), from)};
}

// --- GatherND --------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_nd(const InferContext& c) {
  c.require_type(1, {DType::int64});
  c.require_rank(0, 1, SIZE_MAX);
  c.require_rank(1, 1, SIZE_MAX);
  const auto& data = c.shape(0);
  const auto& indices = c.shape(1);
  const std::int64_t batch = c.get_int("batch_dims", 0);
  if (batch < 0) c.fail(fmt::format("batch_dims {} is negative", batch));
  if (!data || !indices) return {{c.dtype(0), std::nullopt}};
  const auto b = static_cast<std::size_t>(batch);
  if (b >= data->size() || b >= indices->size()) {
    c.fail(fmt::format("batch_dims {} must be below the ranks of data {} and indices {}", batch, to_string(*data),
                       to_string(*indices)));
  }
  for (std::size_t k = 0; k < b; ++k) {
    if ((*data)[k] >= 0 && (*indices)[k] >= 0 && (*data)[k] != (*indices)[k]) {
      c.fail(
          fmt::format("data {} and indices {} differ in batch dimension {}", to_string(*data), to_string(*indices), k));
    }
  }
  const std::int64_t depth = indices->back();
  if (depth < 0) return {{c.dtype(0), std::nullopt}};
  if (depth < 1 || static_cast<std::size_t>(depth) > data->size() - b) {
    c.fail(fmt::format("the last dimension of the indices {} must be 1..{}", to_string(*indices), data->size() - b));
  }
  Shape out(indices->begin(), indices->end() - 1);
  out.insert(out.end(), data->begin() + batch + depth, data->end());
  return {{c.dtype(0), out}};
}

std::vector<Data> gather_nd(const EvalContext& c) {
  const Shape& data = c.input(0).shape();
  const Shape& indices = c.input(1).shape();
  const auto batch = static_cast<std::size_t>(c.get_int("batch_dims", 0));
  const auto depth = static_cast<std::size_t>(indices.back());
  const std::vector<std::size_t> strides = strides_of(data);
  const auto picks = checked_indices(c, 1, [&](std::size_t k) { return data[batch + k % depth]; });
  const std::size_t inner = strides[batch + depth - 1];  // elements that one tuple of indices picks
  // Tuples per batch entry; the batch dimensions lead both tensors.
  std::size_t per_batch = 1;
  for (std::size_t k = batch; k + 1 < indices.size(); ++k) per_batch *= static_cast<std::size_t>(indices[k]);
  const std::size_t batch_stride = strides[batch] * static_cast<std::size_t>(data[batch]);
  std::vector<std::size_t> from;
  from.reserve(picks.size() / depth * inner);
  for (std::size_t t = 0; t < picks.size() / depth; ++t) {
    std::size_t index = t / per_batch * batch_stride;
    for (std::size_t k = 0; k < depth; ++k) index += picks[t * depth + k] * strides[batch + k];
    for (std::size_t i = 0; i < inner; ++i) from.push_back(index + i);
  }
  return {gather(c.input(0), c.result_shape(), from)};
}

}  // namespace

std::vector<Operator> gather_operators() {
  return {
      {"", "Gather", {1, 11, 13}, 2, 2, 1, infer_gather, gather_axis, PassOn::first},
      {"", "GatherElements", {11, 13}, 2, 2, 1, infer_elements, gather_elements, PassOn::first},
      {"", "GatherND", {11, 12, 13}, 2, 2, 1, infer_nd, gather_nd, PassOn::first},
  };
}

}  // namespace halfeven::ops
