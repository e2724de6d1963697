// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum,
// ReduceLogSumExp (ai.onnx): axes as an attribute before opset 18 (ReduceSum: 13), as an optional input since. Integers
// wrap; what is no integer (a mean, a root, a logarithm) is truncated.
#include "ops/formulas.hpp"

#include <limits>

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

using numerics::number;
using numerics::Real;

enum class Reduction : std::uint8_t { sum, mean, max, min, prod, sum_square, l1, l2, log_sum, log_sum_exp };

bool axes_are_input(const NodeReader& c, Reduction kind) { return c.version() >= (kind == Reduction::sum ? 13 : 18); }

// Which axes go away. `axes`: the list, where one is given.
std::vector<bool> reduced_axes(const NodeReader& c, const std::vector<std::int64_t>& axes, std::size_t rank) {
  if (axes.empty()) return std::vector<bool>(rank, c.get_int("noop_with_empty_axes", 0) == 0);
  std::vector<bool> reduced(rank, false);
  for (const std::size_t a : normalize_axes(c, axes, rank)) reduced[a] = true;
  return reduced;
}

template <Reduction kKind>
std::vector<TypeShape> infer_reduce(const InferContext& c) {
  constexpr bool kOrder = kKind == Reduction::max || kKind == Reduction::min;
  if (kOrder && c.version() >= 20) {
    if (!is_integer(c.dtype(0)) && c.dtype(0) != DType::boolean) c.require_float(0);
  } else if (!is_integer(c.dtype(0))) {
    c.require_float(0);
  }
  const bool keep = c.get_int("keepdims", 1) != 0;
  std::vector<std::int64_t> axes = c.get_ints("axes", {});
  if (axes_are_input(c, kKind)) {
    axes.clear();
    if (c.has_input(1)) {
      c.require_type(1, {DType::int64});
      c.require_rank(1, 1, 1);
      const auto known = c.constant_ints(1);
      if (!known) {
        if (!keep || !c.shape(0)) return {{c.dtype(0), std::nullopt}};
        return {{c.dtype(0), Shape(c.shape(0)->size(), kUnknownDim)}};
      }
      axes = *known;
    }
  } else if (c.has_input(1)) {
    c.fail(fmt::format("axes are an attribute at opset {}, not an input", c.version()));
  }
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  const std::vector<bool> reduced = reduced_axes(c, axes, c.shape(0)->size());
  Shape out;
  for (std::size_t k = 0; k < reduced.size(); ++k) {
    if (!reduced[k]) {
      out.push_back((*c.shape(0))[k]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return {{c.dtype(0), out}};
}

// The elements that output k reduces: base[k] + offsets[j] for all j.
struct Places {
  std::vector<std::size_t> base;
  std::vector<std::size_t> offsets;
};

Places places_of(const Shape& shape, const std::vector<bool>& reduced) {
  const auto strides = strides_of(shape);
  const auto walk = [&](bool inside) {
    Shape dims = shape;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (reduced[k] != inside) dims[k] = 1;
    }
    std::vector<std::size_t> out;
    for (Odometer p(dims); p.more(); p.step()) {
      std::size_t at = 0;
      for (std::size_t k = 0; k < dims.size(); ++k) at += strides[k] * static_cast<std::size_t>(p[k]);
      out.push_back(at);
    }
    return out;
  };
  return {walk(false), walk(true)};
}

template <Reduction kKind, class N, class Index>
N reduce_reals(const numerics::ExactTensor& x, std::size_t n, Index index) {
  const auto element = [&](std::size_t j) { return numerics::load<N>(x, index(j)); };
  const auto squares = [&] {
    return sum_of<N>(n, [&](std::size_t j) {
      const N v = element(j);
      return v * v;
    });
  };
  const auto extreme = [&](double empty, auto better) {
    if (n == 0) return number<N>(empty);
    N best = element(0);
    for (std::size_t j = 1; j < n; ++j) best = better(best, element(j));
    return best;
  };
  const auto greatest = [&] { return extreme(-HUGE_VAL, [](const N& a, const N& b) { return max(a, b); }); };
  if constexpr (kKind == Reduction::sum) {
    return total_of<N>(x, n, index);
  } else if constexpr (kKind == Reduction::mean) {
    return total_of<N>(x, n, index) / number<N>(static_cast<double>(n));  // 0 / 0 is NaN
  } else if constexpr (kKind == Reduction::max) {
    return greatest();
  } else if constexpr (kKind == Reduction::min) {
    return extreme(HUGE_VAL, [](const N& a, const N& b) { return min(a, b); });
  } else if constexpr (kKind == Reduction::prod) {
    N product = number<N>(1.0);
    for (std::size_t j = 0; j < n; ++j) product = product * element(j);
    return product;
  } else if constexpr (kKind == Reduction::sum_square) {
    return squares();
  } else if constexpr (kKind == Reduction::l1) {
    return sum_of<N>(n, [&](std::size_t j) { return abs(element(j)); });
  } else if constexpr (kKind == Reduction::l2) {
    return sqrt(squares());
  } else if constexpr (kKind == Reduction::log_sum) {
    return log(total_of<N>(x, n, index));
  } else {
    const N top = greatest();
    if (is_infinite(top)) return top;
    return top + log(sum_of<N>(n, [&](std::size_t j) { return decaying_exp(element(j) - top); }));
  }
}

// Reductions of integers that stay integers; wrapped to the type afterwards.
template <Reduction kKind>
std::int64_t reduce_integers(const EvalContext& c, const std::vector<std::int64_t>& x, std::size_t base,
                             const std::vector<std::size_t>& offsets) {
  const bool by_bits = c.result_type() == DType::uint64;
  const auto less = [&](std::int64_t a, std::int64_t b) {
    return by_bits ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
  };
  if constexpr (kKind == Reduction::max || kKind == Reduction::min) {
    constexpr bool kMax = kKind == Reduction::max;
    if (offsets.empty()) {
      if (by_bits) return kMax ? 0 : -1;
      if (c.result_type() == DType::boolean) return kMax ? 0 : 1;
      return kMax ? integer_min(c.result_type()) : integer_max(c.result_type());
    }
    std::int64_t best = x[base + offsets[0]];
    for (const std::size_t o : offsets) {
      const std::int64_t v = x[base + o];
      if (kMax ? less(best, v) : less(v, best)) best = v;
    }
    return best;
  } else {
    std::uint64_t total = kKind == Reduction::prod ? 1 : 0;
    for (const std::size_t o : offsets) {
      const std::int64_t v = x[base + o];
      const auto u = static_cast<std::uint64_t>(v);
      if constexpr (kKind == Reduction::prod) {
        total *= u;
      } else if constexpr (kKind == Reduction::sum_square) {
        total += u * u;
      } else if constexpr (kKind == Reduction::l1) {
        total += v < 0 && !by_bits ? 0 - u : u;
      } else {
        total += u;
      }
    }
    return static_cast<std::int64_t>(total);
  }
}

// The others by their real value.
template <Reduction kKind>
std::int64_t reduce_truncated(const EvalContext& c, const numerics::ExactTensor& x, std::size_t base,
                              const std::vector<std::size_t>& offsets) {
  const Real v = reduce_reals<kKind, Real>(x, offsets.size(), [&](std::size_t j) { return base + offsets[j]; });
  if (v.is_nan() || v.is_infinite()) {
    c.fail_input(
        fmt::format("the result has no value of type {} (input '{}')", to_string(c.result_type()), c.input_name(0)));
  }
  return truncate(v, integer_min(c.result_type()), integer_max(c.result_type()));
}

template <Reduction kKind>
std::vector<Data> reduce(const EvalContext& c) {
  const Shape& shape = c.input(0).shape();
  std::vector<std::int64_t> axes = c.get_ints("axes", {});
  if (axes_are_input(c, kKind)) axes = c.has_input(1) ? c.ints(1) : std::vector<std::int64_t>{};
  auto places = std::make_shared<const Places>(places_of(shape, reduced_axes(c, axes, shape.size())));
  if (c.reals(0)) {
    return {numerics::make_elements(c.result_type(), c.result_shape(), c.threads(),
                                    [x = c.reals(0), places]<class N>(std::size_t i, std::type_identity<N>) -> N {
                                      return reduce_reals<kKind, N>(*x, places->offsets.size(), [&](std::size_t j) {
                                        return places->base[i] + places->offsets[j];
                                      });
                                    })};
  }
  constexpr bool kInteger = kKind == Reduction::sum || kKind == Reduction::max || kKind == Reduction::min ||
                            kKind == Reduction::prod || kKind == Reduction::sum_square || kKind == Reduction::l1;
  const auto x = c.ints(0);
  std::vector<std::int64_t> values(places->base.size());
  if constexpr (kInteger) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = reduce_integers<kKind>(c, x, places->base[i], places->offsets);
    }
  } else {
    if (c.result_type() == DType::uint64) c.fail("uint64 is not supported");
    const auto real = numerics::make_affine(DType::float64, shape, {x, {1.0}, {}});
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = reduce_truncated<kKind>(c, *real, places->base[i], places->offsets);
    }
  }
  return {make_integers(c.result_type(), c.result_shape(), values)};
}

template <Reduction kKind>
Operator reduction(std::string_view name, std::vector<int> versions) {
  return {"", name, std::move(versions), 1, 2, 1, infer_reduce<kKind>, reduce<kKind>};
}

}  // namespace

std::vector<Operator> reduce_operators() {
  return {
      reduction<Reduction::sum>("ReduceSum", {1, 11, 13}),
      reduction<Reduction::mean>("ReduceMean", {1, 11, 13, 18}),
      reduction<Reduction::max>("ReduceMax", {1, 11, 12, 13, 18, 20}),
      reduction<Reduction::min>("ReduceMin", {1, 11, 12, 13, 18, 20}),
      reduction<Reduction::prod>("ReduceProd", {1, 11, 13, 18}),
      reduction<Reduction::sum_square>("ReduceSumSquare", {1, 11, 13, 18}),
      reduction<Reduction::l1>("ReduceL1", {1, 11, 13, 18}),
      reduction<Reduction::l2>("ReduceL2", {1, 11, 13, 18}),
      reduction<Reduction::log_sum>("ReduceLogSum", {1, 11, 13, 18, 28}),
      reduction<Reduction::log_sum_exp>("ReduceLogSumExp", {1, 11, 13, 18, 28}),
  };
}

}  // namespace halfeven::ops
