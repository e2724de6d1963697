// Products of float32 tensors with constant quantized weights, blocked scales included.
#include "cpu/matmul/weight_only.hpp"

#include <algorithm>
#include <cmath>

#include "numerics/real.hpp"
#include "ops/common.hpp"
#include "plan/product.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;
using numerics::Real;

class WeightOnlyKernel final : public Kernel {
 public:
  kernels::WeightOnly parameters;
  kernels::WeightOnlyFunction function = nullptr;
  std::size_t input = 0;
  std::int64_t rows = 0;
  std::vector<std::int16_t> weights;
  std::vector<double> scales, magnitude;
  std::vector<float> bias, addend;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[input]);
    auto* out = reinterpret_cast<float*>(b.out[0]);
    parallel(rows, [&](std::int64_t first, std::int64_t last) { function(parameters, in, out, first, last); });
  }

  static float exact(const void* self, const float* row, std::int64_t column) {
    const auto& k = *static_cast<const WeightOnlyKernel*>(self);
    const kernels::WeightOnly& w = k.parameters;
    constexpr std::int64_t kLanes = kernels::kWeightLanes;
    const std::int64_t groups = (w.depth + w.block - 1) / w.block;
    const std::int64_t n = column / kLanes * kLanes;
    std::vector<Real> terms;
    for (std::int64_t d = 0; d < w.depth; ++d) {
      const std::int16_t q = w.weights[n * w.depth + d * kLanes + column % kLanes];
      const double scale = w.scales[n * groups + d / w.block * kLanes + column % kLanes];
      terms.push_back(Real::from_double(static_cast<double>(row[d])) *
                      Real(Rational(q) * Rational::from_double(scale)));
    }
    terms.push_back(Real::from_double(static_cast<double>(w.bias[column])));
    const auto y = static_cast<float>(round_to(sum(std::move(terms)), numerics::format_of(DType::float32)));
    return w.addend == nullptr ? y : y + w.addend[column] + 0.0F;
  }
};

// The group's nodes.
struct Parts {
  const ir::Node* product = nullptr;
  const ir::Node* dequantize = nullptr;
  const ir::Node* add = nullptr;
};

// By column, padded; one value for all where there is one.
std::string by_column(const Site& site, ir::ValueId id, std::int64_t columns, std::vector<float>& out) {
  const Tensor* t = id.present() ? site.constant(id) : nullptr;
  if (t == nullptr || t->dtype() != DType::float32) return "its bias is computed";
  const bool vector = t->rank() > 0 && t->shape().back() == columns;
  if (t->size() != 1 && (!vector || static_cast<std::int64_t>(t->size()) != columns)) return "its bias is no vector";
  for (std::int64_t n = 0; n < columns; ++n) {
    const auto at = static_cast<std::size_t>(t->size() == 1 ? 0 : n);
    out[static_cast<std::size_t>(n)] = static_cast<float>(numerics::decode_float(t->dtype(), t->data(), at));
    if (!std::isfinite(out[static_cast<std::size_t>(n)])) return "its bias is not finite";
  }
  return "";
}

}  // namespace

Offer make_weight_only(const Site& site) {
  const ir::Node& node = site.node;
  if (!node.body || node.outputs.size() != 1 || site.dtype(node.outputs[0]) != DType::float32) {
    return refuse("is no product with a float result");
  }
  const ir::Graph& body = *node.body;
  Parts parts;
  for (const ir::Node& n : body.nodes) {
    const ir::Node** place = n.op_type == "MatMul" || n.op_type == "Gemm" ? &parts.product
                             : n.op_type == "DequantizeLinear"            ? &parts.dequantize
                             : n.op_type == "Add"                         ? &parts.add
                                                                          : nullptr;
    if (place == nullptr || *place != nullptr) return refuse("other operators belong to it");
    *place = &n;
  }
  if (parts.product == nullptr || parts.dequantize == nullptr) return refuse("is no product with quantized weights");
  const auto outer = [&](const ir::Node& n, std::size_t k) {
    const ir::ValueId id = k < n.inputs.size() ? n.inputs[k] : ir::ValueId{};
    const auto at = std::find(body.inputs.begin(), body.inputs.end(), id);
    return !id.present() || at == body.inputs.end() ? ir::ValueId{}
                                                    : node.inputs[static_cast<std::size_t>(at - body.inputs.begin())];
  };
  const ir::Node& product = *parts.product;
  const ir::ValueId x = outer(product, 0);
  if (!x.present() || product.inputs[1] != parts.dequantize->outputs[0]) return refuse("its right side is no weight");
  bool transposed = false;
  if (product.op_type == "Gemm") {
    transposed = ir::int_attribute(product, "transB", 0) != 0;
    if (ir::int_attribute(product, "transA", 0) != 0) return refuse("transposes its activation");
    for (const char* name : {"alpha", "beta"}) {
      const auto at = product.attributes.find(name);
      if (at != product.attributes.end() && std::get<float>(at->second) != 1.0F) return refuse("has alpha or beta");
    }
  }
  const ir::ValueId wid = outer(*parts.dequantize, 0);
  const Tensor* weights = wid.present() ? site.constant(wid) : nullptr;
  const ir::ValueId sid = outer(*parts.dequantize, 1);
  const Tensor* scale = sid.present() ? site.constant(sid) : nullptr;
  const ir::ValueId zid = outer(*parts.dequantize, 2);
  const Tensor* zero = zid.present() ? site.constant(zid) : nullptr;
  if (weights == nullptr || scale == nullptr || (zid.present() && zero == nullptr))
    return refuse("has computed weights");
  if (weights->rank() != 2 || !is_integer(weights->dtype()) || bits(weights->dtype()) > 8) {
    return refuse("has other than 8-bit matrices as weights");
  }
  if (site.dtype(x) != DType::float32 || site.shape(x).empty()) return refuse("its activation is not float32");

  auto kernel = std::make_unique<WeightOnlyKernel>();
  kernels::WeightOnly& w = kernel->parameters;
  const Shape& ws = weights->shape();
  w.depth = ws[transposed ? 1 : 0];
  w.columns = ws[transposed ? 0 : 1];
  if (elements(site.shape(x)) == 0 || w.columns == 0) return refuse("is empty");
  kernel->rows = elements(site.shape(x)) / w.depth;
  if (elements(site.shape(node.outputs[0])) != kernel->rows * w.columns) return refuse("adds a larger tensor");

  // --- the scale of element (row, column) of the stored matrix
  std::int64_t axis = ir::int_attribute(*parts.dequantize, "axis", 1);
  if (axis < 0) axis += 2;
  const std::int64_t blocked = ir::int_attribute(*parts.dequantize, "block_size", 0);
  if (scale->rank() == 1 && scale->size() > 1 &&
      static_cast<std::int64_t>(scale->size()) != ws[static_cast<std::size_t>(axis)]) {
    return refuse("has scales of another length");
  }
  if (scale->rank() > 1 && (scale->rank() != 2 || blocked == 0)) return refuse("has scales of another rank");
  const auto number_of = [&](std::int64_t row, std::int64_t column) -> std::int64_t {
    if (scale->size() == 1) return 0;
    if (blocked == 0) return axis == 0 ? row : column;
    return (axis == 0 ? row / blocked : row) * scale->shape()[1] + (axis == 0 ? column : column / blocked);
  };
  // Blocked scales differ from row to row in the other direction.
  const bool along_depth = axis == (transposed ? 1 : 0);
  w.block = w.depth;
  if (scale->size() > 1 && blocked != 0) w.block = along_depth ? blocked : 1;
  if (scale->size() > 1 && blocked == 0 && along_depth) w.block = 1;
  constexpr std::int64_t kLanes = kernels::kWeightLanes;
  const std::int64_t padded = (w.columns + kLanes - 1) / kLanes * kLanes;
  const std::int64_t groups = (w.depth + w.block - 1) / w.block;
  kernel->weights.assign(static_cast<std::size_t>(padded * w.depth), 0);
  kernel->scales.assign(static_cast<std::size_t>(padded * groups), 0);
  kernel->magnitude.assign(static_cast<std::size_t>(padded), 0);
  kernel->bias.assign(static_cast<std::size_t>(padded), 0);
  const auto q = ops::integers(*weights);
  const std::vector<std::int64_t> zeros = zero == nullptr ? std::vector<std::int64_t>{0} : ops::integers(*zero);
  if (zeros.size() != 1 && zeros.size() != scale->size()) return refuse("has zero points of another length");
  for (std::int64_t n = 0; n < w.columns; ++n) {
    for (std::int64_t k = 0; k < w.depth; ++k) {
      const std::int64_t row = transposed ? n : k;
      const std::int64_t column = transposed ? k : n;
      const auto at = static_cast<std::size_t>(number_of(row, column));
      const double s = numerics::decode_float(scale->dtype(), scale->data(), at);
      if (!std::isfinite(s) || (s != 0 && (std::fabs(s) < 0x1p-100 || std::fabs(s) > 0x1p60))) {
        return refuse("its scales leave the range of double arithmetic");
      }
      const std::int64_t v = q[static_cast<std::size_t>(row * ws[1] + column)] - zeros[zeros.size() == 1 ? 0 : at];
      const std::int64_t block = n / kLanes * kLanes;
      kernel->weights[static_cast<std::size_t>(block * w.depth + k * kLanes + n % kLanes)] =
          static_cast<std::int16_t>(v);
      kernel->scales[static_cast<std::size_t>(block * groups + k / w.block * kLanes + n % kLanes)] = s;
      // Rounded up by more than what adding them loses.
      kernel->magnitude[static_cast<std::size_t>(n)] += std::fabs(static_cast<double>(v) * s) * (1 + 0x1p-20);
    }
  }
  if (product.inputs.size() > 2 && product.inputs[2].present()) {
    if (const auto why = by_column(site, outer(product, 2), w.columns, kernel->bias); !why.empty()) return refuse(why);
  }
  if (parts.add != nullptr) {
    kernel->addend.assign(static_cast<std::size_t>(padded), 0);
    const std::size_t other = parts.add->inputs[0] == product.outputs[0] ? 1 : 0;
    if (const auto why = by_column(site, outer(*parts.add, other), w.columns, kernel->addend); !why.empty()) {
      return refuse(why);
    }
  }
  w.weights = kernel->weights.data();
  w.scales = kernel->scales.data();
  w.magnitude = kernel->magnitude.data();
  w.bias = kernel->bias.data();
  w.addend = kernel->addend.empty() ? nullptr : kernel->addend.data();
  w.exact = WeightOnlyKernel::exact;
  w.context = kernel.get();
  kernel->function = site.isa >= Isa::avx512 ? kernels::weight_only_avx512
                     : site.isa >= Isa::avx2 ? kernels::weight_only_avx2
                                             : kernels::weight_only_portable;
  kernel->note = "double with a bound; results whose rounding it leaves open are computed exactly";
  kernel->input = input_of(node, x);
  kernel->in_forms.resize(node.inputs.size());
  kernel->in_forms[kernel->input] = Form{};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
