#include "verify/kernels_check.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "interpreter/interpreter.hpp"
#include "ir/quote.hpp"
#include "ops/common.hpp"
#include "runtime/bind.hpp"
#include "runtime/thread_pool.hpp"
#include "verify/values.hpp"

namespace halfeven::verification {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kPoison{0xA5};
constexpr std::size_t kAbsent = SIZE_MAX;

// Where element i of a tensor, counted as ONNX does, lies in a form.
class FormIndex {
 public:
  FormIndex(const Shape& shape, const plan::Form& form)
      : moves_(form.layout == plan::Layout::channels_last && shape.size() >= 3) {
    if (!moves_) return;
    channels_ = static_cast<std::size_t>(shape[1]);
    for (std::size_t k = 2; k < shape.size(); ++k) pixels_ *= static_cast<std::size_t>(shape[k]);
  }
  std::size_t operator()(std::size_t i) const {
    if (!moves_) return i;
    const std::size_t image = channels_ * pixels_;
    return i / image * image + i % pixels_ * channels_ + i / pixels_ % channels_;
  }

 private:
  bool moves_;
  std::size_t channels_ = 1;
  std::size_t pixels_ = 1;
};

// Memory as the arena gives it: aligned, with some bytes behind it.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes), storage_(bytes + 2 * kGuard, kPoison) {
    void* p = storage_.data();
    std::size_t space = storage_.size();
    data_ = static_cast<std::byte*>(std::align(kGuard, bytes + kGuard, p, space));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }
  bool intact() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, [](std::byte b) { return b == kPoison; });
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
};

bool flips(const plan::Form& form, DType type) { return form.biased && type == DType::int8; }

void store(const Tensor& tensor, const plan::Form& form, std::byte* to) {
  const std::size_t width = storage_size(tensor.dtype());
  const FormIndex at(tensor.shape(), form);
  for (std::size_t i = 0; i < tensor.size(); ++i) std::memcpy(to + at(i) * width, tensor.data() + i * width, width);
  if (flips(form, tensor.dtype())) {
    for (std::size_t i = 0; i < tensor.size(); ++i) to[i] ^= std::byte{0x80};
  }
}

Tensor load(const Tensor& like, const plan::Form& form, const std::byte* from) {
  const std::size_t width = storage_size(like.dtype());
  const FormIndex at(like.shape(), form);
  std::vector<std::byte> bytes(like.bytes().size());
  for (std::size_t i = 0; i < like.size(); ++i) std::memcpy(bytes.data() + i * width, from + at(i) * width, width);
  if (flips(form, like.dtype())) {
    for (std::byte& b : bytes) b ^= std::byte{0x80};
  }
  return Tensor::own(like.dtype(), like.shape(), std::move(bytes));
}

std::string difference_of(const Tensor& wanted, const Tensor& got, std::size_t& wrong) {
  const std::size_t width = storage_size(wanted.dtype());
  std::size_t first = 0;
  for (std::size_t i = wanted.size(); i-- > 0;) {
    if (std::memcmp(wanted.data() + i * width, got.data() + i * width, width) == 0) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  return fmt::format("{} of {} elements differ, the first is {}: {} instead of {}", wrong, wanted.size(),
                     to_string(position(wanted.shape(), first)), element_text(got, first), element_text(wanted, first));
}

class PlanCheck {
 public:
  PlanCheck(const plan::Plan& plan, const InputSet& inputs, int interpreter_threads)
      : plan_(plan), value_of_(plan.places.size(), kAbsent) {
    const ir::Graph& g = plan.graph;
    for (std::size_t v = 0; v < g.values.size(); ++v) value_of_[v] = v;
    for (const plan::Step& s : plan.steps) {
      if (s.nodes.empty()) value_of_[s.outputs[0]] = value_of_[s.inputs[0]];
    }
    for (const auto& [place, tensor] : plan.constants) constants_[place] = tensor;
    tensors_.resize(g.values.size());
    for (const auto& [id, tensor] : g.initializers) tensors_[id.index] = tensor;
    for (std::size_t k = 0; k < g.inputs.size(); ++k) tensors_[g.inputs[k].index] = inputs[k];
    interpreter::Options options;
    options.threads = interpreter_threads;
    options.tap = [&](ir::ValueId id, const Tensor& t) { tensors_[id.index] = t; };
    interpreter::run(g, plan.facts, inputs, options);
  }

  KernelCheck check(const plan::Step& step, ThreadPool& pool) const {
    KernelCheck out;
    out.node = step.node;
    out.kernel = step.kernel->name;
    out.threads = pool.threads();
    try {
      run(step, pool, out);
    } catch (const Error& e) {
      out.difference = fmt::format("it failed: {}", e.what());
    }
    return out;
  }

 private:
  std::size_t root(std::size_t p) const {
    while (plan_.places[p].alias_of != kAbsent) p = plan_.places[p].alias_of;
    return p;
  }

  void run(const plan::Step& step, ThreadPool& pool, KernelCheck& out) const {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> results;
    std::map<std::size_t, std::byte*> by_place;
    for (const std::size_t p : step.inputs) {
      in.push_back(p == kAbsent ? nullptr : by_place[p]);
      if (p == kAbsent || in.back() != nullptr) continue;
      const plan::Place& place = plan_.places[p];
      buffers.push_back(std::make_unique<Buffer>(place.bytes));
      if (const auto constant = constants_.find(p); constant != constants_.end()) {
        std::copy_n(constant->second.data(), place.bytes, buffers.back()->data());  // in its form already
      } else {
        store(tensors_[value_of_[p]], place.form, buffers.back()->data());
      }
      in.back() = by_place[p] = buffers.back()->data();
    }
    for (const std::size_t p : step.outputs) {
      results.push_back(nullptr);
      if (p == kAbsent) continue;
      for (const std::size_t q : step.inputs) {  // a view, or written over an input
        if (q != kAbsent && root(q) == root(p) && results.back() == nullptr) results.back() = by_place[q];
      }
      if (results.back() != nullptr) continue;
      buffers.push_back(std::make_unique<Buffer>(plan_.places[p].bytes));
      results.back() = buffers.back()->data();
    }
    Buffer scratch(step.kernel->scratch);
    step.kernel->run({in, results, scratch.data()}, runtime::parallel_on(pool));
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const std::size_t p = step.outputs[k];
      if (p == kAbsent || tensors_[value_of_[p]].dtype() == DType::undefined) continue;
      const Tensor& wanted = tensors_[value_of_[p]];
      out.elements += wanted.size();
      std::size_t wrong = 0;
      const std::string text = difference_of(wanted, load(wanted, plan_.places[p].form, results[k]), wrong);
      out.differing += wrong;
      if (out.difference.empty()) out.difference = text;
    }
    for (const auto& buffer : buffers) {
      if (!buffer->intact() && out.difference.empty()) out.difference = "it writes beyond the end of its output";
    }
    if (!scratch.intact() && out.difference.empty()) out.difference = "it writes beyond the end of its scratch memory";
  }

  const plan::Plan& plan_;
  std::vector<std::size_t> value_of_;  // by place
  std::map<std::size_t, Tensor> constants_;
  std::vector<Tensor> tensors_;  // by value
};

// What distinguishes two steps to be checked: the node, the kernel and the forms of its tensors.
std::string key_of(const plan::Plan& plan, const plan::Step& step, std::size_t inputs) {
  std::string key = fmt::format("{} {} {}", inputs, step.node, step.kernel->name);
  for (const auto* places : {&step.inputs, &step.outputs}) {
    for (const std::size_t p : *places) {
      if (p == kAbsent) continue;
      const plan::Form& f = plan.places[p].form;
      key += fmt::format(" {}{}{}", static_cast<int>(f.layout), f.biased ? "b" : "",
                         plan.places[p].alias_of == kAbsent ? "" : "i");
    }
  }
  return key;
}

void check_steps(const plan::Plan& plan, const InputSet& inputs, std::size_t set, int threads,
                 std::set<std::string>& seen, std::vector<KernelCheck>& out) {
  std::vector<const plan::Step*> steps;
  for (const plan::Step& step : plan.steps) {
    if (step.kernel->name != "reference" && seen.insert(key_of(plan, step, set)).second) steps.push_back(&step);
  }
  if (steps.empty()) return;
  const PlanCheck check(plan, inputs, threads);
  for (const int t : {1, 4}) {
    const auto pool = make_thread_pool(t);
    for (const plan::Step* step : steps) {
      out.push_back(check.check(*step, *pool));
      out.back().input_set = set;
    }
  }
}

std::vector<plan::Isa> instruction_sets(const std::string& name) {
  std::vector<plan::Isa> out;
  for (int k = 0; k <= static_cast<int>(plan::detect_isa()); ++k) {
    if (name.empty() || plan::parse_isa(name) == static_cast<plan::Isa>(k)) out.push_back(static_cast<plan::Isa>(k));
  }
  if (out.empty()) {
    throw Error(ErrorCode::usage, fmt::format("there is no instruction set {} here; this processor has {} and those "
                                              "before it",
                                              ir::quote(name), plan::to_string(plan::detect_isa())));
  }
  return out;
}

}  // namespace

std::vector<KernelCheck> check_plan(const plan::Plan& plan, const InputSet& inputs, int interpreter_threads) {
  std::vector<KernelCheck> out;
  std::set<std::string> seen;
  check_steps(plan, inputs, 0, interpreter_threads, seen, out);
  return out;
}

KernelsReport check_kernels(const ir::Graph& graph, const std::vector<InputSet>& inputs, const RunPasses& run,
                            const KernelChoice& choice, const CheckOptions& options) {
  const std::vector<plan::Isa> wanted = instruction_sets(choice.isa);
  KernelsReport report;
  std::set<std::string> seen;
  std::vector<Shape> planned;
  std::vector<plan::Plan> plans;
  std::vector<plan::Isa> isas;
  for (std::size_t set = 0; set < inputs.size(); ++set) {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs[set]) shapes.push_back(t.shape());
    if (plans.empty() || shapes != planned) {
      planned = shapes;
      plans.clear();
      isas.clear();
      try {
        const auto fused = run(runtime::bind_shapes(graph, shapes), nullptr, nullptr);
        for (const plan::Isa isa : wanted) {
          isas.push_back(isa);
          plans.push_back(
              plan::make_plan(fused.graph, {.isa = isas.back(), .kernels = choice.kernels, .keep_graph = true}));
        }
      } catch (const Error& e) {
        if (e.code() == ErrorCode::usage) throw;
        report.note = fmt::format("There is no plan for input set {}: {}", set + 1, e.what());
        plans.clear();
        continue;
      }
    }
    for (std::size_t k = 0; k < plans.size(); ++k) {
      if (options.progress) {
        options.progress(set * plans.size() + k,
                         fmt::format("kernels for {}, input set {}", plan::to_string(isas[k]), set + 1));
      }
      const std::size_t before = report.checks.size();
      check_steps(plans[k], inputs[set], set, options.threads, seen, report.checks);
      for (std::size_t c = before; c < report.checks.size(); ++c) {
        report.checks[c].isa = std::string(plan::to_string(isas[k]));
      }
    }
  }
  return report;
}

}  // namespace halfeven::verification
