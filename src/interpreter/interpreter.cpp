#include "interpreter/interpreter.hpp"

#include <memory>
#include <new>
#include <optional>

namespace halfeven::interpreter {
namespace {

using ops::Data;
using ops::Operator;

// Float tensors of up to so many elements are shown to inference (Resize's scales, for example).
constexpr std::size_t kShownFloats = 64;

// A tensor between operators: its unrounded form, and the one that ordinary readers see, made when first asked for
// (contract section 1, rules 2 to 5).
class Held {
 public:
  Held() = default;
  explicit Held(Data value) : unrounded_(value), read_(std::move(value)) {}
  Held(Data unrounded, std::function<Data()> make_read)
      : unrounded_(std::move(unrounded)), make_read_(std::move(make_read)) {}

  const Data& unrounded() const { return unrounded_; }
  bool read_as_is() const { return !make_read_; }
  const Data& read() {
    if (!read_) read_ = make_read_();
    return *read_;
  }

 private:
  Data unrounded_;
  std::optional<Data> read_;
  std::function<Data()> make_read_;
};

Data rounded(const Data& d, int threads) {
  return d.reals ? Data(numerics::round_tensor(*d.reals, d.dtype(), threads)) : d;
}

class Run {
 public:
  Run(const ir::Graph& graph, const ops::Facts& facts, const Options& options, bool tapped = true)
      : graph_(graph),
        facts_(facts),
        options_(options),
        tapped_(tapped),
        held_(graph.values.size()),
        uses_(graph.values.size(), 0) {
    for (const ir::Node& node : graph.nodes) {
      for (const ir::ValueId id : node.inputs) {
        if (id.present()) ++uses_[id.index];
      }
    }
    for (const ir::ValueId id : graph.outputs) ++uses_[id.index];
  }

  void set(ir::ValueId id, const Tensor& tensor) { held_[id.index] = std::make_shared<Held>(Data(tensor)); }

  void share(ir::ValueId id, std::shared_ptr<Held> value) { held_[id.index] = std::move(value); }
  std::shared_ptr<Held> shared(ir::ValueId id) const { return held_[id.index]; }

  void step(const ir::Node& node) {
    try {
      if (node.body) {
        evaluate_body(node);
      } else {
        evaluate(node);
      }
    } catch (const Error& e) {
      if (!e.node().empty()) throw;
      throw Error(e.code(), ir::describe(graph_, node) + ": " + e.what(), ir::label(graph_, node));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::other, ir::describe(graph_, node) + ": not enough memory", ir::label(graph_, node));
    }
    for (const ir::ValueId id : node.inputs) {
      if (id.present() && --uses_[id.index] == 0) held_[id.index].reset();
    }
  }

  Tensor output(ir::ValueId id) {
    const Data& d = held_[id.index]->read();
    return d.reals ? numerics::round_tensor(*d.reals, d.dtype(), options_.threads) : d.tensor;
  }

 private:
  // A group: its nodes one after the other, tensors passing in and out with both their forms.
  void evaluate_body(const ir::Node& node) {
    std::vector<ops::TypeShape> types;
    std::vector<std::optional<Tensor>> constants;
    std::vector<bool> constant;
    for (const ir::ValueId id : node.inputs) {
      constant.push_back(!id.present() || facts_.constant[id.index]);
      if (id.present()) {
        show(*held_[id.index], types, constants);
      } else {
        types.emplace_back();
        constants.emplace_back();
      }
    }
    const auto bound = std::make_shared<const ops::BoundBody>(ops::bind_body(*node.body, types, constants, constant));
    Run inner(bound->graph, bound->facts, options_, false);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].present()) inner.share(bound->graph.inputs[i], held_[node.inputs[i].index]);
    }
    for (const ir::Node& step : bound->graph.nodes) inner.step(step);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const auto result = inner.shared(bound->graph.outputs[k]);
      result->read();  // what is lazy refers to the body, which ends here
      put(node.outputs[k], result);
    }
  }

  void evaluate(const ir::Node& node) {
    const Operator& op = ops::operator_of(graph_, node);
    std::vector<std::shared_ptr<Held>> held;
    for (const ir::ValueId id : node.inputs) held.push_back(id.present() ? held_[id.index] : nullptr);
    const std::vector<ops::TypeShape> results = infer(node, op, held);

    const bool quantizes = op.name == "QuantizeLinear";
    const bool dequantizes = op.name == "DequantizeLinear";
    const auto passes = [&](std::size_t i) {
      return held[i] && ops::passes_on(op, i, held[i]->unrounded().dtype(), results[0].dtype);
    };
    bool any_passes = false;
    bool as_is = true;  // what passes on reads the same rounded and unrounded
    std::vector<Data> inputs(held.size());
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!held[i]) continue;
      const bool unrounded = passes(i) || (quantizes && i == 0);
      inputs[i] = unrounded ? held[i]->unrounded() : held[i]->read();
      if (passes(i)) {
        any_passes = true;
        as_is = as_is && held[i]->read_as_is();
      }
    }
    const auto call = [this, &node, &op, results](std::vector<Data> with) {
      return op.evaluate(ops::EvalContext(graph_, node, std::move(with), results, options_.exact, options_.threads));
    };
    const std::vector<Data> outputs = call(inputs);
    // Rule 6, and all of section 2: rounded at once.
    const bool at_once = !options_.exact || (!any_passes && !dequantizes && is_constant(node));
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (!node.outputs[k].present()) continue;
      keep(node.outputs[k], [&]() -> Held {
        const Data& out = outputs.at(k);
        if (!out.reals) return Held(out);
        if (at_once) return Held(rounded(out, options_.threads));
        if (dequantizes) return Held(out);
        if (!any_passes) return {out, [out, threads = options_.threads] { return rounded(out, threads); }};
        if (as_is) return Held(out);
        return {out, [held, inputs, passing = passing_inputs(held, passes), call, k] {
                  std::vector<Data> read = inputs;
                  for (const std::size_t i : passing) read[i] = held[i]->read();
                  return call(std::move(read)).at(k);
                }};
      }());
    }
  }

  template <class Passes>
  static std::vector<std::size_t> passing_inputs(const std::vector<std::shared_ptr<Held>>& held, Passes passes) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (passes(i)) out.push_back(i);
    }
    return out;
  }

  bool is_constant(const ir::Node& node) const {
    for (const ir::ValueId id : node.inputs) {
      if (id.present() && !facts_.constant[id.index]) return false;
    }
    return true;
  }

  std::vector<ops::TypeShape> infer(const ir::Node& node, const Operator& op,
                                    const std::vector<std::shared_ptr<Held>>& held) const {
    std::vector<ops::TypeShape> types;
    std::vector<std::optional<Tensor>> constants;
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!held[i]) {
        types.emplace_back();
        constants.emplace_back();
        continue;
      }
      show(*held[i], types, constants);
    }
    try {
      auto results = ops::infer(graph_, node, op, std::move(types), std::move(constants));
      for (const ops::TypeShape& r : results) check_size(node, r);
      return results;
    } catch (const Error& e) {
      // The graph is valid as declared: what fails now, fails for the shapes that the inputs brought.
      throw Error(ErrorCode::input, e.what(), e.node());
    }
  }

  // Before memory is taken for a result.
  void check_size(const ir::Node& node, const ops::TypeShape& result) const {
    std::uint64_t bytes = storage_size(result.dtype);
    if (!result.shape) return;
    for (const std::int64_t d : *result.shape) {
      if (d < 0 || d == 0) return;
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes) || bytes > options_.tensor_bytes) {
        ops::NodeReader(graph_, node)
            .fail_input("a result of shape " + to_string(*result.shape) + " is larger than the limit of " +
                        std::to_string(options_.tensor_bytes) + " bytes a tensor");
      }
    }
  }

  // What inference may see of a tensor: type, shape, and the value of integers and small floats.
  static void show(Held& held, std::vector<ops::TypeShape>& types, std::vector<std::optional<Tensor>>& constants) {
    const Data& d = held.unrounded();
    types.push_back({d.dtype(), d.shape()});
    if (!d.reals) {
      constants.emplace_back(d.tensor);
    } else if (d.size() <= kShownFloats) {
      const Data& r = held.read();
      constants.emplace_back(numerics::round_tensor(*r.reals, r.dtype(), 1));
    } else {
      constants.emplace_back();
    }
  }

  void keep(ir::ValueId id, Held value) { put(id, std::make_shared<Held>(std::move(value))); }

  void put(ir::ValueId id, const std::shared_ptr<Held>& held) {
    held_[id.index] = uses_[id.index] > 0 ? held : nullptr;
    if (options_.tap_unrounded && tapped_) options_.tap_unrounded(id, held->unrounded());
    if (options_.tap && tapped_) {
      const Data& d = held->read();
      options_.tap(id, d.reals ? numerics::round_tensor(*d.reals, d.dtype(), options_.threads) : d.tensor);
    }
  }

  const ir::Graph& graph_;
  const ops::Facts& facts_;
  const Options& options_;
  bool tapped_;  // the nodes of a group's body are not
  std::vector<std::shared_ptr<Held>> held_;
  std::vector<std::size_t> uses_;
};

}  // namespace

std::vector<Tensor> run(const ir::Graph& graph, const ops::Facts& facts, const std::vector<Tensor>& inputs,
                        const Options& options) {
  Run run(graph, facts, options);
  for (const auto& [id, tensor] : graph.initializers) run.set(id, tensor);
  for (std::size_t i = 0; i < inputs.size(); ++i) run.set(graph.inputs[i], inputs[i]);
  std::size_t done = 0;
  for (const ir::Node& node : graph.nodes) {
    run.step(node);
    if (options.progress) options.progress(++done, graph.nodes.size());
  }
  std::vector<Tensor> outputs;
  for (const ir::ValueId id : graph.outputs) outputs.push_back(run.output(id));
  return outputs;
}

}  // namespace halfeven::interpreter
