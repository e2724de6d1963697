#include "ops/common.hpp"

#include <fmt/format.h>

namespace halfeven::ops {

std::size_t normalize_axis(const NodeReader& node, std::int64_t axis, std::size_t rank, const char* what) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) {
    node.fail(rank == 0
                  ? fmt::format("{} {} is invalid for a scalar", what, axis)
                  : fmt::format("{} {} is invalid for a rank-{} input (allowed {}..{})", what, axis, r, -r, r - 1));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

std::vector<std::size_t> normalize_axes(const NodeReader& node, const std::vector<std::int64_t>& axes,
                                        std::size_t rank) {
  std::vector<std::size_t> out;
  for (const std::int64_t axis : axes) {
    const std::size_t a = normalize_axis(node, axis, rank);
    if (std::find(out.begin(), out.end(), a) != out.end()) node.fail(fmt::format("axis {} is given twice", axis));
    out.push_back(a);
  }
  return out;
}

std::int64_t dim_product(const NodeReader& node, const Shape& shape, std::size_t from, std::size_t to) {
  std::int64_t n = 1;
  bool unknown = false;
  for (std::size_t i = from; i < to; ++i) {
    if (shape[i] < 0) {
      unknown = true;
    } else if (__builtin_mul_overflow(n, shape[i], &n)) {
      node.fail(fmt::format("shape {} has too many elements", to_string(shape)));
    }
  }
  return unknown ? kUnknownDim : n;
}

std::optional<Shape> broadcast(const NodeReader& node, const std::vector<std::optional<Shape>>& shapes) {
  std::size_t rank = 0;
  for (const auto& s : shapes) {
    if (!s) return std::nullopt;
    rank = std::max(rank, s->size());
  }
  Shape out(rank, 1);
  for (const auto& s : shapes) {
    for (std::size_t k = 0; k < s->size(); ++k) {
      std::int64_t& d = out[rank - s->size() + k];
      const std::int64_t n = (*s)[k];
      if (n == 1 || n == d) continue;
      if (d == 1) {
        d = n;
      } else if (d < 0) {
        d = n;  // the known one of the two, since it is not 1
      } else if (n >= 0) {
        std::string all;
        for (const auto& t : shapes) all += (all.empty() ? "" : ", ") + to_string(*t);
        node.fail(fmt::format("shapes {} do not broadcast", all));
      }
    }
  }
  return out;
}

AxisSplit split_at(const Shape& shape, std::size_t axis) {
  AxisSplit s;
  for (std::size_t i = 0; i < axis; ++i) s.outer *= static_cast<std::size_t>(shape[i]);
  s.length = static_cast<std::size_t>(shape[axis]);
  for (std::size_t i = axis + 1; i < shape.size(); ++i) s.inner *= static_cast<std::size_t>(shape[i]);
  return s;
}

std::vector<std::size_t> strides_of(const Shape& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  return strides;
}

std::vector<std::size_t> broadcast_indices(const Shape& from, const Shape& to) {
  const std::vector<std::size_t> own = strides_of(from);
  std::vector<std::size_t> step(to.size(), 0);
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] != 1) step[to.size() - from.size() + k] = own[k];
  }
  std::vector<std::size_t> out;
  out.reserve(element_count(to));
  for (Odometer p(to); p.more(); p.step()) {
    std::size_t index = 0;
    for (std::size_t k = 0; k < to.size(); ++k) index += step[k] * static_cast<std::size_t>(p[k]);
    out.push_back(index);
  }
  return out;
}

Odometer::Odometer(Shape shape) : shape_(std::move(shape)), position_(shape_.size(), 0) {
  more_ = std::all_of(shape_.begin(), shape_.end(), [](std::int64_t n) { return n > 0; });
}

void Odometer::step() {
  for (std::size_t k = shape_.size(); k-- > 0;) {
    if (++position_[k] < shape_[k]) return;
    position_[k] = 0;
  }
  more_ = false;
}

std::vector<std::int64_t> integers(const Tensor& t) {
  std::vector<std::int64_t> out(t.size());
  visit_integer(t.dtype(), [&]<class T>(T) {
    const std::byte* p = t.data();
    for (std::size_t i = 0; i < out.size(); ++i) {
      T v;
      std::memcpy(&v, p + i * sizeof v, sizeof v);  // model data need not be aligned
      out[i] = static_cast<std::int64_t>(v);
    }
  });
  return out;
}

std::int64_t wrap(DType type, std::int64_t value) {
  const int width = bits(type);
  if (type == DType::boolean) return value != 0 ? 1 : 0;
  if (width >= 64) return value;
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  const std::uint64_t low = static_cast<std::uint64_t>(value) & mask;
  const bool negative = is_signed_integer(type) && ((low >> (width - 1)) & 1U) != 0;
  return static_cast<std::int64_t>(negative ? low | ~mask : low);
}

Tensor make_integers(DType type, Shape shape, std::span<const std::int64_t> values) {
  std::vector<std::byte> bytes(values.size() * storage_size(type));
  visit_integer(type, [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T v = static_cast<T>(wrap(type, values[i]));
      std::memcpy(bytes.data() + i * sizeof v, &v, sizeof v);
    }
  });
  return Tensor::own(type, std::move(shape), std::move(bytes));
}

Data select(DType dtype, const Shape& shape, const std::vector<Data>& sources, std::vector<numerics::Ref> refs) {
  if (is_float(dtype)) {
    std::vector<numerics::ExactPtr> reals;
    for (const Data& d : sources) reals.push_back(d.reals);
    return numerics::make_selection(dtype, shape, reals, std::move(refs));
  }
  const std::size_t width = storage_size(dtype);
  std::vector<std::byte> bytes(refs.size() * width);
  for (std::size_t k = 0; k < refs.size(); ++k) {
    std::memcpy(bytes.data() + k * width, sources[refs[k].source].tensor.data() + refs[k].index * width, width);
  }
  return Tensor::own(dtype, shape, std::move(bytes));
}

Data gather(const Data& source, const Shape& shape, const std::vector<std::size_t>& indices) {
  std::vector<numerics::Ref> refs(indices.size());
  std::transform(indices.begin(), indices.end(), refs.begin(), [](std::size_t i) { return numerics::Ref{0, i}; });
  return select(source.dtype(), shape, {source}, std::move(refs));
}

Data reshape(const Data& source, const Shape& shape) {
  if (!source.reals) return source.tensor.reshaped(shape);
  if (const Tensor* t = source.reals->floats()) return t->reshaped(shape);
  std::vector<std::size_t> same(source.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = i;
  return gather(source, shape, same);
}

Data map_integers(const EvalContext& c, const std::function<std::int64_t(std::int64_t, std::int64_t)>& f) {
  const Shape& out = c.result_shape();
  const auto a = c.ints(0);
  const auto b = c.ints(1);
  const auto ia = broadcast_indices(c.input(0).shape(), out);
  const auto ib = broadcast_indices(c.input(1).shape(), out);
  std::vector<std::int64_t> values(ia.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(a[ia[i]], b[ib[i]]);
  return make_integers(c.result_type(), out, values);
}

std::vector<TypeShape> infer_same(const InferContext& c) { return {c.type(0)}; }

std::vector<TypeShape> infer_same_float(const InferContext& c) {
  c.require_float(0);
  return {c.type(0)};
}

std::vector<TypeShape> infer_broadcast(const InferContext& c) {
  std::vector<std::optional<Shape>> shapes;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    c.require_same_type(0, i);
    shapes.push_back(c.shape(i));
  }
  return {{c.dtype(0), broadcast(c, shapes)}};
}

}  // namespace halfeven::ops
