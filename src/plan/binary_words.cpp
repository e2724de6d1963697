// Sums, differences and products of two 16-bit tensors.
#include "cpu/elementwise/binary_words.hpp"

#include <algorithm>
#include <iterator>

#include "plan/requantization.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

class BinaryWordsKernel final : public Kernel {
 public:
  kernels::BinaryWordsFunction function = nullptr;
  kernels::WordOperands operands;
  std::optional<kernels::FixedWords> fixed;
  std::optional<kernels::FixedWordsSum> fixed_sum;
  std::size_t first = 0;  // which node input is a, which b
  std::size_t second = 1;
  std::int64_t size = 0;
  std::unique_ptr<Requantization> requantization;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    kernels::WordOperands in = operands;
    in.fixed = fixed ? &*fixed : nullptr;
    in.fixed_sum = fixed_sum ? &*fixed_sum : nullptr;
    in.a = reinterpret_cast<const std::uint16_t*>(b.in[first]);
    in.b = reinterpret_cast<const std::uint16_t*>(b.in[second]);
    const kernels::Requantize q = requantization->view(true);
    auto* out = reinterpret_cast<std::uint16_t*>(b.out[0]);
    parallel(size, [&](std::int64_t begin, std::int64_t end) {
      function(in, q, out, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    });
  }
};

bool is_word(DType type) { return type == DType::uint16 || type == DType::int16; }

}  // namespace

Offer make_binary_words(const Site& site) {
  std::string refusal;
  const auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
  const bool difference = q->op_type == "Sub";
  const bool product = q->op_type == "Mul";
  if (q->op_type != "Add" && !difference && !product) return refuse("is no sum or product");
  if (!q->operands[0] || !q->operands[1]) return refuse("an operand is not quantized");
  Operand a = *q->operands[0];
  Operand b = *q->operands[1];
  if (!a.per_tensor() || !b.per_tensor()) return refuse("an operand is quantized per axis");
  if (!is_word(site.dtype(a.id)) || !is_word(site.dtype(b.id)) || !is_word(q->out_type)) {
    return refuse("has other than 16-bit tensors");
  }
  const Shape& out = site.shape(site.node.outputs[0]);
  if (site.shape(a.id) != out && !difference) std::swap(a, b);
  if (site.shape(a.id) != out) return refuse("broadcasts both operands");
  auto kernel = std::make_unique<BinaryWordsKernel>();
  kernels::WordOperands& in = kernel->operands;
  const Layout layout = site.layout(a.id);
  const Shape& small = site.shape(b.id);
  if (small != out) {
    const bool channels = small.size() == 4 && out.size() == 4 && (small[0] == 1 || small[0] == out[0]) &&
                          small[1] == out[1] && small[2] == 1 && small[3] == 1;
    if (elements(small) == 1) {
      in.b_period = 1;
    } else if (channels && layout == Layout::channels_last) {  // they repeat pixel by pixel
      in.b_period = static_cast<std::size_t>(out[1]);
      if (small[0] != 1) in.b_span = static_cast<std::size_t>(out[1] * out[2] * out[3]);
    } else {
      return refuse("broadcasts an operand in a way that no kernel has");
    }
  }
  const auto flip = [&](const Operand& o) {
    return static_cast<std::uint16_t>(site.dtype(o.id) == DType::int16 ? 0x8000 : 0);
  };
  in.product = product;
  in.a_flip = flip(a);
  in.b_flip = flip(b);
  in.a_zero = static_cast<std::int32_t>(a.zero(0)) + in.a_flip;
  in.b_zero = static_cast<std::int32_t>(b.zero(0)) + in.b_flip;
  const Rational sa = Rational::from_double(a.scales[0]);
  const Rational sb = Rational::from_double(b.scales[0]);
  const Rational sy = Rational::from_double(q->out_scale);
  const Rational ratio = product ? sa * sb / sy : sa / sy;
  const Rational second = product ? Rational() : (difference ? -sb / sy : sb / sy);
  constexpr double kMost = 65535;
  kernel->requantization =
      std::make_unique<Requantization>(std::vector{ratio}, std::vector{Rational()}, second,
                                       std::vector{product ? kMost * kMost : kMost}, product ? 0.0 : kMost, *q);
  if (!kernel->requantization->usable()) return refuse("its scales are too far apart for double");
  if (product) {
    const std::int64_t edges[] = {in.a_zero * std::int64_t{in.b_zero}, (65535 - in.a_zero) * std::int64_t{-in.b_zero},
                                  -in.a_zero * std::int64_t{65535 - in.b_zero},
                                  (65535 - in.a_zero) * std::int64_t{65535 - in.b_zero}};
    const auto [least, most] = std::minmax_element(std::begin(edges), std::end(edges));
    const std::int64_t middle = *least + (*most - *least + 1) / 2;
    in.shift = static_cast<std::int32_t>(static_cast<std::uint32_t>(-middle));
    kernel->fixed = kernel->requantization->fixed_words({0}, {-middle}, {0});
  } else {
    kernel->fixed_sum = kernel->requantization->fixed_words_sum(in.a_zero, in.b_zero);
  }
  kernel->function = site.isa >= Isa::avx512
                         ? kernels::binary_words_avx512
                         : (site.isa >= Isa::avx2 ? kernels::binary_words_avx2 : kernels::binary_words_portable);
  kernel->in_place = true;
  kernel->rounding = kernel->requantization->rounding();
  kernel->note = kernel->requantization->describe();
  kernel->size = elements(out);
  kernel->first = input_of(site.node, a.id);
  kernel->second = input_of(site.node, b.id);
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->first] = Form{layout};
  kernel->in_forms[kernel->second] = Form{in.b_period == 0 ? layout : site.layout(b.id)};
  kernel->out_form = Form{layout};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
