// Lowering, first step: operators that arrive fused become what they mean (contract section 8).
#include <algorithm>
#include <set>

#include "passes/qdq.hpp"
#include "plan/lower_steps.hpp"

namespace halfeven::plan {

using passes::Editor;

bool joins_groups(const ir::Node& node) {
  static const std::set<std::string> names{"Add",     "Sub",
                                           "Mul",     "Div",
                                           "Min",     "Max",
                                           "Relu",    "LeakyRelu",
                                           "PRelu",   "Clip",
                                           "Neg",     "Abs",
                                           "Sqrt",    "HardSigmoid",
                                           "Sigmoid", "HardSwish",
                                           "Tanh",    "Erf",
                                           "Exp",     "Elu",
                                           "Gelu",    "BatchNormalization"};
  return node.domain.empty() && !node.body && node.outputs.size() == 1 && names.contains(node.op_type);
}

bool is_pool(const ir::Node& node) {
  static const std::set<std::string> names{"GlobalAveragePool", "AveragePool", "ReduceMean"};
  return node.domain.empty() && !node.body && node.outputs.size() == 1 && names.contains(node.op_type);
}

namespace {

bool is_max(const ir::Node& node) {
  return node.domain.empty() && !node.body && (node.op_type == "MaxPool" || node.op_type == "GlobalMaxPool");
}

class WriteOut {
 public:
  explicit WriteOut(const ir::Graph& graph) : e_(graph) {}

  ir::Graph run() {
    const std::size_t count = e_.node_count();
    for (std::size_t n = 0; n < count; ++n) {
      if (!e_.alive(n)) continue;
      if (e_.node(n).body) {
        group(n);
      } else if (e_.node(n).domain == "com.microsoft") {
        microsoft(n);
      }
    }
    return e_.changes() > 0 ? e_.finish() : e_.graph();
  }

 private:
  void group(std::size_t n) {
    const auto body = e_.node(n).body;
    if (!body->initializers.empty()) return;
    for (const ir::Node& node : body->nodes) {
      const bool integer_clip = node.op_type == "Clip";
      if (!joins_groups(node) && !is_pool(node) && !is_max(node) && !passes::moves_data(node) && !integer_clip &&
          !passes::is_quantize(node) && !passes::is_dequantize(node)) {
        return;
      }
    }
    const ir::Node node = e_.node(n);
    std::vector<ir::ValueId> outer(body->values.size());
    std::vector<bool> known(body->values.size(), false);
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      outer[body->inputs[k].index] = node.inputs[k];
      known[body->inputs[k].index] = true;
    }
    e_.remove_node(n);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      outer[body->outputs[k].index] = node.outputs[k];
      known[body->outputs[k].index] = true;
    }
    for (ir::Node inner : body->nodes) {
      const auto move = [&](ir::ValueId& id) {
        if (!id.present()) return;
        if (!known[id.index]) {
          outer[id.index] = e_.add_value(body->value(id).name, DType::undefined);
          known[id.index] = true;
        }
        id = outer[id.index];
      };
      for (ir::ValueId& id : inner.inputs) move(id);
      for (ir::ValueId& id : inner.outputs) move(id);
      e_.add_node(std::move(inner));
    }
  }

  ir::ValueId dequantize(const ir::Node& node, std::size_t x) {
    const ir::ValueId y = e_.add_value(e_.graph().value(node.inputs[x]).name + "_real", DType::undefined);
    std::vector<ir::ValueId> inputs{node.inputs[x], node.inputs[x + 1]};
    if (x + 2 < node.inputs.size() && node.inputs[x + 2].present()) inputs.push_back(node.inputs[x + 2]);
    e_.add_node(e_.make_node("DequantizeLinear", inputs, {y}, node.name));
    return y;
  }

  // result = QuantizeLinear(y, inputs[scale], inputs[scale + 1]), or with the type of the result, without zero point.
  void quantize(const ir::Node& node, ir::ValueId y, std::size_t scale) {
    std::vector<ir::ValueId> inputs{y, node.inputs[scale]};
    if (scale + 1 < node.inputs.size() && node.inputs[scale + 1].present()) {
      inputs.push_back(node.inputs[scale + 1]);
    } else {
      const DType type = e_.graph().value(node.outputs[0]).dtype;
      inputs.push_back(e_.add_constant(node.name + "_zero", passes::scalar(type, 0)));
    }
    e_.add_node(e_.make_node("QuantizeLinear", inputs, node.outputs, node.name));
  }

  void microsoft(std::size_t n) {
    const ir::Node node = e_.node(n);
    const std::string& op = node.op_type;
    const auto known = [&](std::size_t i) { return i < node.inputs.size() && node.inputs[i].present(); };
    const auto float_scale = [&](std::size_t i) {
      return known(i) && e_.graph().value(node.inputs[i]).dtype == DType::float32;
    };
    const auto result = [&] {
      return e_.add_value(e_.graph().value(node.outputs[0]).name + "_real", DType::undefined);
    };
    const auto plain = [&](const char* type, std::vector<ir::ValueId> inputs,
                           std::map<std::string, ir::Attribute> attributes = {}) {
      const ir::ValueId y = result();
      ir::Node made = e_.make_node(type, std::move(inputs), {y}, node.name);
      made.attributes = std::move(attributes);
      e_.add_node(std::move(made));
      return y;
    };
    const auto with = [&](std::initializer_list<const char*> names) {
      std::map<std::string, ir::Attribute> out;
      for (const char* name : names) {
        if (const auto at = node.attributes.find(name); at != node.attributes.end()) out.insert(*at);
      }
      return out;
    };
    if ((op == "QLinearAdd" || op == "QLinearMul") && float_scale(1) && float_scale(4) && float_scale(6)) {
      e_.remove_node(n);
      quantize(node, plain(op == "QLinearAdd" ? "Add" : "Mul", {dequantize(node, 0), dequantize(node, 3)}), 6);
      return;
    }
    if (op == "QLinearConcat") {
      for (std::size_t i = 2; i < node.inputs.size(); i += 3) {
        if (!float_scale(i + 1)) return;
      }
      if (!float_scale(0)) return;
      e_.remove_node(n);
      std::vector<ir::ValueId> parts;
      for (std::size_t i = 2; i < node.inputs.size(); i += 3) parts.push_back(dequantize(node, i));
      quantize(node, plain("Concat", parts, with({"axis"})), 0);
      return;
    }
    if (!float_scale(1) || !float_scale(3)) return;
    const bool last = ir::int_attribute(node, "channels_last", 0) != 0;
    const char* type = nullptr;
    std::map<std::string, ir::Attribute> attributes;
    if (op == "QLinearGlobalAveragePool" && !last) {
      type = "GlobalAveragePool";
    } else if (op == "QLinearAveragePool" && !last) {
      type = "AveragePool";
      attributes = with({"kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad", "dilations"});
    } else if (op == "QLinearSigmoid") {
      type = "Sigmoid";
    } else if (op == "QLinearLeakyRelu") {
      type = "LeakyRelu";
      attributes = with({"alpha"});
    } else if (op == "QLinearSoftmax" && ir::int_attribute(node, "opset", 13) >= 13) {
      type = "Softmax";
      attributes = with({"axis"});
    }
    if (type == nullptr) return;
    e_.remove_node(n);
    quantize(node, plain(type, {dequantize(node, 0)}, attributes), 3);
  }

  Editor e_;
};

}  // namespace

ir::Graph write_out(const ir::Graph& graph) { return WriteOut(graph).run(); }

}  // namespace halfeven::plan
