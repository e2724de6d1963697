// DynamicQuantizeLinear, alone or behind a product with its bias, Relu and MaxPool.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/dynamic/dynamic.hpp"
#include "numerics/format.hpp"
#include "numerics/rational.hpp"
#include "ops/common.hpp"
#include "ops/pool.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

constexpr std::int64_t kSlots = 16;  // shares of the work, each with its own range

class DynamicKernel final : public Kernel {
 public:
  kernels::DynamicFunctions functions{};
  kernels::DynamicShape shape;
  bool direct = false;    // quantizes the input as it is
  bool integers = false;  // the input is int32
  bool relu = false;
  std::size_t scale_input = SIZE_MAX;
  std::vector<float> bias;  // by channel
  std::string node;
  std::string tensor;

  std::int64_t size() const { return shape.rows() * shape.row(); }
  std::int64_t lanes() const { return (shape.channels + 15) / 16 * 16; }

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    auto* least = reinterpret_cast<float*>(b.scratch);
    auto* greatest = least + kSlots * lanes();
    auto* values = greatest + kSlots * lanes();
    bool nan[kSlots] = {};
    std::fill_n(least, kSlots * lanes(), std::numeric_limits<float>::infinity());
    std::fill_n(greatest, kSlots * lanes(), -std::numeric_limits<float>::infinity());
    const float factor = scale_input == SIZE_MAX ? 1.0F : *reinterpret_cast<const float*>(b.in[scale_input]);
    const bool scaled = scale_input != SIZE_MAX;
    const float* x = direct ? reinterpret_cast<const float*>(b.in[0]) : values;
    parallel(kSlots, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k) {
        float* lo = least + k * lanes();
        float* hi = greatest + k * lanes();
        if (direct) {
          nan[k] = functions.range(x, lo, hi, size() * k / kSlots, size() * (k + 1) / kSlots);
          continue;
        }
        const std::int64_t begin = shape.rows() * k / kSlots;
        const std::int64_t end = shape.rows() * (k + 1) / kSlots;
        nan[k] = integers ? functions.integers(shape, reinterpret_cast<const std::int32_t*>(b.in[data]), factor, scaled,
                                               values, lo, hi, begin, end)
                          : functions.floats(shape, reinterpret_cast<const float*>(b.in[data]), factor, scaled, values,
                                             lo, hi, begin, end);
      }
    });
    if (std::any_of(std::begin(nan), std::end(nan), [](bool v) { return v; })) fail("holds a NaN");
    const kernels::DynamicQuantize q = quantization(least, greatest);
    const std::int64_t pixels = size() / q.channels;
    parallel(pixels, [&](std::int64_t first, std::int64_t last) {
      functions.quantize(q, x, reinterpret_cast<std::uint8_t*>(b.out[0]), first, last);
    });
    if (b.out[1] != nullptr) *reinterpret_cast<float*>(b.out[1]) = q.scale;
    if (b.out[2] != nullptr) *b.out[2] = static_cast<std::byte>(q.zero);
  }

  std::size_t data = 0;  // which input

 private:
  [[noreturn]] void fail(const char* why) const {
    throw Error(ErrorCode::input, "DynamicQuantizeLinear '" + node + "': '" + tensor + "' " + why, node);
  }

  // Scale and zero point (contract section 8) of the range found.
  kernels::DynamicQuantize quantization(const float* least, const float* greatest) const {
    float lo = 0;
    float hi = 0;
    for (std::int64_t k = 0; k < kSlots; ++k) {
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        const float from = least[k * lanes() + c];
        const float to = greatest[k * lanes() + c];
        if (from > to) continue;  // an empty share
        // Adding and rounding keep the order: the sums' range is that of the ends.
        lo = std::min(lo, from + bias[static_cast<std::size_t>(c)]);
        hi = std::max(hi, to + bias[static_cast<std::size_t>(c)]);
      }
    }
    if (relu) lo = 0;
    if (std::isinf(lo) || std::isinf(hi)) fail("has a range that gives no usable scale");
    const Rational start = Rational::from_double(static_cast<double>(lo));
    const Rational range = Rational::from_double(static_cast<double>(hi)) - start;
    const Rational wanted = range.is_zero() ? Rational::ratio(1, 255) : range / Rational(255);
    const double scale = numerics::round_to(wanted, numerics::format_of(DType::float32));
    if (!(scale > 0) || std::isinf(scale)) fail("has a range that gives no usable scale");
    kernels::DynamicQuantize q;
    q.channels = direct ? 1 : shape.channels;
    q.bias = bias.data();
    q.relu = relu;
    q.scale = static_cast<float>(scale);
    const mpz_class zero = (-start / Rational::from_double(scale)).round_half_even();
    q.zero = zero > 255 ? 255 : static_cast<std::int32_t>(zero.get_si());
    q.exact = exact;
    return q;
  }

  static std::int32_t exact(float u, float scale) {
    const Rational quotient =
        Rational::from_double(static_cast<double>(u)) / Rational::from_double(static_cast<double>(scale));
    const mpz_class r = quotient.round_half_even();
    return r > 256 ? 256 : (r < -256 ? -256 : static_cast<std::int32_t>(r.get_si()));
  }
};

// The group's nodes by type; each occurs at most once.
const ir::Node* find(const ir::Graph& body, std::string_view op_type) {
  for (const ir::Node& n : body.nodes) {
    if (n.op_type == op_type) return &n;
  }
  return nullptr;
}

std::string read_group(const Site& site, DynamicKernel& kernel, Layout& layout) {
  const ir::Graph& body = *site.node.body;
  const auto outer = [&](ir::ValueId inner) {
    const auto at = std::find(body.inputs.begin(), body.inputs.end(), inner);
    return at == body.inputs.end() ? SIZE_MAX : static_cast<std::size_t>(at - body.inputs.begin());
  };
  const ir::Node* add = find(body, "Add");
  const ir::Node* mul = find(body, "Mul");
  const ir::Node* cast = find(body, "Cast");
  const ir::Node* pool = find(body, "MaxPool");
  kernel.relu = find(body, "Relu") != nullptr;

  // --- the tensor, its scale and the bias, as inputs of the group
  const auto is_constant = [&](ir::ValueId id) {
    const std::size_t k = outer(id);
    return k != SIZE_MAX && site.constant(site.node.inputs[k]) != nullptr;
  };
  const std::size_t bias_at = is_constant(add->inputs[1]) ? 1 : 0;
  ir::ValueId x = add->inputs[1 - bias_at];
  if (mul != nullptr) {
    const auto elements_of = [&](std::size_t k) {
      const std::size_t from = outer(mul->inputs[k]);
      return from == SIZE_MAX ? std::int64_t{-1} : elements(site.shape(site.node.inputs[from]));
    };
    const std::size_t scale_at = elements_of(1) == 1 ? 1 : 0;
    kernel.scale_input = outer(mul->inputs[scale_at]);
    if (kernel.scale_input == SIZE_MAX || site.dtype(site.node.inputs[kernel.scale_input]) != DType::float32) {
      return "its scale is no float32 scalar";
    }
    x = mul->inputs[1 - scale_at];
  }
  if (cast != nullptr) x = cast->inputs[0];
  kernel.data = outer(x);
  if (kernel.data == SIZE_MAX) return "has a chain that no kernel serves";
  const ir::ValueId input = site.node.inputs[kernel.data];
  kernel.integers = cast != nullptr;
  if (site.dtype(input) != (kernel.integers ? DType::int32 : DType::float32)) return "is not of int32 or float32";
  const Shape& shape = site.shape(input);
  const Shape& out = site.shape(site.node.outputs[0]);
  if (shape.size() < 2) return "has fewer than two dimensions";  // one of them holds the channels
  if (shape.size() != out.size() || shape.empty() || (pool == nullptr && shape != out)) return "broadcasts its tensor";
  if (elements(shape) == 0 || elements(out) == 0) return "is empty";

  // --- the bias by channel
  const Tensor& bias = *site.constant(site.node.inputs[outer(add->inputs[bias_at])]);
  if (bias.dtype() != DType::float32 || bias.rank() > shape.size()) return "adds other than float32";
  Shape bs(shape.size() - bias.rank(), 1);
  bs.insert(bs.end(), bias.shape().begin(), bias.shape().end());
  const std::int64_t count = elements(bs);
  const std::size_t rank = shape.size();
  const bool spatial = rank > 2 && (pool != nullptr || bs[1] != 1 || count == 1);
  const std::size_t axis = spatial ? 1 : rank - 1;
  if (count != 1 && (bs[axis] != count || count != shape[axis])) return "its bias does not run along the channels";
  layout = spatial ? Layout::channels_last : Layout::plain;
  for (std::int64_t c = 0; c < shape[axis]; ++c) {
    const auto at = static_cast<std::size_t>(count == 1 ? 0 : c);
    const auto v = static_cast<float>(numerics::decode_float(DType::float32, bias.data(), at));
    if (!std::isfinite(v)) return "its bias is not finite";
    kernel.bias.push_back(v);
  }
  kernels::DynamicShape& s = kernel.shape;
  s.channels = shape[axis];
  s.batch = 1;
  s.height = s.out_height = shape[0];
  s.width = s.out_width = elements(shape) / shape[0] / s.channels;
  if (pool != nullptr) {
    if (rank != 4) return "pools other than two dimensions";
    const ops::Window w = ops::read_pool_window(ops::NodeReader(body, *pool), shape);
    s.batch = shape[0], s.height = shape[2], s.width = shape[3];
    s.kernel_h = w.kernel[0], s.kernel_w = w.kernel[1], s.stride_h = w.strides[0], s.stride_w = w.strides[1];
    s.dilation_h = w.dilations[0], s.dilation_w = w.dilations[1], s.top = w.begin[0], s.left = w.begin[1];
    s.out_height = w.out[0], s.out_width = w.out[1];
    if (s.top != 0 || s.left != 0 || w.end[0] != 0 || w.end[1] != 0 ||
        (s.out_height - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h >= s.height ||
        (s.out_width - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w >= s.width) {
      return "pools with padding";
    }
  }
  return "";
}

}  // namespace

Offer make_dynamic_quantize(const Site& site) {
  const ir::Node& node = site.node;
  const bool group = node.body && node.op_type == "QDynamic";
  if (!group && (node.op_type != "DynamicQuantizeLinear" || !node.domain.empty() || node.body)) {
    return refuse("is no DynamicQuantizeLinear");
  }
  auto kernel = std::make_unique<DynamicKernel>();
  Layout layout = site.layout(node.inputs[0]);
  if (group) {
    if (const auto why = read_group(site, *kernel, layout); !why.empty()) return refuse(why);
  } else {
    kernel->direct = true;
    kernel->shape.out_width = elements(site.shape(node.inputs[0]));
    kernel->bias = {0.0F};
  }
  kernel->functions = site.isa >= Isa::avx512
                          ? kernels::dynamic_avx512()
                          : (site.isa >= Isa::avx2 ? kernels::dynamic_avx2() : kernels::dynamic_portable());
  kernel->scratch = static_cast<std::size_t>(2 * kSlots * kernel->lanes() + (group ? kernel->size() : 0)) * 4;
  kernel->node = ir::label(site.graph, node);
  kernel->tensor = site.graph.value(node.inputs[kernel->data]).name;
  kernel->note = "exact range; float32 with a check, then double, then exact arithmetic";
  kernel->in_forms.resize(node.inputs.size());
  kernel->in_forms[kernel->data] = Form{layout, false};
  if (kernel->scale_input != SIZE_MAX) kernel->in_forms[kernel->scale_input] = Form{};
  kernel->out_form = Form{layout, false};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
