// Data movement: where each element comes from is found by letting the operator move numbers, once, when the plan is
// made; loops are then read off the result.
#include <algorithm>
#include <set>

#include "cpu/move/move.hpp"
#include "interpreter/interpreter.hpp"
#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using kernels::MoveLoop;
using kernels::MoveNest;

struct MovedOutput {
  std::vector<MoveNest> nests;
  std::vector<std::uint32_t> index;  // instead, where not empty
  std::size_t source = 0;            // of the index
  std::vector<std::uint32_t> zeros;  // elements that come from nowhere
  std::int64_t size = 0;
};

class MoveKernel final : public Kernel {
 public:
  std::vector<MovedOutput> outputs;
  std::size_t element = 1;
  std::uint8_t zero = 0;  // the byte of a zero: 0x80 where 128 is added

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const MovedOutput& o = outputs[k];
      std::byte* out = b.out[k];
      if (out == nullptr) continue;
      if (!o.index.empty()) {
        parallel(o.size, [&](std::int64_t first, std::int64_t last) {
          kernels::move_indexed(o.index.data(), element, b.in[o.source], out, first, last);
        });
      }
      if (o.nests.size() > 64) {  // small ones: a thread takes many
        parallel(static_cast<std::int64_t>(o.nests.size()), [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t i = first; i < last; ++i) {
            const MoveNest& nest = o.nests[static_cast<std::size_t>(i)];
            kernels::move_nest(nest, element, b.in[nest.source], out, 0, nest.rounds());
          }
        });
      }
      for (const MoveNest& nest : o.nests) {
        if (o.nests.size() > 64) break;
        parallel(nest.rounds(), [&](std::int64_t first, std::int64_t last) {
          kernels::move_nest(nest, element, b.in[nest.source], out, first, last);
        });
      }
      for (const std::uint32_t i : o.zeros) std::fill_n(out + i * element, element, std::byte{zero});
    }
  }
};

class ViewOfMemory final : public Kernel {
 public:
  void run(const Buffers&, const ParallelFor&) const override {}
};

// Which inputs are moved; the others decide where.
std::vector<std::size_t> data_inputs(const ir::Node& node) {
  std::vector<std::size_t> out;
  if (node.op_type == "Concat") {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) out.push_back(k);
  } else if (node.op_type == "Where") {
    out = {1, 2};
  } else if (node.op_type == "Pad" && node.inputs.size() > 2 && node.inputs[2].present()) {
    out = {0, 2};
  } else {
    out = {0};
  }
  return out;
}

// The logical number of each element in the order in which it is stored.
std::vector<std::uint32_t> stored_order(const Shape& shape, Layout layout) {
  const std::size_t count = element_count(shape);
  std::vector<std::uint32_t> order(count);
  if (layout == Layout::plain || shape.size() < 3 || count == 0) {
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
    return order;
  }
  const auto channels = static_cast<std::size_t>(shape[1]);
  const std::size_t pixels = count / channels / static_cast<std::size_t>(shape[0]);
  std::size_t at = 0;
  for (std::size_t n = 0; n < count; n += channels * pixels) {
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t c = 0; c < channels; ++c) order[at++] = static_cast<std::uint32_t>(n + c * pixels + p);
    }
  }
  return order;
}

// Arithmetic loops, the innermost first, that produce the sequence; nullopt where there are none.
std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>> loops_of(std::vector<std::int64_t> sequence) {
  std::vector<std::pair<std::int64_t, std::int64_t>> loops;
  while (sequence.size() > 1) {
    const std::size_t n = sequence.size();
    const std::int64_t step = sequence[1] - sequence[0];
    std::size_t run = 2;
    while (run < n && sequence[run] - sequence[run - 1] == step) ++run;
    while (n % run != 0) --run;
    if (run == 1 || loops.size() + 1 == kernels::kMoveLoops) return std::nullopt;
    std::vector<std::int64_t> heads;
    for (std::size_t i = 0; i < n; i += run) {
      heads.push_back(sequence[i]);
      for (std::size_t k = 1; k < run; ++k) {
        if (sequence[i + k] - sequence[i + k - 1] != step) return std::nullopt;
      }
    }
    loops.emplace_back(static_cast<std::int64_t>(run), step);
    sequence = std::move(heads);
  }
  return loops;
}

class Planner {
 public:
  explicit Planner(const Site& site) : site_(site), data_(data_inputs(site.node)) {}

  Offer run() {
    for (std::size_t k = 0; k < site_.node.inputs.size(); ++k) {
      const ir::ValueId id = site_.node.inputs[k];
      const bool moved = std::find(data_.begin(), data_.end(), k) != data_.end();
      if (!moved && id.present() && site_.constant(id) == nullptr) return refuse("moves elements by computed numbers");
    }
    const DType type = site_.dtype(site_.node.inputs[data_[0]]);
    if (storage_size(type) == 0 || storage_size(type) > 8) return refuse("moves elements of another size");
    for (const ir::ValueId id : site_.node.outputs) {
      if (id.present() && element_count(site_.shape(id)) > (std::size_t{1} << 26)) return refuse("moves a huge tensor");
    }
    if (site_.node.op_type == "Concat") return concat(type);
    folded_ = foldable_channels();
    try {
      trace();
    } catch (const Error& e) {
      return refuse(e.what());
    }
    // The layout that leaves the longest runs; channels last where it makes no difference to speak of.
    std::unique_ptr<MoveKernel> best;
    std::size_t least = SIZE_MAX;
    Layout chosen = Layout::plain;
    for (const Layout layout : {Layout::channels_last, Layout::plain}) {
      if (layout == Layout::channels_last && !all_have_channels()) continue;
      if (layout == Layout::plain && folded_ > 1) continue;
      std::size_t cost = 0;
      auto kernel = try_layout(layout, cost);
      if (cost < least) {
        least = cost;
        best = std::move(kernel);
        chosen = layout;
      }
    }
    std::unique_ptr<Kernel> made;
    const bool same = best->outputs.size() == 1 && data_.size() == 1 && best->outputs[0].nests.size() == 1 &&
                      best->outputs[0].zeros.empty() && is_view(best->outputs[0].nests[0], best->outputs[0].size);
    if (same && data_[0] == 0) {
      made = std::make_unique<ViewOfMemory>();
      made->alias = true;
      made->note = "the same memory";
    } else {
      best->element = storage_size(type);
      best->zero = type == DType::int8 ? 0x80 : 0;
      made = std::move(best);
    }
    return finished(std::move(made), chosen, type);
  }

 private:
  Offer finished(std::unique_ptr<Kernel> made, Layout chosen, DType type) const {
    made->in_forms.resize(site_.node.inputs.size());
    for (const std::size_t k : data_) made->in_forms[k] = {in_layout(k), type == DType::int8};
    made->out_form = {chosen, type == DType::int8};
    return {std::move(made), ""};
  }

  // Parts one behind the other along an axis: no need to ask the operator.
  Offer concat(DType type) {
    const Shape& out = site_.shape(site_.node.outputs[0]);
    const auto rank = out.size();
    std::size_t last = 0;
    for (const ir::ValueId id : site_.node.inputs) last += site_.layout(id) == Layout::channels_last ? 1 : 0;
    common_ = rank == 4 && 2 * last >= site_.node.inputs.size() && last > 0 ? Layout::channels_last : Layout::plain;
    const auto axis =
        ops::normalize_axis(ops::NodeReader(site_.graph, site_.node), ir::int_attribute(site_.node, "axis", 0), rank);
    std::vector<std::size_t> order(rank);
    for (std::size_t k = 0; k < rank; ++k) order[k] = k;
    if (*common_ == Layout::channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    bool behind = false;
    for (const std::size_t k : order) {
      behind = behind || k == axis;
      (behind ? inner : outer) *= k == axis ? 1 : out[k];
    }
    auto kernel = std::make_unique<MoveKernel>();
    kernel->element = storage_size(type);
    kernel->outputs.emplace_back();
    MovedOutput& o = kernel->outputs.back();
    o.size = elements(out);
    std::int64_t at = 0;
    for (const std::size_t k : data_) {
      const std::int64_t run = site_.shape(site_.node.inputs[k])[axis] * inner;
      MoveNest nest;
      nest.source = k;
      nest.to = at;
      nest.loops = 2;
      nest.loop[0] = {run, 1, 1};
      nest.loop[1] = {outer, run, out[axis] * inner};
      if (run > 0) o.nests.push_back(nest);
      at += run;
    }
    return finished(std::move(kernel), *common_, type);
  }

  // How many channels a Resize that leaves them alone has, where they lie last: it then moves whole pixels.
  std::int64_t foldable_channels() const {
    const ir::Node& node = site_.node;
    if (node.op_type != "Resize" || node.version < 11 || site_.layout(node.inputs[0]) != Layout::channels_last)
      return 1;
    const Shape& in = site_.shape(node.inputs[0]);
    const Tensor* scales =
        node.inputs.size() > 2 && node.inputs[2].present() ? site_.constant(node.inputs[2]) : nullptr;
    if (in.size() != 4 || node.attributes.contains("axes") || scales == nullptr || scales->size() != 4 ||
        in[1] != site_.shape(node.outputs[0])[1]) {
      return 1;
    }
    return reinterpret_cast<const float*>(scales->data())[1] == 1.0F ? in[1] : 1;
  }

  // A shape as the trace sees it.
  Shape traced(Shape shape) const {
    if (folded_ > 1) shape[1] = 1;
    return shape;
  }

  static bool is_view(const MoveNest& nest, std::int64_t size) {
    return nest.from == 0 && nest.to == 0 &&
           (size == 1 ||
            (nest.loops == 1 && nest.loop[0].from == 1 && nest.loop[0].to == 1 && nest.loop[0].length == size));
  }

  bool all_have_channels() const {
    return std::all_of(site_.node.outputs.begin(), site_.node.outputs.end(),
                       [&](ir::ValueId id) { return !id.present() || site_.shape(id).size() == 4; });
  }

  // Concat takes its parts as most of them are; all else as it is.
  Layout in_layout(std::size_t k) const {
    const ir::ValueId id = site_.node.inputs[k];
    if (site_.shape(id).size() < 3) return Layout::plain;
    if (common_) return *common_;
    if (data_.size() == 1 || site_.constant(id) == nullptr) return site_.layout(id);
    return Layout::plain;
  }

  // Runs the operator on the numbers 1 ... n of its elements.
  void trace() {
    ir::Graph g;
    g.opsets = site_.graph.opsets;
    ir::Node node = site_.node;
    std::vector<Tensor> inputs;
    std::int64_t next = 1;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      ir::ValueId& id = node.inputs[k];
      if (!id.present()) continue;
      const ir::Value& v = site_.graph.value(id);
      const bool moved = std::find(data_.begin(), data_.end(), k) != data_.end();
      const Tensor* constant = site_.constant(id);
      id = {static_cast<std::uint32_t>(g.values.size())};
      const Shape shape = moved ? traced(*v.shape) : *v.shape;
      g.values.push_back({v.name + "_" + std::to_string(k), moved ? DType::int64 : v.dtype, shape, {}});
      if (!moved) {
        g.initializers.emplace(id, *constant);
        continue;
      }
      std::vector<std::int64_t> numbers(element_count(shape));
      first_.push_back(next);
      for (auto& n : numbers) n = next++;
      g.inputs.push_back(id);
      inputs.push_back(ops::make_integers(DType::int64, shape, numbers));
    }
    first_.push_back(next);
    for (ir::ValueId& id : node.outputs) {
      if (!id.present()) continue;
      g.values.push_back({site_.graph.value(id).name + "_moved", DType::int64, std::nullopt, {}});
      id = {static_cast<std::uint32_t>(g.values.size() - 1)};
      g.outputs.push_back(id);
    }
    g.nodes.push_back(std::move(node));
    const ops::Facts facts = ops::validate(g);
    results_ = interpreter::run(g, facts, inputs, {});
  }

  std::unique_ptr<MoveKernel> try_layout(Layout layout, std::size_t& cost) {
    // Storage place of each element of each input.
    std::vector<std::vector<std::uint32_t>> place;
    for (const std::size_t k : data_) {
      const auto order = stored_order(traced(site_.shape(site_.node.inputs[k])), in_layout(k));
      place.emplace_back(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) place.back()[order[i]] = static_cast<std::uint32_t>(i);
    }
    auto kernel = std::make_unique<MoveKernel>();
    std::size_t result = 0;
    for (const ir::ValueId id : site_.node.outputs) {
      kernel->outputs.emplace_back();
      if (!id.present()) continue;
      MovedOutput& o = kernel->outputs.back();
      const auto order = stored_order(traced(site_.shape(id)), layout);
      const Tensor& moved = results_[result++];
      const auto* numbers = reinterpret_cast<const std::int64_t*>(moved.data());
      o.size = static_cast<std::int64_t>(order.size());
      std::vector<std::vector<std::int64_t>> from(data_.size());
      std::vector<std::vector<std::int64_t>> to(data_.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const std::int64_t n = numbers[order[i]];
        if (n == 0) {
          o.zeros.push_back(static_cast<std::uint32_t>(i));
          continue;
        }
        const auto s = static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), n) - first_.begin()) - 1;
        from[s].push_back(place[s][static_cast<std::size_t>(n - first_[s])]);
        to[s].push_back(static_cast<std::int64_t>(i));
      }
      cost += o.zeros.size();
      for (std::size_t s = 0; s < data_.size(); ++s) add_source(o, s, from[s], to[s], cost);
      if (folded_ > 1) unfold(o);
    }
    return kernel;
  }

  // Whole pixels where the trace had one element.
  void unfold(MovedOutput& o) const {
    for (std::size_t i = 0; i < o.index.size(); ++i) {  // no loops: a copy for each pixel
      MoveNest nest;
      nest.source = o.source;
      nest.from = o.index[i];
      nest.to = static_cast<std::int64_t>(i);
      o.nests.push_back(nest);
    }
    o.index.clear();
    o.size *= folded_;
    for (MoveNest& nest : o.nests) {
      nest.from *= folded_;
      nest.to *= folded_;
      for (std::size_t k = nest.loops; k > 0; --k) {
        const MoveLoop& l = nest.loop[k - 1];
        nest.loop[k] = {l.length, l.from * folded_, l.to * folded_};
      }
      nest.loop[0] = {folded_, 1, 1};
      ++nest.loops;
    }
  }

  void add_source(MovedOutput& o, std::size_t s, const std::vector<std::int64_t>& from,
                  const std::vector<std::int64_t>& to, std::size_t& cost) const {
    if (from.empty()) return;
    if (auto nest = nest_of(from, to)) {
      nest->source = data_[s];
      const bool long_run = nest->loops == 0 || (nest->loop[0].from == 1 && nest->loop[0].to == 1);
      cost += 1 + (long_run ? from.size() / static_cast<std::size_t>(std::max<std::int64_t>(nest->loop[0].length, 1))
                            : from.size());
      o.nests.push_back(*nest);
      return;
    }
    cost += 2 * from.size();
    if (static_cast<std::int64_t>(from.size()) == o.size) {
      o.source = data_[s];
      o.index.assign(from.begin(), from.end());
      return;
    }
    // Runs: one nest each.
    for (std::size_t i = 0; i < from.size();) {
      std::size_t run = 1;
      while (i + run < from.size() && from[i + run] - from[i] == static_cast<std::int64_t>(run) &&
             to[i + run] - to[i] == static_cast<std::int64_t>(run)) {
        ++run;
      }
      MoveNest nest;
      nest.source = data_[s];
      nest.from = from[i];
      nest.to = to[i];
      nest.loops = 1;
      nest.loop[0] = {static_cast<std::int64_t>(run), 1, 1};
      o.nests.push_back(nest);
      i += run;
    }
  }

  // Both sequences as one nest of loops.
  static std::optional<MoveNest> nest_of(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
    const auto a = loops_of(from);
    const auto b = loops_of(to);
    if (!a || !b) return std::nullopt;
    MoveNest nest;
    nest.from = from[0];
    nest.to = to[0];
    // Split the loops so that both sequences have the same lengths.
    std::size_t i = 0;
    std::size_t j = 0;
    MoveLoop rest_a{1, 0, 0};
    MoveLoop rest_b{1, 0, 0};
    for (;;) {
      if (rest_a.length == 1 && i < a->size()) {
        rest_a = {(*a)[i].first, (*a)[i].second, 0};
        ++i;
      }
      if (rest_b.length == 1 && j < b->size()) {
        rest_b = {(*b)[j].first, 0, (*b)[j].second};
        ++j;
      }
      if (rest_a.length == 1 && rest_b.length == 1) return nest;
      const std::int64_t length = std::min(rest_a.length, rest_b.length);
      if (rest_a.length % length != 0 || rest_b.length % length != 0 || nest.loops + 1 == kernels::kMoveLoops) {
        return std::nullopt;
      }
      nest.loop[nest.loops++] = {length, rest_a.from, rest_b.to};
      rest_a = {rest_a.length / length, rest_a.from * length, 0};
      rest_b = {rest_b.length / length, 0, rest_b.to * length};
    }
  }

  const Site& site_;
  std::vector<std::size_t> data_;
  std::vector<std::int64_t> first_;  // number of each data input's first element; the end
  std::vector<Tensor> results_;
  std::int64_t folded_ = 1;
  std::optional<Layout> common_;  // of all parts of a Concat
};

}  // namespace

Offer make_move(const Site& site) {
  static const std::set<std::string> moves{"Transpose",    "Concat",         "Slice", "Gather",  "Pad",
                                           "Where",        "Expand",         "Tile",  "Resize",  "DepthToSpace",
                                           "SpaceToDepth", "GatherElements", "Split", "GatherND"};
  const ir::Node& node = site.node;
  if (!node.domain.empty() || node.body || !moves.contains(node.op_type)) return refuse("is no data movement");
  if (node.op_type == "Resize") {
    const ops::NodeReader reader(site.graph, node);
    if (reader.get_string("mode", "nearest") != "nearest" ||
        reader.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
      return refuse("interpolates");
    }
  }
  for (const ir::ValueId id : node.outputs) {
    if (id.present() && element_count(site.shape(id)) == 0) return refuse("has an empty result");
  }
  return Planner(site).run();
}

}  // namespace halfeven::plan
