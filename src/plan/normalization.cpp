// LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization of 8-bit and float32 tensors.
#include "cpu/normalization/normalization.hpp"

#include <algorithm>
#include <cmath>

#include "numerics/real.hpp"
#include "ops/common.hpp"
#include "plan/product.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;
using numerics::Real;

bool is_normalization(const std::string& op) {
  return op == "LayerNormalization" || op == "RMSNormalization" || op == "InstanceNormalization" ||
         op == "GroupNormalization";
}

struct Geometry {
  kernels::NormalizationPlaces places;
  std::int64_t rows = 0;
  bool by_row = false;  // parameters belong to rows (or runs of them), not to the elements of a row
  std::int64_t parameters() const { return places.per_row * places.patterns; }
};

std::string read_geometry(const Site& site, const ir::Node& chief, const std::string& op, Geometry& g) {
  const Shape& shape = site.shape(site.node.inputs[0]);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto product = [&](std::int64_t from, std::int64_t to) {
    return elements(Shape(shape.begin() + from, shape.begin() + to));
  };
  if (op == "LayerNormalization" || op == "RMSNormalization") {
    std::int64_t axis = ir::int_attribute(chief, "axis", -1);
    if (axis < 0) axis += rank;
    g.places.length = product(axis, rank);
    g.rows = product(0, axis);
    g.places.per_row = g.places.length;
  } else {
    const std::int64_t inner = product(2, rank);
    const std::int64_t groups = op == "InstanceNormalization" ? shape[1] : ir::int_attribute(chief, "num_groups", 0);
    if (groups < 1) return "is empty";
    const bool by_channel = op == "GroupNormalization" && chief.version >= 21;
    g.places.length = shape[1] / groups * inner;
    g.places.patterns = groups;
    g.places.per_row = by_channel ? shape[1] / groups : 1;
    g.places.run = by_channel ? inner : g.places.length;
    g.rows = shape[0] * groups;
    g.by_row = true;
  }
  return g.places.length == 0 || g.rows == 0 ? "is empty" : "";
}

// One number for each parameter of `g`, from those of a tensor that broadcasts to the input.
std::string spread(const Site& site, const Geometry& g, std::vector<Rational>& v, Shape shape) {
  if (g.by_row) return static_cast<std::int64_t>(v.size()) == g.parameters() ? "" : "has parameters of another length";
  const Shape& to = site.shape(site.node.inputs[0]);
  while (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
  const bool suffix = shape.size() <= to.size() && std::equal(shape.rbegin(), shape.rend(), to.rbegin());
  if (!suffix || static_cast<std::int64_t>(v.size()) > g.places.length) return "has parameters that differ by row";
  const std::size_t count = v.size();
  for (std::size_t k = count; k < static_cast<std::size_t>(g.places.length); ++k) v.push_back(v[k % count]);
  return "";
}

Rational epsilon_of(const ir::Node& chief) {
  const auto at = chief.attributes.find("epsilon");
  const float epsilon = at == chief.attributes.end() ? 1e-5F : std::get<float>(at->second);
  return std::isfinite(epsilon) ? Rational::from_double(static_cast<double>(epsilon)) : Rational();
}

class NormalizationBytesKernel final : public Kernel {
 public:
  kernels::NormalizationBytes parameters;
  kernels::NormalizationBytesFunction function = nullptr;
  std::int64_t rows = 0;
  Rational x_scale, y_scale, epsilon;
  std::vector<Rational> scales, biases;
  std::vector<double> wide_scale, wide_bias;
  std::vector<float> float_scale, float_bias;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    parallel(rows, [&](std::int64_t first, std::int64_t last) { function(parameters, in, out, first, last); });
  }

  static std::int32_t exact(const void* self, std::int64_t sum, std::int64_t squares, std::int64_t q,
                            std::int64_t parameter) {
    const auto& k = *static_cast<const NormalizationBytesKernel*>(self);
    const kernels::NormalizationBytes& n = k.parameters;
    const Rational count(n.places.length);
    const Rational zero(n.x_zero);
    Rational distance = Rational(q) - zero;
    Rational spread = Rational(squares) / count - zero * Rational(2 * sum) / count + zero * zero;
    if (n.centred) {
      const Rational mean = Rational(sum) / count;
      distance = Rational(q) - mean;
      spread = Rational(squares) / count - mean * mean;
    }
    const Real root = sqrt(Real(spread * k.x_scale * k.x_scale + k.epsilon));
    const auto at = static_cast<std::size_t>(parameter);
    const Real y = (Real(distance * k.x_scale * k.scales[at]) / root + Real(k.biases[at])) / Real(k.y_scale);
    return static_cast<std::int32_t>(round_half_even(y, n.lo - n.zero, n.hi - n.zero)) + n.zero;
  }

  // False where float32 is too coarse.
  bool set_parameters() {
    const std::size_t lanes = scales.size() + 16;
    wide_scale.assign(lanes, 0);
    wide_bias.assign(lanes, 0);
    float_scale.assign(lanes, 0);
    float_bias.assign(lanes, 0);
    double largest = 0;
    for (std::size_t k = 0; k < scales.size(); ++k) {
      wide_scale[k] = (scales[k] / y_scale).to_double();
      wide_bias[k] = (biases[k] / y_scale).to_double();
      float_scale[k] = static_cast<float>(wide_scale[k]);
      float_bias[k] = static_cast<float>(wide_bias[k]);
      largest = std::max(largest, std::fabs(wide_bias[k]));
      const double size = std::fabs(wide_scale[k]);
      if (size != 0 && (size < 0x1p-60 || size > 0x1p60)) return false;
    }
    kernels::NormalizationBytes& n = parameters;
    n.scale = wide_scale.data();
    n.bias = wide_bias.data();
    n.float_scale = float_scale.data();
    n.float_bias = float_bias.data();
    // A result that does not saturate is at most `reach`, its first term at most reach + largest. Factor, scale, their
    // product and the centred integer round that term by 2^-24 each, bias and sum round themselves.
    const double reach = std::max(std::abs(n.lo - n.zero), std::abs(n.hi - n.zero)) + 1;
    const double slack = (4 * (reach + largest) + largest + reach) * 0x1.1p-24;
    n.float_slack = static_cast<float>(slack * 1.001);
    return slack < 0x1p-4;
  }
};

class NormalizationFloatsKernel final : public Kernel {
 public:
  kernels::NormalizationFloats parameters;
  std::int64_t rows = 0;
  Rational epsilon;
  std::vector<float> scale, bias;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[0]);
    auto* out = reinterpret_cast<float*>(b.out[0]);
    parallel(rows, [&](std::int64_t first, std::int64_t last) {
      kernels::normalization_floats(parameters, in, out, first, last);
    });
  }

  static float exact(const void* self, const float* row, std::int64_t at, float scale, float bias) {
    const auto& k = *static_cast<const NormalizationFloatsKernel*>(self);
    const auto real = [](float v) { return Real::from_double(static_cast<double>(v)); };
    const std::int64_t length = k.parameters.places.length;
    const Real count(length);
    Real mean(0);
    if (k.parameters.centred) {
      std::vector<Real> terms;
      for (std::int64_t j = 0; j < length; ++j) terms.push_back(real(row[j]));
      mean = sum(std::move(terms)) / count;
    }
    std::vector<Real> squares;
    for (std::int64_t j = 0; j < length; ++j) {
      const Real d = real(row[j]) - mean;
      squares.push_back(d * d);
    }
    const Real root = sqrt(sum(std::move(squares)) / count + Real(k.epsilon));
    Real y = (real(row[at]) - mean) * real(scale) / root;
    if (k.parameters.bias != nullptr) y = y + real(bias);
    return static_cast<float>(round_to(y, numerics::format_of(DType::float32)));
  }
};

std::optional<std::vector<Rational>> parameter(const Site& site, const QuantizedOperator& q, std::size_t k,
                                               const Geometry& g, std::string& refusal) {
  std::optional<std::vector<Rational>> v;
  Shape shape;
  if (k < q.operands.size() && q.operands[k]) {
    v = constant_numbers(site, *q.operands[k], refusal);
    shape = site.shape(q.operands[k]->id);
  } else if (k < q.float_constants.size() && q.float_constants[k].present()) {
    v = constant_numbers(site, q.float_constants[k], refusal);
    shape = site.shape(q.float_constants[k]);
  } else {
    v.emplace(static_cast<std::size_t>(g.parameters()));
    return v;
  }
  if (!v) return v;
  if (const auto why = spread(site, g, *v, shape); !why.empty()) {
    refusal = why;
    return std::nullopt;
  }
  return v;
}

}  // namespace

Offer make_normalization(const Site& site) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
  if (!is_normalization(q->op_type)) return refuse("is no normalisation");
  q->store_biased();
  if (!q->operands[0]) return refuse("its input is not quantized");
  const Operand& x = *q->operands[0];
  const DType type = site.dtype(x.id);
  if (!is_byte(type) || bits(q->out_type) != 8) return refuse("has other than 8-bit tensors");
  if (!x.per_tensor() || input_of(site.node, x.id) != 0) return refuse("its input is quantized per axis");
  Geometry g;
  if (const auto why = read_geometry(site, *q->chief, q->op_type, g); !why.empty()) return refuse(why);
  auto kernel = std::make_unique<NormalizationBytesKernel>();
  auto scales = parameter(site, *q, 1, g, refusal);
  if (!scales) return refuse(refusal);
  auto biases = parameter(site, *q, 2, g, refusal);
  if (!biases) return refuse(refusal);
  kernel->scales = std::move(*scales);
  kernel->biases = std::move(*biases);
  kernel->epsilon = epsilon_of(*q->chief);
  const double xs = std::fabs(x.scales[0]);
  const double epsilon = kernel->epsilon.to_double();
  if (!(epsilon > 0) || !(xs > 0x1p-60 && xs < 0x1p60) || q->out_scale == 0 || !std::isfinite(q->out_scale)) {
    return refuse("its scales or epsilon leave the range of double arithmetic");
  }
  if (g.places.length > (1 << 18)) return refuse("its rows are too long");
  kernel->x_scale = Rational::from_double(x.scales[0]);
  kernel->y_scale = Rational::from_double(q->out_scale);
  kernels::NormalizationBytes& n = kernel->parameters;
  n.places = g.places;
  n.centred = q->op_type != "RMSNormalization";
  n.x_scale = x.scales[0];
  n.x_zero = byte_zero(site, x);
  n.epsilon = epsilon;
  n.zero = static_cast<std::int32_t>(q->out_zero);
  n.lo = static_cast<std::int32_t>(q->lo);
  n.hi = static_cast<std::int32_t>(q->hi);
  n.exact = NormalizationBytesKernel::exact;
  n.context = kernel.get();
  if (!kernel->set_parameters()) return refuse("its scales are too far apart for float32");
  kernel->function = kernels::normalization_bytes_portable;
  if (site.isa >= Isa::avx2 && g.places.length <= 65000) {  // sums that float32 holds
    kernel->function =
        site.isa >= Isa::avx512 ? kernels::normalization_bytes_avx512 : kernels::normalization_bytes_avx2;
  }
  kernel->rows = g.rows;
  kernel->note = "integer sums; float32 with a check, then double, then exact arithmetic";
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[0] = byte_form(Layout::plain, type);
  kernel->out_form = byte_form(Layout::plain, q->out_type);
  return {std::move(kernel), ""};
}

Offer make_float_normalization(const Site& site) {
  const ir::Node& n = site.node;
  if (n.body || !n.domain.empty() || !is_normalization(n.op_type)) return refuse("is no normalisation");
  if (site.dtype(n.inputs[0]) != DType::float32 || site.dtype(n.outputs[0]) != DType::float32) {
    return refuse("is not of float32");
  }
  for (std::size_t k = 1; k < n.outputs.size(); ++k) {
    if (n.outputs[k].present()) return refuse("gives mean and deviation, too");
  }
  Geometry g;
  if (const auto why = read_geometry(site, n, n.op_type, g); !why.empty()) return refuse(why);
  auto kernel = std::make_unique<NormalizationFloatsKernel>();
  for (std::size_t k = 1; k < n.inputs.size(); ++k) {
    if (!n.inputs[k].present()) continue;
    if (site.dtype(n.inputs[k]) != DType::float32) return refuse("is not of float32");
    std::string refusal;
    auto v = constant_numbers(site, n.inputs[k], refusal);
    if (!v) return refuse("its parameters are computed");
    if (const auto why = spread(site, g, *v, site.shape(n.inputs[k])); !why.empty()) return refuse(why);
    for (const Rational& r : *v) (k == 1 ? kernel->scale : kernel->bias).push_back(static_cast<float>(r.to_double()));
  }
  kernel->epsilon = epsilon_of(n);
  if (kernel->epsilon.sign() <= 0) return refuse("its epsilon is not positive");
  kernels::NormalizationFloats& p = kernel->parameters;
  p.places = g.places;
  p.centred = n.op_type != "RMSNormalization";
  p.epsilon = kernel->epsilon.to_double();
  p.scale = kernel->scale.data();
  p.bias = kernel->bias.empty() ? nullptr : kernel->bias.data();
  p.exact = NormalizationFloatsKernel::exact;
  p.context = kernel.get();
  kernel->rows = g.rows;
  kernel->note = "double; results whose rounding it leaves open are computed exactly";
  kernel->in_forms = {Form{}};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
