// keep-order: operators that only compare work on the integers. Quantization with a positive scale keeps the order, one
// with a negative scale reverses it.
#include <set>

#include "passes/editor.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "keep-order";

class KeepOrder {
 public:
  explicit KeepOrder(const ir::Graph& graph) : e_(graph), opset_(graph.opsets.contains("") ? graph.opsets.at("") : 0) {}

  Rewrite run(const ir::Graph& graph) {
    for (std::size_t n = e_.node_count(); n-- > 0;) {
      if (!e_.alive(n) || !e_.node(n).domain.empty() || e_.node(n).body) continue;
      if (is_quantize(e_.node(n))) {
        for (auto q = quantize(n); q; q = quantize(*q)) {
        }
      } else {
        compare(n);
      }
    }
    out_.changes = e_.changes();
    out_.graph = out_.changes > 0 ? e_.finish() : graph;
    return std::move(out_);
  }

 private:
  void refuse(std::size_t n, const std::string& why, const std::string& advice = "") {
    out_.findings.push_back({kName, ir::label(e_.graph(), e_.node(n)), false, why, advice});
  }

  static bool is_reduction(const ir::Node& node) { return node.op_type == "ReduceMax" || node.op_type == "ReduceMin"; }

  // Q(max(u)) = max(Q(u)). Returns the QuantizeLinear in its new place.
  std::optional<std::size_t> quantize(std::size_t n) {
    const ir::ValueId value = e_.node(n).inputs[0];
    const auto m = e_.producer(value);
    if (!m || !e_.node(*m).domain.empty() || (e_.node(*m).op_type != "MaxPool" && !is_reduction(e_.node(*m)))) {
      return std::nullopt;
    }
    ir::Node node = e_.node(*m);
    const auto no = [&](std::size_t where, const std::string& why, const std::string& advice = "") {
      refuse(where, why, advice);
      return std::optional<std::size_t>();
    };
    const auto p = parameters_of(e_, n);
    if (!p) return std::nullopt;
    if (!e_.only_reader(value)) return no(*m, "its float result is read elsewhere, too");
    if (node.outputs.size() > 1 && node.outputs[1].present()) {
      return no(*m, "its indices are read: quantizing first could make ties of different values");
    }
    if (!p->per_tensor() || p->scales[0] == 0) return no(*m, "is quantized per axis", "quantize per tensor");
    if (opset_ < 12 || bits(p->type) != 8)
      return no(*m, "ONNX has this operator for 8-bit integers only, since opset 12");
    if (!never_nan(e_, node.inputs[0])) return no(*m, "may drop a NaN that the quantization would refuse");
    // MaxPool passes unrounded values on (rule 4); a reduction reads rounded ones.
    if (is_reduction(node) && !reads_as_is(e_, node.inputs[0])) {
      return no(*m, "reads a computed tensor, which it rounds to float first",
                "quantize the tensor in front of it, too");
    }
    if (!p->ascending()) {
      if (!is_reduction(node)) return no(*m, "has a negative output scale, and ONNX has no MinPool");
      node.op_type = node.op_type == "ReduceMax" ? "ReduceMin" : "ReduceMax";
    }
    ir::Node q = e_.node(n);
    const ir::ValueId result = q.outputs[0];
    q.inputs[0] = node.inputs[0];
    q.outputs[0] = e_.add_value(e_.graph().value(node.inputs[0]).name + "_quantized", p->type);
    node.inputs[0] = q.outputs[0];
    node.outputs[0] = result;
    out_.findings.push_back({kName, ir::label(e_.graph(), node), true, "compares integers", ""});
    e_.remove_node(n);
    e_.remove_node(*m);
    e_.add_node(std::move(node));
    return e_.add_node(std::move(q));
  }

  // ArgMax, ArgMin and comparisons of dequantized values.
  void compare(std::size_t n) {
    ir::Node node = e_.node(n);
    static const std::set<std::string_view> comparisons{"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"};
    const bool arg = node.op_type == "ArgMax" || node.op_type == "ArgMin";
    if (!arg && !comparisons.contains(node.op_type)) return;
    std::vector<Parameters> all;
    for (std::size_t k = 0; k < (arg ? std::size_t{1} : std::size_t{2}); ++k) {
      const auto d = dequantize_at(e_, node.inputs[k]);
      const auto p = d ? parameters_of(e_, *d) : std::nullopt;
      if (!p || !p->per_tensor() || p->scales[0] == 0 || bits(p->type) != 8) return;
      all.push_back(*p);
      node.inputs[k] = e_.node(*d).inputs[0];
    }
    if (!arg && all[0] != all[1]) return refuse(n, "compares tensors of different quantisation parameters");
    if (opset_ < 13) return refuse(n, "ONNX has this operator for integers since opset 13");
    if (!all[0].ascending()) {
      static const std::map<std::string, std::string> mirrored{{"ArgMax", "ArgMin"},
                                                               {"ArgMin", "ArgMax"},
                                                               {"Equal", "Equal"},
                                                               {"Greater", "Less"},
                                                               {"GreaterOrEqual", "LessOrEqual"},
                                                               {"Less", "Greater"},
                                                               {"LessOrEqual", "GreaterOrEqual"}};
      node.op_type = mirrored.at(node.op_type);
    }
    out_.findings.push_back({kName, ir::label(e_.graph(), node), true, "compares integers", ""});
    e_.remove_node(n);
    e_.add_node(std::move(node));
  }

  Editor e_;
  int opset_;
  Rewrite out_;
};

Rewrite rewrite(const ir::Graph& graph) { return KeepOrder(graph).run(graph); }

}  // namespace

Pass keep_order_pass() {
  return {kName, "MaxPool, ReduceMax, ArgMax and comparisons work on integers", {"canonicalize-qdq"}, rewrite};
}

}  // namespace halfeven::passes
