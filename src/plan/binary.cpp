// Sums, differences and products of two tensors.
#include <algorithm>
#include <cmath>

#include "cpu/elementwise/binary.hpp"
#include "plan/requantization.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

class BinaryKernel final : public Kernel {
 public:
  kernels::BinaryFunction function = nullptr;
  kernels::BinaryOperands operands{};
  std::size_t first = 0;  // which node input is a, which b
  std::size_t second = 1;
  std::int64_t size = 0;
  std::unique_ptr<Requantization> requantization;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    kernels::BinaryOperands in = operands;
    in.a = reinterpret_cast<const std::uint8_t*>(b.in[first]);
    in.b = reinterpret_cast<const std::uint8_t*>(b.in[second]);
    const kernels::Requantize q = requantization->view(true);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    parallel(size, [&](std::int64_t begin, std::int64_t end) {
      function(in, q, out, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    });
  }
};

// [N or 1, C, 1, 1] beside [N, C, H, W]: one element for each channel, which repeats when channels lie last.
bool repeats_by_channel(const Shape& small, const Shape& large) {
  return small.size() == 4 && large.size() == 4 && (small[0] == 1 || small[0] == large[0]) && small[2] == 1 &&
         small[3] == 1 && small[1] == large[1];
}

}  // namespace

Offer make_binary(const Site& site) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
  q->store_biased();
  const bool sum = q->op_type == "Add";
  const bool difference = q->op_type == "Sub";
  const bool product = q->op_type == "Mul";
  if (!sum && !difference && !product) return refuse("is no sum or product");
  if (!q->operands[0] || !q->operands[1]) return refuse("an operand is not quantized");
  Operand a = *q->operands[0];
  Operand b = *q->operands[1];
  if (!a.per_tensor() || !b.per_tensor()) return refuse("an operand is quantized per axis");
  if (!is_byte(site.graph.value(a.id).dtype) || !is_byte(site.graph.value(b.id).dtype) || bits(q->out_type) != 8) {
    return refuse("has other than 8-bit tensors");
  }
  const Shape& out = site.shape(site.node.outputs[0]);
  if (site.shape(a.id) != out && site.shape(b.id) == out && !difference) {
    std::swap(a, b);
  }
  auto kernel = std::make_unique<BinaryKernel>();
  kernel->in_place = true;
  const Layout layout = site.layout(a.id);
  kernel->operands.b_period = 0;
  if (site.shape(a.id) != out) return refuse("broadcasts both operands");
  if (site.shape(b.id) != out) {
    if (elements(site.shape(b.id)) == 1) {
      kernel->operands.b_period = 1;
    } else if (repeats_by_channel(site.shape(b.id), out) && layout == Layout::channels_last) {
      kernel->operands.b_period = static_cast<std::size_t>(out[1]);
      if (site.shape(b.id)[0] != 1) kernel->operands.b_span = static_cast<std::size_t>(out[1] * out[2] * out[3]);
    } else {
      return refuse("broadcasts an operand in a way that no kernel has");
    }
  }
  const DType ta = site.dtype(a.id);
  const DType tb = site.dtype(b.id);
  kernel->operands.a_zero = byte_zero(site, a);
  kernel->operands.b_zero = byte_zero(site, b);
  const Rational sa = Rational::from_double(a.scales[0]);
  const Rational sb = Rational::from_double(b.scales[0]);
  const Rational sy = Rational::from_double(q->out_scale);
  const Rational first = product ? sa * sb / sy : sa / sy;
  const Rational second = product ? Rational() : (difference ? -sb / sy : sb / sy);
  constexpr double kMost = 255;
  const double bound = product ? kMost * kMost : kMost;
  kernel->requantization = std::make_unique<Requantization>(std::vector{first}, std::vector{Rational()}, second,
                                                            std::vector{bound}, product ? 0.0 : kMost, *q);
  if (!kernel->requantization->usable()) return refuse("its scales are too far apart for double");
  if (!product) {
    kernel->operands.fixed = kernel->requantization->fixed_sum(kernel->operands.a_zero, kernel->operands.b_zero);
  }
  switch (site.isa) {
    case Isa::sse2: kernel->function = product ? kernels::multiply_portable : kernels::add_portable; break;
    case Isa::avx2: kernel->function = product ? kernels::multiply_avx2 : kernels::add_avx2; break;
    default: kernel->function = product ? kernels::multiply_avx512 : kernels::add_avx512; break;
  }
  kernel->rounding = kernel->requantization->rounding();
  kernel->note = kernel->requantization->describe();
  kernel->size = elements(out);
  kernel->first = input_of(site.node, a.id);
  kernel->second = input_of(site.node, b.id);
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->first] = byte_form(layout, ta);
  kernel->in_forms[kernel->second] = byte_form(kernel->operands.b_period == 0 ? layout : site.layout(b.id), tb);
  kernel->out_form = byte_form(layout, q->out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
