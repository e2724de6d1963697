#include "plan/plan.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <halfeven/error.hpp>

#include "plan/dynamic_group.hpp"
#include "plan/lower.hpp"
#include "plan/memory.hpp"
#include "plan/nan_checks.hpp"
#include "plan/own_kernels.hpp"
#include "plan/selftest.hpp"
#include "plan/storable.hpp"

namespace halfeven::plan {
namespace {

constexpr std::size_t kAbsent = SIZE_MAX;

class Planner {
 public:
  Planner(ir::Graph graph, PlanOptions options) : options_(std::move(options)) {
    plan_.graph = std::move(graph);
    facts_ = ops::validate(plan_.graph);
    storable_ = storable(plan_.graph);
    forms_.assign(g().values.size(), Form{});
    plan_.places.resize(g().values.size());
  }

  Plan run() {
    check_shapes();
    choose();
    group_references();
    order();
    build();
    keep_constants();
    describe_ports();
    assign_memory(plan_);
    if (plan_.arena_bytes > options_.bytes || plan_.scratch_bytes > options_.bytes - plan_.arena_bytes) {
      throw Error(ErrorCode::model, "tensors between the steps take " +
                                        std::to_string(plan_.arena_bytes + plan_.scratch_bytes) +
                                        " bytes, more than the limit of " + std::to_string(options_.bytes));
    }
    if (options_.keep_graph) {
      plan_.facts = std::move(facts_);
    } else {
      plan_.graph = {};
    }
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
    const std::vector<const Entry*> entries = candidates();
    kernels_.resize(g().nodes.size());
    refusals_.resize(g().nodes.size());
    std::vector<std::size_t> readers(g().values.size(), 0);
    for (const ir::Node& node : g().nodes) {
      for (const ir::ValueId id : node.inputs) readers[id.present() ? id.index : 0] += id.present() ? 1 : 0;
    }
    for (const ir::ValueId id : g().outputs) ++readers[id.index];
    // Where all values may be stored, no node loses its kernel later: what a kernel has packed is not needed again.
    const bool final_choice =
        !options_.keep_graph && std::find(storable_.begin(), storable_.end(), false) == storable_.end();
    for (std::size_t n = 0; n < g().nodes.size(); ++n) {
      const ir::Node& node = g().nodes[n];
      if (is_constant(node)) {
        refusals_[n].push_back("reads constants only, so it is rounded at once");
      } else if (!exchanges_stored_values(node)) {
        refusals_[n].push_back("exchanges unrounded values with its neighbours");
      } else {
        choose(n, entries);
      }
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ir::ValueId id = node.inputs[k];
        if (!id.present()) continue;
        const bool reads = !kernels_[n] || (k < kernels_[n]->in_forms.size() && kernels_[n]->in_forms[k]);
        if (reads) readers[id.index] = kAbsent / 2;  // somebody reads it when the plan runs
        if (--readers[id.index] == 0 && final_choice && g().is_constant(id)) {
          plan_.graph.initializers.at(id) = Tensor();
          facts_.known.erase(id);
        }
      }
    }
  }

  // Entries of the table in the order in which they are asked.
  std::vector<const Entry*> candidates() const {
    std::vector<const Entry*> entries;
    for (const Entry& e : options_.table) {
      if (e.isa <= options_.isa) entries.push_back(&e);
    }
    for (const std::string& name : options_.kernels) {
      if (std::none_of(options_.table.begin(), options_.table.end(), [&](const Entry& e) { return e.name == name; })) {
        throw Error(ErrorCode::usage, "there is no kernel '" + name + "' (`halfeven plan --kernels` lists them)");
      }
    }
    std::stable_partition(entries.begin(), entries.end(), [&](const Entry* e) {
      return std::find(options_.kernels.begin(), options_.kernels.end(), e->name) != options_.kernels.end();
    });
    return entries;
  }

  void choose(std::size_t n, const std::vector<const Entry*>& entries) {
    const ir::Node& node = g().nodes[n];
    std::vector<std::pair<std::string, std::string>> refusals;  // why, who
    const auto refused = [&](std::string_view who, const std::string& why) {
      if (refusals.empty() || refusals.back().first != why) {
        refusals.emplace_back(why, who);
      } else {
        refusals.back().second += ", " + std::string(who);
      }
    };
    for (const Entry* entry : entries) {
      Offer offer = entry->make({g(), node, entry->isa, forms_, options_.threads, options_.plain_rounding});
      if (!offer.kernel) {
        refused(entry->name, offer.refusal);
        continue;
      }
      if (options_.self_test) {
        const std::string& failure = self_test(*entry);
        if (!failure.empty()) {
          refused(entry->name, "failed its self-test: " + failure);
          const std::string text = std::string(entry->name) + ": " + failure;
          if (std::find(plan_.dropped.begin(), plan_.dropped.end(), text) == plan_.dropped.end()) {
            plan_.dropped.push_back(text);
          }
          continue;
        }
      }
      offer.kernel->name = entry->name;
      set_forms(node, offer.kernel->out_form);
      kernels_[n] = std::move(offer.kernel);
      break;
    }
    for (const auto& [why, who] : refusals) refusals_[n].push_back(who + ": " + why);
  }

  bool is_constant(const ir::Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ir::ValueId id) { return !id.present() || facts_.constant[id.index]; });
  }

  bool exchanges_stored_values(const ir::Node& node) const {
    const auto stored = [&](ir::ValueId id) { return !id.present() || storable_[id.index]; };
    return std::all_of(node.inputs.begin(), node.inputs.end(), stored) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), stored);
  }

  void set_forms(const ir::Node& node, Form form) {
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) forms_[id.index] = form;
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
        if (!kernels_[p] && !storable_[id.index]) parent_[root(n)] = root(p);
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
      for (Form& form : forms_) form = Form{};  // of the nodes without a kernel
      for (std::size_t n = 0; n < count; ++n) {
        if (kernels_[n]) set_forms(g().nodes[n], kernels_[n]->out_form);
      }
    }
  }

  // --- steps

  // Whether both layouts are the same bytes.
  static bool same_in_both(const Shape& s) {
    return s.size() < 3 || s[1] == 1 || element_count(s) == 0 ||
           std::all_of(s.begin() + 2, s.end(), [](std::int64_t d) { return d == 1; });
  }

  // The place of a value in a form, converted if need be.
  std::size_t in_form(ir::ValueId id, Form wanted) {
    const ir::Value& v = g().value(id);
    const Form has = forms_[id.index];
    if (v.dtype != DType::int8) wanted.biased = false;
    const bool moves = has.layout != wanted.layout && !same_in_both(*v.shape);
    if (!moves && has.biased == wanted.biased) return id.index;
    const auto [at, fresh] = converted_.try_emplace({id.index, wanted}, plan_.places.size());
    if (!fresh) return at->second;
    const Shape& s = *v.shape;
    Place place;
    place.bytes = element_count(s) * storage_size(v.dtype);
    place.form = wanted;
    auto kernel = std::make_unique<ConvertKernel>();
    kernel->in_place = !moves;
    kernel->element = storage_size(v.dtype);
    kernel->flip = has.biased != wanted.biased ? 0x80 : 0;
    kernel->columns = static_cast<std::int64_t>(element_count(s));
    if (moves) {
      kernel->batch = s[0];
      const std::int64_t pixels = s[0] == 0 || s[1] == 0 ? 0 : kernel->columns / s[0] / s[1];
      kernel->rows = wanted.layout == Layout::channels_last ? pixels : s[1];
      kernel->columns = wanted.layout == Layout::channels_last ? s[1] : pixels;
    }
    kernel->name = "convert";
    if (g().is_constant(id)) {
      std::vector<std::byte> bytes(place.bytes);
      const std::byte* in[] = {g().initializers.at(id).data()};
      std::byte* out[] = {bytes.data()};
      const auto at_once = [](void*, std::int64_t n, ParallelFor::Piece piece, const void* f) {
        if (n > 0) piece(f, 0, n);
      };
      kernel->run({in, out, nullptr}, ParallelFor(nullptr, at_once, 1));
      place.kind = Place::Kind::constant;
      plan_.constants.emplace_back(at->second, Tensor::own(v.dtype, s, std::move(bytes)));
    } else {
      plan_.steps.push_back({std::move(kernel), v.name, "convert", {}, {id.index}, {at->second}, {}});
    }
    plan_.places.push_back(place);
    return at->second;
  }

  // The place, or a copy of it where its memory, or that of which it is a view, is the caller's or a constant's.
  std::size_t in_arena(ir::ValueId id, std::size_t place) {
    std::size_t owner = place;
    while (plan_.places[owner].alias_of != kAbsent) owner = plan_.places[owner].alias_of;
    const bool written =
        owner < g().values.size() ? producer_[owner] != kAbsent : plan_.places[owner].kind != Place::Kind::constant;
    if (written) return place;
    const auto [at, fresh] = copied_.try_emplace(place, plan_.places.size());
    if (!fresh) return at->second;
    Place copy;
    copy.bytes = plan_.places[place].bytes;
    copy.form = plan_.places[place].form;
    auto kernel = std::make_unique<ConvertKernel>();
    kernel->columns = static_cast<std::int64_t>(copy.bytes);
    kernel->name = "convert";
    plan_.steps.push_back({std::move(kernel), g().value(id).name, "convert", {}, {place}, {at->second}, {}});
    plan_.places.push_back(copy);
    return at->second;
  }

  void build() {
    for (std::size_t i = 0; i < g().values.size(); ++i) {
      const auto& v = g().values[i];
      Place& p = plan_.places[i];
      p.form = forms_[i];
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
    for (const ir::ValueId id : g().outputs) plan_.output_places.push_back(in_form(id, Form{}));
  }

  void add_kernel(std::size_t n) {
    const ir::Node& node = g().nodes[n];
    Step step;
    const Kernel& kernel = *kernels_[n];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ir::ValueId id = node.inputs[k];
      const bool reads = k < kernel.in_forms.size() && kernel.in_forms[k] && id.present();
      if (!reads) {
        step.inputs.push_back(kAbsent);
        continue;
      }
      const std::size_t place = in_form(id, *kernel.in_forms[k]);
      step.inputs.push_back(kernel.reads_beyond ? in_arena(id, place) : place);
    }
    for (const ir::ValueId id : node.outputs) step.outputs.push_back(id.present() ? id.index : kAbsent);
    step.node = ir::label(g(), node);
    step.op_type = node.op_type;
    step.refusals = refusals_[n];
    step.nodes = {static_cast<std::uint32_t>(n)};
    if (kernel.alias) {
      Place& out = plan_.places[step.outputs[0]];
      if (step.inputs[0] == kAbsent || out.bytes > plan_.places[step.inputs[0]].bytes) {
        throw Error(ErrorCode::other, "kernel " + kernel.name + " takes a tensor for the memory of a smaller one",
                    ir::label(g(), node));
      }
      out.alias_of = step.inputs[0];
    }
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
      step.nodes.push_back(static_cast<std::uint32_t>(n));
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
          step.inputs.push_back(in_form(outer, Form{}));
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
    // What is constant in the whole graph is rounded at once, here as there (contract section 1, rule 6).
    for (const auto& [outer, id] : inner) kernel->facts.constant[id.index] = facts_.constant[outer.index];
    kernel->threads = options_.threads;
    kernel->name = "reference";
    step.node = ir::label(g(), g().nodes[nodes[0]]);
    step.op_type = types;
    step.kernel = std::move(kernel);
    plan_.steps.push_back(std::move(step));
  }

  // Constants that are read as they are; what kernels have packed goes with the graph.
  void keep_constants() {
    std::vector<bool> used(plan_.places.size(), false);
    const auto use = [&](std::size_t p) {
      for (; p != kAbsent; p = plan_.places[p].alias_of) used[p] = true;
    };
    for (const Step& step : plan_.steps) {
      for (const std::size_t p : step.inputs) use(p);
    }
    for (const std::size_t p : plan_.output_places) use(p);
    for (const auto& [id, tensor] : g().initializers) {
      if (!g().is_constant(id)) continue;
      plan_.places[id.index].kind = Place::Kind::constant;
      if (used[id.index]) plan_.constants.emplace_back(id.index, tensor);
    }
    for (std::size_t k = 0; k < g().inputs.size(); ++k) {
      plan_.places[g().inputs[k].index].kind = Place::Kind::input;
      plan_.places[g().inputs[k].index].index = k;
    }
  }

  void describe_ports() {
    const auto port = [&](ir::ValueId id) {
      const ir::Value& v = g().value(id);
      const auto initial = g().initializers.find(id);
      const bool optional = g().is_input(id) && initial != g().initializers.end();
      return Port{v.name, v.dtype, *v.shape, optional ? initial->second : Tensor()};
    };
    for (const ir::ValueId id : g().inputs) plan_.inputs.push_back(port(id));
    for (const ir::ValueId id : g().outputs) plan_.outputs.push_back(port(id));
  }

  Plan plan_;
  ops::Facts facts_;
  PlanOptions options_;
  std::vector<bool> storable_;
  std::vector<Form> forms_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::vector<std::string>> refusals_;
  std::vector<std::size_t> parent_;
  std::vector<std::size_t> producer_;
  std::vector<std::size_t> sequence_;
  std::map<std::pair<std::size_t, Form>, std::size_t> converted_;
  std::map<std::size_t, std::size_t> copied_;
};

}  // namespace

const Tensor* Site::constant(ir::ValueId id) const {
  const auto at = graph.initializers.find(id);
  return at == graph.initializers.end() || graph.is_input(id) ? nullptr : &at->second;
}

Plan make_plan(ir::Graph graph, const PlanOptions& options) {
  graph = drop_nan_checks(graph);
  graph = group_dynamic(graph);
  return Planner(lower(std::move(graph)), options).run();
}

}  // namespace halfeven::plan
