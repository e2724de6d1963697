#include "plan/program.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "numerics/format.hpp"
#include "plan/program_parts.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

using kernels::FusedAddress;
using kernels::FusedOp;
using kernels::FusedResult;
using kernels::FusedStep;
using numerics::Real;

namespace {

struct Register {
  std::uint16_t number = 0;
  bool pair = false;
  bool invariant = false;
  Known known;
};

class Compiler {
 public:
  Compiler(const Site& site, const ops::BoundBody& body, Program& program)
      : site_(site), g_(body.graph), body_(body), p_(program), sources_(sources_of(site, body)) {
    for (const ir::Node& n : g_.nodes) producer_[n.outputs[0]] = &n;
    for (std::size_t k = 0; k < g_.inputs.size(); ++k) input_[g_.inputs[k]] = k;
  }

  void run() {
    out_shape_ = *site_.graph.value(site_.node.outputs[0]).shape;
    choose_layout();
    ir::ValueId result = g_.outputs[0];
    const DType type = g_.value(result).dtype;
    const ir::Node* last = node_of(result);
    if (last == nullptr) throw Refusal{"passes its input on"};
    auto& v = p_.view;
    double lo = 0;
    double hi = 0;
    if (is_integer(type)) {
      lo = static_cast<double>(integer_min(type));
      hi = static_cast<double>(integer_max(type));
      if (last->op_type == "Clip") {
        const auto bound = [&](std::size_t k, double otherwise) {
          if (last->inputs.size() <= k || !last->inputs[k].present()) return otherwise;
          const Tensor* t = constant(last->inputs[k]);
          if (t == nullptr) throw Refusal{"clips to computed bounds"};
          return static_cast<double>(ops::integers(*t)[0]);
        };
        lo = bound(1, lo);
        hi = bound(2, hi);
        lo = std::min(lo, hi);
        last = node_of(last->inputs[0]);
      }
      if (last == nullptr || last->op_type != "QuantizeLinear") throw Refusal{"computes integers"};
      quantize(*last, type, lo, hi);
    } else {
      need_float(result);
      if (only_moves(result)) throw Refusal{"passes floats on, whose zeros keep their sign"};
      const Register r = to_float(rounded(result));
      v.type = kernels::FusedType::f32;
      v.result = r.number;
      p_.out_form = {layout_, false};
    }
    std::stable_partition(p_.steps.begin(), p_.steps.end(), [](const FusedStep& s) { return s.invariant; });
    v.steps = p_.steps.data();
    v.step_count = p_.steps.size();
  }

 private:
  const ir::Node* node_of(ir::ValueId id) const {
    const auto at = producer_.find(id);
    return at == producer_.end() ? nullptr : at->second;
  }
  const Shape& shape(ir::ValueId id) const { return *g_.value(id).shape; }
  const Tensor* constant(ir::ValueId id) const {
    const auto at = input_.find(id);
    return at == input_.end() || !site_.node.inputs[at->second].present()
               ? nullptr
               : site_.constant(site_.node.inputs[at->second]);
  }
  void need_float(ir::ValueId id) const {
    if (g_.value(id).dtype != DType::float32) throw Refusal{"computes in another type than float32"};
  }

  // The layout of an input as large as the result, channels last where one has it.
  void choose_layout() {
    layout_ = Layout::plain;
    for (std::size_t k = 0; k < g_.inputs.size(); ++k) {
      const ir::ValueId id = site_.node.inputs[k];
      if (!id.present() || site_.constant(id) != nullptr || site_.shape(id) != out_shape_) continue;
      if (site_.layout(id) == Layout::channels_last) layout_ = Layout::channels_last;
    }
    if (out_shape_.size() < 3) layout_ = Layout::plain;
    p_.in_forms.assign(site_.node.inputs.size(), std::nullopt);
  }

  static bool is_invariant(const FusedAddress& at) {
    return at.kind == FusedAddress::Kind::scalar ||
           (at.kind == FusedAddress::Kind::periodic && at.period <= kernels::kFusedBlock);
  }

  Register emit(FusedStep s, bool pair, bool invariant, Known known) {
    if (next_ == kernels::kFusedRegisters) throw Refusal{"is longer than the kernel's programs"};
    s.to = next_++;
    s.invariant = invariant;
    p_.steps.push_back(s);
    return {s.to, pair, invariant, known};
  }

  // --- loads

  Register load_constant(const std::vector<double>& values, const Shape& from) {
    Known known = known_of(values.empty() ? 0 : values[0]);
    for (const double v : values) known = join(known, known_of(v));
    FusedStep s;
    s.op = FusedOp::constant;
    s.address = fused_address(out_shape_, layout_, from, Layout::plain, p_.indices);
    p_.tables.push_back(values);
    s.table = p_.tables.back().data();
    return emit(s, false, is_invariant(s.address), known);
  }

  FusedAddress input_address(std::size_t k) {
    const ir::ValueId id = site_.node.inputs[k];
    const bool full = site_.shape(id) == out_shape_;
    const Form form = is_byte(site_.dtype(id)) ? byte_form(full ? layout_ : site_.layout(id), site_.dtype(id))
                                               : Form{full ? layout_ : site_.layout(id), false};
    p_.in_forms[k] = form;
    return fused_address(out_shape_, layout_, site_.shape(id), form.layout, p_.indices);
  }

  Register load_floats(ir::ValueId id) {
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

  // Two DequantizeLinear of one tensor with the same parameters are one.
  Register dequantize(const ir::Node& n) {
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

  Register load_codes(const ir::Node& n) {
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

  // --- values

  // As ordinary readers see it: exactly held by t.
  Register rounded(ir::ValueId id) {
    if (const auto at = rounded_.find(id); at != rounded_.end()) return at->second;
    const ir::Node* n = node_of(id);
    Register r;
    if (n == nullptr) {
      r = load_floats(id);
    } else if (n->op_type == "DequantizeLinear") {
      r = dequantize(*n);
      unrounded_[id] = r;
    } else if (const auto code = sources_[id.index];
               code.kind == Source::Kind::code && code.depth > 0 && !is_cheap(*n, code)) {
      r = table(id, code.input);
    } else if (passes(*n)) {
      r = pass(*n, rounded(n->inputs[0]));
    } else if (const auto made = unrounded_.find(id); made != unrounded_.end()) {
      r = to_float(made->second);
    } else {
      r = operation(*n, false);
    }
    rounded_[id] = r;
    return r;
  }

  // One sum or product on each element costs less than looking it up.
  bool is_cheap(const ir::Node& n, const Source& code) const {
    const bool full = site_.shape(site_.node.inputs[code.input]) == out_shape_;
    return full && code.depth == 1 && (n.op_type == "Add" || n.op_type == "Sub" || n.op_type == "Mul");
  }

  // As QuantizeLinear sees it.
  Register unrounded(ir::ValueId id) {
    if (const auto at = unrounded_.find(id); at != unrounded_.end()) return at->second;
    const ir::Node* n = node_of(id);
    Register r;
    if (n == nullptr || n->op_type == "DequantizeLinear") {
      r = rounded(id);
    } else if (passes(*n)) {
      r = pass(*n, unrounded(n->inputs[0]));
    } else {
      r = operation(*n, true);
    }
    unrounded_[id] = r;
    return r;
  }

  // Whether the value is a float tensor from outside, passed on and nothing more: then -0 stays what it is.
  bool only_moves(ir::ValueId id) const {
    const ir::Node* n = node_of(id);
    while (n != nullptr && passes(*n)) {
      if (n->op_type == "Relu") return false;  // which gives +0
      id = n->inputs[0];
      n = node_of(id);
    }
    return n == nullptr;
  }

  static bool passes(const ir::Node& n) {
    return n.op_type == "Relu" || n.op_type == "Clip" || n.op_type == "Identity";
  }

  Register to_float(const Register& r) {
    if (!r.pair && r.known.precision <= 24 && r.known.lsb >= -149 && r.known.magnitude <= 127) return r;
    FusedStep s;
    s.op = FusedOp::round;
    s.a = r.number;
    s.a_pair = r.pair;
    Known k = r.known;
    k.precision = std::min(k.precision, 24);
    k.lsb = std::max(k.lsb, -149);
    return emit(s, false, r.invariant, k);
  }

  Register table(ir::ValueId id, std::size_t input) {
    need_float(id);
    Tensor t;
    try {
      t = evaluate_codes(site_, body_, id, input);
    } catch (const Error& e) {
      throw Refusal{std::string("some codes have no answer: ") + e.what()};
    }
    FusedStep s;
    s.op = FusedOp::table;
    s.a = static_cast<std::uint16_t>(input);
    s.address = input_address(input);
    std::vector<double> values;
    Known known{127, -1000, 1};
    for (std::size_t i = 0; i < t.size(); ++i) {
      values.push_back(numerics::decode_float(t.dtype(), t.data(), i));
      known = join(known, known_of(values.back()));
    }
    p_.tables.push_back(std::move(values));
    s.table = p_.tables.back().data();
    return emit(s, false, is_invariant(s.address), known);
  }

  Register pass(const ir::Node& n, const Register& x) {
    if (n.op_type == "Identity") return x;
    need_float(n.outputs[0]);
    FusedStep s;
    s.a = x.number;
    s.a_pair = x.pair;
    Known known = x.known;
    if (n.op_type == "Relu") {
      s.op = FusedOp::relu;
    } else {
      s.op = FusedOp::clip;
      if (x.pair && doubt_ > 0) throw Refusal{"clips a normalised tensor"};
      s.p0 = clip_bound(n, 1, "min", -HUGE_VAL);
      s.p1 = clip_bound(n, 2, "max", HUGE_VAL);
      if (std::isnan(s.p0) || std::isnan(s.p1)) throw Refusal{"clips to NaN"};
      for (const double b : {s.p0, s.p1}) {
        if (std::isfinite(b)) known = join(known, known_of(b));
      }
      if (s.p0 == HUGE_VAL || s.p1 == -HUGE_VAL) known.magnitude = kUnknownMagnitude;
    }
    return emit(s, x.pair, x.invariant, known);
  }

  double clip_bound(const ir::Node& n, std::size_t k, const char* name, double otherwise) const {
    if (n.version < 11) {
      const auto at = n.attributes.find(name);
      return at == n.attributes.end() ? otherwise : static_cast<double>(std::get<float>(at->second));
    }
    if (n.inputs.size() <= k || !n.inputs[k].present()) return otherwise;
    const Tensor* t = constant(n.inputs[k]);
    if (t == nullptr || t->size() != 1) throw Refusal{"clips to computed bounds"};
    return numerics::decode_float(t->dtype(), t->data(), 0);
  }

  Register operation(const ir::Node& n, bool wants_pair) {
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

  bool is_one(ir::ValueId id) const {
    const Tensor* t = constant(id);
    return t != nullptr && t->size() == 1 && is_float(t->dtype()) &&
           numerics::decode_float(t->dtype(), t->data(), 0) == 1.0;
  }

  Register arithmetic(FusedStep s, const Register& a, const Register& b, bool wants_pair) {
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

  // Chooses what to keep of a result. `exact`: t alone is the result.
  Register finish(FusedStep s, bool invariant, Known k, bool exact, bool wants_pair) {
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

  // (x - mean) * scale / sqrt(variance + epsilon) + bias as x * A + B, A and B to twice the bits of a double.
  Register normalization(const ir::Node& n, const ops::NodeReader& reader, bool wants_pair) {
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

  void quantize(const ir::Node& n, DType type, double lo, double hi) {
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

  const Site& site_;
  const ir::Graph& g_;
  const ops::BoundBody& body_;
  Program& p_;
  std::map<ir::ValueId, const ir::Node*> producer_;
  std::map<ir::ValueId, std::size_t> input_;
  std::vector<Source> sources_;
  std::map<ir::ValueId, Register> rounded_;
  std::map<ir::ValueId, Register> unrounded_;
  std::vector<std::pair<const ir::Node*, Register>> dequantized_;
  Shape out_shape_;
  Layout layout_ = Layout::plain;
  std::uint16_t next_ = 0;
  double doubt_ = 0;
};

}  // namespace

bool compile(const Site& site, const ops::BoundBody& body, Program& program, std::string& refusal) {
  try {
    Compiler(site, body, program).run();
    return true;
  } catch (const Refusal& r) {
    refusal = r.why;
    return false;
  }
}

}  // namespace halfeven::plan
