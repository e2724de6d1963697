#include "plan/plan.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <halfeven/error.hpp>

#include "interpreter/interpreter.hpp"

namespace halfeven::plan {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kAbsent = SIZE_MAX;

std::size_t aligned(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Nodes that no kernel takes run in the interpreter, those that pass float tensors to each other together: between them
// values travel unrounded (contract section 1).
class ReferenceKernel final : public Kernel {
 public:
  ir::Graph graph;
  ops::Facts facts;
  int threads = 1;

  void run(const Buffers& b, const ParallelFor&) const override {
    std::vector<Tensor> inputs;
    for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
      const ir::Value& v = graph.value(graph.inputs[k]);
      const std::size_t bytes = element_count(*v.shape) * storage_size(v.dtype);
      inputs.push_back(Tensor::view(v.dtype, *v.shape, {b.in[k], bytes}));
    }
    interpreter::Options options;
    options.threads = threads;
    const auto outputs = interpreter::run(graph, facts, inputs, options);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const auto bytes = outputs[k].bytes();
      std::copy(bytes.begin(), bytes.end(), b.out[k]);
    }
  }
};

class LayoutKernel final : public Kernel {
 public:
  std::int64_t batch = 1, channels = 1, pixels = 1;
  bool to_channels_last = true;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const std::byte* in = b.in[0];
    std::byte* out = b.out[0];
    const std::int64_t rows = to_channels_last ? pixels : channels;
    const std::int64_t columns = to_channels_last ? channels : pixels;
    parallel(batch * rows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const std::byte* from = in + r / rows * rows * columns + r % rows;
        std::byte* to = out + r * columns;
        for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c * rows];
      }
    });
  }
};

class Planner {
 public:
  Planner(ir::Graph graph, Isa isa, int threads) : isa_(isa), threads_(threads) {
    plan_.graph = std::move(graph);
    facts_ = ops::validate(plan_.graph);
    layouts_.assign(g().values.size(), Layout::plain);
    plan_.places.resize(g().values.size());
  }

  Plan run() {
    check_shapes();
    choose();
    group_references();
    order();
    build();
    place();
    return std::move(plan_);
  }

 private:
  const ir::Graph& g() const { return plan_.graph; }

  void check_shapes() const {
    for (const ir::Node& node : g().nodes) {
      for (const ir::ValueId id : node.outputs) {
        if (!id.present()) continue;
        const auto& s = g().value(id).shape;
        if (!s || std::any_of(s->begin(), s->end(), [](std::int64_t d) { return d < 0; })) {
          throw Error(ErrorCode::model, "the shape of '" + g().value(id).name + "' is known only when the model runs",
                      ir::label(g(), node));
        }
        element_count(*s);
      }
    }
  }

  // A kernel for each node that one takes.
  void choose() {
    using Factory = Offer (*)(const Site&);
    static constexpr Factory factories[] = {make_conv, make_binary, make_pool, make_lookup, make_quantize, make_view};
    kernels_.resize(g().nodes.size());
    refusals_.resize(g().nodes.size());
    for (std::size_t n = 0; n < g().nodes.size(); ++n) {
      const ir::Node& node = g().nodes[n];
      for (const Factory factory : factories) {
        Offer offer = factory({g(), node, isa_, layouts_});
        if (offer.kernel) {
          layouts_[node.outputs[0].index] = offer.kernel->out_layout;
          kernels_[n] = std::move(offer.kernel);
          break;
        }
        refusals_[n].push_back(offer.refusal);
      }
    }
  }

  // --- reference regions

  std::size_t root(std::size_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  void group_references() {
    parent_.resize(g().nodes.size());
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    producer_.assign(g().values.size(), kAbsent);
    for (std::size_t n = 0; n < g().nodes.size(); ++n) {
      for (const ir::ValueId id : g().nodes[n].outputs) {
        if (id.present()) producer_[id.index] = n;
      }
    }
    for (std::size_t n = 0; n < g().nodes.size(); ++n) {
      if (kernels_[n]) continue;
      for (const ir::ValueId id : g().nodes[n].inputs) {
        if (!id.present() || producer_[id.index] == kAbsent) continue;
        const std::size_t p = producer_[id.index];
        if (!kernels_[p] && is_float(g().value(id).dtype)) parent_[root(n)] = root(p);
      }
    }
  }

  // Orders regions and kernels; what lies on a circle (a region that needs a kernel that needs the region) joins one
  // region, for the interpreter takes every node.
  void order() {
    for (;;) {
      const std::size_t count = g().nodes.size();
      std::vector<std::size_t> waiting(count, 0);
      std::vector<std::vector<std::size_t>> next(count);
      for (std::size_t n = 0; n < count; ++n) {
        for (const ir::ValueId id : g().nodes[n].inputs) {
          if (!id.present() || producer_[id.index] == kAbsent) continue;
          const std::size_t from = root(producer_[id.index]);
          const std::size_t to = root(n);
          if (from == to) continue;
          next[from].push_back(to);
          ++waiting[to];
        }
      }
      std::vector<std::size_t> ready;
      sequence_.clear();
      std::size_t roots = 0;
      for (std::size_t n = count; n-- > 0;) {
        if (root(n) != n) continue;
        ++roots;
        if (waiting[n] == 0) ready.push_back(n);
      }
      while (!ready.empty()) {
        const std::size_t n = ready.back();
        ready.pop_back();
        sequence_.push_back(n);
        for (const std::size_t m : next[n]) {
          if (--waiting[m] == 0) ready.push_back(m);
        }
      }
      if (sequence_.size() == roots) return;
      std::size_t first = kAbsent;
      for (std::size_t n = 0; n < count; ++n) {
        if (waiting[root(n)] == 0) continue;
        kernels_[n].reset();
        refusals_[n].push_back("lies between nodes that exchange unrounded tensors");
        if (first == kAbsent) first = n;
        parent_[root(n)] = root(first);
      }
      for (auto& layout : layouts_) layout = Layout::plain;  // of the nodes without a kernel
      for (std::size_t n = 0; n < count; ++n) {
        if (kernels_[n]) layouts_[g().nodes[n].outputs[0].index] = kernels_[n]->out_layout;
      }
    }
  }

  // --- steps

  bool same_in_both(ir::ValueId id) const {
    const Shape& s = *g().value(id).shape;
    return s.size() != 4 || s[1] == 1 || s[2] * s[3] == 1;
  }

  // The place of a value in a layout, converted if need be.
  std::size_t in_layout(ir::ValueId id, Layout wanted) {
    if (layouts_[id.index] == wanted || same_in_both(id)) return id.index;
    const auto [at, fresh] = converted_.try_emplace({id.index, wanted}, plan_.places.size());
    if (!fresh) return at->second;
    plan_.places.emplace_back();
    const Shape& s = *g().value(id).shape;
    plan_.places.back().bytes = element_count(s);
    plan_.places.back().layout = wanted;
    auto kernel = std::make_unique<LayoutKernel>();
    kernel->batch = s[0];
    kernel->channels = s[1];
    kernel->pixels = s[2] * s[3];
    kernel->to_channels_last = wanted == Layout::channels_last;
    kernel->name = wanted == Layout::channels_last ? "layout.to_channels_last" : "layout.to_plain";
    plan_.steps.push_back({std::move(kernel), g().value(id).name, "layout", {}, {id.index}, {at->second}});
    return at->second;
  }

  void build() {
    for (std::size_t i = 0; i < g().values.size(); ++i) {
      const auto& v = g().values[i];
      Place& p = plan_.places[i];
      p.layout = layouts_[i];
      if (v.shape && storage_size(v.dtype) > 0) p.bytes = element_count(*v.shape) * storage_size(v.dtype);
    }
    std::map<std::size_t, std::vector<std::size_t>> members;
    for (std::size_t n = 0; n < g().nodes.size(); ++n) members[root(n)].push_back(n);
    for (const std::size_t r : sequence_) {
      if (kernels_[r]) {
        add_kernel(r);
      } else {
        add_region(members.at(r));
      }
    }
    // Graph outputs lie plain.
    for (std::size_t k = 0; k < g().outputs.size(); ++k)
      output_places_.push_back(in_layout(g().outputs[k], Layout::plain));
  }

  void add_kernel(std::size_t n) {
    const ir::Node& node = g().nodes[n];
    Step step;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ir::ValueId id = node.inputs[k];
      const Kernel& kernel = *kernels_[n];
      const bool reads = k < kernel.in_layouts.size() && id.present();
      step.inputs.push_back(!reads ? kAbsent : (kernel.any_layout[k] ? id.index : in_layout(id, kernel.in_layouts[k])));
    }
    for (const ir::ValueId id : node.outputs) step.outputs.push_back(id.present() ? id.index : kAbsent);
    step.node = ir::label(g(), node);
    step.op_type = node.op_type;
    step.refusals = refusals_[n];
    step.kernel = std::move(kernels_[n]);
    plan_.steps.push_back(std::move(step));
  }

  void add_region(const std::vector<std::size_t>& nodes) {
    auto kernel = std::make_unique<ReferenceKernel>();
    ir::Graph& sub = kernel->graph;
    sub.opsets = g().opsets;
    std::map<ir::ValueId, ir::ValueId> inner;
    const auto make = [&](ir::ValueId id) {
      const auto [at, fresh] = inner.try_emplace(id, ir::ValueId{static_cast<std::uint32_t>(sub.values.size())});
      if (fresh) sub.values.push_back(g().value(id));
      return at->second;
    };
    Step step;
    std::vector<bool> inside(g().nodes.size(), false);
    for (const std::size_t n : nodes) inside[n] = true;
    std::vector<bool> read_outside(g().values.size(), false);
    for (std::size_t n = 0; n < g().nodes.size(); ++n) {
      if (inside[n]) continue;
      for (const ir::ValueId id : g().nodes[n].inputs) {
        if (id.present()) read_outside[id.index] = true;
      }
    }
    for (const ir::ValueId id : g().outputs) read_outside[id.index] = true;
    std::string types;
    for (const std::size_t n : nodes) {
      ir::Node copy = g().nodes[n];
      types += (types.empty() ? "" : ", ") + copy.op_type;
      for (ir::ValueId& id : copy.inputs) {
        if (!id.present()) continue;
        const bool known = inner.contains(id);
        const ir::ValueId outer = id;
        id = make(outer);
        if (known) continue;
        const auto constant = g().initializers.find(outer);
        if (constant != g().initializers.end() && g().is_constant(outer)) {
          sub.initializers.emplace(id, constant->second);
        } else if (producer_[outer.index] == kAbsent || !inside[producer_[outer.index]]) {
          sub.inputs.push_back(id);
          step.inputs.push_back(in_layout(outer, Layout::plain));
        }
      }
      for (ir::ValueId& id : copy.outputs) {
        if (!id.present()) continue;
        const ir::ValueId outer = id;
        id = make(outer);
        if (read_outside[outer.index]) {
          sub.outputs.push_back(id);
          step.outputs.push_back(outer.index);
        }
      }
      sub.nodes.push_back(std::move(copy));
      for (const std::string& why : refusals_[n]) {
        if (std::find(step.refusals.begin(), step.refusals.end(), why) == step.refusals.end())
          step.refusals.push_back(why);
      }
    }
    kernel->facts = ops::validate(sub);
    kernel->threads = threads_;
    kernel->name = "reference";
    step.node = ir::label(g(), g().nodes[nodes[0]]);
    step.op_type = types;
    step.kernel = std::move(kernel);
    plan_.steps.push_back(std::move(step));
  }

  // --- memory: first fit over the steps in which a place is needed

  void place() {
    for (const auto& [id, tensor] : g().initializers) {
      plan_.places[id.index].kind = Place::Kind::constant;
    }
    for (std::size_t k = 0; k < g().inputs.size(); ++k) {
      plan_.places[g().inputs[k].index].kind = Place::Kind::input;
      plan_.places[g().inputs[k].index].index = k;
    }
    struct Span {
      std::size_t place, first, last;
    };
    std::map<std::size_t, Span> spans;
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      for (const std::size_t p : plan_.steps[s].outputs) {
        if (p != kAbsent) spans.try_emplace(p, Span{p, s, s});
      }
      for (const std::size_t p : plan_.steps[s].inputs) {
        const auto at = p == kAbsent ? spans.end() : spans.find(p);
        if (at != spans.end()) at->second.last = s;
      }
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, aligned(plan_.steps[s].kernel->scratch));
    }
    for (const std::size_t p : output_places_) {
      if (spans.contains(p)) spans.at(p).last = plan_.steps.size();
    }
    plan_.outputs = output_places_;
    std::vector<Span> order;
    for (const auto& [p, span] : spans) order.push_back(span);
    std::sort(order.begin(), order.end(), [&](const Span& a, const Span& b) {
      return plan_.places[a.place].bytes > plan_.places[b.place].bytes;  // large ones first
    });
    std::vector<Span> placed;
    for (const Span& span : order) {
      Place& p = plan_.places[span.place];
      p.kind = Place::Kind::arena;
      const std::size_t size = aligned(p.bytes + kAlign);  // kernels may read a vector beyond the end
      plan_.tensor_bytes += size;
      std::vector<std::pair<std::size_t, std::size_t>> taken;
      for (const Span& other : placed) {
        if (other.first > span.last || other.last < span.first) continue;
        const Place& o = plan_.places[other.place];
        taken.emplace_back(o.offset, o.offset + aligned(o.bytes + kAlign));
      }
      std::sort(taken.begin(), taken.end());
      std::size_t at = 0;
      for (const auto& [begin, end] : taken) {
        if (at + size <= begin) break;
        at = std::max(at, end);
      }
      p.offset = at;
      plan_.arena_bytes = std::max(plan_.arena_bytes, at + size);
      placed.push_back(span);
    }
  }

  Plan plan_;
  ops::Facts facts_;
  Isa isa_;
  int threads_;
  std::vector<Layout> layouts_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::vector<std::string>> refusals_;
  std::vector<std::size_t> parent_;
  std::vector<std::size_t> producer_;
  std::vector<std::size_t> sequence_;
  std::vector<std::size_t> output_places_;
  std::map<std::pair<std::size_t, Layout>, std::size_t> converted_;
};

}  // namespace

const Tensor* Site::constant(ir::ValueId id) const {
  const auto at = graph.initializers.find(id);
  return at == graph.initializers.end() || graph.is_input(id) ? nullptr : &at->second;
}

Isa detect_isa() {
#ifdef __x86_64__
  const bool vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512vnni");
  return vnni ? Isa::avx512_vnni : Isa::portable;
#else
  return Isa::portable;
#endif
}

Plan make_plan(ir::Graph graph, Isa isa, int threads) { return Planner(std::move(graph), isa, threads).run(); }

}  // namespace halfeven::plan
