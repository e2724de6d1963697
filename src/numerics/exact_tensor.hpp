// ExactTensor: a tensor of exact real numbers, as contract section 1 passes them between operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <halfeven/tensor.hpp>
#include <halfeven/types.hpp>

#include "numerics/approx.hpp"
#include "numerics/real.hpp"

namespace halfeven::numerics {

struct Affine;

/// Real numbers of a shape, each known as a double with a bound and, on demand, exactly. `dtype` is the float type
/// that the tensor has in the graph. Immutable; safe to read from several threads.
class ExactTensor {
 public:
  ExactTensor(DType dtype, Shape shape);
  virtual ~ExactTensor() = default;
  ExactTensor(const ExactTensor&) = delete;
  ExactTensor& operator=(const ExactTensor&) = delete;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return size_; }

  virtual Approx approx(std::size_t i) const = 0;
  virtual Real exact(std::size_t i) const = 0;

  /// True for a zero that was -0 in a float tensor and has only been moved since. (A computed zero is +0.)
  virtual bool negative_zero(std::size_t) const { return false; }

  /// Integers times scales, where that is what the tensor is; else null.
  virtual const Affine* affine() const { return nullptr; }
  /// The float tensor whose elements these are, bit by bit; else null.
  virtual const Tensor* floats() const { return nullptr; }

 private:
  DType dtype_;
  Shape shape_;
  std::size_t size_;
};

using ExactPtr = std::shared_ptr<const ExactTensor>;

/// Which scale belongs to which element: per tensor, per axis, or blocked.
struct ScaleMap {
  std::size_t inner = 1;             ///< elements that follow each other with one scale
  std::size_t count = 1;             ///< scales; element i has number (i / inner) % count
  std::vector<std::uint32_t> index;  ///< instead, where not empty: the number for each element (blocked scales)

  std::size_t operator()(std::size_t i) const {
    if (!index.empty()) return index[i];
    return count == 1 ? 0 : (i / inner) % count;
  }
};

/// integers[i] * scales[map(i)]: a dequantized tensor.
struct Affine {
  std::vector<std::int64_t> integers;  ///< q - zero_point
  std::vector<double> scales;          ///< finite
  ScaleMap map;

  bool per_tensor() const { return scales.size() == 1; }
};

/// The elements of a float16, bfloat16, float32 or float64 tensor; also decodes float8 and float4.
ExactPtr make_floats(const Tensor& tensor);
/// `dtype` is the type that DequantizeLinear gives its output.
ExactPtr make_affine(DType dtype, Shape shape, Affine affine);

/// One element of one of several sources.
struct Ref {
  std::uint32_t source;
  std::size_t index;
};

/// Element k is element refs[k].index of sources[refs[k].source]: what the operators of contract section 1, rule 4 do.
/// Stays a float tensor or an affine one where all that is referred to is such.
ExactPtr make_selection(DType dtype, Shape shape, const std::vector<ExactPtr>& sources, std::vector<Ref> refs);

/// A tensor given by its bounds and a function that computes any element exactly. The function keeps what it needs.
ExactPtr make_computed(DType dtype, Shape shape, std::vector<Approx> values, std::function<Real(std::size_t)> exact);

/// Computes element i by formula(i, tag) for both kinds of number: `formula` is a generic callable
/// `N(std::size_t i, std::type_identity<N>)` for N = Approx and N = Real. `threads` >= 1.
template <class Formula>
ExactPtr make_elements(DType dtype, Shape shape, int threads, Formula formula);

/// Element i of x as the kind of number wanted.
template <class N>
N load(const ExactTensor& x, std::size_t i);
template <>
inline Approx load<Approx>(const ExactTensor& x, std::size_t i) {
  return x.approx(i);
}
template <>
inline Real load<Real>(const ExactTensor& x, std::size_t i) {
  return x.exact(i);
}

/// A constant as the kind of number wanted.
template <class N>
N number(double value);
template <>
inline Approx number<Approx>(double value) {
  return {value, 0};
}
template <>
inline Real number<Real>(double value) {
  return Real::from_double(value);
}
template <class N>
N number(const Rational& value);
template <>
inline Approx number<Approx>(const Rational& value) {
  const double m = value.to_double();
  return {m, std::fabs(m) * detail::kUnit + std::numeric_limits<double>::min()};
}
template <>
inline Real number<Real>(const Rational& value) {
  return value;
}

// --- decisions -------------------------------------------------------------------------------------------------------

/// Element i rounded once to the format of `dtype` (contract section 1, rule 5). Moved zeros keep their sign.
double round_element(const ExactTensor& x, std::size_t i, DType dtype);
/// The whole tensor rounded to `dtype`.
Tensor round_tensor(const ExactTensor& x, DType dtype, int threads);
/// -1, 0 or 1; nullopt for NaN.
std::optional<int> sign(const ExactTensor& x, std::size_t i);
/// Sign of x[i] - y[j]; nullopt where one is NaN.
std::optional<int> compare(const ExactTensor& x, std::size_t i, const ExactTensor& y, std::size_t j);
bool is_nan(const ExactTensor& x, std::size_t i);

/// round_half_even(x[i] / scale) limited to [lo, hi]; the caller adds the zero point. scale is finite and not zero,
/// x[i] not NaN. Infinities saturate.
std::int64_t quantize_element(const ExactTensor& x, std::size_t i, double scale, std::int64_t lo, std::int64_t hi);

/// Runs f(begin, end) over [0, n) cut into pieces of at least `grain`, on up to `threads` threads. The first exception
/// in the order of the pieces is rethrown.
void parallel_for(std::size_t n, std::size_t grain, int threads,
                  const std::function<void(std::size_t, std::size_t)>& f);

template <class Formula>
ExactPtr make_elements(DType dtype, Shape shape, int threads, Formula formula) {
  std::vector<Approx> values(element_count(shape));
  parallel_for(values.size(), 1024, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] = formula(i, std::type_identity<Approx>{});
  });
  return make_computed(dtype, std::move(shape), std::move(values), [formula = std::move(formula)](std::size_t i) {
    return formula(i, std::type_identity<Real>{});
  });
}

}  // namespace halfeven::numerics
