// Small pieces of the float operators' formulas, generic over numerics::Approx and numerics::Real.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/common.hpp"

namespace halfeven::ops {

inline bool is_nan(const numerics::Approx& x) { return std::isnan(x.mid); }
inline bool is_nan(const numerics::Real& x) { return x.is_nan(); }
inline bool is_infinite(const numerics::Approx& x) { return x.exact() && std::isinf(x.mid); }
inline bool is_infinite(const numerics::Real& x) { return x.is_infinite(); }

/// Fails unless input `from` broadcasts to the shape of input `to` without changing it.
void require_broadcast_to(const InferContext& c, std::size_t from, std::size_t to);

/// "No answer from this kind of number": only Approx has it, and the element is then computed as a Real.
template <class N>
N undecided() {
  if constexpr (std::is_same_v<N, numerics::Approx>) {
    return numerics::Approx::unknown();
  } else {
    return numerics::Real::not_a_number();  // never reached: signs of Reals are always decided
  }
}

/// otherwise(x) where x >= 0, negative(x) where x < 0, x itself where it is NaN.
template <class N, class Otherwise, class Negative>
N by_sign(const N& x, Otherwise otherwise, Negative negative) {
  if (is_nan(x)) return x;
  const int s = sign(x);
  if (s == 2) return undecided<N>();
  return s < 0 ? negative(x) : otherwise(x);
}

/// exp(x) that answers for a very negative Approx, too: the value lies between 0 and 2^-1000.
inline numerics::Approx decaying_exp(const numerics::Approx& x) {
  if (std::isfinite(x.mid) && x.mid + x.err < -700) return {0, 0x1p-1000};
  return exp(x);
}
inline numerics::Real decaying_exp(const numerics::Real& x) { return exp(x); }

/// log(1 + exp(x)) without an intermediate that leaves every range.
inline numerics::Approx softplus_of(const numerics::Approx& x) { return softplus(x); }
inline numerics::Real softplus_of(const numerics::Real& x) {
  return x.is_rational() && x.rational().sign() > 0 ? x + softplus(-x) : softplus(x);
}

/// The sum of term(0) ... term(n - 1), flat for Reals.
template <class N, class Term>
N sum_of(std::size_t n, Term term) {
  if constexpr (std::is_same_v<N, numerics::Approx>) {
    numerics::Approx total{0, 0};
    for (std::size_t i = 0; i < n; ++i) total = total + term(i);
    return total;
  } else {
    std::vector<numerics::Real> terms;
    terms.reserve(n);
    for (std::size_t i = 0; i < n; ++i) terms.push_back(term(i));
    return sum(std::move(terms));
  }
}

/// The exact sum of the n elements index(0) ... index(n - 1) of x; in integers where x is a dequantized tensor.
template <class N, class Index>
N total_of(const numerics::ExactTensor& x, std::size_t n, Index index) {
  if (const numerics::Affine* a = x.affine(); a != nullptr && a->per_tensor()) {
    std::int64_t total = 0;
    bool fits = true;
    for (std::size_t j = 0; j < n; ++j) fits &= !__builtin_add_overflow(total, a->integers[index(j)], &total);
    const N scale = numerics::number<N>(a->scales[0]);
    if constexpr (std::is_same_v<N, numerics::Approx>) {
      const auto rounded = static_cast<double>(total);
      const double error = std::fabs(rounded) < 0x1p53 ? 0 : std::fabs(rounded) * 0x1p-53;
      if (fits) return numerics::Approx{rounded, error} * scale;
    } else {
      if (fits) return N(total) * scale;
    }
  }
  return sum_of<N>(n, [&](std::size_t j) { return numerics::load<N>(x, index(j)); });
}

/// y[i] = f(x[i]), outside of any node.
template <class F>
numerics::ExactPtr map_elements(const numerics::ExactPtr& x, DType dtype, int threads, F f) {
  return numerics::make_elements(
      dtype, x->shape(), threads,
      [x, f]<class N>(std::size_t i, std::type_identity<N>) -> N { return f(numerics::load<N>(*x, i)); });
}

/// y = f(a, b) where a and b broadcast to `shape`, outside of any node.
template <class F>
numerics::ExactPtr map_pairs(const numerics::ExactPtr& a, const numerics::ExactPtr& b, DType dtype, const Shape& shape,
                             int threads, F f) {
  auto ia = a->shape() == shape ? std::vector<std::size_t>{} : broadcast_indices(a->shape(), shape);
  auto ib = b->shape() == shape ? std::vector<std::size_t>{} : broadcast_indices(b->shape(), shape);
  return numerics::make_elements(
      dtype, shape, threads,
      [a, b, ia = std::move(ia), ib = std::move(ib), f]<class N>(std::size_t i, std::type_identity<N>) -> N {
        return f(numerics::load<N>(*a, ia.empty() ? i : ia[i]), numerics::load<N>(*b, ib.empty() ? i : ib[i]));
      });
}

/// Exact values that many elements share (the sum of a row), computed when the first undecided element asks.
template <class V>
class SharedValues {
 public:
  template <class Compute>
  V get(std::size_t key, Compute compute) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = values_.find(key); at != values_.end()) return at->second;
    }
    V value = compute();  // outside the lock: two threads may do the same work, with the same result
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(key, std::move(value)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::size_t, V> values_;
};

}  // namespace halfeven::ops
