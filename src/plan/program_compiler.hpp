// The compiler behind program.hpp: values of a body to registers of a vector program.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "numerics/format.hpp"
#include "plan/program.hpp"
#include "plan/program_parts.hpp"

namespace halfeven::plan {

/// Compiles one body. Throws Refusal where it is no program.
class ProgramCompiler {
 public:
  struct Register {
    std::uint16_t number = 0;
    bool pair = false;  // its rest counts
    bool invariant = false;
    Known known;
  };

  ProgramCompiler(const Site& site, const ops::BoundBody& body, Program& program)
      : site_(site), g_(body.graph), body_(body), p_(program), sources_(sources_of(site, body)) {
    for (const ir::Node& n : g_.nodes) producer_[n.outputs[0]] = &n;
    for (std::size_t k = 0; k < g_.inputs.size(); ++k) input_[g_.inputs[k]] = k;
  }

  void run();

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
  void choose_layout();

  static bool is_invariant(const kernels::FusedAddress& at) {
    return at.kind == kernels::FusedAddress::Kind::scalar ||
           (at.kind == kernels::FusedAddress::Kind::periodic && at.period <= kernels::kFusedBlock);
  }

  Register emit(kernels::FusedStep s, bool pair, bool invariant, Known known) {
    if (next_ == kernels::kFusedRegisters) throw Refusal{"is longer than the kernel's programs"};
    s.to = next_++;
    s.invariant = invariant;
    p_.steps.push_back(s);
    return {s.to, pair, invariant, known};
  }

  // --- loads

  Register load_constant(const std::vector<double>& values, const Shape& from);
  kernels::FusedAddress input_address(std::size_t k);
  Register load_floats(ir::ValueId id);
  // Two DequantizeLinear of one tensor with the same parameters are one.
  Register dequantize(const ir::Node& n);
  Register load_codes(const ir::Node& n);

  // --- values

  // As ordinary readers see it: exactly held by t.
  Register rounded(ir::ValueId id);

  // One sum or product on each element costs less than looking it up.
  bool is_cheap(const ir::Node& n, const Source& code) const {
    const bool full = site_.shape(site_.node.inputs[code.input]) == out_shape_;
    return full && code.depth == 1 && (n.op_type == "Add" || n.op_type == "Sub" || n.op_type == "Mul");
  }

  // As QuantizeLinear sees it.
  Register unrounded(ir::ValueId id);

  // Whether the value is a float tensor from outside, passed on and nothing more: then -0 stays what it is.
  bool only_moves(ir::ValueId id) const;

  static bool passes(const ir::Node& n) {
    return n.op_type == "Relu" || n.op_type == "Clip" || n.op_type == "Identity";
  }

  Register to_float(const Register& r);
  Register table(ir::ValueId id, std::size_t input);
  Register pass(const ir::Node& n, const Register& x);
  double clip_bound(const ir::Node& n, std::size_t k, const char* name, double otherwise) const;

  // --- operators

  Register operation(const ir::Node& n, bool wants_pair);

  bool is_one(ir::ValueId id) const {
    const Tensor* t = constant(id);
    return t != nullptr && t->size() == 1 && is_float(t->dtype()) &&
           numerics::decode_float(t->dtype(), t->data(), 0) == 1.0;
  }

  Register arithmetic(kernels::FusedStep s, const Register& a, const Register& b, bool wants_pair);

  // Chooses what to keep of a result. `exact`: t alone is the result.
  Register finish(kernels::FusedStep s, bool invariant, Known k, bool exact, bool wants_pair);

  // (x - mean) * scale / sqrt(variance + epsilon) + bias as x * A + B, A and B to twice the bits of a double.
  Register normalization(const ir::Node& n, const ops::NodeReader& reader, bool wants_pair);

  // The end of the program: its result's integers.
  void quantize(const ir::Node& n, DType type, double lo, double hi);

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

}  // namespace halfeven::plan
