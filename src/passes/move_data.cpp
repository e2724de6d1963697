// move-data: operators that only move elements work on the integers.
//
// Two rewrites, by where the moved value goes. If it ends at a QuantizeLinear, that moves up in front of the movement:
// Q(M(u)) = M(Q(u)), since a movement passes u on unrounded (contract section 1, rule 4). Else a DequantizeLinear in
// front moves down behind it: M(DQ(q)) = DQ(M(q)).
#include <algorithm>
#include <set>

#include "ops/common.hpp"
#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "move-data";

// Operators that clamp-integers and keep-order move a QuantizeLinear in front of.
bool keeps_order(const ir::Node& node) {
  return node.domain.empty() && !node.body &&
         (node.op_type == "Relu" || node.op_type == "Clip" || node.op_type == "MaxPool");
}

bool joins(const ir::Node& node) {
  return node.domain.empty() && !node.body && (node.op_type == "Concat" || node.op_type == "Where");
}

// Pad's constant: nullopt if it is not known, or the mode brings none (then 0 is returned and not used).
std::optional<double> pad_value(const Editor& e, const ir::Node& node) {
  const auto mode = node.attributes.find("mode");
  if (mode != node.attributes.end()) {
    const auto* text = std::get_if<std::string>(&mode->second);
    if (text != nullptr && *text != "constant") return 0.0;
  }
  if (node.version < 11) return std::nullopt;  // the value is an attribute there
  if (node.inputs.size() < 3 || !node.inputs[2].present()) return 0.0;
  const Tensor* value = e.constant(node.inputs[2]);
  if (value == nullptr || !is_float(value->dtype()) || value->size() != 1) return std::nullopt;
  return numerics::decode_float(value->dtype(), value->data(), 0);
}

class MoveData {
 public:
  explicit MoveData(const ir::Graph& graph) : e_(graph) {}

  Rewrite run(const ir::Graph& graph) {
    for (bool again = true; again;) {
      again = false;
      refusals_.clear();
      // Downwards in order, upwards against it: a chain moves in one sweep.
      for (std::size_t n = e_.node_count(); n-- > 0;) {
        if (e_.alive(n) && is_quantize(e_.node(n))) again = up(n) || again;
      }
      for (std::size_t n = 0; n < e_.node_count(); ++n) {
        if (e_.alive(n) && (moves_data(e_.node(n)) || e_.node(n).op_type == "Split")) again = down(n) || again;
      }
    }
    out_.findings.insert(out_.findings.end(), refusals_.begin(), refusals_.end());
    out_.changes = e_.changes();
    out_.graph = out_.changes > 0 ? e_.finish() : graph;
    return std::move(out_);
  }

 private:
  void refuse(std::size_t n, const std::string& why, const std::string& advice = "") {
    refusals_.push_back({kName, ir::label(e_.graph(), e_.node(n)), false, why, advice});
  }
  void applied(std::size_t n, const std::string& text) {
    out_.findings.push_back({kName, ir::label(e_.graph(), e_.node(n)), true, text, ""});
  }

  // True if the value ends at a QuantizeLinear, through operators that it can move up through and that read it alone.
  bool leads_to_quantize(ir::ValueId id) const {
    for (int steps = 0; steps < 256; ++steps) {
      const auto reader = e_.only_reader(id);
      if (!reader) return false;
      const ir::Node& node = e_.node(*reader);
      if (is_quantize(node)) return parameters_of(e_, *reader).has_value() && node.inputs[0] == id;
      const bool data = joins(node) ? (node.op_type == "Concat" || node.inputs[0] != id) : node.inputs[0] == id;
      if ((!moves_data(node) && !joins(node) && !keeps_order(node)) || !data) return false;
      id = node.outputs[0];
    }
    return false;
  }

  // Q at n behind a movement or a join.
  bool up(std::size_t n) {
    const ir::ValueId value = e_.node(n).inputs[0];
    const auto m = e_.producer(value);
    if (!m || (!moves_data(e_.node(*m)) && !joins(e_.node(*m)))) return false;
    const auto p = parameters_of(e_, n);
    if (!p) return false;
    if (!e_.only_reader(value)) {
      refuse(*m, "its float result is read by more than one operator or is a graph output");
      return false;
    }
    if (!p->per_tensor()) {
      refuse(*m, "is quantized per axis, and the axis moves", "quantize per tensor behind data movement");
      return false;
    }
    const ir::Node& node = e_.node(*m);
    if (node.op_type == "Resize" && !reads_as_is(e_, node.inputs[0])) {
      refuse(*m, "reads a computed tensor, which it rounds to float first",
             "quantize the tensor in front of Resize, too");
      return false;
    }
    if (brings_nan(node)) {
      refuse(*m, "may drop a NaN that the quantization would refuse", "quantize the tensor in front of it");
      return false;
    }
    return joins(node) ? up_through_join(n, *m) : up_through_movement(n, *m, *p);
  }

  // A NaN that the operator drops, or a constant one that it joins.
  bool brings_nan(const ir::Node& node) const {
    const std::size_t first = node.op_type == "Where" ? 1 : 0;
    const std::size_t last = joins(node) ? node.inputs.size() : 1;
    for (std::size_t k = first; k < last; ++k) {
      const bool matters = may_drop_elements(node) || e_.constant(node.inputs[k]) != nullptr;
      if (matters && !never_nan(e_, node.inputs[k])) return true;
    }
    return false;
  }

  bool up_through_movement(std::size_t n, std::size_t m, const Parameters& p) {
    ir::Node node = e_.node(m);
    if (node.op_type == "Pad") {
      const auto value = pad_value(e_, node);
      if (!value || std::isnan(*value)) {
        refuse(m, "its padding value is not a known constant");
        return false;
      }
      set_pad_value(node, p, *value);
    }
    node.inputs[0] = quantized(n, node.inputs[0]);
    replace(n, m, std::move(node));
    return true;
  }

  bool up_through_join(std::size_t n, std::size_t m) {
    ir::Node node = e_.node(m);
    const std::size_t first = node.op_type == "Where" ? 1 : 0;
    for (std::size_t k = first; k < node.inputs.size(); ++k) node.inputs[k] = quantized(n, node.inputs[k]);
    replace(n, m, std::move(node));
    return true;
  }

  // A copy of QuantizeLinear n for `value`.
  ir::ValueId quantized(std::size_t n, ir::ValueId value) {
    ir::Node q = e_.node(n);
    q.inputs[0] = value;
    q.outputs[0] = e_.add_value(e_.graph().value(value).name + "_quantized", e_.graph().value(q.outputs[0]).dtype);
    if (!q.name.empty()) q.name += "_up";
    const ir::ValueId result = q.outputs[0];
    e_.add_node(std::move(q));
    return result;
  }

  // `node`, now on integers, takes over the result of QuantizeLinear n; n and m go.
  void replace(std::size_t n, std::size_t m, ir::Node node) {
    applied(m, "moves integers: QuantizeLinear goes in front of it");
    node.outputs[0] = e_.node(n).outputs[0];
    e_.remove_node(n);
    e_.remove_node(m);
    e_.add_node(std::move(node));
  }

  void set_pad_value(ir::Node& node, const Parameters& p, double value) {
    const auto mode = node.attributes.find("mode");
    if (mode != node.attributes.end() && std::get<std::string>(mode->second) != "constant") {
      if (node.inputs.size() > 2) node.inputs[2] = {};
      return;
    }
    node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
    node.inputs[2] = e_.add_constant("pad_value", scalar(p.type, quantize_value(p, value)));
  }

  // Movement or Split m behind a DequantizeLinear.
  bool down(std::size_t m) {
    const auto d = dequantize_at(e_, e_.node(m).inputs[0]);
    if (!d) return false;
    const auto p = parameters_of(e_, *d);
    if (!p) return false;
    ir::Node node = e_.node(m);
    if (node.outputs.size() == 1 && leads_to_quantize(node.outputs[0])) return false;  // up() deals with it
    if (node.op_type == "Resize") {
      // Not on rule 4's list: its float result is rounded, which a dequantized value is not.
      refuse(m, "gives a float tensor, which is rounded where it is not quantized again",
             "quantize the result of Resize");
      return false;
    }
    if (node.op_type == "Pad") {
      const auto value = pad_value(e_, node);
      if (!value || !p->per_tensor() || *value != 0) {
        refuse(m, "pads with a value that is not a known zero");
        return false;
      }
    }
    std::optional<std::int64_t> axis;
    if (!p->per_tensor()) {
      axis = moved_axis(node, *p);
      if (!axis) {
        refuse(m, "moves a tensor that is quantized per axis in a way that the axis does not survive",
               "apply it to the integers before DequantizeLinear, or quantize per tensor");
        return false;
      }
    }
    if (node.op_type == "Pad") {
      // The dequantized padding must be 0, not -0 or a rounded value: the zero point itself.
      node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
      const auto mode = node.attributes.find("mode");
      const bool constant = mode == node.attributes.end() || std::get<std::string>(mode->second) == "constant";
      node.inputs[2] = constant ? e_.add_constant("pad_value", scalar(p->type, p->zeros[0])) : ir::ValueId{};
    }
    const ir::Node dequantize = e_.node(*d);
    applied(m, "moves integers: DequantizeLinear goes behind it");
    const std::vector<ir::ValueId> results = node.outputs;
    node.inputs[0] = dequantize.inputs[0];
    for (ir::ValueId& id : node.outputs) {
      if (id.present()) id = e_.add_value(e_.graph().value(id).name + "_quantized", p->type);
    }
    e_.remove_node(m);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!results[k].present()) continue;
      ir::Node copy = dequantize;
      copy.inputs[0] = node.outputs[k];
      copy.outputs[0] = results[k];
      if (axis) copy.attributes["axis"] = *axis;
      if (!copy.name.empty()) copy.name += "_down" + (k > 0 ? std::to_string(k) : "");
      e_.add_node(std::move(copy));
    }
    e_.add_node(std::move(node));
    return true;
  }

  // Where the quantization axis is after the movement; nullopt if it is not whole there.
  std::optional<std::int64_t> moved_axis(const ir::Node& node, const Parameters& p) const {
    if (p.block != 0) return std::nullopt;
    const auto& from = e_.graph().value(node.inputs[0]).shape;
    const auto& to = e_.graph().value(node.outputs[0]).shape;
    if (!from || !to) return std::nullopt;
    if (node.op_type == "Transpose") {
      const auto at = node.attributes.find("perm");
      for (std::size_t k = 0; k < from->size(); ++k) {
        const std::int64_t source = at == node.attributes.end() ? static_cast<std::int64_t>(from->size() - 1 - k)
                                                                : std::get<std::vector<std::int64_t>>(at->second)[k];
        if (source == p.axis) return static_cast<std::int64_t>(k);
      }
      return std::nullopt;
    }
    static const std::set<std::string_view> views{"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
    if (!views.contains(node.op_type)) return std::nullopt;
    // A view keeps the axis if an axis of the same length has the same number of elements inside it.
    const auto known = [](const Shape& s) { return std::all_of(s.begin(), s.end(), [](auto d) { return d > 0; }); };
    if (!known(*from) || !known(*to)) return std::nullopt;
    const auto axis = static_cast<std::size_t>(p.axis);
    const std::size_t inner = ops::split_at(*from, axis).inner;
    for (std::size_t k = 0; k < to->size(); ++k) {
      if ((*to)[k] == (*from)[axis] && ops::split_at(*to, k).inner == inner) return static_cast<std::int64_t>(k);
    }
    return std::nullopt;
  }

  Editor e_;
  Rewrite out_;
  std::vector<Finding> refusals_;
};

Rewrite rewrite(const ir::Graph& graph) { return MoveData(graph).run(graph); }

}  // namespace

Pass move_data_pass() { return {kName, "data movement works on integers", {"canonicalize-qdq"}, rewrite}; }

}  // namespace halfeven::passes
