// Context: a plan is carried out, nothing is decided.
#include <algorithm>
#include <chrono>
#include <cstring>

#include <halfeven/executable.hpp>

#include "interpreter/interpreter.hpp"
#include "runtime/prepared.hpp"
#include "runtime/thread_pool.hpp"

namespace halfeven {
namespace {

using runtime::Prepared;

constexpr std::size_t kAlign = 64;

// Bytes at a multiple of 64, filled with a pattern that no kernel may see.
class Memory {
 public:
  /// True if the bytes moved.
  bool reserve(std::size_t bytes) {
    if (bytes <= size_) return false;
    storage_ = {};
    storage_.assign(bytes + kAlign, std::byte{0xA5});
    void* p = storage_.data();
    std::size_t space = storage_.size();
    data_ = static_cast<std::byte*>(std::align(kAlign, bytes, p, space));
    size_ = bytes;
    return true;
  }
  std::byte* data() { return data_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

bool same_shape(std::span<const std::int64_t> a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_text(DType type, std::span<const std::int64_t> shape) {
  return std::string(to_string(type)) + " " + to_string(Shape(shape.begin(), shape.end()));
}

// A plan with every pointer that its steps take, those into the caller's memory apart.
class Instance {
 public:
  Instance(std::shared_ptr<const Prepared> prepared, std::byte* arena) : prepared_(std::move(prepared)) { bind(arena); }

  const Prepared& prepared() const { return *prepared_; }

  bool serves(std::span<const TensorView> inputs) const {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!same_shape(inputs[k].shape, prepared_->shapes[k])) return false;
    }
    return true;
  }

  void bind(std::byte* arena) {
    const plan::Plan& p = prepared_->plan;
    in_.clear();
    out_.clear();
    spans_.clear();
    in_from_input_.clear();
    out_from_input_.clear();
    results_.clear();
    results_from_input_.clear();
    std::vector<std::byte*> constants(p.places.size(), nullptr);
    for (const auto& [place, tensor] : p.constants) {
      constants[place] = const_cast<std::byte*>(tensor.data());  // read only
    }
    const auto add = [&](std::size_t place, auto& pointers, auto& fixups) {
      if (place == SIZE_MAX) return pointers.push_back(nullptr);
      while (p.places[place].alias_of != SIZE_MAX) place = p.places[place].alias_of;
      const plan::Place& at = p.places[place];
      if (at.kind == plan::Place::Kind::input) fixups.emplace_back(pointers.size(), at.index);
      pointers.push_back(at.kind == plan::Place::Kind::arena ? arena + at.offset : constants[place]);
    };
    for (const plan::Step& step : p.steps) {
      spans_.push_back({in_.size(), step.inputs.size(), out_.size(), step.outputs.size()});
      for (const std::size_t k : step.inputs) add(k, in_, in_from_input_);
      for (const std::size_t k : step.outputs) add(k, out_, out_from_input_);
    }
    for (const std::size_t k : p.output_places) add(k, results_, results_from_input_);
  }

  void run(std::span<const TensorView> inputs, std::byte* scratch, const plan::ParallelFor& parallel,
           std::vector<StepTime>* times) {
    using Clock = std::chrono::steady_clock;
    const auto data = [&](std::size_t k) { return const_cast<std::byte*>(inputs[k].bytes.data()); };  // read only
    for (const auto& [at, k] : in_from_input_) in_[at] = data(k);
    for (const auto& [at, k] : out_from_input_) out_[at] = data(k);
    for (const auto& [at, k] : results_from_input_) results_[at] = data(k);
    const auto begin = times == nullptr ? Clock::time_point() : Clock::now();
    for (std::size_t s = 0; s < spans_.size(); ++s) {
      const Spans& at = spans_[s];
      const plan::Buffers buffers{{in_.data() + at.in, at.ins}, {out_.data() + at.out, at.outs}, scratch};
      const plan::Kernel& kernel = *prepared_->plan.steps[s].kernel;
      if (times == nullptr) {
        kernel.run(buffers, parallel);
        continue;
      }
      const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
      const auto start = Clock::now();
      kernel.run(buffers, parallel);
      times->push_back({s, ms(Clock::now() - start), ms(start - begin)});
    }
  }

  const std::byte* result(std::size_t k) const { return results_[k]; }

 private:
  struct Spans {
    std::size_t in, ins, out, outs;
  };
  using Fixups = std::vector<std::pair<std::size_t, std::size_t>>;  // index of the pointer, number of the graph input

  std::shared_ptr<const Prepared> prepared_;
  std::vector<Spans> spans_;  // by step
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<const std::byte*> results_;
  Fixups in_from_input_;
  Fixups out_from_input_;
  Fixups results_from_input_;
};

}  // namespace

struct Context::Impl {
  std::shared_ptr<const Executable::Impl> executable;
  std::shared_ptr<ThreadPool> pool;
  Memory arena;
  Memory scratch;
  std::list<Instance> instances;    // last used first
  std::vector<TensorView> bound;    // what a run was given, in the model's order, defaults filled in
  std::vector<TensorView> by_name;  // the same while names are looked up
  std::vector<MutableTensorView> wanted;

  Impl(std::shared_ptr<const Executable::Impl> e, std::shared_ptr<ThreadPool> given)
      : executable(std::move(e)),
        pool(given ? std::move(given) : make_thread_pool(executable->threads)),
        bound(executable->inputs.size()),
        by_name(executable->inputs.size()),
        wanted(executable->outputs.size()) {
    if (executable->first) use(executable->first);
  }

  Instance& use(std::shared_ptr<const Prepared> prepared) {
    if (instances.size() >= Executable::kMostPlans) instances.pop_back();
    const plan::Plan& p = prepared->plan;
    scratch.reserve(p.scratch_bytes);
    if (arena.reserve(p.arena_bytes)) {
      for (Instance& other : instances) other.bind(arena.data());
    }
    instances.emplace_front(std::move(prepared), arena.data());
    return instances.front();
  }

  // Fills `bound` and checks names, types and sizes; shapes are checked where the plan is found.
  void bind(std::span<const TensorView> inputs, bool read = true) {
    if (inputs.size() > bound.size()) {
      throw Error(ErrorCode::input, "there are " + std::to_string(inputs.size()) + " inputs; the model has " +
                                        std::to_string(bound.size()));
    }
    for (std::size_t k = 0; k < bound.size(); ++k) {
      const ValueInfo& v = executable->inputs[k];
      if (k < inputs.size() && inputs[k].dtype != DType::undefined) {
        bound[k] = inputs[k];
      } else if (v.optional) {
        bound[k] = TensorView(executable->defaults[k]);
      } else {
        throw Error(ErrorCode::input, "no value for input '" + v.name + "'");
      }
      check(v, bound[k], read);
    }
  }

  static void check(const ValueInfo& v, const TensorView& t, bool read) {
    bool good = t.dtype == v.dtype && (!v.shape || v.shape->size() == t.shape.size());
    std::size_t bytes = storage_size(t.dtype);
    for (std::size_t d = 0; good && d < t.shape.size(); ++d) {
      good = t.shape[d] >= 0 && (!v.shape || (*v.shape)[d] < 0 || (*v.shape)[d] == t.shape[d]);
      good = good && !__builtin_mul_overflow(bytes, static_cast<std::size_t>(t.shape[d]), &bytes);
    }
    if (!good) {
      throw Error(ErrorCode::input, "input '" + v.name + "' must be " + std::string(to_string(v.dtype)) + " " +
                                        (v.shape ? to_string(*v.shape) : "of any shape") + ", not " +
                                        to_text(t.dtype, t.shape));
    }
    if (read && t.bytes.size() != bytes) {
      throw Error(ErrorCode::input, "input '" + v.name + "' has " + std::to_string(t.bytes.size()) +
                                        " bytes instead of " + std::to_string(bytes));
    }
  }

  // The instance for what is bound.
  Instance& instance() {
    for (auto at = instances.begin(); at != instances.end(); ++at) {
      if (!at->serves(bound)) continue;
      if (at != instances.begin()) instances.splice(instances.begin(), instances, at);
      return instances.front();
    }
    std::vector<Shape> shapes;
    for (const TensorView& t : bound) shapes.emplace_back(t.shape.begin(), t.shape.end());
    return use(executable->prepared(shapes));
  }

  // Carries the plan out. The result is only for graphs that the interpreter runs as a whole.
  std::vector<Tensor> execute(Instance& at, std::vector<StepTime>* times) {
    if (!at.prepared().graph) {
      at.run(bound, scratch.data(), runtime::parallel_on(*pool), times);
      return {};
    }
    std::vector<Tensor> inputs;
    for (const TensorView& t : bound) {
      inputs.push_back(Tensor::view(t.dtype, Shape(t.shape.begin(), t.shape.end()), t.bytes));
    }
    interpreter::Options options;
    options.threads = pool->threads();
    options.tensor_bytes = executable->options.limits.tensor_bytes;
    const auto start = std::chrono::steady_clock::now();
    auto outputs = interpreter::run(*at.prepared().graph, at.prepared().facts, inputs, options);
    if (times != nullptr) {
      times->push_back(
          {0, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), 0});
    }
    return outputs;
  }

  void deliver(std::size_t k, DType type, const Shape& shape, std::span<const std::byte> bytes,
               const MutableTensorView& out) const {
    if (out.dtype != type || !same_shape(out.shape, shape) || out.bytes.size() != bytes.size()) {
      throw Error(ErrorCode::input, "output '" + executable->outputs[k].name + "' is " + to_text(type, shape) + " of " +
                                        std::to_string(bytes.size()) + " bytes, not " + to_text(out.dtype, out.shape) +
                                        " of " + std::to_string(out.bytes.size()));
    }
    if (!bytes.empty()) std::memmove(out.bytes.data(), bytes.data(), bytes.size());
  }

  void run(std::span<const TensorView> inputs, std::span<const MutableTensorView> outputs, bool all,
           std::vector<StepTime>* times) {
    bind(inputs);
    if (outputs.size() != executable->outputs.size()) {
      throw Error(ErrorCode::input, "there is memory for " + std::to_string(outputs.size()) +
                                        " outputs; the model has " + std::to_string(executable->outputs.size()));
    }
    Instance& at = instance();
    const std::vector<Tensor> results = execute(at, times);
    const auto& ports = at.prepared().plan.outputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (!all && outputs[k].dtype == DType::undefined) continue;
      if (at.prepared().graph) {
        deliver(k, results[k].dtype(), results[k].shape(), results[k].bytes(), outputs[k]);
      } else {
        const std::size_t bytes = element_count(ports[k].shape) * storage_size(ports[k].dtype);
        deliver(k, ports[k].dtype, ports[k].shape, {at.result(k), bytes}, outputs[k]);
      }
    }
  }
};

Context::Context(const Executable& executable, std::shared_ptr<ThreadPool> pool)
    : impl_(std::make_unique<Impl>(executable.impl_, std::move(pool))) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

std::vector<Tensor> Context::run(const std::map<std::string, Tensor>& inputs, std::vector<StepTime>* times) {
  const auto& declared = impl_->executable->inputs;
  std::vector<TensorView> views(declared.size());
  for (const auto& [name, tensor] : inputs) {
    const auto at = std::find_if(declared.begin(), declared.end(), [&](const ValueInfo& v) { return v.name == name; });
    if (at == declared.end()) throw Error(ErrorCode::input, "the model has no input '" + name + "'");
    views[static_cast<std::size_t>(at - declared.begin())] = TensorView(tensor);
  }
  impl_->bind(views);
  Instance& at = impl_->instance();
  std::vector<Tensor> outputs = impl_->execute(at, times);
  if (at.prepared().graph) return outputs;
  const auto& ports = at.prepared().plan.outputs;
  for (std::size_t k = 0; k < ports.size(); ++k) {
    const std::size_t bytes = element_count(ports[k].shape) * storage_size(ports[k].dtype);
    outputs.push_back(Tensor::copy(ports[k].dtype, ports[k].shape, {at.result(k), bytes}));
  }
  return outputs;
}

void Context::run(std::span<const TensorView> inputs, std::span<const MutableTensorView> outputs,
                  std::vector<StepTime>* times) {
  impl_->run(inputs, outputs, true, times);
}

void Context::run(std::span<const NamedView> inputs, std::span<const NamedMutableView> outputs,
                  std::vector<StepTime>* times) {
  const auto place = [](auto name, const std::vector<ValueInfo>& declared, const char* what) {
    for (std::size_t k = 0; k < declared.size(); ++k) {
      if (declared[k].name == name) return k;
    }
    throw Error(ErrorCode::input, std::string("the model has no ") + what + " '" + std::string(name) + "'");
  };
  std::fill(impl_->by_name.begin(), impl_->by_name.end(), TensorView());
  std::fill(impl_->wanted.begin(), impl_->wanted.end(), MutableTensorView());
  for (const auto& [name, tensor] : inputs) impl_->by_name[place(name, impl_->executable->inputs, "input")] = tensor;
  for (const auto& [name, tensor] : outputs) impl_->wanted[place(name, impl_->executable->outputs, "output")] = tensor;
  impl_->run(impl_->by_name, impl_->wanted, false, times);
}

std::vector<ValueInfo> Context::output_types(std::span<const TensorView> inputs) {
  impl_->bind(inputs, false);
  const Prepared& prepared = impl_->instance().prepared();
  std::vector<ValueInfo> out = impl_->executable->outputs;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!prepared.graph) {
      out[k].dtype = prepared.plan.outputs[k].dtype;
      out[k].shape = prepared.plan.outputs[k].shape;
      continue;
    }
    out[k].shape = prepared.graph->value(prepared.graph->outputs[k]).shape;
    if (!out[k].shape ||
        std::any_of(out[k].shape->begin(), out[k].shape->end(), [](std::int64_t d) { return d < 0; })) {
      throw Error(ErrorCode::input, "the shape of output '" + out[k].name + "' is known only when the model runs");
    }
  }
  return out;
}

}  // namespace halfeven
