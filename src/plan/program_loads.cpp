// How a program reads its operands.
#include <algorithm>
#include <cmath>

#include "ops/common.hpp"
#include "plan/program_compiler.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

using kernels::FusedAddress;
using kernels::FusedOp;
using kernels::FusedStep;

ProgramCompiler::Register ProgramCompiler::load_constant(const std::vector<double>& values, const Shape& from) {
  Known known = known_of(values.empty() ? 0 : values[0]);
  for (const double v : values) known = join(known, known_of(v));
  FusedStep s;
  s.op = FusedOp::constant;
  s.address = fused_address(out_shape_, layout_, from, Layout::plain, p_.indices);
  p_.tables.push_back(values);
  s.table = p_.tables.back().data();
  return emit(s, false, is_invariant(s.address), known);
}

FusedAddress ProgramCompiler::input_address(std::size_t k) {
  const ir::ValueId id = site_.node.inputs[k];
  const bool full = site_.shape(id) == out_shape_;
  const Form form = is_byte(site_.dtype(id)) ? byte_form(full ? layout_ : site_.layout(id), site_.dtype(id))
                                             : Form{full ? layout_ : site_.layout(id), false};
  p_.in_forms[k] = form;
  return fused_address(out_shape_, layout_, site_.shape(id), form.layout, p_.indices);
}

ProgramCompiler::Register ProgramCompiler::load_floats(ir::ValueId id) {
  need_float(id);
  if (const Tensor* t = constant(id)) {
    std::vector<double> values;
    for (std::size_t i = 0; i < t->size(); ++i) values.push_back(numerics::decode_float(t->dtype(), t->data(), i));
    return load_constant(values, t->shape());
  }
  FusedStep s;
  s.op = FusedOp::load_f32;
  const std::size_t k = input_.at(id);
  s.a = static_cast<std::uint16_t>(k);
  s.address = input_address(k);
  return emit(s, false, is_invariant(s.address), Known{});
}

ProgramCompiler::Register ProgramCompiler::dequantize(const ir::Node& n) {
  need_float(n.outputs[0]);
  for (const auto& [other, made] : dequantized_) {
    if (other->inputs == n.inputs && ir::int_attribute(*other, "axis", 1) == ir::int_attribute(n, "axis", 1) &&
        ir::int_attribute(*other, "block_size", 0) == ir::int_attribute(n, "block_size", 0)) {
      return made;
    }
  }
  const Register r = load_codes(n);
  dequantized_.emplace_back(&n, r);
  return r;
}

ProgramCompiler::Register ProgramCompiler::load_codes(const ir::Node& n) {
  const Tensor* scale = constant(n.inputs[1]);
  const bool has_zero = n.inputs.size() > 2 && n.inputs[2].present();
  const Tensor* zero = has_zero ? constant(n.inputs[2]) : nullptr;
  if (scale == nullptr || (has_zero && zero == nullptr) || scale->rank() > 1) {
    throw Refusal{"its quantisation parameters are not constants per tensor or per axis"};
  }
  const DType type = g_.value(n.inputs[0]).dtype;
  if (!is_integer(type)) throw Refusal{"dequantizes other than integers"};
  const Shape& in = shape(n.inputs[0]);
  std::vector<double> scales;
  for (std::size_t i = 0; i < scale->size(); ++i) {
    scales.push_back(numerics::decode_float(scale->dtype(), scale->data(), i));
  }
  std::vector<std::int64_t> zeros = zero == nullptr ? std::vector<std::int64_t>{0} : ops::integers(*zero);
  if (std::all_of(zeros.begin(), zeros.end(), [&](auto z) { return z == zeros[0]; })) zeros.resize(1);
  std::int64_t axis = ir::int_attribute(n, "axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(in.size());
  const bool along_axis = scales.size() > 1 || zeros.size() > 1;
  if (along_axis && (axis < 0 || axis >= static_cast<std::int64_t>(in.size()))) throw Refusal{"has a wrong axis"};
  const auto split = along_axis ? ops::split_at(in, static_cast<std::size_t>(axis)) : ops::AxisSplit{};
  const auto channel = [&](std::size_t i) { return along_axis ? i / split.inner % split.length : 0; };
  if (const Tensor* codes = constant(n.inputs[0])) {
    const auto q = ops::integers(*codes);
    std::vector<double> values;
    for (std::size_t i = 0; i < q.size(); ++i) {
      const double v = static_cast<double>(q[i] - zeros[zeros.size() == 1 ? 0 : channel(i)]);
      const double s = scales[scales.size() == 1 ? 0 : channel(i)];
      if (std::fabs(v) > 0x1p53 || std::fma(v, s, -(v * s)) != 0) throw Refusal{"has a constant too fine for double"};
      values.push_back(v * s + 0.0);
    }
    return load_constant(values, in);
  }
  const auto at = input_.find(n.inputs[0]);
  if (at == input_.end()) throw Refusal{"dequantizes what it computes"};
  FusedStep s;
  switch (type) {
    case DType::uint8:
    case DType::int8: s.op = FusedOp::load_u8; break;
    case DType::uint16: s.op = FusedOp::load_u16; break;
    case DType::int16: s.op = FusedOp::load_s16; break;
    default: throw Refusal{"has other than 8- and 16-bit tensors"};
  }
  s.a = static_cast<std::uint16_t>(at->second);
  s.address = input_address(at->second);
  const double bias = type == DType::int8 ? 128 : 0;
  const bool invariant = is_invariant(s.address);
  double reach = 0;
  for (const std::int64_t z : zeros) {
    reach = std::max({reach, static_cast<double>(integer_max(type) - z), static_cast<double>(z - integer_min(type))});
  }
  Known codes = known_of(reach);
  codes = {0, codes.magnitude, codes.magnitude};
  const auto scaled = [&](const Known& factor) {
    return Known{factor.lsb, factor.magnitude + codes.magnitude, factor.precision + codes.precision};
  };
  if (!along_axis) {
    s.p0 = static_cast<double>(zeros[0]) + bias;
    s.p1 = scales[0];
    return emit(s, false, invariant, scaled(known_of(scales[0])));
  }
  Shape lane(in.size(), 1);
  lane[static_cast<std::size_t>(axis)] = in[static_cast<std::size_t>(axis)];
  s.p0 = zeros.size() == 1 ? static_cast<double>(zeros[0]) + bias : bias;
  s.p1 = 1;
  Register r = emit(s, false, invariant, codes);
  const auto combine = [&](FusedOp op, const std::vector<double>& values, auto known) {
    const Register c = load_constant(values, values.size() == 1 ? Shape{} : lane);
    FusedStep t;
    t.op = op;
    t.a = r.number;
    t.b = c.number;
    r = emit(t, false, r.invariant && c.invariant, known(c.known));
  };
  if (zeros.size() > 1) {
    combine(FusedOp::subtract, {zeros.begin(), zeros.end()}, [&](const Known&) { return codes; });
  }
  combine(FusedOp::multiply, scales, scaled);
  return r;
}

}  // namespace halfeven::plan
