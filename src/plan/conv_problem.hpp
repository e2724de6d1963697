// A convolution or product with constant weights, as it stands in the graph: what every backend's kernels start from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "numerics/rational.hpp"
#include "ops/window.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

/// A product as it stands in the graph, and what of it is known.
struct ConvProblem {
  QuantizedOperator q;
  Operand x;
  Operand w;
  DType xt{};
  bool product = false;     // Gemm or MatMul
  bool transposed = false;  // ConvTranspose
  bool wide = false;        // 16-bit activations
  std::int64_t groups = 1;
  std::int64_t in_channels = 1;   // of a group
  std::int64_t out_channels = 1;  // of all groups
  std::int64_t batch = 1, height = 1, width = 1;
  ops::Window window;                                      // of two dimensions
  std::vector<std::int16_t> raw;                           // weights as stored
  std::int64_t stride_oc = 1, stride_c = 1, stride_t = 1;  // in raw
  std::int64_t zero = 0;                                   // of the activation as the kernel sees it

  std::int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  // Weight of output channel oc (of all groups), tap t, input channel c of the group.
  std::int64_t weight(std::int64_t oc, std::int64_t t, std::int64_t c) const {
    const std::int64_t group = oc / (out_channels / groups);
    const std::int64_t at =
        transposed ? ((group * in_channels + c) * (out_channels / groups) + oc % (out_channels / groups)) * taps() + t
                   : oc * stride_oc + c * stride_c + t * stride_t;
    return raw[static_cast<std::size_t>(at)] - w.zero(static_cast<std::size_t>(oc));
  }
};

/// Reads what the node is; says why where no kernel may take it, else returns an empty string.
std::string read_conv(const Site& site, ConvProblem& p);

/// Whether all weights less their zero points are in [-128, 127].
bool fits_bytes(const ConvProblem& p);
/// By output channel what of the zero point is left in weights that are stored around the middle of their type: these
/// do fit; so often the sum of the activations is to be taken away.
std::vector<std::int32_t> middle_shifts(const Site& site, const ConvProblem& p);

/// What each sum starts from, how large it gets, and how it is rounded.
struct ConvRounding {
  std::vector<std::int32_t> start;  // all taps' zero points and the bias
  std::vector<std::int64_t> bias;   // the latter alone
  std::vector<numerics::Rational> ratios;
  std::vector<numerics::Rational> offsets;
  std::vector<double> bounds;
};

/// `shifts`: of middle_shifts, or empty. Says why where sums may exceed int32, else returns an empty string.
std::string round_sums(const Site& site, const ConvProblem& p, const std::vector<std::int32_t>& shifts,
                       ConvRounding& out);

/// One int32 sum of 16-bit activations: the kernel adds up products of x - 32768 and weights times 2^bits, modulo 2^32,
/// from `start` on. That is 2^bits times the sum of the products with x plus `shift`, which puts what it reaches into
/// the middle of int32.
struct WordSums {
  std::vector<int> bits;
  std::vector<std::int32_t> start;
  std::vector<std::int64_t> shift;
};
/// `bits`: of each channel. nullopt where a weight exceeds `largest`, or a channel's least and largest sum are 2^32
/// apart or further: without `bits`, its weights' magnitudes exceed 65,537 together.
std::optional<WordSums> word_sums(const ConvProblem& p, std::vector<int> bits, std::int64_t largest);

}  // namespace halfeven::plan
