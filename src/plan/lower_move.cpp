// Lowering, second step: pools and data movement work on integers.
#include <algorithm>
#include <cmath>

#include "numerics/format.hpp"
#include "passes/qdq.hpp"
#include "plan/lower_steps.hpp"

namespace halfeven::plan {

using passes::Editor;

namespace {

double largest(const Tensor& t, bool least) {
  if (!is_float(t.dtype())) return least ? 0 : HUGE_VAL;
  double m = least ? HUGE_VAL : 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    const double v = std::fabs(numerics::decode_float(t.dtype(), t.data(), i));
    if (!std::isfinite(v)) return least ? 0 : HUGE_VAL;
    m = least ? std::min(m, v) : std::max(m, v);
  }
  return m;
}

double bound_of(const Editor& e, ir::ValueId id, int& budget) {
  if (--budget < 0 || !id.present()) return HUGE_VAL;
  if (const Tensor* t = e.constant(id)) return is_float(t->dtype()) ? largest(*t, false) : HUGE_VAL;
  const auto p = e.producer(id);
  if (!p) return HUGE_VAL;
  const ir::Node& n = e.node(*p);
  if (passes::is_dequantize(n)) {
    const auto q = passes::parameters_of(e, *p);
    if (!q) return HUGE_VAL;
    double m = 0;
    for (const double s : q->scales) m = std::max(m, std::fabs(s));
    return m * std::ldexp(1.0, bits(q->type) + 1);
  }
  if (n.body || !n.domain.empty() || n.inputs.empty()) return HUGE_VAL;
  const std::string& op = n.op_type;
  if (op == "Sigmoid" || op == "HardSigmoid") {
    return std::isfinite(bound_of(e, n.inputs[0], budget)) ? 1 : HUGE_VAL;
  }
  const double x = bound_of(e, n.inputs[0], budget);
  if (op == "Relu" || op == "Neg" || op == "Abs" || op == "HardSwish" || op == "Identity" || op == "MaxPool" ||
      op == "GlobalMaxPool" || passes::moves_data(n)) {
    return op == "Pad" ? HUGE_VAL : x;
  }
  if (op == "LeakyRelu") {
    const auto at = n.attributes.find("alpha");
    return x * (at == n.attributes.end() ? 1 : 1 + std::fabs(static_cast<double>(std::get<float>(at->second))));
  }
  if (op == "Clip" && n.inputs.size() == 3 && n.inputs[1].present() && n.inputs[2].present()) {
    return std::max({x, bound_of(e, n.inputs[1], budget), bound_of(e, n.inputs[2], budget)});
  }
  if (op == "BatchNormalization") {
    const Tensor* t[4] = {};
    for (std::size_t k = 0; k < 4; ++k) {
      t[k] = e.constant(n.inputs[k + 1]);
      if (t[k] == nullptr) return HUGE_VAL;
    }
    const double variance = largest(*t[3], true);
    if (!(variance > 1e-12)) return HUGE_VAL;
    return (x + largest(*t[2], false)) * largest(*t[0], false) / std::sqrt(variance) + largest(*t[1], false);
  }
  if (n.inputs.size() != 2) return HUGE_VAL;
  if (op == "Div") {
    const Tensor* by = e.constant(n.inputs[1]);
    const double least = by == nullptr ? 0 : largest(*by, true);
    return least > 1e-30 ? x / least : HUGE_VAL;
  }
  const double y = bound_of(e, n.inputs[1], budget);
  if (op == "Add" || op == "Sub") return x + y;
  if (op == "Mul") return x * y;
  if (op == "Min" || op == "Max") return std::max(x, y);
  if (op == "PRelu") return x * std::max(1.0, y);
  return HUGE_VAL;
}

class Move {
 public:
  explicit Move(const ir::Graph& graph) : e_(graph) {}

  bool run(ir::Graph& graph) {
    const std::size_t count = e_.node_count();
    for (std::size_t n = count; n-- > 0;) {
      if (!e_.alive(n) || !live(n)) continue;
      const ir::Node& node = e_.node(n);
      if (passes::is_quantize(node)) {
        same_again(n) || quantize_in_front(n);
      } else if (is_max(node) || passes::moves_data(node)) {
        dequantize_behind(n) || quantize_behind(n) || maximum_in_front(n);
      }
    }
    if (e_.changes() == 0) return false;
    graph = e_.finish();
    return true;
  }

 private:
  static bool is_max(const ir::Node& n) {
    return n.domain.empty() && !n.body && (n.op_type == "MaxPool" || n.op_type == "GlobalMaxPool") &&
           n.outputs.size() == 1;
  }
  bool live(std::size_t n) const {
    const ir::ValueId id = e_.node(n).outputs[0];
    return e_.is_output(id) || !e_.readers(id).empty();
  }
  // Integers that the pool or movement takes. (GlobalMaxPool takes none.)
  static bool takes(const ir::Node& n, DType type) {
    if (n.op_type == "GlobalMaxPool" || n.op_type == "Pad") return false;
    if (bits(type) != 8 && bits(type) != 16) return false;
    if (n.op_type == "MaxPool") return bits(type) == 8 && n.version >= 12;
    return true;
  }

  // QuantizeLinear of what was dequantized with the same parameters.
  bool same_again(std::size_t n) {
    const auto d = passes::dequantize_at(e_, e_.node(n).inputs[0]);
    if (!d || e_.is_output(e_.node(n).outputs[0])) return false;
    const auto p = passes::parameters_of(e_, n);
    const auto q = passes::parameters_of(e_, *d);
    if (!p || !q || !p->per_tensor() || !q->per_tensor() || p->type != q->type || p->scales != q->scales ||
        p->zeros != q->zeros) {
      return false;
    }
    e_.replace_reads(e_.node(n).outputs[0], e_.node(*d).inputs[0]);
    return true;
  }

  // Q(P(x)) -> P(Q(x)).
  bool quantize_in_front(std::size_t n) {
    const auto p = passes::parameters_of(e_, n);
    if (!p || !p->per_tensor()) return false;
    const ir::ValueId between = e_.node(n).inputs[0];
    const auto m = e_.producer(between);
    if (!m || e_.only_reader(between) != n) return false;
    const ir::Node mover = e_.node(*m);
    if (mover.domain.empty() && !mover.body && mover.op_type == "Concat") return concat_parts(n, *m);
    if (!is_max(mover) && !passes::moves_data(mover)) return false;
    const ir::ValueId x = mover.inputs[0];
    if (!takes(mover, p->type) || !is_float(e_.graph().value(x).dtype) || e_.constant(x) != nullptr) return false;
    if (is_max(mover) && !p->ascending()) return false;
    const auto source = e_.producer(x);
    if (!source || passes::is_dequantize(e_.node(*source)) || !joins_groups(e_.node(*source))) return false;
    if ((is_max(mover) || passes::may_drop_elements(mover)) && !(magnitude(e_, x) < 1e30)) return false;
    ir::ValueId read = x;
    if (!passes::passes_values_on(mover)) {
      if (e_.graph().value(x).dtype != DType::float32) return false;
      if (!passes::reads_as_is(e_, x)) read = rounded(x);
    }
    const ir::Node quantize = e_.node(n);
    const ir::ValueId codes = e_.add_value(e_.graph().value(x).name + "_quantized", p->type);
    e_.remove_node(n);
    e_.remove_node(*m);
    ir::Node first = quantize;
    first.inputs[0] = read;
    first.outputs = {codes};
    e_.add_node(std::move(first));
    ir::Node second = mover;
    second.inputs[0] = codes;
    second.outputs = quantize.outputs;
    e_.add_node(std::move(second));
    return true;
  }

  // What an operator that passes nothing on reads or gives: the product by 1 of the rounded value.
  ir::ValueId rounded(ir::ValueId x) {
    const ir::ValueId y = e_.add_value(e_.graph().value(x).name + "_rounded", DType::undefined);
    multiply_by_one(x, y);
    return y;
  }

  void multiply_by_one(ir::ValueId x, ir::ValueId y) {
    const float one = 1;
    const ir::ValueId c = e_.add_constant("one", Tensor::of<float>(DType::float32, {}, std::span(&one, 1)));
    e_.add_node(e_.make_node("Mul", {x, c}, {y}, ""));
  }

  bool concat_parts(std::size_t n, std::size_t m) {
    const ir::Node quantize = e_.node(n);
    const ir::Node concat = e_.node(m);
    for (const ir::ValueId id : concat.inputs) {
      if (!is_float(e_.graph().value(id).dtype) || e_.constant(id) != nullptr) return false;
    }
    const auto p = passes::parameters_of(e_, n);
    e_.remove_node(n);
    e_.remove_node(m);
    ir::Node joined = concat;
    for (ir::ValueId& id : joined.inputs) {
      ir::Node part = quantize;
      part.inputs[0] = id;
      id = e_.add_value(e_.graph().value(id).name + "_quantized", p->type);
      part.outputs = {id};
      e_.add_node(std::move(part));
    }
    joined.outputs = quantize.outputs;
    e_.add_node(std::move(joined));
    return true;
  }

  // P(DQ(q)) -> DQ(P(q)).
  bool dequantize_behind(std::size_t n) {
    const ir::Node mover = e_.node(n);
    const auto d = passes::dequantize_at(e_, mover.inputs[0]);
    if (!d) return false;
    const auto p = passes::parameters_of(e_, *d);
    if (!p || !p->per_tensor() || !takes(mover, p->type) || (is_max(mover) && !p->ascending())) return false;
    ir::Node behind = e_.node(*d);
    if (e_.constant(behind.inputs[0]) != nullptr) return false;
    const bool passes = passes::passes_values_on(mover);
    if (!passes && e_.graph().value(mover.outputs[0]).dtype != DType::float32) return false;
    const ir::ValueId moved = e_.add_value(e_.graph().value(behind.inputs[0]).name + "_moved", p->type);
    e_.remove_node(n);
    ir::Node first = mover;
    first.inputs[0] = behind.inputs[0];
    first.outputs = {moved};
    e_.add_node(std::move(first));
    behind.inputs[0] = moved;
    behind.outputs = mover.outputs;
    if (!passes) {  // others read its result rounded
      behind.outputs = {e_.add_value(e_.graph().value(mover.outputs[0]).name + "_real", DType::undefined)};
      multiply_by_one(behind.outputs[0], mover.outputs[0]);
    }
    e_.add_node(std::move(behind));
    return true;
  }

  // MaxPool(DQ(q)) -> DQ(Q(MaxPool(DQ(q)))) for 16 bits, with the parameters of q, which change nothing: regroup()
  // makes the first three one operator on integers, which ONNX does not have.
  bool quantize_behind(std::size_t n) {
    const ir::Node pool = e_.node(n);
    if (!is_max(pool) || pool.op_type != "MaxPool" || e_.is_output(pool.outputs[0])) return false;
    const auto d = passes::dequantize_at(e_, pool.inputs[0]);
    if (!d) return false;
    const auto p = passes::parameters_of(e_, *d);
    ir::Node behind = e_.node(*d);
    if (!p || !p->per_tensor() || !p->ascending() || bits(p->type) != 16 || behind.inputs.size() < 3 ||
        !behind.inputs[2].present() || e_.constant(behind.inputs[0]) != nullptr) {
      return false;
    }
    if (const auto reader = e_.only_reader(pool.outputs[0])) {  // done before
      const ir::Node& next = e_.node(*reader);
      if (passes::is_quantize(next) && next.inputs.size() == 3 && next.inputs[1] == behind.inputs[1] &&
          next.inputs[2] == behind.inputs[2]) {
        return false;
      }
    }
    const std::string name = e_.graph().value(pool.outputs[0]).name;  // add_value moves what a reference would name
    const ir::ValueId largest = e_.add_value(name + "_largest", DType::undefined);
    const ir::ValueId codes = e_.add_value(name + "_codes", p->type);
    e_.remove_node(n);
    ir::Node first = pool;
    first.outputs = {largest};
    e_.add_node(std::move(first));
    e_.add_node(e_.make_node("QuantizeLinear", {largest, behind.inputs[1], behind.inputs[2]}, {codes}, ""));
    behind.inputs[0] = codes;
    behind.outputs = pool.outputs;
    e_.add_node(std::move(behind));
    return true;
  }

  // MaxPool(f(x)) -> f(MaxPool(x)) for an f that keeps the order, with the same result element by element.
  bool maximum_in_front(std::size_t n) {
    const ir::Node pool = e_.node(n);
    if (!is_max(pool) || e_.graph().value(pool.outputs[0]).dtype != DType::float32) return false;
    const auto f = e_.producer(pool.inputs[0]);
    if (!f || e_.only_reader(pool.inputs[0]) != n) return false;
    ir::Node step = e_.node(*f);
    if (!step.domain.empty() || step.body || step.inputs.size() != 2 || !e_.producer(step.inputs[0])) return false;
    const Tensor* c = e_.constant(step.inputs[1]);
    if (c == nullptr || c->dtype() != DType::float32 || c->size() != 1 || !e_.graph().value(pool.outputs[0]).shape ||
        c->rank() > e_.graph().value(pool.outputs[0]).shape->size()) {
      return false;
    }
    const double v = numerics::decode_float(c->dtype(), c->data(), 0);
    const bool scales = (step.op_type == "Mul" || step.op_type == "Div") && v > 0;
    if (!std::isfinite(v) || (!scales && step.op_type != "Add" && step.op_type != "Sub")) return false;
    if (!passes::reads_as_is(e_, step.inputs[0])) return false;
    const ir::ValueId largest_of = e_.add_value(e_.graph().value(step.inputs[0]).name + "_pooled", DType::undefined);
    e_.remove_node(n);
    e_.remove_node(*f);
    ir::Node first = pool;
    first.inputs[0] = step.inputs[0];
    first.outputs = {largest_of};
    e_.add_node(std::move(first));
    step.inputs[0] = largest_of;
    step.outputs = pool.outputs;
    e_.add_node(std::move(step));
    return true;
  }

  Editor e_;
};

}  // namespace

double magnitude(const Editor& e, ir::ValueId id) {
  int budget = 256;
  return bound_of(e, id, budget);
}

bool move_to_integers(ir::Graph& graph) { return Move(graph).run(graph); }

}  // namespace halfeven::plan
