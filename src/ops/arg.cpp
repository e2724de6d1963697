// ArgMax, ArgMin (ai.onnx 1; select_last_index since 12), TopK (1; k as input since 10; largest since 11): they read
// rounded values (contract section 1, rule 5). ArgMax and ArgMin prefer a NaN; TopK orders NaN above all numbers.
#include <numeric>

#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// Compares elements of one tensor of any type.
class Order {
 public:
  explicit Order(const Data& d) : reals_(d.reals), unsigned64_(d.dtype() == DType::uint64) {
    if (!reals_) integers_ = integers(d.tensor);
  }

  bool nan(std::size_t i) const { return reals_ && numerics::is_nan(*reals_, i); }

  // Sign of x[i] - x[j]; NaN counts as greater than all numbers.
  int operator()(std::size_t i, std::size_t j) const {
    if (reals_) {
      if (const auto order = numerics::compare(*reals_, i, *reals_, j)) return *order;
      return static_cast<int>(nan(i)) - static_cast<int>(nan(j));
    }
    const std::int64_t a = integers_[i];
    const std::int64_t b = integers_[j];
    if (a == b) return 0;
    const bool less = unsigned64_ ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
    return less ? -1 : 1;
  }

 private:
  numerics::ExactPtr reals_;
  std::vector<std::int64_t> integers_;
  bool unsigned64_;
};

void require_ordered(const InferContext& c) {
  if (!is_integer(c.dtype(0))) c.require_float(0);
}

// --- ArgMax, ArgMin --------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_arg(const InferContext& c) {
  require_ordered(c);
  if (!c.shape(0)) return {{DType::int64, std::nullopt}};
  Shape out = *c.shape(0);
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), out.size());
  if (out[axis] == 0) c.fail_input(fmt::format("axis {} of the input {} is empty", axis, to_string(out)));
  if (c.get_int("keepdims", 1) != 0) {
    out[axis] = 1;
  } else {
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return {{DType::int64, out}};
}

template <int direction>
std::vector<Data> arg(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const AxisSplit s = split_at(in, normalize_axis(c, c.get_int("axis", 0), in.size()));
  const bool last = c.get_int("select_last_index", 0) != 0;
  const Order order(c.input(0));
  std::vector<std::int64_t> best(s.outer * s.inner);
  numerics::parallel_for(best.size(), 256, c.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t first = r / s.inner * s.length * s.inner + r % s.inner;
      std::size_t at = 0;
      for (std::size_t k = 1; k < s.length; ++k) {
        const std::size_t i = first + k * s.inner;
        const std::size_t j = first + at * s.inner;
        const bool new_nan = order.nan(i);
        const bool old_nan = order.nan(j);
        const int sign =
            new_nan || old_nan ? static_cast<int>(new_nan) - static_cast<int>(old_nan) : direction * order(i, j);
        if (sign > 0 || (sign == 0 && last)) at = k;
      }
      best[r] = static_cast<std::int64_t>(at);
    }
  });
  return {make_integers(DType::int64, c.result_shape(), best)};
}

// --- TopK ------------------------------------------------------------------------------------------------------------

std::vector<TypeShape> infer_top_k(const InferContext& c) {
  require_ordered(c);
  std::optional<std::int64_t> k;
  if (c.version() < 10) {
    if (!c.has_attribute("k")) c.fail("attribute 'k' is missing");
    k = c.get_int("k", 0);
  } else {
    c.require_type(1, {DType::int64});
    if (!c.has_input(1)) c.fail("input 1 (k) is missing");
    if (const auto value = c.constant_ints(1)) {
      if (value->size() != 1) c.fail_input("k must hold one element");
      k = (*value)[0];
    }
  }
  std::vector<TypeShape> out{{c.dtype(0), c.shape(0)}, {DType::int64, c.shape(0)}};
  out.resize(c.outputs());
  if (!c.shape(0)) return out;
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), c.shape(0)->size());
  const std::int64_t n = (*c.shape(0))[axis];
  if (k && (*k < 0 || (n >= 0 && *k > n))) {
    c.fail_input(fmt::format("k = {} is out of range for an axis of length {}", *k, n));
  }
  for (TypeShape& t : out) (*t.shape)[axis] = k.value_or(kUnknownDim);
  return out;
}

std::vector<Data> top_k(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const Shape& out = c.result_shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), in.size());
  const AxisSplit s = split_at(in, axis);
  const auto k = static_cast<std::size_t>(out[axis]);
  const bool largest = c.version() < 11 || c.get_int("largest", 1) != 0;
  const Order order(c.input(0));
  std::vector<std::size_t> from(s.outer * k * s.inner);
  std::vector<std::int64_t> indices(from.size());
  numerics::parallel_for(s.outer * s.inner, 16, c.threads(), [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> row(s.length);
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t o = r / s.inner;
      const std::size_t i = r % s.inner;
      std::iota(row.begin(), row.end(), std::size_t{0});
      const auto element = [&](std::size_t p) { return (o * s.length + p) * s.inner + i; };
      std::partial_sort(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(k), row.end(),
                        [&](std::size_t a, std::size_t b) {
                          const int sign = order(element(a), element(b));
                          return sign == 0 ? a < b : (largest ? sign > 0 : sign < 0);
                        });
      for (std::size_t p = 0; p < k; ++p) {
        const std::size_t to = (o * k + p) * s.inner + i;
        from[to] = element(row[p]);
        indices[to] = static_cast<std::int64_t>(row[p]);
      }
    }
  });
  std::vector<Data> results{gather(c.input(0), out, from)};
  if (c.outputs() > 1) results.emplace_back(make_integers(DType::int64, out, indices));
  return results;
}

}  // namespace

std::vector<Operator> arg_operators() {
  return {
      {"", "ArgMax", {1, 11, 12, 13}, 1, 1, 1, infer_arg, arg<1>},
      {"", "ArgMin", {1, 11, 12, 13}, 1, 1, 1, infer_arg, arg<-1>},
      {"", "TopK", {1, 10, 11, 24}, 1, 2, 2, infer_top_k, top_k},
  };
}

}  // namespace halfeven::ops
