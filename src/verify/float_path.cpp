#include "verify/float_path.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "numerics/format.hpp"

namespace halfeven::verification {
namespace {

using numerics::Approx;
using numerics::ExactPtr;
using numerics::Real;
using ops::Data;
using Inputs = std::vector<std::shared_ptr<const Bounded>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Covers the roundings of the few double operations that make a bound.
constexpr double kRoom = 0x1.00001p0;
// Float tensors of up to so many elements are shown to inference, as the interpreter does.
constexpr std::size_t kShownFloats = 64;

// An operator asked for the exact value of an element that is known within bounds only.
struct Undecided {};

// Elements within bounds of their middles.
class Enclosed final : public numerics::ExactTensor {
 public:
  Enclosed(DType dtype, const Shape& shape, std::vector<double> mids, Errors errors)
      : ExactTensor(dtype, shape), mids_(std::move(mids)), errors_(std::move(errors)) {}
  Approx approx(std::size_t i) const override {
    const double e = error_at(errors_, i);
    return std::isfinite(e) ? Approx{mids_[i], e} : Approx::unknown();
  }
  Real exact(std::size_t i) const override {
    if (error_at(errors_, i) != 0) throw Undecided();
    return Real::from_double(mids_[i]);
  }

 private:
  std::vector<double> mids_;
  Errors errors_;
};

bool is_zero(const Errors& e) {
  return std::all_of(e.begin(), e.end(), [](double v) { return v == 0; });
}

std::vector<double> doubles(const Data& d) {
  std::vector<double> out(d.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = d.reals->approx(i).mid;
  return out;
}

std::vector<double> magnitudes(const Data& d) {
  auto out = doubles(d);
  for (double& v : out) v = std::fabs(v);
  return out;
}

Data enclosed(const Data& like, std::vector<double> mids, Errors errors = {}) {
  return Data(std::make_shared<Enclosed>(like.dtype(), like.shape(), std::move(mids), std::move(errors)));
}

Data zeros(const Data& like) { return enclosed(like, std::vector<double>(like.size(), 0.0)); }

// One node: its values under section 2, and the ways to bound its error.
class Step {
 public:
  Step(const ir::Graph& graph, const ir::Node& node, const Inputs& inputs, int threads)
      : graph_(graph), node_(node), inputs_(inputs), threads_(threads), op_(ops::operator_of(graph, node)) {
    std::vector<ops::TypeShape> types;
    std::vector<std::optional<Tensor>> constants;
    for (const auto& in : inputs) {
      types.push_back(in ? ops::TypeShape{in->value.dtype(), in->value.shape()} : ops::TypeShape{});
      constants.emplace_back();
      values_.push_back(in ? in->value : Data());
      if (!in) continue;
      if (!in->value.reals) {
        constants.back() = in->value.tensor;
      } else if (in->value.size() <= kShownFloats) {
        constants.back() = numerics::round_tensor(*in->value.reals, in->value.dtype(), 1);
      }
    }
    results_ = ops::infer(graph, node, op_, std::move(types), std::move(constants));
    outputs_ = run(values_);
  }

  const ops::Operator& op() const { return op_; }
  const std::vector<Data>& outputs() const { return outputs_; }

  std::vector<Data> run(std::vector<Data> values) const {
    return op_.evaluate(ops::EvalContext(graph_, node_, std::move(values), results_, false, threads_));
  }

  bool passes(std::size_t i) const {
    return inputs_[i] && ops::passes_on(op_, i, inputs_[i]->value.dtype(), results_[0].dtype);
  }
  bool passes_any() const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (passes(i)) return true;
    }
    return false;
  }
  bool inputs_are_exact() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const auto& in) { return !in || is_zero(in->read); });
  }

  // Errors of output k of an operator that passes values on: they travel as the values do. The functions that limit
  // never spread a difference, and a maximum is off by no more than the largest error that it looks at.
  Errors pass_errors(std::size_t k, Errors Bounded::*kind) const {
    static const std::set<std::string_view> keep{"Relu", "Clip", "Cast", "Identity", "Dropout"};
    if (keep.contains(op_.name)) return *inputs_[0].*kind;
    bool any = false;
    std::vector<Data> with = values_;
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (!with[i].reals) continue;
      const bool carries = passes(i) && !is_zero(*inputs_[i].*kind);
      any = any || carries;
      with[i] = carries ? enclosed(with[i], *inputs_[i].*kind) : zeros(with[i]);
    }
    if (!any) return {};
    return doubles(run(std::move(with)).at(k));
  }

  // Distance of each element of output k from `rounded`, where inputs lie anywhere within their errors.
  Errors distances(std::size_t k, const Data& rounded) const {
    if (op_.name == "Cast") {  // to a narrower float: both paths round at once
      Errors out = inputs_[0]->read;
      if (out.empty()) return out;
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double e = out[i];
        if (e != 0) out[i] = (e + 2 * half_ulp(rounded.dtype(), std::fabs(rounded.reals->approx(i).mid) + e)) * kRoom;
      }
      return out;
    }
    Errors own(rounded.size());  // of the rounding to the type
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = off(outputs_[k].reals->approx(i), rounded.reals->approx(i).mid);
      if (!std::isfinite(own[i])) own[i] = half_ulp(rounded.dtype(), std::fabs(rounded.reals->approx(i).mid));
    }
    if (inputs_are_exact()) return own;
    const bool product = op_.domain.empty() && (op_.name == "Conv" || op_.name == "ConvTranspose" ||
                                                op_.name == "MatMul" || op_.name == "Gemm");
    if (product) {
      const Errors carried = product_errors();
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = (own[i] + carried[i]) * kRoom;
      return own;
    }
    Errors out = enclosures(k, rounded);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!std::isfinite(out[i])) out[i] = (own[i] + lipschitz(i, out.size())) * kRoom;
    }
    return out;
  }

 private:
  static double off(const Approx& a, double from) {
    if (a.exact() && (a.mid == from || (std::isnan(a.mid) && std::isnan(from)))) return 0;
    const double d = (std::fabs(a.mid - from) + a.err) * kRoom;
    return std::isnan(d) ? kInfinity : d;
  }

  // By the operator's own formula on numbers with bounds.
  Errors enclosures(std::size_t k, const Data& rounded) const {
    std::vector<Data> with = values_;
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (with[i].reals && !is_zero(inputs_[i]->read)) with[i] = enclosed(with[i], doubles(with[i]), inputs_[i]->read);
    }
    Errors out(rounded.size(), kInfinity);
    try {
      const Data result = run(std::move(with)).at(k);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = off(result.reals->approx(i), rounded.reals->approx(i).mid);
    } catch (const Undecided&) {
      // Nothing is known.
    }
    return out;
  }

  // Where a formula has branches: how far an error can spread at most.
  double lipschitz(std::size_t i, std::size_t size) const {
    static const std::set<std::string_view> orders{"TopK", "ReduceMax", "ReduceMin", "Max", "Min"};
    const auto attribute = [&](const char* name, double otherwise) {
      const auto at = node_.attributes.find(name);
      const float* v = at == node_.attributes.end() ? nullptr : std::get_if<float>(&at->second);
      return std::fabs(v == nullptr ? otherwise : static_cast<double>(*v));
    };
    double slope = 0;
    if (orders.contains(op_.name)) {
      double worst = 0;
      for (const auto& in : inputs_) {
        if (!in) continue;
        for (const double e : in->read) worst = std::max(worst, e);
      }
      return worst;
    }
    if (op_.name == "Abs" || op_.name == "Celu") slope = 1;
    if (op_.name == "LeakyRelu") slope = std::max(1.0, attribute("alpha", 0.01));
    if (op_.name == "Elu") slope = std::max(1.0, attribute("alpha", 1));
    if (op_.name == "HardSigmoid") slope = attribute("alpha", 0.2);
    if (op_.name == "HardSwish") slope = 1.5;
    if (slope == 0 || inputs_[0]->read.size() != size) return kInfinity;
    return slope * inputs_[0]->read[i];
  }

  // Largest error relative to the value.
  static double relative(const Bounded& b) {
    double worst = 0;
    for (std::size_t i = 0; i < b.read.size(); ++i) {
      if (b.read[i] == 0) continue;
      worst = std::max(worst, b.read[i] / std::fabs(b.value.reals->approx(i).mid) * kRoom);
    }
    return worst;
  }

  // |operator(values)|, bounded from above.
  void add_absolute(std::vector<Data> values, double factor, Errors& to) const {
    const Data result = run(std::move(values)).at(0);
    to.resize(result.size(), 0.0);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Approx a = result.reals->approx(i);
      const double v = (std::fabs(a.mid) + a.err) * factor * kRoom;
      to[i] += std::isnan(v) ? kInfinity : v;
    }
  }

  // Sums of products: |x w - x' w'| <= |x| ew + ex (|w| + ew), by the operator itself on magnitudes and errors.
  Errors product_errors() const {
    const Bounded& x = *inputs_[0];
    const Bounded& w = *inputs_[1];
    const Bounded* b = inputs_.size() > 2 ? inputs_[2].get() : nullptr;
    Errors out;
    const double rx = relative(x);
    const double rw = relative(w);
    if (rx < 0x1p-20 && rw < 0x1p-20) {
      std::vector<Data> with{enclosed(x.value, magnitudes(x.value)), enclosed(w.value, magnitudes(w.value))};
      if (b != nullptr) with.push_back(zeros(b->value));
      add_absolute(std::move(with), (rx + rw + rx * rw) * kRoom, out);
    } else {
      std::vector<Data> with{enclosed(x.value, magnitudes(x.value)), zeros(w.value)};
      if (b != nullptr) with.push_back(zeros(b->value));
      if (!is_zero(w.read)) {
        with[1] = enclosed(w.value, w.read);
        add_absolute(with, 1, out);
      }
      if (!is_zero(x.read)) {
        auto reach = magnitudes(w.value);
        for (std::size_t i = 0; i < reach.size(); ++i) reach[i] = (reach[i] + error_at(w.read, i)) * kRoom;
        with[0] = enclosed(x.value, x.read);
        with[1] = enclosed(w.value, std::move(reach));
        add_absolute(with, 1, out);
      }
    }
    if (b != nullptr && !is_zero(b->read)) {
      add_absolute({zeros(x.value), zeros(w.value), enclosed(b->value, b->read)}, 1, out);
    }
    if (out.empty()) out.resize(outputs_[0].size(), 0.0);
    return out;
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const Inputs& inputs_;
  int threads_;
  const ops::Operator& op_;
  std::vector<Data> values_;
  std::vector<ops::TypeShape> results_;
  std::vector<Data> outputs_;
};

}  // namespace

double half_ulp(DType type, double magnitude) {
  if (!std::isfinite(magnitude)) return kInfinity;
  const numerics::FloatFormat format = numerics::format_of(type);
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  return std::ldexp(1.0, std::max(exponent - format.precision, format.lowest) - 1);
}

std::vector<ops::Data> FloatPath::apply(const ir::Node& node, const Inputs& inputs) const {
  return Step(graph_, node, inputs, threads_).outputs();
}

std::vector<std::shared_ptr<const Bounded>> FloatPath::evaluate(const ir::Node& node, const Inputs& inputs) const {
  const Step step(graph_, node, inputs, threads_);
  const bool passes = step.passes_any();
  std::vector<std::shared_ptr<const Bounded>> out(node.outputs.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!node.outputs[k].present() || !step.outputs()[k].reals) continue;
    Bounded b;
    b.value = Data(numerics::round_tensor(*step.outputs()[k].reals, step.outputs()[k].dtype(), threads_));
    if (passes) {
      b.unrounded = step.pass_errors(k, &Bounded::unrounded);
      b.read = step.pass_errors(k, &Bounded::read);
    } else {
      b.unrounded = step.distances(k, b.value);
      if (step.op().name == "DequantizeLinear") {
        b.read = b.unrounded;  // read as it is
      } else if (!step.inputs_are_exact()) {
        b.read = b.unrounded;
        for (std::size_t i = 0; i < b.read.size(); ++i) {
          const double e = b.read[i];
          b.read[i] = (e + half_ulp(b.value.dtype(), std::fabs(b.value.reals->approx(i).mid) + e)) * kRoom;
        }
      }  // else both paths round the same number
      if (facts_.constant[node.outputs[k].index] && step.op().name != "DequantizeLinear") b.unrounded = b.read;
    }
    if (is_zero(b.unrounded)) b.unrounded.clear();
    if (is_zero(b.read)) b.read.clear();
    out[k] = std::make_shared<const Bounded>(std::move(b));
  }
  return out;
}

}  // namespace halfeven::verification
