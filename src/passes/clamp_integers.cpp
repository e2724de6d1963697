// clamp-integers: Relu and Clip in front of QuantizeLinear become a Clip of the integers, which goes where the
// quantization saturates there anyway.
//
// QuantizeLinear is monotone and reads Relu's and Clip's input unrounded (contract section 1, rule 4), so
// Q(min(max(u, lo), hi)) = min(max(Q(u), Q(lo)), Q(hi)). The bounds are found by quantizing lo and hi exactly: no
// epsilon.
#include <cmath>
#include <limits>

#include "numerics/format.hpp"
#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "clamp-integers";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Bounds {
  double low = -kInfinity;
  double high = kInfinity;
};

// A bound given as input k; nullopt if it is no known constant.
std::optional<double> bound(const Editor& e, const ir::Node& node, std::size_t k, double otherwise) {
  if (node.inputs.size() <= k || !node.inputs[k].present()) return otherwise;
  const Tensor* t = e.constant(node.inputs[k]);
  if (t == nullptr || t->size() != 1 || !is_float(t->dtype())) return std::nullopt;
  return numerics::decode_float(t->dtype(), t->data(), 0);
}

std::optional<Bounds> bounds_of(const Editor& e, const ir::Node& node) {
  if (node.op_type == "Relu") return Bounds{0, kInfinity};
  if (node.version < 11) {
    const auto attribute = [&](const char* name, double otherwise) {
      const auto at = node.attributes.find(name);
      return at == node.attributes.end() ? otherwise : static_cast<double>(std::get<float>(at->second));
    };
    return Bounds{attribute("min", -kInfinity), attribute("max", kInfinity)};
  }
  const auto low = bound(e, node, 1, -kInfinity);
  const auto high = bound(e, node, 2, kInfinity);
  if (!low || !high || std::isnan(*low) || std::isnan(*high)) return std::nullopt;
  return Bounds{*low, *high};
}

Rewrite rewrite(const ir::Graph& graph) {
  Editor e(graph);
  Rewrite out;
  std::vector<Finding> refusals;
  const auto clips = [&](ir::ValueId id) {
    const auto p = e.producer(id);
    return p && e.node(*p).domain.empty() && (e.node(*p).op_type == "Relu" || e.node(*p).op_type == "Clip")
               ? p
               : std::nullopt;
  };
  // From the last clip to the first: a chain of them is undone one by one.
  for (std::size_t n = e.node_count(); n-- > 0;) {
    if (!e.alive(n) || !is_quantize(e.node(n))) continue;
    while (const auto c = clips(e.node(n).inputs[0])) {
      const ir::Node clip = e.node(*c);
      const auto refuse = [&](const std::string& why, const std::string& advice) {
        refusals.push_back({kName, ir::label(graph, clip), false, why, advice});
      };
      const auto p = parameters_of(e, n);
      const auto bounds = bounds_of(e, clip);
      if (!p || !bounds) {
        refuse("bounds or quantisation parameters are not known constants", "make them initializers");
        break;
      }
      if (!e.only_reader(clip.outputs[0])) {
        refuse("its float result is read elsewhere, too", "");
        break;
      }
      if (!p->per_tensor() || !p->ascending()) {
        refuse("is quantized per axis or with a negative scale", "quantize activations per tensor");
        break;
      }
      if (graph.opsets.contains("") && graph.opsets.at("") < 12) {
        refuse("Clip of integers needs opset 12", "convert the model to a later opset");
        break;
      }
      const std::int64_t low = quantize_value(*p, bounds->low);
      const std::int64_t high = quantize_value(*p, bounds->high);
      const bool idle = low == integer_min(p->type) && high == integer_max(p->type);
      const ir::ValueId result = e.node(n).outputs[0];
      if (!idle) {
        const ir::ValueId unclipped = e.add_value(graph.value(e.node(n).inputs[0]).name + "_unclipped", p->type);
        e.set_output(n, 0, unclipped);
        e.add_node(e.make_node("Clip",
                               {unclipped, e.add_constant("clip_low", scalar(p->type, low)),
                                e.add_constant("clip_high", scalar(p->type, high))},
                               {result}, clip.name.empty() ? "" : clip.name + "_integer"));
      }
      e.set_input(n, 0, clip.inputs[0]);
      e.remove_node(*c);
      out.findings.push_back({kName, ir::label(graph, clip), true,
                              idle ? "the quantization saturates there: removed"
                                   : "clips integers to [" + std::to_string(low) + ", " + std::to_string(high) + "]",
                              ""});
    }
  }
  out.findings.insert(out.findings.end(), refusals.begin(), refusals.end());
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass clamp_integers_pass() {
  return {kName,
          "Relu and Clip become integer bounds, or nothing where the quantization saturates",
          {"canonicalize-qdq"},
          rewrite};
}

}  // namespace halfeven::passes
