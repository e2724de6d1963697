#include "plan/program.hpp"

#include <algorithm>

#include "ops/common.hpp"
#include "plan/program_compiler.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {

using kernels::FusedOp;
using kernels::FusedStep;

void ProgramCompiler::run() {
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

void ProgramCompiler::choose_layout() {
  layout_ = Layout::plain;
  for (std::size_t k = 0; k < g_.inputs.size(); ++k) {
    const ir::ValueId id = site_.node.inputs[k];
    if (!id.present() || site_.constant(id) != nullptr || site_.shape(id) != out_shape_) continue;
    if (site_.layout(id) == Layout::channels_last) layout_ = Layout::channels_last;
  }
  if (out_shape_.size() < 3) layout_ = Layout::plain;
  p_.in_forms.assign(site_.node.inputs.size(), std::nullopt);
}

ProgramCompiler::Register ProgramCompiler::rounded(ir::ValueId id) {
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

ProgramCompiler::Register ProgramCompiler::unrounded(ir::ValueId id) {
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

bool ProgramCompiler::only_moves(ir::ValueId id) const {
  const ir::Node* n = node_of(id);
  while (n != nullptr && passes(*n)) {
    if (n->op_type == "Relu") return false;  // which gives +0
    id = n->inputs[0];
    n = node_of(id);
  }
  return n == nullptr;
}

ProgramCompiler::Register ProgramCompiler::to_float(const Register& r) {
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

ProgramCompiler::Register ProgramCompiler::table(ir::ValueId id, std::size_t input) {
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

ProgramCompiler::Register ProgramCompiler::pass(const ir::Node& n, const Register& x) {
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

double ProgramCompiler::clip_bound(const ir::Node& n, std::size_t k, const char* name, double otherwise) const {
  if (n.version < 11) {
    const auto at = n.attributes.find(name);
    return at == n.attributes.end() ? otherwise : static_cast<double>(std::get<float>(at->second));
  }
  if (n.inputs.size() <= k || !n.inputs[k].present()) return otherwise;
  const Tensor* t = constant(n.inputs[k]);
  if (t == nullptr || t->size() != 1) throw Refusal{"clips to computed bounds"};
  return numerics::decode_float(t->dtype(), t->data(), 0);
}

bool compile(const Site& site, const ops::BoundBody& body, Program& program, std::string& refusal) {
  try {
    ProgramCompiler(site, body, program).run();
    return true;
  } catch (const Refusal& r) {
    refusal = r.why;
    return false;
  }
}

}  // namespace halfeven::plan
