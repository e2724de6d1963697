// MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool (ai.onnx) over any number of spatial dimensions. The
// maxima are elements passed on (contract section 1, rule 4), of float, int8 or uint8 tensors.
#include "ops/pool.hpp"

#include <fmt/format.h>

#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::number;
using numerics::Real;

// Which spatial positions each window covers.
class Taps {
 public:
  Taps(const Window& window, const Shape& sizes, bool include_pad) : out_(window.out) {
    const auto strides = strides_of(sizes);
    axes_.resize(sizes.size());
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      axes_[k].step = strides[k] * static_cast<std::size_t>(window.dilations[k]);
      for (std::int64_t o = 0; o < window.out[k]; ++o) {
        const std::int64_t start = o * window.strides[k] - window.begin[k];
        // Of start, start + dilation, ...: how many lie below `limit`, at most the kernel's length.
        const auto below = [&](std::int64_t limit) {
          const std::int64_t d = window.dilations[k];
          return std::min(window.kernel[k], start >= limit ? 0 : (limit - start + d - 1) / d);
        };
        const std::int64_t first = below(0);
        const std::int64_t inside = below(sizes[k]) - first;
        axes_[k].first.push_back(
            inside == 0 ? 0 : static_cast<std::size_t>(start + first * window.dilations[k]) * strides[k]);
        axes_[k].count.push_back(static_cast<std::size_t>(inside));
        axes_[k].divisor.push_back(include_pad ? below(sizes[k] + window.end[k]) : inside);
      }
    }
  }

  /// Number of windows.
  std::size_t size() const { return element_count(out_); }

  /// The places (in one image of one channel, C order) that window `at` covers, and what an average divides by.
  double cover(std::size_t at, std::vector<std::size_t>& places) const {
    places.assign(1, 0);
    double divisor = 1;
    std::vector<std::size_t> next;
    for (std::size_t k = axes_.size(); k-- > 0;) {
      const auto n = static_cast<std::size_t>(out_[k]);
      const Axis& axis = axes_[k];
      const std::size_t o = at % n;
      at /= n;
      divisor *= static_cast<double>(axis.divisor[o]);
      next.clear();
      for (std::size_t t = 0; t < axis.count[o]; ++t) {
        for (const std::size_t p : places) next.push_back(p + axis.first[o] + t * axis.step);
      }
      places.swap(next);
    }
    return divisor;
  }

 private:
  struct Axis {
    std::size_t step = 1;
    std::vector<std::size_t> first;
    std::vector<std::size_t> count;
    std::vector<std::int64_t> divisor;
  };
  Shape out_;
  std::vector<Axis> axes_;
};

// Images times channels.
std::size_t planes_of(const Shape& shape) { return static_cast<std::size_t>(shape[0] * shape[1]); }

// Numbers that are ordered as the elements are, where that is quick to have; NaN for NaN.
std::optional<std::vector<double>> order_keys(const Data& x) {
  std::vector<double> keys(x.size());
  if (!x.reals) {
    const auto values = integers(x.tensor);
    std::transform(values.begin(), values.end(), keys.begin(), [](std::int64_t v) { return static_cast<double>(v); });
    return keys;
  }
  if (const numerics::Affine* a = x.reals->affine(); a != nullptr && a->per_tensor()) {
    const double sign = a->scales[0] > 0 ? 1 : (a->scales[0] < 0 ? -1 : 0);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = sign * static_cast<double>(a->integers[i]);
    return keys;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Approx v = x.reals->approx(i);
    if (!v.exact()) return std::nullopt;
    keys[i] = v.mid;
  }
  return keys;
}

// True if element i comes before element j in the search for a maximum. The first NaN ends the search.
class Greater {
 public:
  explicit Greater(const Data& x) : x_(x), keys_(order_keys(x)) {}
  bool operator()(std::size_t i, std::size_t j) const {
    if (keys_) return (*keys_)[i] > (*keys_)[j] || (std::isnan((*keys_)[i]) && !std::isnan((*keys_)[j]));
    const auto order = numerics::compare(*x_.reals, i, *x_.reals, j);
    return order ? *order > 0 : numerics::is_nan(*x_.reals, i) && !numerics::is_nan(*x_.reals, j);
  }

 private:
  const Data& x_;
  std::optional<std::vector<double>> keys_;
};

// The element that is the maximum of each window, for each plane.
std::vector<std::size_t> maxima(const EvalContext& c, const Data& x, const Window& window) {
  const Shape sizes = spatial(x.shape());
  const std::size_t plane = element_count(sizes);
  const std::size_t planes = planes_of(x.shape());
  if (planes == 0) return {};
  const Taps taps(window, sizes, false);
  const std::size_t windows = taps.size();
  const Greater greater(x);
  std::vector<std::size_t> found(planes * windows);
  numerics::parallel_for(windows, 1 + 1024 / planes, c.threads(), [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> places;
    for (std::size_t w = begin; w < end; ++w) {
      taps.cover(w, places);
      if (places.empty()) {
        c.fail_input(
            fmt::format("window {} of input '{}' holds padding only, which has no maximum", w, c.input_name(0)));
      }
      for (std::size_t p = 0; p < planes; ++p) {
        std::size_t best = p * plane + places[0];
        for (const std::size_t place : places) {
          if (greater(p * plane + place, best)) best = p * plane + place;
        }
        found[p * windows + w] = best;
      }
    }
  });
  return found;
}

// The Indices output: places in the whole tensor, within an image in C order or (storage_order 1) in Fortran order.
Tensor indices_of(const EvalContext& c, const std::vector<std::size_t>& found) {
  const Shape sizes = spatial(c.input(0).shape());
  const std::size_t plane = element_count(sizes);
  const bool column_major = c.get_int("storage_order", 0) == 1;
  std::vector<std::int64_t> values(found.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t place = found[i];
    if (column_major) {
      std::size_t rest = place % plane;
      std::size_t within = 0;
      std::size_t stride = plane;
      for (std::size_t k = sizes.size(); k-- > 0;) {
        const auto n = static_cast<std::size_t>(sizes[k]);
        stride /= n;
        within += rest % n * stride;
        rest /= n;
      }
      place = place / plane * plane + within;
    }
    values[i] = static_cast<std::int64_t>(place);
  }
  return make_integers(DType::int64, c.result_shape(1), values);
}

}  // namespace

Window read_pool_window(const NodeReader& c, const Shape& shape) {
  const Shape kernel = c.get_ints("kernel_shape", {});
  if (kernel.empty()) c.fail("attribute kernel_shape is missing");
  return read_window(c, spatial(shape), kernel, c.get_int("ceil_mode", 0) != 0);
}

Shape pooled_shape(const Shape& shape, const Window& window) {
  Shape out{shape[0], shape[1]};
  out.insert(out.end(), window.out.begin(), window.out.end());
  return out;
}

namespace {

// One value for each window of each plane: value(x, where the plane starts, places in it, divisor, kind of number).
template <class Value>
numerics::ExactPtr pool_windows(const numerics::ExactPtr& x, const Window& window, bool include_pad, DType dtype,
                                int threads, Value value) {
  const Shape sizes = spatial(x->shape());
  const std::size_t plane = element_count(sizes);
  const std::size_t planes = planes_of(x->shape());
  const Shape shape = pooled_shape(x->shape(), window);
  if (planes == 0) return numerics::make_computed(dtype, shape, {}, nullptr);
  auto taps = std::make_shared<const Taps>(window, sizes, include_pad);
  const std::size_t windows = taps->size();
  std::vector<Approx> values(planes * windows);
  numerics::parallel_for(windows, 1 + 1024 / planes, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> places;
    for (std::size_t w = begin; w < end; ++w) {
      const double divisor = taps->cover(w, places);
      for (std::size_t p = 0; p < planes; ++p) {
        values[p * windows + w] = value(*x, p * plane, places, divisor, std::type_identity<Approx>{});
      }
    }
  });
  return numerics::make_computed(dtype, shape, std::move(values), [x, taps, plane, windows, value](std::size_t i) {
    std::vector<std::size_t> places;
    const double divisor = taps->cover(i % windows, places);
    return value(*x, i / windows * plane, places, divisor, std::type_identity<Real>{});
  });
}

}  // namespace

numerics::ExactPtr average_pool(const numerics::ExactPtr& x, const Window& window, bool include_pad, DType dtype,
                                int threads) {
  return pool_windows(x, window, include_pad, dtype, threads,
                      []<class N>(const numerics::ExactTensor& from, std::size_t base,
                                  const std::vector<std::size_t>& places, double divisor, std::type_identity<N>) -> N {
                        return total_of<N>(from, places.size(), [&](std::size_t j) { return base + places[j]; }) /
                               number<N>(divisor);
                      });
}

numerics::ExactPtr global_average_pool(const numerics::ExactPtr& x, DType dtype, int threads) {
  Shape out(x->shape().size(), 1);
  out[0] = x->shape()[0];
  out[1] = x->shape()[1];
  const std::size_t plane = element_count(spatial(x->shape()));
  return numerics::make_elements(dtype, out, threads, [x, plane]<class N>(std::size_t i, std::type_identity<N>) -> N {
    return total_of<N>(*x, plane, [&](std::size_t j) { return i * plane + j; }) / number<N>(static_cast<double>(plane));
  });
}

namespace {

constexpr std::size_t kAnyRank = 1000;

std::vector<TypeShape> infer_pool(const InferContext& c) {
  c.require_rank(0, 3, kAnyRank);
  TypeShape y{c.dtype(0), std::nullopt};
  if (c.shape(0)) y.shape = pooled_shape(*c.shape(0), read_pool_window(c, *c.shape(0)));
  std::vector<TypeShape> results{y};
  if (c.outputs() > 1) results.push_back({DType::int64, y.shape});
  return results;
}

std::vector<TypeShape> infer_average_pool(const InferContext& c) {
  c.require_float(0);
  return infer_pool(c);
}

std::vector<TypeShape> infer_max_pool(const InferContext& c) {
  const bool bytes = c.dtype(0) == DType::int8 || c.dtype(0) == DType::uint8;
  if (!bytes) c.require_float(0);
  if (const std::int64_t order = c.get_int("storage_order", 0); order != 0 && order != 1) {
    c.fail(fmt::format("storage_order must be 0 or 1, not {}", order));
  }
  return infer_pool(c);
}

std::vector<TypeShape> infer_global(const InferContext& c) {
  c.require_float(0);
  c.require_rank(0, 3, kAnyRank);
  TypeShape y = c.type(0);
  if (y.shape) std::fill(y.shape->begin() + 2, y.shape->end(), 1);
  return {y};
}

std::vector<Data> max_pool(const EvalContext& c) {
  const Data& x = c.input(0);
  const auto found = maxima(c, x, read_pool_window(c, x.shape()));
  std::vector<Data> results{gather(x, c.result_shape(), found)};
  if (c.outputs() > 1) results.emplace_back(indices_of(c, found));
  return results;
}

std::vector<Data> global_max_pool(const EvalContext& c) {
  const Data& x = c.input(0);
  const Shape sizes = spatial(x.shape());
  const Shape ones(sizes.size(), 1);
  const Shape none(sizes.size(), 0);
  return {gather(x, c.result_shape(), maxima(c, x, {sizes, ones, ones, none, none, ones}))};
}

std::vector<Data> average_pool_node(const EvalContext& c) {
  const Window window = read_pool_window(c, c.input(0).shape());
  return {average_pool(c.reals(0), window, c.get_int("count_include_pad", 0) != 0, c.result_type(), c.threads())};
}

std::vector<TypeShape> infer_lp_pool(const InferContext& c) {
  if (const std::int64_t p = c.get_int("p", 2); p < 1 || p > 1000)
    c.fail(fmt::format("p = {} is not supported (1 to 1000)", p));
  return infer_average_pool(c);
}

std::vector<Data> lp_pool(const EvalContext& c) {
  const auto p = static_cast<double>(c.get_int("p", 2));
  const Window window = read_pool_window(c, c.input(0).shape());
  return {pool_windows(c.reals(0), window, false, c.result_type(), c.threads(),
                       [p]<class N>(const numerics::ExactTensor& from, std::size_t base,
                                    const std::vector<std::size_t>& places, double, std::type_identity<N>) -> N {
                         const N total = sum_of<N>(places.size(), [&](std::size_t j) {
                           const N v = numerics::load<N>(from, base + places[j]);
                           return p == 1 ? abs(v) : p == 2 ? v * v : pow(abs(v), number<N>(p));
                         });
                         if (p <= 2) return p == 1 ? total : sqrt(total);
                         return pow(total, number<N>(1.0) / number<N>(p));
                       })};
}

std::vector<Data> global_average_pool_node(const EvalContext& c) {
  return {global_average_pool(c.reals(0), c.result_type(), c.threads())};
}

}  // namespace

std::vector<Operator> pool_operators() {
  return {
      {"", "MaxPool", {1, 8, 10, 11, 12, 22}, 1, 1, 2, infer_max_pool, max_pool, PassOn::first},
      {"", "AveragePool", {7, 10, 11, 19, 22}, 1, 1, 1, infer_average_pool, average_pool_node},
      {"", "LpPool", {2, 11, 18, 22}, 1, 1, 1, infer_lp_pool, lp_pool},
      {"", "GlobalMaxPool", {1, 22}, 1, 1, 1, infer_global, global_max_pool, PassOn::first},
      {"", "GlobalAveragePool", {1, 22}, 1, 1, 1, infer_global, global_average_pool_node},
  };
}

}  // namespace halfeven::ops
