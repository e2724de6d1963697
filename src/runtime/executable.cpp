// Executable: from a model and shapes to plans.
#include <halfeven/executable.hpp>

#include <algorithm>
#include <cstdlib>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "passes/pass.hpp"
#include "runtime/bind.hpp"
#include "runtime/prepared.hpp"

namespace halfeven {
namespace {

using runtime::Prepared;

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

bool is_open(const std::optional<Shape>& shape) {
  return !shape || std::any_of(shape->begin(), shape->end(), [](std::int64_t d) { return d < 0; });
}

// Whether a tensor of the shape is what the input is declared to be.
bool fits(const std::optional<Shape>& declared, const Shape& shape) {
  bool good = !declared || declared->size() == shape.size();
  for (std::size_t k = 0; good && declared && k < shape.size(); ++k) {
    good = shape[k] >= 0 && ((*declared)[k] < 0 || (*declared)[k] == shape[k]);
  }
  return good;
}

Prepared interpreted(const ir::Graph& graph, const std::vector<Shape>& shapes) {
  Prepared prepared;
  prepared.shapes = shapes;
  prepared.graph = runtime::bind_shapes(graph, shapes);
  prepared.facts = ops::validate(*prepared.graph);
  return prepared;
}

// `model` is let go before kernels pack weights, unless somebody else holds it.
std::shared_ptr<const Prepared> prepare(Model model, const std::vector<Shape>& shapes, const CompileOptions& options,
                                        plan::Isa isa, int threads) {
  Prepared prepared;
  const bool fallback = options.backend == "auto";
  std::optional<Model> kept;
  if (options.backend == "reference") {
    prepared = interpreted(model.impl().graph, shapes);
  } else {
    // Shapes first: with them, shape arithmetic folds away.
    ir::Graph graph = runtime::bind_shapes(model.impl().graph, shapes);
    const bool known =
        std::none_of(graph.values.begin(), graph.values.end(), [](const ir::Value& v) { return is_open(v.shape); });
    if (!known && fallback) kept = model;  // folding may still find the shapes
    { const Model gone = std::move(model); }
    auto fused = passes::Pipeline::all().run(graph);
    graph = {};
    try {
      prepared.plan = plan::make_plan(std::move(fused.graph), {.isa = isa,
                                                               .threads = threads,
                                                               .plain_rounding = options.plain_rounding,
                                                               .kernels = options.kernels,
                                                               .bytes = options.limits.tensor_bytes});
      prepared.shapes = shapes;
    } catch (const Error& e) {
      if (!kept || e.code() != ErrorCode::model) throw;
      prepared = interpreted(kept->impl().graph, shapes);
    }
  }
#ifdef __GLIBC__
  malloc_trim(0);  // what planning needed goes back to the system
#endif
  return std::make_shared<const Prepared>(std::move(prepared));
}

// The input shapes that the options name, or nothing where a plan has to wait for a run.
std::optional<std::vector<Shape>> shapes_at_once(const Executable::Impl& impl) {
  const CompileOptions& options = impl.options;
  for (const auto& [name, shape] : options.shapes) {
    const auto at =
        std::find_if(impl.inputs.begin(), impl.inputs.end(), [&](const ValueInfo& v) { return v.name == name; });
    if (at == impl.inputs.end()) throw Error(ErrorCode::usage, "the model has no input '" + name + "'");
    if (!fits(at->shape, shape)) {
      throw Error(ErrorCode::usage, "input '" + name + "' is declared as " +
                                        (at->shape ? to_string(*at->shape) : "any shape") + ", not " +
                                        to_string(shape));
    }
  }
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < impl.inputs.size(); ++k) {
    const ValueInfo& v = impl.inputs[k];
    if (const auto given = options.shapes.find(v.name); given != options.shapes.end()) {
      shapes.push_back(given->second);
    } else if (v.optional) {
      shapes.push_back(impl.defaults[k].shape());
    } else if (!is_open(v.shape)) {
      shapes.push_back(*v.shape);
    } else if (options.shapes.empty() && !options.only_these_shapes) {
      return std::nullopt;
    } else {
      throw Error(ErrorCode::usage, "input '" + v.name + "' has unknown dimensions; its shape has to be given");
    }
  }
  return shapes;
}

}  // namespace

std::shared_ptr<const Prepared> Executable::Impl::prepared(const std::vector<Shape>& shapes) const {
  const std::lock_guard lock(mutex);
  const auto at = std::find_if(plans.begin(), plans.end(), [&](const auto& p) { return p->shapes == shapes; });
  if (at != plans.end()) {
    plans.splice(plans.begin(), plans, at);
    return plans.front();
  }
  if (!model) {
    std::string text;
    for (const Shape& s : shapes) text += (text.empty() ? "" : ", ") + to_string(s);
    throw Error(ErrorCode::input,
                "the model was compiled for other shapes than " + text + " (CompileOptions::only_these_shapes)");
  }
  plans.push_front(prepare(*model, shapes, options, isa, threads));
  if (plans.size() > kMostPlans) plans.pop_back();
  return plans.front();
}

Executable Executable::compile(const Model& model, const CompileOptions& options) {
  return compile(Model(model), options);
}

Executable Executable::compile(Model&& model, const CompileOptions& options) {
  if (options.contract != Contract::exact) {
    throw Error(ErrorCode::usage, "kernels compute Contract::exact only; for Contract::" + std::string("onnx_float32") +
                                      " call interpret()");
  }
  if (options.backend != "auto" && options.backend != "cpu" && options.backend != "reference") {
    throw Error(ErrorCode::usage, "there is no backend '" + options.backend + "'; there are auto, cpu and reference");
  }
  if (options.threads < 0) throw Error(ErrorCode::usage, "the number of threads is negative");
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  impl->isa = choose_isa(options.isa);
  impl->threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  impl->inputs = model.inputs();
  impl->outputs = model.outputs();
  const ir::Graph& graph = model.impl().graph;
  bool open = false;
  for (const ir::ValueId id : graph.inputs) {
    const auto initial = graph.initializers.find(id);
    impl->defaults.push_back(initial == graph.initializers.end() ? Tensor() : initial->second);
    open = open || is_open(graph.value(id).shape);
  }
  const auto shapes = shapes_at_once(*impl);
  if (!shapes || (open && !options.only_these_shapes)) impl->model = model;
  if (shapes) {
    impl->first = prepare(std::move(model), *shapes, options, impl->isa, impl->threads);
    impl->plans.push_back(impl->first);
  }
  return Executable(std::move(impl));
}

std::vector<KernelInfo> kernel_names() {
  std::vector<KernelInfo> out;
  for (const plan::Entry& e : plan::kernel_table()) {
    out.push_back({std::string(e.name), std::string(plan::to_string(e.isa)), std::string(e.takes)});
  }
  return out;
}

namespace {

PlanTensor describe(const plan::Plan& plan, const plan::Step& step, std::size_t p) {
  if (p == SIZE_MAX) return {};
  static constexpr std::string_view kKinds[] = {"", "input", "constant", "arena"};
  const auto root = [&](std::size_t q) {
    while (plan.places[q].alias_of != SIZE_MAX) q = plan.places[q].alias_of;
    return q;
  };
  const plan::Place& place = plan.places[p];
  PlanTensor out;
  out.memory = kKinds[static_cast<std::size_t>(place.kind)];
  out.offset = place.offset;
  out.bytes = place.bytes;
  out.layout = place.form.layout == plan::Layout::plain ? "plain" : "channels_last";
  out.biased = place.form.biased;
  out.in_place = std::any_of(step.inputs.begin(), step.inputs.end(),
                             [&](std::size_t q) { return q != SIZE_MAX && root(q) == root(p); });
  return out;
}

}  // namespace

PlanReport Executable::plan() const {
  if (!impl_->first) {
    throw Error(ErrorCode::usage,
                "there is no plan yet: the model has inputs with unknown dimensions, whose shapes "
                "have to be given to compile()");
  }
  const Prepared& prepared = *impl_->first;
  PlanReport report;
  report.isa = plan::to_string(impl_->isa);
  if (prepared.graph) {
    report.steps.push_back({"the whole model", "", "reference", "", std::nullopt, {}, {}, 0, 0});
    return report;
  }
  const plan::Plan& p = prepared.plan;
  report.arena_bytes = p.arena_bytes;
  report.tensor_bytes = p.tensor_bytes;
  report.largest_live_bytes = p.largest_live_bytes;
  report.scratch_bytes = p.scratch_bytes;
  report.dropped = p.dropped;
  for (const plan::Step& s : p.steps) {
    PlanStep& step = report.steps.emplace_back();
    step.node = s.node;
    step.op_type = s.op_type;
    step.kernel = s.kernel->name;
    step.note = s.kernel->note;
    step.rounding = s.kernel->rounding;
    step.refusals = s.refusals;
    step.scratch_bytes = s.kernel->scratch;
    step.weight_bytes = s.kernel->weight_bytes();
    report.weight_bytes += step.weight_bytes;
    for (const std::size_t o : s.outputs) step.outputs.push_back(describe(p, s, o));
  }
  return report;
}

}  // namespace halfeven
