// Sums of products: the one piece of arithmetic behind convolutions and matrix products.
#pragma once

#include <functional>
#include <memory>

#include "numerics/exact_tensor.hpp"

namespace halfeven::ops {

/// out[b][r][c] = sum over k < depth of left(b, r, k) * right(b, k, c) + bias(b, r, c), for every batch b, row r and
/// column c; the output is laid out in that order. The functions give element numbers of the operands.
struct Contraction {
  static constexpr std::size_t kZero = SIZE_MAX;  ///< in place of an element number: the factor is 0 (padding)

  std::size_t batches = 1;
  std::size_t rows = 1;
  std::size_t depth = 1;
  std::size_t columns = 1;
  std::function<std::size_t(std::size_t b, std::size_t r, std::size_t k)> left;
  /// Fills out[c - first] for the columns [first, last).
  std::function<void(std::size_t b, std::size_t k, std::size_t first, std::size_t last, std::size_t* out)> right;
  std::function<std::size_t(std::size_t b, std::size_t r, std::size_t c)> bias;
};

/// The sums as exact numbers. Where both operands are integers times scales that do not vary along the depth, the sums
/// are computed as integers; else in double with a bound on the error, and anew for elements that the bound leaves
/// open. `factor` multiplies the sums (not the bias): Gemm's alpha. `bias` may be null.
numerics::ExactPtr contract(DType dtype, Shape shape, Contraction plan, numerics::ExactPtr left,
                            numerics::ExactPtr right, numerics::ExactPtr bias, int threads, double factor = 1.0);

}  // namespace halfeven::ops
