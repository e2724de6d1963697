// BatchNormalization (inference), LayerNormalization, InstanceNormalization, GroupNormalization, RMSNormalization
// (ai.onnx). Each element is one exact real value, (x - mean) * scale / sqrt(variance + epsilon) + bias, with nothing
// rounded in between; stash_type therefore decides the type of LayerNormalization's extra outputs only.
#include "ops/formulas.hpp"

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::ExactPtr;
using numerics::number;
using numerics::Real;

// --- BatchNormalization ----------------------------------------------------------------------------------------------

void require_length(const InferContext& c, std::size_t i, std::int64_t length, const char* of) {
  c.require_float(i);
  c.require_rank(i, 1, 1);
  if (!c.has_input(i) || !c.shape(i) || length < 0 || (*c.shape(i))[0] < 0 || (*c.shape(i))[0] == length) return;
  c.fail(fmt::format("input '{}' has {} entries, one for each of {} {} is needed", c.input_name(i), (*c.shape(i))[0],
                     length, of));
}

std::vector<TypeShape> infer_batch(const InferContext& c) {
  c.require_float(0);
  c.require_rank(0, 1, 1000);
  if (c.get_int("spatial", 1) != 1) c.fail("spatial = 0 is not supported");
  if (c.get_int("training_mode", 0) != 0) c.fail("training_mode = 1 is not supported");
  for (std::size_t i = 1; i < c.outputs(); ++i) {
    if (c.has_output(i)) c.fail("outputs beyond the first belong to training, which is not supported");
  }
  std::int64_t channels = kUnknownDim;
  if (c.shape(0)) channels = c.shape(0)->size() < 2 ? 1 : (*c.shape(0))[1];
  for (std::size_t i = 1; i < 5; ++i) require_length(c, i, channels, "channels");
  return std::vector<TypeShape>(c.outputs(), c.type(0));
}

std::vector<Data> batch(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const AxisSplit split = shape.size() < 2 ? AxisSplit{1, 1, element_count(shape)} : split_at(shape, 1);
  const double epsilon = static_cast<double>(c.get_float("epsilon", 1e-5F));
  const ExactPtr& variance = c.reals(4);
  const auto root = [variance, epsilon]<class N>(std::size_t k, std::type_identity<N>) -> N {
    return sqrt(numerics::load<N>(*variance, k) + number<N>(epsilon));
  };
  std::vector<Approx> roots(variance->size());
  for (std::size_t k = 0; k < roots.size(); ++k) roots[k] = root(k, std::type_identity<Approx>{});
  return {numerics::make_elements(
      c.result_type(), shape, c.threads(),
      [x = c.reals(0), scale = c.reals(1), bias = c.reals(2), mean = c.reals(3), roots = std::move(roots), root,
       split]<class N>(std::size_t i, std::type_identity<N> kind) -> N {
        const std::size_t k = i / split.inner % split.length;
        const N centred = numerics::load<N>(*x, i) - numerics::load<N>(*mean, k);
        const N scaled = centred * numerics::load<N>(*scale, k);
        if constexpr (std::is_same_v<N, Approx>) {
          return scaled / roots[k] + bias->approx(k);
        } else {
          return scaled / root(k, kind) + bias->exact(k);
        }
      })};
}

// --- normalisation of rows -------------------------------------------------------------------------------------------

// Of a row: the mean (zero for RMSNormalization) and sqrt(variance + epsilon).
template <class N>
struct Statistics {
  N mean;
  N root;
};

// The statistics of `rows` rows of `length` elements that follow each other.
class Rows {
 public:
  Rows(ExactPtr x, std::size_t rows, std::size_t length, float epsilon, bool centred, int threads)
      : x_(std::move(x)), length_(length), epsilon_(static_cast<double>(epsilon)), centred_(centred) {
    approximate_.resize(rows);
    numerics::parallel_for(approximate_.size(), 1 + 1024 / std::max<std::size_t>(length, 1), threads,
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t r = begin; r < end; ++r) approximate_[r] = compute<Approx>(r);
                           });
  }

  std::size_t row_of(std::size_t i) const { return i / length_; }
  template <class N>
  Statistics<N> get(std::size_t row) const {
    if constexpr (std::is_same_v<N, Approx>) {
      return approximate_[row];
    } else {
      return exact_.get(row, [&] { return compute<Real>(row); });
    }
  }

 private:
  template <class N>
  Statistics<N> compute(std::size_t row) const {
    const std::size_t first = row * length_;
    const N n = number<N>(static_cast<double>(length_));
    const N mean = centred_ ? total_of<N>(*x_, length_, [&](std::size_t j) { return first + j; }) / n : number<N>(0.0);
    const N squares = sum_of<N>(length_, [&](std::size_t j) {
      const N d = numerics::load<N>(*x_, first + j) - mean;
      return d * d;
    });
    return {mean, sqrt(squares / n + number<N>(epsilon_))};
  }

  ExactPtr x_;
  std::size_t length_;
  double epsilon_;
  bool centred_;
  std::vector<Statistics<Approx>> approximate_;
  mutable SharedValues<Statistics<Real>> exact_;
};

// (x - mean) * scale[place(i)] / root + bias[place(i)]; bias may be null.
template <class Place>
ExactPtr normalize(const EvalContext& c, const std::shared_ptr<const Rows>& rows, const ExactPtr& scale,
                   const ExactPtr& bias, Place scale_place, Place bias_place) {
  return numerics::make_elements(
      c.result_type(), c.result_shape(), c.threads(),
      [x = c.reals(0), rows, scale, bias, scale_place = std::move(scale_place),
       bias_place = std::move(bias_place)]<class N>(std::size_t i, std::type_identity<N>) -> N {
        const Statistics<N> s = rows->template get<N>(rows->row_of(i));
        const N y = (numerics::load<N>(*x, i) - s.mean) * numerics::load<N>(*scale, scale_place(i)) / s.root;
        return bias ? y + numerics::load<N>(*bias, bias_place(i)) : y;
      });
}

// Channel parameters: element i has number i / inner % count.
struct ChannelPlace {
  std::size_t inner;
  std::size_t count;
  std::size_t operator()(std::size_t i) const { return i / inner % count; }
};

// Parameters that broadcast to the whole tensor.
class BroadcastPlace {
 public:
  BroadcastPlace() = default;
  BroadcastPlace(const Shape& from, const Shape& to) : period_(std::max<std::size_t>(element_count(from), 1)) {
    const bool suffix = from.size() <= to.size() && std::equal(from.rbegin(), from.rend(), to.rbegin());
    if (!suffix) indices_ = broadcast_indices(from, to);
  }
  std::size_t operator()(std::size_t i) const { return indices_.empty() ? i % period_ : indices_[i]; }

 private:
  std::size_t period_ = 1;
  std::vector<std::size_t> indices_;
};

// --- LayerNormalization, RMSNormalization ----------------------------------------------------------------------------

DType stash_type(const NodeReader& c) {
  const std::int64_t v = c.get_int("stash_type", 1);
  for (const DType t : {DType::float32, DType::float16, DType::float64, DType::bfloat16}) {
    if (v == static_cast<std::int64_t>(t)) return t;
  }
  c.fail(fmt::format("stash_type {} is no float type", v));
}

std::vector<TypeShape> infer_layer(const InferContext& c) {
  c.require_float(0);
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    c.require_float(i);
    require_broadcast_to(c, i, 0);
  }
  std::vector<TypeShape> results{c.type(0)};
  TypeShape row{stash_type(c), c.shape(0)};
  if (row.shape) {
    const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), row.shape->size());
    std::fill(row.shape->begin() + static_cast<std::ptrdiff_t>(axis), row.shape->end(), 1);
  }
  while (results.size() < c.outputs()) results.push_back(row);
  return results;
}

template <bool kCentred>
std::vector<Data> layer(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), shape.size());
  const auto length = static_cast<std::size_t>(dim_product(c, shape, axis, shape.size()));
  const auto count = static_cast<std::size_t>(dim_product(c, shape, 0, axis));
  const auto rows =
      std::make_shared<const Rows>(c.reals(0), count, length, c.get_float("epsilon", 1e-5F), kCentred, c.threads());
  const ExactPtr bias = c.has_input(2) ? c.reals(2) : nullptr;
  std::vector<Data> results{normalize(c, rows, c.reals(1), bias, BroadcastPlace(c.input(1).shape(), shape),
                                      bias ? BroadcastPlace(bias->shape(), shape) : BroadcastPlace())};
  for (std::size_t k = 1; k < c.outputs(); ++k) {
    results.emplace_back(numerics::make_elements(c.result_type(k), c.result_shape(k), c.threads(),
                                                 [rows, k]<class N>(std::size_t r, std::type_identity<N>) -> N {
                                                   const Statistics<N> s = rows->template get<N>(r);
                                                   return k == 1 ? s.mean : number<N>(1.0) / s.root;
                                                 }));
  }
  return results;
}

// --- InstanceNormalization, GroupNormalization -----------------------------------------------------------------------

std::vector<TypeShape> infer_instance(const InferContext& c) {
  c.require_float(0);
  c.require_rank(0, 2, 1000);
  const std::int64_t channels = c.shape(0) ? (*c.shape(0))[1] : kUnknownDim;
  for (const std::size_t i : {1U, 2U}) require_length(c, i, channels, "channels");
  return {c.type(0)};
}

std::vector<TypeShape> infer_group(const InferContext& c) {
  c.require_float(0);
  c.require_rank(0, 2, 1000);
  const std::int64_t groups = c.get_int("num_groups", 0);
  if (groups < 1) c.fail("num_groups must be positive");
  const std::int64_t channels = c.shape(0) ? (*c.shape(0))[1] : kUnknownDim;
  if (channels >= 0 && channels % groups != 0) {
    c.fail(fmt::format("{} channels do not divide into {} groups", channels, groups));
  }
  const bool by_group = c.version() < 21;
  for (const std::size_t i : {1U, 2U}) {
    require_length(c, i, by_group ? groups : channels, by_group ? "groups" : "channels");
  }
  return {c.type(0)};
}

// Statistics over each of `groups` groups of channels of each image; `by_group`: one scale a group, else one a channel.
Data grouped(const EvalContext& c, std::size_t groups, bool by_group) {
  const Shape& shape = c.result_shape();
  const AxisSplit split = split_at(shape, 1);
  const std::size_t length = split.length / groups * split.inner;
  const auto rows = std::make_shared<const Rows>(c.reals(0), split.outer * groups, length,
                                                 c.get_float("epsilon", 1e-5F), true, c.threads());
  const ChannelPlace place = by_group ? ChannelPlace{length, groups} : ChannelPlace{split.inner, split.length};
  return normalize(c, rows, c.reals(1), c.reals(2), place, place);
}

std::vector<Data> instance(const EvalContext& c) {
  return {grouped(c, std::max<std::size_t>(1, static_cast<std::size_t>(c.result_shape()[1])), false)};
}

std::vector<Data> group(const EvalContext& c) {
  return {grouped(c, static_cast<std::size_t>(c.get_int("num_groups", 0)), c.version() < 21)};
}

}  // namespace

std::vector<Operator> normalization_operators() {
  return {
      {"", "BatchNormalization", {7, 9, 14, 15}, 5, 5, 5, infer_batch, batch},
      {"", "LayerNormalization", {17}, 2, 3, 3, infer_layer, layer<true>},
      {"", "RMSNormalization", {23}, 2, 2, 1, infer_layer, layer<false>},
      {"", "InstanceNormalization", {6, 22}, 3, 3, 1, infer_instance, instance},
      {"", "GroupNormalization", {18, 21}, 3, 3, 1, infer_group, group},
  };
}

}  // namespace halfeven::ops
