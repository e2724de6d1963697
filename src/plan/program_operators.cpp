// What a program computes, and how it ends.
#include <algorithm>
#include <cmath>

#include "ops/common.hpp"
#include "plan/program_compiler.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

using kernels::FusedOp;
using kernels::FusedResult;
using kernels::FusedStep;
using numerics::Real;

ProgramCompiler::Register ProgramCompiler::operation(const ir::Node& n, bool wants_pair) {
  need_float(n.outputs[0]);
  if (!n.domain.empty()) throw Refusal{n.op_type + " is no operator of the kernel"};
  if (body_.facts.constant[n.outputs[0].index]) throw Refusal{"computes with constants only, rounded at once"};
  const ops::NodeReader reader(g_, n);
  FusedStep s;
  const auto unary = [&](FusedOp op) {
    s.op = op;
    const Register x = rounded(n.inputs[0]);
    s.a = x.number;
    return x;
  };
  static const std::map<std::string, FusedOp> binary{
      {"Add", FusedOp::add},     {"Sub", FusedOp::subtract}, {"Mul", FusedOp::multiply}, {"Div", FusedOp::divide},
      {"Min", FusedOp::minimum}, {"Max", FusedOp::maximum},  {"PRelu", FusedOp::prelu},  {"Sum", FusedOp::add}};
  if (const auto op = binary.find(n.op_type); op != binary.end()) {
    if (n.inputs.size() != 2) throw Refusal{n.op_type + " of other than two tensors"};
    // A product by 1 rounds what it reads, and that is all.
    if (n.op_type == "Mul" && is_one(n.inputs[1]) && node_of(n.inputs[0]) != nullptr) {
      const Register x = rounded(n.inputs[0]);
      return wants_pair ? x : to_float(x);
    }
    const Register a = unary(op->second);
    const Register b = rounded(n.inputs[1]);
    s.b = b.number;
    return arithmetic(s, a, b, wants_pair);
  }
  if (n.op_type == "BatchNormalization") return normalization(n, reader, wants_pair);
  if (n.op_type == "Neg" || n.op_type == "Abs") {
    const Register x = unary(n.op_type == "Neg" ? FusedOp::negate : FusedOp::absolute);
    return finish(s, x.invariant, x.known, true, wants_pair);
  }
  if (n.op_type == "LeakyRelu") {
    const Register x = unary(FusedOp::prelu);
    const Register b = load_constant({static_cast<double>(reader.get_float("alpha", 0.01F))}, {});
    s.b = b.number;
    return arithmetic(s, x, b, wants_pair);
  }
  if (n.op_type == "HardSigmoid") {
    const Register x = unary(FusedOp::hard_sigmoid);
    s.p0 = static_cast<double>(reader.get_float("alpha", 0.2F));
    s.p1 = static_cast<double>(reader.get_float("beta", 0.5F));
    return finish(s, x.invariant, Known{-1000, 0, 1000}, false, wants_pair);
  }
  if (n.op_type == "Reciprocal") {
    const Register one = load_constant({1.0}, {});
    const Register x = unary(FusedOp::divide);
    s.b = x.number;
    s.a = one.number;
    return arithmetic(s, one, x, wants_pair);
  }
  const auto f = function_of(n, reader);
  if (f != nullptr) {
    // QuantizeLinear would have to look beyond the float32.
    if (wants_pair) throw Refusal{"quantizes a function of more than one 8-bit tensor"};
    const Register x = unary(FusedOp::function);
    s.function = f;
    return emit(s, false, x.invariant, Known{});
  }
  throw Refusal{n.op_type + " is no operator of the kernel"};
}

ProgramCompiler::Register ProgramCompiler::arithmetic(FusedStep s, const Register& a, const Register& b,
                                                      bool wants_pair) {
  const bool invariant = a.invariant && b.invariant;
  Known k{-1000, kUnknownMagnitude, 1000};
  bool exact = false;
  switch (s.op) {
    case FusedOp::add:
    case FusedOp::subtract:
      k.lsb = std::min(a.known.lsb, b.known.lsb);
      k.magnitude = std::max(a.known.magnitude, b.known.magnitude) + 1;
      k.precision = k.magnitude - k.lsb;
      exact = k.precision <= 53;
      break;
    case FusedOp::multiply:
    case FusedOp::prelu:
      k.lsb = a.known.lsb + b.known.lsb;
      k.magnitude = a.known.magnitude + b.known.magnitude;
      k.precision = a.known.precision + b.known.precision;
      exact = k.precision <= 53 && (s.op == FusedOp::multiply || wants_pair);
      if (s.op == FusedOp::prelu) k = join(k, a.known);
      break;
    case FusedOp::minimum:
    case FusedOp::maximum:
      k = join(a.known, b.known);
      exact = true;
      break;
    default: break;
  }
  return finish(s, invariant, k, exact, wants_pair);
}

ProgramCompiler::Register ProgramCompiler::finish(FusedStep s, bool invariant, Known k, bool exact, bool wants_pair) {
  const bool is_float = exact && k.precision <= 24 && k.lsb >= -149 && k.magnitude <= 127;
  if (is_float || (exact && wants_pair)) {
    s.result = FusedResult::exact;
    return emit(s, false, invariant, k);
  }
  s.result = wants_pair ? FusedResult::pair : (exact ? FusedResult::narrowed : FusedResult::rounded);
  if (!wants_pair) {
    k.precision = std::min(k.precision, 24);
    k.lsb = std::max(k.lsb, -149);
  }
  return emit(s, wants_pair, invariant, k);
}

ProgramCompiler::Register ProgramCompiler::normalization(const ir::Node& n, const ops::NodeReader& reader,
                                                         bool wants_pair) {
  const Register x = rounded(n.inputs[0]);
  if (x.known.magnitude > 300) throw Refusal{"normalises numbers that may be infinite"};
  std::vector<std::vector<double>> given;
  for (std::size_t k = 1; k < 5; ++k) {
    const Tensor* t = constant(n.inputs[k]);
    if (t == nullptr) throw Refusal{"normalises with computed parameters"};
    given.emplace_back();
    for (std::size_t i = 0; i < t->size(); ++i) {
      given.back().push_back(numerics::decode_float(t->dtype(), t->data(), i));
      if (!std::isfinite(given.back().back())) throw Refusal{"normalises with infinite parameters"};
    }
  }
  const double epsilon = static_cast<double>(reader.get_float("epsilon", 1e-5F));
  const std::size_t channels = given[0].size();
  const auto to_double = [](const Real& v) { return numerics::round_to(v, numerics::format_of(DType::float64)); };
  std::vector<double> factor(2 * channels);
  std::vector<double> offset(2 * channels);
  double largest = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    if (!(given[3][c] + epsilon > 0)) throw Refusal{"normalises with a variance that is not positive"};
    const Real root = sqrt(Real::from_double(given[3][c]) + Real::from_double(epsilon));
    const Real a = Real::from_double(given[0][c]) / root;
    const Real b = Real::from_double(given[1][c]) - Real::from_double(given[2][c]) * a;
    factor[c] = to_double(a);
    factor[c + channels] = to_double(a - Real::from_double(factor[c]));
    offset[c] = to_double(b);
    offset[c + channels] = to_double(b - Real::from_double(offset[c]));
    largest = std::max(largest, std::ldexp(std::fabs(factor[c]), x.known.magnitude) + std::fabs(offset[c]));
  }
  const Shape& in = shape(n.inputs[0]);
  Shape lane(in.size(), 1);
  if (in.size() > 1) lane[1] = in[1];
  const auto half = [&](const std::vector<double>& v, std::size_t from) {
    return std::vector<double>(v.begin() + static_cast<std::ptrdiff_t>(from),
                               v.begin() + static_cast<std::ptrdiff_t>(from + channels));
  };
  // A constant pair: two loads, the second into the first one's rest.
  const auto load_pair = [&](const std::vector<double>& v) {
    const Register t = load_constant(half(v, 0), lane);
    const Register e = load_constant(half(v, channels), lane);
    FusedStep join;
    join.op = FusedOp::pair;
    join.a = t.number;
    join.b = e.number;
    return emit(join, true, t.invariant && e.invariant, t.known);
  };
  FusedStep s;
  s.op = FusedOp::affine;
  s.a = x.number;
  const Register a = load_pair(factor);
  const Register b = load_pair(offset);
  s.b = a.number;
  s.c = b.number;
  doubt_ = std::max(doubt_, largest * 0x1p-98);
  // What is read rounded is decided by the rest's sign, which is certain only beyond its error.
  if (!wants_pair) throw Refusal{"normalises to a float tensor"};
  return finish(s, x.invariant && a.invariant && b.invariant,
                Known{-1000, static_cast<int>(std::ceil(std::log2(std::max(largest, 0x1p-900)))) + 1, 1000}, false,
                true);
}

void ProgramCompiler::quantize(const ir::Node& n, DType type, double lo, double hi) {
  const Tensor* s = constant(n.inputs[1]);
  const bool has_zero = n.inputs.size() > 2 && n.inputs[2].present();
  const Tensor* z = has_zero ? constant(n.inputs[2]) : nullptr;
  if (s == nullptr || s->size() != 1 || (has_zero && (z == nullptr || z->size() != 1))) {
    throw Refusal{"its result is not quantized per tensor with constants"};
  }
  need_float(n.inputs[0]);
  auto& v = p_.view;
  switch (type) {
    case DType::uint8:
    case DType::int8: v.type = kernels::FusedType::u8; break;
    case DType::uint16: v.type = kernels::FusedType::u16; break;
    case DType::int16: v.type = kernels::FusedType::s16; break;
    default: throw Refusal{"its result has other than 8 or 16 bits"};
  }
  if (s->dtype() != DType::float32) throw Refusal{"quantizes with another scale than float32"};
  const double bias = type == DType::int8 ? 128 : 0;
  v.scale = numerics::decode_float(s->dtype(), s->data(), 0);
  v.inverse = 1 / v.scale;
  v.zero = (z == nullptr ? 0.0 : static_cast<double>(ops::integers(*z)[0])) + bias;
  v.lo = lo + bias;
  v.hi = hi + bias;
  const Register r = unrounded(n.inputs[0]);
  v.result = r.number;
  v.result_pair = r.pair;
  v.doubt = doubt_;
  p_.out_form = is_byte(type) ? byte_form(layout_, type) : Form{layout_, false};
}

}  // namespace halfeven::plan
