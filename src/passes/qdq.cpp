#include "passes/qdq.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "numerics/exact_tensor.hpp"
#include "ops/common.hpp"

namespace halfeven::passes {

bool is_quantize(const ir::Node& node) { return node.op_type == "QuantizeLinear" && !node.body; }
bool is_dequantize(const ir::Node& node) { return node.op_type == "DequantizeLinear" && !node.body; }

std::optional<std::size_t> quantize_at(const Editor& e, ir::ValueId output) {
  return e.producer(output, "QuantizeLinear");
}
std::optional<std::size_t> dequantize_at(const Editor& e, ir::ValueId output) {
  return e.producer(output, "DequantizeLinear");
}

bool Parameters::ascending() const {
  return std::all_of(scales.begin(), scales.end(), [](double s) { return s > 0; });
}

std::optional<Parameters> parameters_of(const Editor& e, std::size_t n) {
  const ir::Node& node = e.node(n);
  const bool quantizes = is_quantize(node);
  Parameters p;
  const ir::ValueId q = quantizes ? node.outputs[0] : node.inputs[0];
  const ir::ValueId real = quantizes ? node.inputs[0] : node.outputs[0];
  p.type = e.graph().value(q).dtype;
  p.real = e.graph().value(real).dtype;
  if (!is_integer(p.type) || !is_float(p.real)) return std::nullopt;
  const Tensor* scale = e.constant(node.inputs[1]);
  if (scale == nullptr || !is_float(scale->dtype())) return std::nullopt;
  for (std::size_t i = 0; i < scale->size(); ++i) {
    p.scales.push_back(numerics::decode_float(scale->dtype(), scale->data(), i));
    if (!std::isfinite(p.scales.back())) return std::nullopt;
  }
  p.zeros.assign(p.scales.size(), 0);
  if (node.inputs.size() > 2 && node.inputs[2].present()) {
    const Tensor* zero = e.constant(node.inputs[2]);
    if (zero == nullptr || zero->size() != scale->size()) return std::nullopt;
    p.zeros = ops::integers(*zero);
  }
  p.block = ir::int_attribute(node, "block_size", 0);
  // The axis has no meaning for one scale; a negative one is counted from the front where the rank is known.
  if (!p.per_tensor()) {
    p.axis = ir::int_attribute(node, "axis", 1);
    const auto& shape = e.graph().value(q).shape;
    if (p.axis < 0) {
      if (!shape) return std::nullopt;
      p.axis += static_cast<std::int64_t>(shape->size());
    }
  }
  return p;
}

std::int64_t quantize_value(const Parameters& p, double value) {
  const std::int64_t lo = integer_min(p.type);
  const std::int64_t hi = integer_max(p.type);
  const auto quotient = numerics::Real::from_double(value) / numerics::Real::from_double(p.scales[0]);
  return numerics::round_half_even(quotient, lo - p.zeros[0], hi - p.zeros[0]) + p.zeros[0];
}

Tensor scalar(DType type, std::int64_t value) { return ops::make_integers(type, {}, std::span(&value, 1)); }

bool moves_data(const ir::Node& node) {
  static const std::set<std::string_view> movements{
      "Reshape", "Flatten",      "Squeeze",  "Unsqueeze",      "Transpose", "Slice",        "Gather", "Expand",
      "Tile",    "DepthToSpace", "GatherND", "GatherElements", "Pad",       "SpaceToDepth", "Resize"};
  if (!node.domain.empty() || node.body || !movements.contains(node.op_type)) return false;
  if (node.op_type != "Resize") return true;
  const auto text = [&](const char* name) -> std::string {
    const auto at = node.attributes.find(name);
    const auto* v = at == node.attributes.end() ? nullptr : std::get_if<std::string>(&at->second);
    return v == nullptr ? "" : *v;
  };
  const std::string mode = text("mode");
  return (mode.empty() || mode == "nearest") && text("coordinate_transformation_mode") != "tf_crop_and_resize";
}

bool passes_values_on(const ir::Node& node) {
  static const std::set<std::string_view> closed{
      "Reshape",        "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice",   "Gather",       "GatherND",
      "GatherElements", "Concat",  "Split",   "Expand",    "Tile",      "Pad",     "DepthToSpace", "SpaceToDepth",
      "Identity",       "Dropout", "Where",   "Relu",      "Clip",      "MaxPool", "GlobalMaxPool"};
  return node.domain.empty() && !node.body && closed.contains(node.op_type);
}

namespace {

// `budget` bounds the walk: what is not known after so many steps counts as no.
bool reads_as_is(const Editor& e, ir::ValueId id, int& budget) {
  if (--budget < 0) return false;
  const auto p = e.producer(id);
  if (!p) return true;
  const ir::Node& node = e.node(*p);
  if (is_dequantize(node)) return true;
  if (!passes_values_on(node)) return false;
  const std::size_t first = node.op_type == "Where" ? 1 : 0;
  const std::size_t last = node.op_type == "Concat" || node.op_type == "Where" ? node.inputs.size() : first + 1;
  for (std::size_t k = first; k < last; ++k) {
    if (!reads_as_is(e, node.inputs[k], budget)) return false;
  }
  return true;
}

}  // namespace

bool reads_as_is(const Editor& e, ir::ValueId id) {
  int budget = 256;
  return reads_as_is(e, id, budget);
}

namespace {

bool holds_nan(const Tensor& t) {
  for (std::size_t i = 0; is_float(t.dtype()) && i < t.size(); ++i) {
    if (!std::isfinite(numerics::decode_float(t.dtype(), t.data(), i))) return true;
  }
  return false;
}

bool never_nan(const Editor& e, ir::ValueId id, int& budget) {
  if (!id.present()) return true;
  if (--budget < 0) return false;
  if (const Tensor* t = e.constant(id)) return !holds_nan(*t);
  const auto p = e.producer(id);
  if (!p) return false;  // an input brings what it likes
  const ir::Node& node = e.node(*p);
  if (is_dequantize(node)) return true;
  if (node.body || !node.domain.empty()) return false;
  // Finite operands that are read exactly give a finite sum. (One that is rounded first may have become infinite.)
  static const std::set<std::string_view> sums{
      "Conv",       "ConvTranspose", "MatMul",           "Gemm", "Add", "Sub", "Mul", "AveragePool",
      "ReduceMean", "ReduceSum",     "GlobalAveragePool"};
  const bool passes = passes_values_on(node);
  if (!passes && !sums.contains(node.op_type)) return false;
  const bool single = passes && node.op_type != "Concat" && node.op_type != "Where";
  const std::size_t first = node.op_type == "Where" ? 1 : 0;
  for (std::size_t k = first; k < (single ? 1 : node.inputs.size()); ++k) {
    const ir::ValueId in = node.inputs[k];
    if (!in.present() || !is_float(e.graph().value(in).dtype)) continue;
    if (!passes && !reads_as_is(e, in)) return false;
    if (!never_nan(e, in, budget)) return false;
  }
  return true;
}

}  // namespace

bool never_nan(const Editor& e, ir::ValueId id) {
  int budget = 256;
  return never_nan(e, id, budget);
}

bool may_drop_elements(const ir::Node& node) {
  static const std::set<std::string_view> keeping{"Reshape",   "Flatten",      "Squeeze",      "Unsqueeze",
                                                  "Transpose", "DepthToSpace", "SpaceToDepth", "Concat"};
  return !keeping.contains(node.op_type);
}

}  // namespace halfeven::passes
