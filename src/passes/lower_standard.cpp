// lower-standard: groups that standard ONNX operators can say become these: QLinearConv and QLinearMatMul.
//
// QLinearConv's bias is in units of x_scale * w_scale, exactly. A bias whose scale is that product rounded to float32,
// as quantizers store it, is another number: such a group stays what it is.
#include <algorithm>

#include "numerics/format.hpp"
#include "numerics/rational.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "lower-standard";

// The body's DequantizeLinear at an input of the chief operator, as outer values.
struct Operand {
  ir::ValueId tensor;
  ir::ValueId scale;
  ir::ValueId zero;
};

class Lower {
 public:
  explicit Lower(const ir::Graph& graph) : e_(graph) {}

  Rewrite run(const ir::Graph& graph) {
    const std::size_t count = e_.node_count();
    for (std::size_t n = 0; n < count; ++n) {
      const ir::Node& node = e_.node(n);
      if (!node.body || (node.op_type != "QConv" && node.op_type != "QMatMul")) continue;
      const std::string where = ir::label(graph, node);
      const std::string op_type = node.op_type;
      const std::string why = lower(n);
      if (why.empty()) {
        out_.findings.push_back({kName, where, true, op_type == "QConv" ? "QLinearConv" : "QLinearMatMul", ""});
      } else {
        out_.findings.push_back({kName, where, false, why, advice_});
      }
    }
    out_.changes = e_.changes();
    out_.graph = out_.changes > 0 ? e_.finish() : graph;
    return std::move(out_);
  }

 private:
  // An empty string if it was done, else why not.
  std::string lower(std::size_t n) {
    advice_.clear();
    const auto opset = e_.graph().opsets.find("");
    if (opset == e_.graph().opsets.end() || opset->second < 10) {
      advice_ = "convert the model to a later opset";
      return "QLinearConv and QLinearMatMul need opset 10";
    }
    const ir::Node group = e_.node(n);
    const ir::Graph& body = *group.body;
    const ir::Node* chief = nullptr;
    const ir::Node* quantize = nullptr;
    for (const ir::Node& node : body.nodes) {
      if (is_dequantize(node)) continue;
      if (is_quantize(node)) {
        quantize = &node;
      } else if (chief == nullptr && "Q" + node.op_type == group.op_type) {
        chief = &node;
      } else {
        return node.op_type + " belongs to the group, and no standard operator has it";
      }
    }
    if (chief == nullptr || quantize == nullptr) return "its result is not quantized";
    if (quantize->inputs[0] != chief->outputs[0]) return "its result is not quantized at once";
    const auto x = operand(group, chief->inputs[0]);
    const auto w = operand(group, chief->inputs[1]);
    if (!x || !w) return "an operand is no dequantized tensor";
    for (const ir::ValueId id : {x->tensor, w->tensor, group.outputs[0]}) {
      if (bits(e_.graph().value(id).dtype) != 8) return "it has other than 8-bit tensors";
    }
    if (e_.graph().value(x->tensor).dtype != e_.graph().value(group.outputs[0]).dtype) {
      advice_ = "quantize activation and result to the same type";
      return "its activation and its result differ in signedness, which ONNX allows and runtimes lack";
    }
    const std::size_t scales = e_.constant(x->scale)->size();
    if (scales != 1) return "its activation is quantized per axis";
    const Tensor* y_scale = e_.constant(outer(group, quantize->inputs[1]));
    if (y_scale == nullptr || y_scale->size() != 1) return "its result is quantized per axis";
    for (const ir::ValueId id : {x->scale, w->scale, outer(group, quantize->inputs[1])}) {
      if (e_.graph().value(id).dtype != DType::float32) return "its scales are not float32";
    }
    const bool conv = chief->op_type == "Conv";
    if (!weight_axis(body, chief->inputs[1], *w, conv)) {
      return conv ? "its weights are not quantized per tensor or per output channel"
                  : "its second operand is not quantized per tensor";
    }
    ir::ValueId bias;
    if (conv && chief->inputs.size() > 2 && chief->inputs[2].present()) {
      const auto b = operand(group, chief->inputs[2]);
      if (!b || e_.graph().value(b->tensor).dtype != DType::int32) return "its bias is a float tensor";
      if (!exact_bias(*x, *w, *b)) {
        advice_ = "store the bias with a scale that is exactly x_scale * w_scale (powers of two do)";
        return "its bias scale is not exactly x_scale * w_scale";
      }
      bias = b->tensor;
    }
    ir::Node node = e_.make_node(conv ? "QLinearConv" : "QLinearMatMul", {}, group.outputs, group.name);
    node.attributes = chief->attributes;
    const auto zero = [&](ir::ValueId given, ir::ValueId tensor, ir::ValueId scale) {
      if (given.present()) return given;
      const Tensor& s = *e_.constant(scale);
      return e_.add_constant("zero_point", zeros(e_.graph().value(tensor).dtype, s.shape()));
    };
    const ir::ValueId ys = outer(group, quantize->inputs[1]);
    const ir::ValueId yz = quantize->inputs.size() > 2 ? outer(group, quantize->inputs[2]) : ir::ValueId{};
    node.inputs = {x->tensor,
                   x->scale,
                   zero(x->zero, x->tensor, x->scale),
                   w->tensor,
                   w->scale,
                   zero(w->zero, w->tensor, w->scale),
                   ys,
                   zero(yz, group.outputs[0], ys)};
    if (bias.present()) node.inputs.push_back(bias);
    e_.remove_node(n);
    e_.add_node(std::move(node));
    return "";
  }

  static Tensor zeros(DType type, const Shape& shape) {
    return Tensor::own(type, shape, std::vector<std::byte>(element_count(shape)));
  }

  static ir::ValueId outer(const ir::Node& group, ir::ValueId inner) {
    for (std::size_t k = 0; k < group.inputs.size(); ++k) {
      if (group.body->inputs[k] == inner) return group.inputs[k];
    }
    return {};
  }

  std::optional<Operand> operand(const ir::Node& group, ir::ValueId inner) const {
    for (const ir::Node& node : group.body->nodes) {
      if (!is_dequantize(node) || node.outputs[0] != inner) continue;
      Operand o{outer(group, node.inputs[0]), outer(group, node.inputs[1]),
                node.inputs.size() > 2 ? outer(group, node.inputs[2]) : ir::ValueId{}};
      const bool blocked = ir::int_attribute(node, "block_size", 0) != 0;
      if (o.tensor.present() && e_.constant(o.scale) != nullptr && !blocked) return o;
    }
    return std::nullopt;
  }

  bool weight_axis(const ir::Graph& body, ir::ValueId inner, const Operand& w, bool conv) const {
    if (e_.constant(w.scale)->size() == 1) return true;
    if (!conv || e_.constant(w.scale)->rank() != 1) return false;
    const auto& shape = e_.graph().value(w.tensor).shape;
    for (const ir::Node& node : body.nodes) {
      if (!is_dequantize(node) || node.outputs[0] != inner) continue;
      const std::int64_t axis = ir::int_attribute(node, "axis", 1);
      return axis == 0 || (shape && axis == -static_cast<std::int64_t>(shape->size()));
    }
    return false;
  }

  static numerics::Rational value(const Tensor& t, std::size_t i) {
    return numerics::Rational::from_double(numerics::decode_float(t.dtype(), t.data(), t.size() == 1 ? 0 : i));
  }

  // Scale x_scale * w_scale for every channel, as rationals, and no zero point.
  bool exact_bias(const Operand& x, const Operand& w, const Operand& b) const {
    const Tensor& xs = *e_.constant(x.scale);
    const Tensor& ws = *e_.constant(w.scale);
    const Tensor& bs = *e_.constant(b.scale);
    if (b.zero.present()) {
      const Tensor* z = e_.constant(b.zero);
      if (z == nullptr) return false;
      for (const std::byte byte : z->bytes()) {
        if (byte != std::byte{0}) return false;
      }
    }
    if (ws.size() != 1 && bs.size() != 1 && ws.size() != bs.size()) return false;
    for (std::size_t i = 0; i < std::max(ws.size(), bs.size()); ++i) {
      if (!(value(xs, 0) * value(ws, i) == value(bs, i))) return false;
    }
    return true;
  }

  Editor e_;
  Rewrite out_;
  std::string advice_;
};

Rewrite rewrite(const ir::Graph& graph) { return Lower(graph).run(graph); }

}  // namespace

Pass lower_standard_pass() {
  return {kName, "groups that QLinearConv and QLinearMatMul can say become these", {"fuse-float-output"}, rewrite};
}

}  // namespace halfeven::passes
