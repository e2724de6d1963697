// fuse-float-output: convolutions and products of dequantized tensors whose result is not quantized. The group's result
// is a float tensor, rounded once; quantized weights with float activations count, too.
#include <set>

#include "passes/pass.hpp"
#include "passes/qdq.hpp"
#include "passes/region.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "fuse-float-output";

bool is_product(const ir::Node& node) {
  static const std::set<std::string_view> names{"Conv", "ConvTranspose", "MatMul", "Gemm"};
  return node.domain.empty() && !node.body && names.contains(node.op_type);
}

// An Add of a constant that alone reads the product: a bias.
std::optional<std::size_t> bias_behind(const Editor& e, std::size_t product) {
  const ir::ValueId result = e.node(product).outputs[0];
  const auto reader = e.only_reader(result);
  if (!reader || e.node(*reader).op_type != "Add" || e.node(*reader).body) return std::nullopt;
  const ir::Node& add = e.node(*reader);
  const ir::ValueId other = add.inputs[0] == result ? add.inputs[1] : add.inputs[0];
  const auto d = dequantize_at(e, other);
  const bool constant = e.constant(other) != nullptr || (d && e.constant(e.node(*d).inputs[0]) != nullptr);
  return constant ? reader : std::nullopt;
}

Rewrite rewrite(const ir::Graph& graph) {
  Editor e(graph);
  Rewrite out;
  const std::size_t count = e.node_count();
  for (std::size_t n = count; n-- > 0;) {
    if (!e.alive(n) || !is_product(e.node(n))) continue;
    const std::string where = ir::label(graph, e.node(n));
    const std::string op_type = e.node(n).op_type;
    std::vector<std::size_t> roots{n};
    const auto bias = bias_behind(e, n);
    if (bias) roots.push_back(*bias);
    const Region r = grow(e, roots, false);
    if (r.dequantizes.empty()) {
      out.findings.push_back({kName, where, false, op_type + " reads float tensors only",
                              "put QuantizeLinear and DequantizeLinear in front of it"});
      continue;
    }
    out.findings.push_back(
        {kName, where, true, "Q" + op_type + " with a float result" + (bias ? " and the bias behind it" : ""), ""});
    make_group(e, r, e.node(bias ? *bias : n).outputs[0], "Q" + op_type, where);
  }
  out.changes = e.changes();
  out.graph = out.changes > 0 ? e.finish() : graph;
  return out;
}

}  // namespace

Pass fuse_float_output_pass() {
  return {kName,
          "convolutions and products with quantized inputs and a float result",
          {"build-tables", "fuse-qdq"},
          rewrite};
}

}  // namespace halfeven::passes
