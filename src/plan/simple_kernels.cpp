// Elementwise arithmetic, pools, tables, the first quantization, and views.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

#include "cpu/elementwise/binary.hpp"
#include "cpu/elementwise/quantize.hpp"
#include "cpu/pool/pool.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "ops/window.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

Offer refuse(std::string why) { return {nullptr, std::move(why)}; }

bool is_byte(DType type) { return type == DType::uint8 || type == DType::int8; }
std::uint8_t flip_of(DType type) { return type == DType::int8 ? 0x80 : 0; }

std::int64_t elements(const Shape& s) { return static_cast<std::int64_t>(element_count(s)); }

// --- sums and products -----------------------------------------------------------------------------------------------

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

std::size_t input_of(const ir::Node& node, ir::ValueId id) {
  return static_cast<std::size_t>(std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin());
}

// [1, C, 1, 1] beside [N, C, H, W] with N == 1: one element for each channel, which repeats when channels lie last.
bool repeats_by_channel(const Shape& small, const Shape& large) {
  return small.size() == 4 && large.size() == 4 && small[0] == 1 && small[2] == 1 && small[3] == 1 &&
         small[1] == large[1];
}

}  // namespace

Offer make_binary(const Site& site) {
  std::string refusal;
  const auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
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
  const Layout layout = site.layout(a.id);
  kernel->operands.b_period = 0;
  if (site.shape(a.id) != out) return refuse("broadcasts both operands");
  if (site.shape(b.id) != out) {
    if (elements(site.shape(b.id)) == 1) {
      kernel->operands.b_period = 1;
    } else if (repeats_by_channel(site.shape(b.id), out) && layout == Layout::channels_last) {
      kernel->operands.b_period = static_cast<std::size_t>(out[1]);
    } else {
      return refuse("broadcasts an operand in a way that no kernel has");
    }
  }
  const DType ta = site.graph.value(a.id).dtype;
  const DType tb = site.graph.value(b.id).dtype;
  kernel->operands.a_flip = flip_of(ta);
  kernel->operands.b_flip = flip_of(tb);
  kernel->operands.a_zero = static_cast<std::int32_t>(a.zeros[0] + (ta == DType::int8 ? 128 : 0));
  kernel->operands.b_zero = static_cast<std::int32_t>(b.zeros[0] + (tb == DType::int8 ? 128 : 0));
  const Rational sa = Rational::from_double(a.scales[0]);
  const Rational sb = Rational::from_double(b.scales[0]);
  const Rational sy = Rational::from_double(q->out_scale);
  const Rational first = product ? sa * sb / sy : sa / sy;
  const Rational second = product ? Rational() : (difference ? -sb / sy : sb / sy);
  const double bound = product ? 510.0 * 510.0 : 510.0;
  kernel->requantization = std::make_unique<Requantization>(std::vector{first}, std::vector{Rational()}, second, bound,
                                                            product ? 0.0 : 510.0, *q);
  if (!kernel->requantization->usable()) return refuse("its scales are too far apart for double");
  const bool wide = site.isa == Isa::avx512_vnni;
  kernel->function = product ? (wide ? kernels::multiply_avx512 : kernels::multiply_portable)
                             : (wide ? kernels::add_avx512 : kernels::add_portable);
  kernel->name = std::string(product ? "multiply." : "add.") + (wide ? "avx512" : "portable");
  kernel->note = kernel->requantization->describe();
  kernel->size = elements(out);
  kernel->first = input_of(site.node, a.id);
  kernel->second = input_of(site.node, b.id);
  kernel->in_layouts.assign(site.node.inputs.size(), Layout::plain);
  kernel->any_layout.assign(site.node.inputs.size(), false);
  kernel->in_layouts[kernel->first] = layout;
  kernel->in_layouts[kernel->second] = kernel->operands.b_period == 0 ? layout : site.layout(b.id);
  kernel->out_layout = layout;
  return {std::move(kernel), ""};
}

// --- pools -----------------------------------------------------------------------------------------------------------

namespace {

class MaxPoolKernel final : public Kernel {
 public:
  kernels::PoolShape shape;
  std::uint8_t flip = 0;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel(shape.batch * shape.out_height, [&](std::int64_t first, std::int64_t last) {
      kernels::max_pool(shape, reinterpret_cast<const std::uint8_t*>(b.in[0]), flip,
                        reinterpret_cast<std::uint8_t*>(b.out[0]), first, last);
    });
  }
};

class AveragePoolKernel final : public Kernel {
 public:
  kernels::PoolShape shape;
  std::uint8_t flip = 0;
  std::int32_t zero = 0;
  std::unique_ptr<Requantization> requantization;
  void run(const Buffers& b, const ParallelFor&) const override {
    kernels::global_average_pool(shape, reinterpret_cast<const std::uint8_t*>(b.in[0]), flip, zero,
                                 requantization->view(true), reinterpret_cast<std::uint8_t*>(b.out[0]));
  }
};

Offer make_max_pool(const Site& site) {
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
  kernel->flip = flip_of(site.graph.value(node.inputs[0]).dtype);
  kernel->name = "max_pool.portable";
  kernel->in_layouts = {Layout::channels_last};
  kernel->any_layout = {false};
  kernel->out_layout = Layout::channels_last;
  return {std::move(kernel), ""};
}

}  // namespace

Offer make_pool(const Site& site) {
  if (site.node.op_type == "MaxPool" && !site.node.body) return make_max_pool(site);
  std::string refusal;
  const auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
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
  kernel->flip = flip_of(type);
  kernel->zero = static_cast<std::int32_t>(x.zeros[0] + (type == DType::int8 ? 128 : 0));
  const Rational ratio = Rational::from_double(x.scales[0]) / (Rational::from_double(q->out_scale) * Rational(pixels));
  kernel->requantization = std::make_unique<Requantization>(std::vector{ratio}, std::vector{Rational()}, Rational(),
                                                            510.0 * static_cast<double>(pixels), 0, *q);
  if (!kernel->requantization->usable()) return refuse("its scales are too far apart for double");
  kernel->name = "global_average_pool.portable";
  kernel->note = kernel->requantization->describe();
  kernel->in_layouts.assign(site.node.inputs.size(), Layout::plain);
  kernel->any_layout.assign(site.node.inputs.size(), false);
  kernel->in_layouts[input_of(site.node, x.id)] = Layout::channels_last;
  kernel->out_layout = Layout::channels_last;
  return {std::move(kernel), ""};
}

// --- tables ----------------------------------------------------------------------------------------------------------

namespace {

class LookupKernel final : public Kernel {
 public:
  std::uint8_t table[256] = {};  // by the byte as it is stored
  std::int64_t size = 0;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) out[i] = table[in[i]];
    });
  }
};

}  // namespace

Offer make_lookup(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "Table" || node.domain != "halfeven") return refuse("is no table");
  const Tensor* table = site.constant(node.inputs[1]);
  const DType type = site.graph.value(node.inputs[0]).dtype;
  if (table == nullptr || !is_byte(type) || storage_size(table->dtype()) != 1 || table->size() != 256) {
    return refuse("has other than 8-bit tensors");
  }
  auto kernel = std::make_unique<LookupKernel>();
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t stored = type == DType::int8 ? i ^ 0x80U : i;  // entry i belongs to code least + i
    kernel->table[stored] = std::to_integer<std::uint8_t>(table->data()[i]);
  }
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->name = "lookup.portable";
  kernel->in_layouts = {site.layout(node.inputs[0]), Layout::plain};
  kernel->any_layout = {true, false};
  kernel->out_layout = site.layout(node.inputs[0]);
  return {std::move(kernel), ""};
}

// --- the first quantization ------------------------------------------------------------------------------------------

namespace {

class QuantizeKernel final : public Kernel {
 public:
  kernels::QuantizeFloats q;
  kernels::QuantizeFunction function = nullptr;
  std::int64_t size = 0;
  std::string node;
  std::string tensor;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    std::atomic<std::size_t> nan{SIZE_MAX};
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      const auto end = static_cast<std::size_t>(last);
      const std::size_t at = function(q, in, out, static_cast<std::size_t>(first), end);
      for (std::size_t seen = nan; at < end && at < seen && !nan.compare_exchange_weak(seen, at);) {
      }
    });
    if (nan != SIZE_MAX) {
      throw Error(ErrorCode::input,
                  "QuantizeLinear '" + node + "': element " + std::to_string(nan) + " of '" + tensor +
                      "' (in C order) is NaN, which has no quantized value",
                  node);
    }
  }

  static std::int32_t exact(float x, float scale) {
    const Rational quotient =
        Rational::from_double(static_cast<double>(x)) / Rational::from_double(static_cast<double>(scale));
    return static_cast<std::int32_t>(quotient.round_half_even().get_si());
  }
};

}  // namespace

Offer make_quantize(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "QuantizeLinear" || node.body) return refuse("is no QuantizeLinear");
  if (!site.graph.is_input(node.inputs[0])) return refuse("quantizes a computed tensor");
  const DType type = site.graph.value(node.outputs[0]).dtype;
  const Tensor* s = site.constant(node.inputs[1]);
  const Tensor* z = node.inputs.size() > 2 && node.inputs[2].present() ? site.constant(node.inputs[2]) : nullptr;
  if (site.graph.value(node.inputs[0]).dtype != DType::float32 || !is_byte(type) || s == nullptr || s->size() != 1 ||
      (node.inputs.size() > 2 && node.inputs[2].present() && z == nullptr)) {
    return refuse("is not from float32 to 8 bits per tensor");
  }
  if (s->dtype() != DType::float32) return refuse("has no float32 scale");
  auto kernel = std::make_unique<QuantizeKernel>();
  kernel->q.scale = static_cast<float>(numerics::decode_float(s->dtype(), s->data(), 0));
  kernel->q.zero = z == nullptr ? 0 : static_cast<std::int32_t>(ops::integers(*z)[0]);
  kernel->q.lo = static_cast<std::int32_t>(integer_min(type));
  kernel->q.hi = static_cast<std::int32_t>(integer_max(type));
  kernel->q.exact = QuantizeKernel::exact;
  const bool wide = site.isa == Isa::avx512_vnni;
  kernel->function = wide ? kernels::quantize_avx512 : kernels::quantize_portable;
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->node = ir::label(site.graph, node);
  kernel->tensor = site.graph.value(node.inputs[0]).name;
  kernel->name = wide ? "quantize.avx512" : "quantize.portable";
  kernel->in_layouts.assign(node.inputs.size(), Layout::plain);
  kernel->any_layout.assign(node.inputs.size(), false);
  return {std::move(kernel), ""};
}

// --- views -----------------------------------------------------------------------------------------------------------

namespace {

class CopyKernel final : public Kernel {
 public:
  std::size_t bytes = 0;
  void run(const Buffers& b, const ParallelFor&) const override { std::memcpy(b.out[0], b.in[0], bytes); }
};

}  // namespace

Offer make_view(const Site& site) {
  static const std::set<std::string> views{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  const ir::Node& node = site.node;
  if (!node.domain.empty() || node.body || !views.contains(node.op_type)) return refuse("moves elements");
  const DType type = site.graph.value(node.outputs[0]).dtype;
  if (!is_byte(type)) return refuse("has other than 8-bit tensors");
  auto kernel = std::make_unique<CopyKernel>();
  kernel->bytes = element_count(site.shape(node.outputs[0]));
  kernel->name = "copy";
  kernel->in_layouts.assign(node.inputs.size(), Layout::plain);
  kernel->any_layout.assign(node.inputs.size(), false);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
