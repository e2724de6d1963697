#include "verify/contracts_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "interpreter/interpreter.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "verify/flatten.hpp"
#include "verify/float_path.hpp"
#include "verify/values.hpp"

namespace halfeven::verification {
namespace {

using numerics::Approx;
using numerics::Real;
using ops::Data;

bool quantizes(const ir::Node& node) {
  return node.op_type == "QuantizeLinear" || node.op_type == "DynamicQuantizeLinear";
}

// Which scale belongs to an element: as the attributes of a QuantizeLinear say it.
class ScaleIndex {
 public:
  ScaleIndex(const ops::NodeReader& node, const Shape& shape, const Shape& scale) : shape_(shape), scale_(scale) {
    count_ = element_count(scale);
    block_ = node.get_int("block_size", 0);
    if (count_ > 1) axis_ = ops::normalize_axis(node, node.get_int("axis", 1), shape.size());
  }
  std::size_t operator()(std::size_t i) const {
    if (count_ == 1) return 0;
    const auto at = position(shape_, i);
    if (block_ == 0) return static_cast<std::size_t>(at[axis_]);
    std::size_t index = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      index =
          index * static_cast<std::size_t>(scale_[k]) + static_cast<std::size_t>(k == axis_ ? at[k] / block_ : at[k]);
    }
    return index;
  }

 private:
  Shape shape_;
  Shape scale_;
  std::size_t count_ = 1;
  std::size_t axis_ = 0;
  std::int64_t block_ = 0;
};

bool same_element(const Tensor& a, const Tensor& b, std::size_t i) {
  const std::size_t width = storage_size(a.dtype());
  return std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0;
}

std::size_t count_different(const Tensor& a, const Tensor& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += same_element(a, b, i) ? 0 : 1;
  return n;
}

// What the exact path knows of a tensor that is quantized or quantizes.
struct Exact {
  Data unrounded;
  Tensor read;
};

// Both paths of one input set side by side.
class SideBySide {
 public:
  SideBySide(const ir::Graph& graph, const ops::Facts& facts, std::size_t set, int threads,
             std::vector<GroupCheck>& groups)
      : graph_(graph), float_path_(graph, facts, threads), set_(set), threads_(threads), groups_(groups) {
    uses_.assign(graph.values.size(), 0);
    quantized_.assign(graph.values.size(), false);
    exact_.resize(graph.values.size());
    floats_.resize(graph.values.size());
    for (const ir::Node& node : graph.nodes) {
      for (const ir::ValueId id : node.inputs) {
        if (!id.present()) continue;
        ++uses_[id.index];
        if (quantizes(node)) quantized_[id.index] = true;
      }
      // Its scale is a quantized input, like the tensor.
      if (node.op_type == "DynamicQuantizeLinear") {
        for (const ir::ValueId id : node.outputs) {
          if (id.present()) quantized_[id.index] = true;
        }
      }
    }
    for (const ir::ValueId id : graph.outputs) ++uses_[id.index];
  }

  // Returns the exact path's outputs; the float32 path's stay in output().
  std::vector<Tensor> run(const ops::Facts& facts, const InputSet& inputs) {
    for (const auto& [id, tensor] : graph_.initializers) give(id, tensor);
    for (std::size_t i = 0; i < inputs.size(); ++i) give(graph_.inputs[i], inputs[i]);
    interpreter::Options options;
    options.threads = threads_;
    options.tap_unrounded = [&](ir::ValueId id, const Data& d) {
      if (quantized_[id.index]) exact_[id.index].unrounded = d;
    };
    options.tap = [&](ir::ValueId id, const Tensor& t) {
      if (quantized_[id.index]) exact_[id.index].read = t;
      if (!is_float(t.dtype())) set(id, t);
    };
    options.progress = [&](std::size_t done, std::size_t) { step(graph_.nodes[done - 1]); };
    return interpreter::run(graph_, facts, inputs, options);
  }

  Tensor output(ir::ValueId id) const {
    const Bounded& b = *floats_[id.index];
    return b.value.reals ? numerics::round_tensor(*b.value.reals, b.value.dtype(), threads_) : b.value.tensor;
  }

 private:
  void set(ir::ValueId id, const Tensor& tensor) {
    floats_[id.index] = std::make_shared<const Bounded>(Bounded{Data(tensor), {}, {}});
  }

  void give(ir::ValueId id, const Tensor& tensor) {
    set(id, tensor);
    if (quantized_[id.index]) exact_[id.index] = {Data(tensor), tensor};
  }

  void step(const ir::Node& node) {
    std::vector<std::shared_ptr<const Bounded>> inputs;
    for (const ir::ValueId id : node.inputs) inputs.push_back(id.present() ? floats_[id.index] : nullptr);
    if (quantizes(node)) {
      judge(node, inputs);
      if (node.op_type == "DynamicQuantizeLinear") {
        for (const ir::ValueId id : node.outputs) {
          if (id.present()) set(id, exact_[id.index].read);
        }
      }
    } else if (std::any_of(node.outputs.begin(), node.outputs.end(),
                           [&](ir::ValueId id) { return id.present() && is_float(graph_.value(id).dtype); })) {
      const auto outputs = float_path_.evaluate(node, inputs);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k]) floats_[node.outputs[k].index] = outputs[k];
      }
    }
    for (const ir::ValueId id : node.inputs) {
      if (!id.present() || --uses_[id.index] > 0) continue;
      floats_[id.index].reset();
      exact_[id.index] = {};
    }
  }

  void judge(const ir::Node& node, const std::vector<std::shared_ptr<const Bounded>>& inputs) {
    GroupCheck& group = groups_[group_++];
    const bool dynamic = node.op_type == "DynamicQuantizeLinear";
    const Tensor& exact = exact_output(node);
    group.elements += exact.size();
    std::vector<Data> results;
    try {
      results = float_path_.apply(node, inputs);
    } catch (const Error& e) {
      group.note = fmt::format("onnx-float32 has no answer for input set {}: {}", set_ + 1, e.what());
      return;
    }
    const Tensor& other = results.at(0).tensor;
    const std::size_t differing = count_different(exact, other);
    group.differing += differing;
    if (differing == 0) return;
    Tensor scale;
    Tensor zero_point;
    if (dynamic) {
      scale = exact_[node.outputs[1].index].read;
      zero_point = exact_[node.outputs[2].index].read;
      const Data& float_scale = results.at(1);
      if (numerics::round_element(*float_scale.reals, 0, DType::float32) != element(scale, 0) ||
          !identical(results.at(2).tensor, zero_point)) {
        group.note = fmt::format("input set {}: scale or zero point differ, so the elements are not judged", set_ + 1);
        return;
      }
    } else {
      scale = exact_[node.inputs[1].index].read;
      if (node.inputs.size() > 2 && node.inputs[2].present()) zero_point = exact_[node.inputs[2].index].read;
    }
    list(node, inputs, exact, other, scale, zero_point, group);
  }

  const Tensor& exact_output(const ir::Node& node) const {
    return node.op_type == "DynamicQuantizeLinear" ? exact_[node.outputs[0].index].read
                                                   : floats_[node.outputs[0].index]->value.tensor;
  }

  void list(const ir::Node& node, const std::vector<std::shared_ptr<const Bounded>>& inputs, const Tensor& exact,
            const Tensor& other, const Tensor& scale, const Tensor& zero_point, GroupCheck& group) const {
    const ops::NodeReader reader(graph_, node);
    const bool dynamic = node.op_type == "DynamicQuantizeLinear";
    const Bounded& x = *inputs[0];
    const Exact& x_exact = exact_[node.inputs[0].index];
    const Errors& x_errors = dynamic ? x.read : x.unrounded;
    const Data u = dynamic ? Data(x_exact.read) : x_exact.unrounded;
    const ScaleIndex index(reader, exact.shape(), scale.shape());
    const auto precision = static_cast<DType>(reader.get_int("precision", 0));
    DType quotient = precision == DType::undefined ? scale.dtype() : precision;
    if (!is_float(quotient)) quotient = DType::float32;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (same_element(exact, other, i)) continue;
      const std::size_t s = index(i);
      const double zero = zero_point.size() == 0 ? 0 : element(zero_point, zero_point.size() == 1 ? 0 : s);
      const double exact_scale = element(scale, s);
      const auto real = [&] {
        return (u.reals ? u.reals->exact(i) : Real(static_cast<std::int64_t>(element(u.tensor, i)))) /
               Real::from_double(exact_scale);
      };
      Flip flip;
      flip.quotient = (u.reals ? u.reals->approx(i) : Approx{element(u.tensor, i), 0}) / Approx{exact_scale, 0};
      flip.exact_value = element(exact, i) - zero;
      flip.float32_value = element(other, i) - zero;
      flip.one_step = is_integer(exact.dtype()) ? std::fabs(flip.exact_value - flip.float32_value) == 1
                                                : ulps_between(exact, other, i) == 1;
      flip.bound = bound(x, x_errors, dynamic ? nullptr : inputs[1].get(), s, exact_scale, quotient, i);
      const Certificate c = certify(flip, real);
      const double printed = flip.quotient.special() || !std::isfinite(flip.quotient.err)
                                 ? numerics::round_to(real(), numerics::format_of(DType::float64))
                                 : flip.quotient.mid;
      group.flipped.push_back({set_, graph_.value(node.outputs[0]).name, position(exact.shape(), i), flip.exact_value,
                               flip.float32_value, printed, c.distance, flip.bound, c.certified});
    }
  }

  // Of |float32 path's quotient - exact quotient|: both errors through the division, and its rounding.
  static double bound(const Bounded& x, const Errors& errors, const Bounded* scale, std::size_t s, double exact_scale,
                      DType quotient, std::size_t i) {
    const double mid = x.value.reals ? x.value.reals->approx(i).mid : element(x.value.tensor, i);
    const Approx divisor =
        scale == nullptr ? Approx{exact_scale, 0} : Approx{element_of(*scale, s), error_at(scale->read, s)};
    const double error = error_at(errors, i);
    if (!std::isfinite(error)) return error;
    const Approx q = Approx{mid, error} / divisor;
    return (q.err + half_ulp(quotient, std::fabs(q.mid))) * 0x1.00001p0;
  }

  static double element_of(const Bounded& b, std::size_t i) {
    return b.value.reals ? b.value.reals->approx(i).mid : element(b.value.tensor, i);
  }

  const ir::Graph& graph_;
  FloatPath float_path_;
  std::size_t set_;
  int threads_;
  std::vector<GroupCheck>& groups_;
  std::size_t group_ = 0;
  std::vector<std::size_t> uses_;
  std::vector<bool> quantized_;
  std::vector<Exact> exact_;
  std::vector<std::shared_ptr<const Bounded>> floats_;
};

// The float operators before a quantizing node, as far as quantized tensors, the last one first.
std::string operators_before(const ir::Graph& graph, const std::vector<const ir::Node*>& producers,
                             const ir::Node& node) {
  constexpr std::size_t kMost = 8;
  std::vector<const ir::Node*> queue{producers[node.inputs[0].index]};
  std::set<const ir::Node*> seen;
  std::string text;
  for (std::size_t k = 0; k < queue.size(); ++k) {
    const ir::Node* n = queue[k];
    if (n == nullptr || !seen.insert(n).second || quantizes(*n)) continue;
    const bool stop = n->op_type == "DequantizeLinear";
    if (!stop) {
      if (seen.size() > kMost) return text + " ...";
      text += (text.empty() ? "" : ", ") + n->op_type;
    }
    for (const ir::ValueId id : n->inputs) {
      if (!stop && id.present() && is_float(graph.value(id).dtype)) queue.push_back(producers[id.index]);
    }
  }
  return text;
}

std::vector<GroupCheck> find_groups(const ir::Graph& graph) {
  std::vector<const ir::Node*> producers(graph.values.size(), nullptr);
  for (const ir::Node& node : graph.nodes) {
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) producers[id.index] = &node;
    }
  }
  std::vector<GroupCheck> groups;
  for (const ir::Node& node : graph.nodes) {
    if (!quantizes(node)) continue;
    groups.push_back({ir::label(graph, node), operators_before(graph, producers, node), 0, 0, {}, {}});
  }
  return groups;
}

OutputDrift drift(std::size_t set, const std::string& name, const Tensor& exact, const Tensor& other) {
  OutputDrift out{set, name, exact.size(), 0, 0};
  if (exact.dtype() != other.dtype() || exact.shape() != other.shape()) {  // a shape that depends on values
    out.differing = exact.size();
    out.largest = std::numeric_limits<double>::infinity();
    return out;
  }
  const bool integer = !is_float(exact.dtype()) && !is_small_float(exact.dtype());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (same_element(exact, other, i)) continue;
    ++out.differing;
    out.largest = std::max(out.largest,
                           integer ? std::fabs(element(exact, i) - element(other, i)) : ulps_between(exact, other, i));
  }
  return out;
}

}  // namespace

Certificate certify(const Flip& flip, const std::function<Real()>& exact_quotient) {
  const double tie = (flip.exact_value + flip.float32_value) / 2;
  const Approx distance = flip.quotient - Approx{tie, 0};
  Certificate c;
  if (!distance.special() && std::isfinite(distance.err)) {
    c.distance = std::fabs(distance.mid);
    if (std::isfinite(flip.bound) && c.distance + distance.err <= flip.bound) {
      c.certified = flip.one_step;
      return c;
    }
  }
  const Real exact = abs(exact_quotient() - Real::from_double(tie));
  c.distance = numerics::round_to(exact, numerics::format_of(DType::float64));
  c.certified =
      flip.one_step && std::isfinite(flip.bound) && numerics::compare(exact, Real::from_double(flip.bound)) <= 0;
  return c;
}

ContractsReport check_contracts(const ir::Graph& original, const std::vector<InputSet>& inputs,
                                const CheckOptions& options) {
  ir::Graph graph = flatten(original);
  const ops::Facts facts = ops::validate(graph);
  ContractsReport report;
  report.groups = find_groups(graph);
  for (std::size_t set = 0; set < inputs.size(); ++set) {
    if (options.progress) options.progress(2 * set, fmt::format("onnx-float32, input set {}", set + 1));
    SideBySide both(graph, facts, set, options.threads, report.groups);
    const auto exact = both.run(facts, inputs[set]);
    for (std::size_t k = 0; k < exact.size(); ++k) {
      if (!is_float(exact[k].dtype())) continue;
      const ir::ValueId id = graph.outputs[k];
      report.in_groups.push_back(drift(set, graph.value(id).name, exact[k], both.output(id)));
    }
    if (options.progress) options.progress(2 * set + 1, fmt::format("all of onnx-float32, input set {}", set + 1));
    try {
      interpreter::Options whole;
      whole.exact = false;
      whole.threads = options.threads;
      const auto other = interpreter::run(graph, facts, inputs[set], whole);
      for (std::size_t k = 0; k < exact.size(); ++k) {
        report.whole.push_back(drift(set, graph.value(graph.outputs[k]).name, exact[k], other[k]));
      }
    } catch (const Error& e) {
      report.note = fmt::format("onnx-float32 on its own has no answer for input set {}: {}", set + 1, e.what());
    }
  }
  return report;
}

}  // namespace halfeven::verification
