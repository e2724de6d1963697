// Softmax and LogSoftmax of 8-bit and float32 tensors.
#include <cmath>

#include "cpu/softmax/softmax.hpp"
#include "numerics/real.hpp"
#include "ops/common.hpp"
#include "ops/softmax.hpp"
#include "plan/product.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;
using numerics::Real;

class SoftmaxBytesKernel final : public Kernel {
 public:
  kernels::SoftmaxRows rows;
  kernels::SoftmaxBytes parameters;
  kernels::SoftmaxBytesFunction function = nullptr;
  std::int64_t count = 0;  // of rows
  double powers[256] = {};
  Rational scale;  // |x_scale|
  Rational out_scale;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    parallel(count, [&](std::int64_t first, std::int64_t last) { function(rows, parameters, in, out, first, last); });
  }

  // The result for an element `distance` steps from the top of a row that has counts[d] elements at distance d.
  std::int32_t round(const std::int64_t* counts, std::int64_t distance) const {
    std::vector<Real> terms;
    for (std::int64_t d = 0; d < 256; ++d) {
      if (counts[d] != 0) terms.push_back(Real(counts[d]) * exp(Real(Rational(-d) * scale)));
    }
    const Real total = sum(std::move(terms));
    const Real shifted(Rational(-distance) * scale);
    const Real y = (parameters.logarithm ? shifted - log(total) : exp(shifted) / total) / Real(out_scale);
    const std::int64_t lo = parameters.lo - parameters.zero;
    return static_cast<std::int32_t>(round_half_even(y, lo, parameters.hi - parameters.zero)) + parameters.zero;
  }

  static std::int32_t exact(const void* self, const std::uint8_t* row, std::int64_t inner, std::int64_t at) {
    const auto& k = *static_cast<const SoftmaxBytesKernel*>(self);
    const int flip = k.parameters.top_is_least ? 0xFF : 0;
    int top = 0;
    for (std::int64_t j = 0; j < k.rows.length; ++j) top = std::max(top, row[j * inner] ^ flip);
    std::int64_t counts[256] = {};
    for (std::int64_t j = 0; j < k.rows.length; ++j) ++counts[top - (row[j * inner] ^ flip)];
    return k.round(counts, top - (row[at * inner] ^ flip));
  }
};

class SoftmaxFloatsKernel final : public Kernel {
 public:
  kernels::SoftmaxRows rows;
  kernels::SoftmaxFloats parameters;
  kernels::SoftmaxFloatsFunction function = nullptr;
  std::int64_t count = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[0]);
    auto* out = reinterpret_cast<float*>(b.out[0]);
    auto* powers = reinterpret_cast<double*>(b.scratch);
    parallel(count,
             [&](std::int64_t first, std::int64_t last) { function(rows, parameters, in, powers, out, first, last); });
  }

  static float exact(const void* self, const float* row, std::int64_t inner, std::int64_t at) {
    const auto& k = *static_cast<const SoftmaxFloatsKernel*>(self);
    const auto element = [&](std::int64_t j) { return Real::from_double(static_cast<double>(row[j * inner])); };
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < k.rows.length; ++j) best = row[j * inner] > row[best * inner] ? j : best;
    const Real top = element(best);
    std::vector<Real> terms;
    for (std::int64_t j = 0; j < k.rows.length; ++j) terms.push_back(exp(element(j) - top));
    const Real total = sum(std::move(terms));
    const Real shifted = element(at) - top;
    const Real y = k.parameters.logarithm ? shifted - log(total) : exp(shifted) / total;
    return static_cast<float>(round_to(y, numerics::format_of(DType::float32)));
  }
};

bool is_softmax(const std::string& op) { return op == "Softmax" || op == "LogSoftmax"; }

// The rows of the node's input; `layout` is set to what they are cheapest in.
std::string read_rows(const Site& site, const ir::Node& chief, bool flattens, Layout& layout,
                      kernels::SoftmaxRows& rows, std::int64_t& count) {
  const Shape& shape = site.shape(site.node.inputs[0]);
  if (shape.empty()) return "is a scalar";
  std::int64_t axis = ir::int_attribute(chief, "axis", flattens && chief.domain.empty() ? 1 : -1);
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < 0) axis += rank;
  const auto at = static_cast<std::size_t>(axis);
  const ops::AxisSplit split = flattens ? ops::flattened_at(shape, at) : ops::split_at(shape, at);
  rows.length = static_cast<std::int64_t>(split.length);
  rows.inner = static_cast<std::int64_t>(split.inner);
  count = static_cast<std::int64_t>(split.outer * split.inner);
  if (rows.length == 0 || count == 0) return "is empty";
  layout = Layout::plain;
  // Channels that lie last are rows as they are.
  if (!flattens && axis == 1 && rank > 2 && site.layout(site.node.inputs[0]) == Layout::channels_last) {
    layout = Layout::channels_last;
    rows.inner = 1;
  }
  return "";
}

std::optional<QuantizedOperator> read_softmax(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  if (n.domain != "com.microsoft" || n.op_type != "QLinearSoftmax") return read_quantized(site, refusal);
  QuantizedOperator q;
  q.chief = &n;
  q.op_type = "Softmax";
  const auto input = [&](std::size_t k) { return k < n.inputs.size() ? n.inputs[k] : ir::ValueId{}; };
  q.operands = {read_operand(site, n.inputs[0], input(1), input(2), 0, 0, refusal)};
  if (!q.operands[0] || !read_result(site, q, input(3), input(4), refusal)) return std::nullopt;
  return q;
}

}  // namespace

Offer make_softmax(const Site& site) {
  std::string refusal;
  auto q = read_softmax(site, refusal);
  if (!q) return refuse(refusal);
  if (!is_softmax(q->op_type)) return refuse("is no Softmax");
  q->store_biased();
  if (!q->operands[0]) return refuse("its input is not quantized");
  const Operand& x = *q->operands[0];
  const DType type = site.dtype(x.id);
  if (!is_byte(type) || bits(q->out_type) != 8) return refuse("has other than 8-bit tensors");
  if (!x.per_tensor()) return refuse("its input is quantized per axis");
  if (x.scales[0] == 0 || !std::isfinite(x.scales[0]) || q->out_scale == 0 || !std::isfinite(q->out_scale)) {
    return refuse("has a scale of 0");
  }
  auto kernel = std::make_unique<SoftmaxBytesKernel>();
  const bool microsoft = q->chief->domain == "com.microsoft";
  const bool flattens = microsoft ? ir::int_attribute(*q->chief, "opset", 13) < 13 : q->chief->version < 13;
  Layout layout = Layout::plain;
  if (const auto why = read_rows(site, *q->chief, flattens, layout, kernel->rows, kernel->count); !why.empty()) {
    return refuse(why);
  }
  if (kernel->rows.length > (std::int64_t{1} << 30)) return refuse("its rows are too long");
  kernel->scale = abs(Rational::from_double(x.scales[0]));
  kernel->out_scale = Rational::from_double(q->out_scale);
  kernels::SoftmaxBytes& s = kernel->parameters;
  s.top_is_least = x.scales[0] < 0;
  s.logarithm = q->op_type == "LogSoftmax";
  s.scale = std::fabs(x.scales[0]);
  s.per_step = 1 / q->out_scale;
  s.zero = static_cast<std::int32_t>(q->out_zero);
  s.lo = static_cast<std::int32_t>(q->lo);
  s.hi = static_cast<std::int32_t>(q->hi);
  // The argument is exact: 8 bits times a float32 scale (wider scales round by a relative 2^-53).
  if (s.scale > 0x1p200 || s.scale < 0x1p-200) return refuse("its scale is out of range");
  for (int d = 0; d < 256; ++d) kernel->powers[d] = std::exp(-d * s.scale);
  s.powers = kernel->powers;
  s.exact = SoftmaxBytesKernel::exact;
  s.context = kernel.get();
  std::int64_t counts[256] = {kernel->rows.length};
  s.equal = kernel->round(counts, 0);
  kernel->function = site.isa >= Isa::avx512 ? kernels::softmax_bytes_avx512 : kernels::softmax_bytes_portable;
  kernel->note = "a table of powers in double; lanes next to a tie are recomputed exactly";
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[input_of(site.node, x.id)] = byte_form(layout, type);
  kernel->out_form = byte_form(layout, q->out_type);
  return {std::move(kernel), ""};
}

Offer make_float_softmax(const Site& site) {
  const ir::Node& n = site.node;
  if (n.body || !n.domain.empty() || !is_softmax(n.op_type)) return refuse("is no Softmax");
  if (site.dtype(n.inputs[0]) != DType::float32) return refuse("is not of float32");
  auto kernel = std::make_unique<SoftmaxFloatsKernel>();
  Layout layout = Layout::plain;
  if (const auto why = read_rows(site, n, n.version < 13, layout, kernel->rows, kernel->count); !why.empty()) {
    return refuse(why);
  }
  kernel->parameters.logarithm = n.op_type == "LogSoftmax";
  kernel->parameters.exact = SoftmaxFloatsKernel::exact;
  kernel->parameters.context = kernel.get();
  kernel->function = site.isa >= Isa::avx512 ? kernels::softmax_floats_avx512 : kernels::softmax_floats_portable;
  kernel->scratch = static_cast<std::size_t>(kernel->rows.length * kernel->count) * sizeof(double);
  kernel->note = "double; results whose rounding it leaves open are computed exactly";
  kernel->in_forms = {Form{layout, false}};
  kernel->out_form = Form{layout, false};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
