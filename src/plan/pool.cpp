// Pools.
#include <algorithm>
#include <cmath>

#include "cpu/pool/pool.hpp"
#include "ops/common.hpp"
#include "ops/window.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

class MaxPoolKernel final : public Kernel {
 public:
  kernels::PoolShape shape;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel(shape.batch * shape.out_height, [&](std::int64_t first, std::int64_t last) {
      kernels::max_pool(shape, reinterpret_cast<const std::uint8_t*>(b.in[0]), 0,
                        reinterpret_cast<std::uint8_t*>(b.out[0]), first, last);
    });
  }
};

class AveragePoolKernel final : public Kernel {
 public:
  kernels::PoolShape shape;
  std::int32_t zero = 0;
  std::unique_ptr<Requantization> requantization;
  void run(const Buffers& b, const ParallelFor&) const override {
    kernels::global_average_pool(shape, reinterpret_cast<const std::uint8_t*>(b.in[0]), 0, zero,
                                 requantization->view(true), reinterpret_cast<std::uint8_t*>(b.out[0]));
  }
};

}  // namespace

Offer make_max_pool(const Site& site) {
  if (site.node.op_type != "MaxPool" || site.node.body) return refuse("is no MaxPool");
  const ir::Node& node = site.node;
  if (!is_byte(site.graph.value(node.inputs[0]).dtype)) return refuse("has other than 8-bit tensors");
  if (node.outputs.size() > 1 && node.outputs[1].present()) return refuse("gives indices");
  const Shape& xs = site.shape(node.inputs[0]);
  if (xs.size() != 4) return refuse("is not two-dimensional");
  const ops::NodeReader reader(site.graph, node);
  const Shape kernel_shape = reader.get_ints("kernel_shape", {});
  const ops::Window w = ops::read_window(reader, {xs[2], xs[3]}, kernel_shape, reader.get_int("ceil_mode", 0) != 0);
  // A window of padding only has no answer: the interpreter says so.
  for (std::size_t k = 0; k < 2; ++k) {
    const std::int64_t reach = (w.kernel[k] - 1) * w.dilations[k];
    for (std::int64_t o = 0; o < w.out[k]; ++o) {
      const std::int64_t begin = o * w.strides[k] - w.begin[k];
      bool any = false;
      for (std::int64_t t = 0; t <= reach; t += w.dilations[k]) any = any || (begin + t >= 0 && begin + t < xs[k + 2]);
      if (!any) return refuse("has a window of padding only");
    }
  }
  auto kernel = std::make_unique<MaxPoolKernel>();
  kernel->shape = {xs[0],       xs[2],        xs[3],        xs[1],          w.out[0],       w.out[1],   w.kernel[0],
                   w.kernel[1], w.strides[0], w.strides[1], w.dilations[0], w.dilations[1], w.begin[0], w.begin[1]};
  kernel->in_forms = {byte_form(Layout::channels_last, site.dtype(node.inputs[0]))};
  kernel->out_form = *kernel->in_forms[0];
  return {std::move(kernel), ""};
}

Offer make_average_pool(const Site& site) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
  q->store_biased();
  if (q->op_type != "GlobalAveragePool" || !q->operands[0]) return refuse("is no global average pool");
  const Operand& x = *q->operands[0];
  const DType type = site.graph.value(x.id).dtype;
  const Shape& xs = site.shape(x.id);
  if (!is_byte(type) || bits(q->out_type) != 8 || xs.size() != 4 || !x.per_tensor()) {
    return refuse("has other than 8-bit images");
  }
  const std::int64_t pixels = xs[2] * xs[3];
  if (pixels == 0 || pixels > (std::int64_t{1} << 40)) return refuse("has no pixels");
  auto kernel = std::make_unique<AveragePoolKernel>();
  kernel->shape.batch = xs[0];
  kernel->shape.channels = xs[1];
  kernel->shape.height = xs[2];
  kernel->shape.width = xs[3];
  kernel->zero = byte_zero(site, x);
  const Rational ratio = Rational::from_double(x.scales[0]) / (Rational::from_double(q->out_scale) * Rational(pixels));
  kernel->requantization = std::make_unique<Requantization>(std::vector{ratio}, std::vector{Rational()}, Rational(),
                                                            std::vector{510.0 * static_cast<double>(pixels)}, 0, *q);
  if (!kernel->requantization->usable()) return refuse("its scales are too far apart for double");
  kernel->note = kernel->requantization->describe();
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[input_of(site.node, x.id)] = byte_form(Layout::channels_last, type);
  kernel->out_form = byte_form(Layout::channels_last, q->out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
