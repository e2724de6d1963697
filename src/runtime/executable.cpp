// Executable and Context: nothing is decided here, the plan is carried out.
#include <halfeven/executable.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "plan/plan.hpp"
#include "runtime/thread_pool.hpp"

namespace halfeven {

struct Executable::Impl {
  plan::Plan plan;
  plan::Isa isa = plan::Isa::sse2;
  int threads = 1;
};

namespace {

plan::Isa choose_isa(std::string wanted) {
  const plan::Isa best = plan::detect_isa();
  const char* from_environment = std::getenv("HALFEVEN_ISA");
  if (wanted.empty() && from_environment != nullptr) wanted = from_environment;
  if (wanted.empty()) return best;
  const auto isa = plan::parse_isa(wanted);
  if (!isa) {
    throw Error(ErrorCode::usage,
                "there is no instruction set '" + wanted + "'; there are sse2, avx2, avx512, vnni and amx");
  }
  if (*isa > best) {
    throw Error(ErrorCode::usage, "this processor lacks " + wanted + "; it has " + std::string(plan::to_string(best)));
  }
  return *isa;
}

ir::Graph bound(const ir::Graph& graph, const std::map<std::string, Shape>& shapes) {
  ir::Graph out = graph;
  for (const auto& [name, shape] : shapes) {
    const ir::ValueId id = out.find(name);
    if (!id.present() || !out.is_input(id)) throw Error(ErrorCode::usage, "the model has no input '" + name + "'");
    const auto& declared = out.value(id).shape;
    bool fits = !declared || declared->size() == shape.size();
    for (std::size_t k = 0; fits && declared && k < shape.size(); ++k) {
      fits = shape[k] >= 0 && ((*declared)[k] < 0 || (*declared)[k] == shape[k]);
    }
    if (!fits) {
      throw Error(ErrorCode::usage,
                  "input '" + name + "' is declared as " + to_string(*declared) + ", not " + to_string(shape));
    }
    out.value(id).shape = shape;
  }
  for (const ir::ValueId id : out.inputs) {
    const ir::Value& v = out.value(id);
    if (!v.shape || std::any_of(v.shape->begin(), v.shape->end(), [](std::int64_t d) { return d < 0; })) {
      throw Error(ErrorCode::usage, "input '" + v.name + "' has unknown dimensions; its shape has to be given");
    }
  }
  for (const ir::Node& node : out.nodes) {
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) out.value(id).shape.reset();
    }
  }
  ops::validate(out);
  return out;
}

// Bytes at a multiple of 64.
class Memory {
 public:
  void resize(std::size_t bytes) {
    storage_.assign(bytes + 64, std::byte{0xA5});
    void* p = storage_.data();
    std::size_t space = storage_.size();
    data_ = static_cast<std::byte*>(std::align(64, bytes, p, space));
  }
  std::byte* data() { return data_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
};

}  // namespace

Executable Executable::compile(const Model& model, const CompileOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->isa = choose_isa(options.isa);
  impl->threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // Shapes first: with them, shape arithmetic folds away.
  auto fused = passes::Pipeline::all().run(bound(model.impl().graph, options.shapes));
  impl->plan = plan::make_plan(std::move(fused.graph), {impl->isa, impl->threads, options.kernels});
  return Executable(std::move(impl));
}

PlanReport Executable::plan() const {
  PlanReport report;
  report.isa = plan::to_string(impl_->isa);
  report.arena_bytes = impl_->plan.arena_bytes;
  report.tensor_bytes = impl_->plan.tensor_bytes;
  report.scratch_bytes = impl_->plan.scratch_bytes;
  for (const plan::Step& s : impl_->plan.steps) {
    report.steps.push_back({s.node, s.op_type, s.kernel->name, s.kernel->note, s.refusals});
  }
  return report;
}

struct Context::Impl {
  std::shared_ptr<const Executable> executable;
  Memory arena;
  Memory scratch;
  runtime::ThreadPool pool;
  std::vector<std::byte*> places;

  explicit Impl(const Executable& e)
      : executable(std::make_shared<Executable>(e)),
        pool(e.impl().threads),
        places(e.impl().plan.places.size(), nullptr) {
    const plan::Plan& p = e.impl().plan;
    arena.resize(p.arena_bytes);
    scratch.resize(p.scratch_bytes);
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (p.places[k].kind == plan::Place::Kind::arena) places[k] = arena.data() + p.places[k].offset;
    }
    for (const auto& [place, tensor] : p.constants) {
      places[place] = const_cast<std::byte*>(tensor.data());  // read only
    }
  }
};

Context::Context(const Executable& executable) : impl_(std::make_unique<Impl>(executable)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

std::vector<Tensor> Context::run(const std::map<std::string, Tensor>& inputs, std::vector<StepTime>* times) {
  const plan::Plan& p = impl_->executable->impl().plan;
  std::vector<Tensor> held;  // inputs stay alive
  for (const ir::ValueId id : p.graph.inputs) {
    const ir::Value& v = p.graph.value(id);
    const auto at = inputs.find(v.name);
    const auto initial = p.graph.initializers.find(id);
    if (at == inputs.end() && initial == p.graph.initializers.end()) {
      throw Error(ErrorCode::input, "no value for input '" + v.name + "'");
    }
    const Tensor& t = at == inputs.end() ? initial->second : at->second;
    if (t.dtype() != v.dtype || t.shape() != *v.shape) {
      throw Error(ErrorCode::input, "input '" + v.name + "' must be " + std::string(to_string(v.dtype)) + " " +
                                        to_string(*v.shape) + ", not " + std::string(to_string(t.dtype())) + " " +
                                        to_string(t.shape()));
    }
    held.push_back(t);
    impl_->places[id.index] = const_cast<std::byte*>(t.data());  // read only
  }
  for (const auto& [name, tensor] : inputs) {
    const ir::ValueId id = p.graph.find(name);
    if (!id.present() || !p.graph.is_input(id)) throw Error(ErrorCode::input, "the model has no input '" + name + "'");
  }
  for (std::size_t k = 0; k < p.places.size(); ++k) {
    std::size_t root = k;
    while (p.places[root].alias_of != SIZE_MAX) root = p.places[root].alias_of;
    impl_->places[k] = impl_->places[root];
  }
  const plan::ParallelFor parallel(
      &impl_->pool,
      [](void* pool, std::int64_t n, plan::ParallelFor::Piece piece, const void* f) {
        static_cast<runtime::ThreadPool*>(pool)->parallel(n, piece, f);
      },
      impl_->pool.threads());
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const plan::Step& step = p.steps[s];
    in.clear();
    out.clear();
    for (const std::size_t k : step.inputs) in.push_back(k == SIZE_MAX ? nullptr : impl_->places[k]);
    for (const std::size_t k : step.outputs) out.push_back(k == SIZE_MAX ? nullptr : impl_->places[k]);
    const auto start = std::chrono::steady_clock::now();
    step.kernel->run({in, out, impl_->scratch.data()}, parallel);
    if (times != nullptr) {
      times->push_back(
          {s, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
    }
  }
  std::vector<Tensor> outputs;
  for (std::size_t k = 0; k < p.outputs.size(); ++k) {
    const ir::Value& v = p.graph.value(p.graph.outputs[k]);
    const std::size_t bytes = element_count(*v.shape) * storage_size(v.dtype);
    outputs.push_back(Tensor::copy(v.dtype, *v.shape, {impl_->places[p.outputs[k]], bytes}));
  }
  return outputs;
}

}  // namespace halfeven
