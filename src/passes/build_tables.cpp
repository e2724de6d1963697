// build-tables: a chain of elementwise operators between a DequantizeLinear and a QuantizeLinear is a function of 4- to
// 16-bit codes, so it becomes a table, computed by evaluating the chain for every code.
#include "interpreter/interpreter.hpp"
#include "ops/common.hpp"
#include "passes/pass.hpp"
#include "passes/qdq.hpp"
#include "passes/region.hpp"

namespace halfeven::passes {
namespace {

constexpr const char* kName = "build-tables";

bool is_table(const ir::Node& node) { return node.domain == "halfeven" && node.op_type == "Table" && !node.body; }

std::vector<std::int64_t> all_codes(DType type) {
  std::vector<std::int64_t> codes;
  for (std::int64_t q = integer_min(type); q <= integer_max(type); ++q) codes.push_back(q);
  return codes;
}

class BuildTables {
 public:
  explicit BuildTables(const ir::Graph& graph) : e_(graph) {}

  Rewrite run(const ir::Graph& graph) {
    const std::size_t count = e_.node_count();
    for (std::size_t n = count; n-- > 0;) {
      if (e_.alive(n)) chain(n);
    }
    for (bool again = true; again;) {
      again = false;
      for (std::size_t n = 0; n < e_.node_count(); ++n) {
        if (e_.alive(n)) again = compose(n) || again;
      }
    }
    out_.changes = e_.changes();
    out_.graph = out_.changes > 0 ? e_.finish() : graph;
    return std::move(out_);
  }

 private:
  void chain(std::size_t n) {
    const auto t = table_region(e_, n);
    if (!t) return;
    const ir::ValueId source = e_.node(t->source).inputs[0];
    const ir::ValueId result = e_.node(n).outputs[0];
    std::vector<ir::ValueId> inputs;
    ir::Graph body = body_of(e_, t->region, result, inputs);
    try {
      const Tensor table = evaluate(std::move(body), inputs, source);
      out_.findings.push_back({kName, ir::label(e_.graph(), e_.node(n)), true,
                               std::to_string(t->region.nodes.size()) + " nodes become a table of " +
                                   std::to_string(table.size()) + " entries",
                               ""});
      for (const std::size_t k : t->region.nodes) {
        if (!t->region.dequantizes.contains(k)) e_.remove_node(k);
      }
      add_table(source, table, result);
    } catch (const Error& error) {
      out_.findings.push_back({kName, ir::label(e_.graph(), e_.node(n)), false,
                               std::string("the chain has no answer for one of the codes: ") + error.what(), ""});
    }
  }

  // The chain's result for every code of the source.
  Tensor evaluate(ir::Graph body, const std::vector<ir::ValueId>& inputs, ir::ValueId source) const {
    const DType type = e_.graph().value(source).dtype;
    const auto codes = all_codes(type);
    const Shape shape{static_cast<std::int64_t>(codes.size())};
    ir::ValueId variable;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const ir::ValueId inner = body.inputs[k];
      if (inputs[k] == source) {
        variable = inner;
        body.value(inner).dtype = type;
        body.value(inner).shape = shape;
        continue;
      }
      // Single numbers lose dimensions of 1, which here could only be more than the table's one.
      const Tensor& constant = *e_.constant(inputs[k]);
      body.initializers.emplace(inner, constant.size() == 1 ? constant.reshaped({}) : constant);
    }
    body.inputs = {variable};
    const ops::Facts facts = ops::validate(body);
    return interpreter::run(body, facts, {ops::make_integers(type, shape, codes)}, {})[0];
  }

  void add_table(ir::ValueId source, const Tensor& table, ir::ValueId result) {
    const std::string& name = e_.graph().value(result).name;
    ir::Node node;
    node.domain = "halfeven";
    node.op_type = "Table";
    node.version = 1;
    node.name = name + "_table";
    node.inputs = {source, e_.add_constant(name + "_entries", table)};
    node.outputs = {result};
    e_.add_node(std::move(node));
  }

  // What follows a table that nothing else reads: another table or integer bounds go into it, data movement in front.
  bool compose(std::size_t n) {
    const ir::Node node = e_.node(n);
    if (node.inputs.empty() || node.outputs.size() != 1) return false;
    const auto t = e_.producer(node.inputs[0]);
    if (!t || !is_table(e_.node(*t)) || e_.only_reader(node.inputs[0]) != n) return false;
    const ir::Node inner = e_.node(*t);
    const Tensor* table = e_.constant(inner.inputs[1]);
    if (table == nullptr) return false;
    if (is_table(node) || (node.domain.empty() && node.op_type == "Clip" && !node.body)) {
      std::vector<ops::Data> inputs{*table};
      for (std::size_t k = 1; k < node.inputs.size(); ++k) {
        const Tensor* constant = e_.constant(node.inputs[k]);
        if (constant == nullptr && node.inputs[k].present()) return false;
        inputs.push_back(constant == nullptr ? ops::Data() : ops::Data(*constant));
      }
      const ops::Operator& op = ops::operator_of(e_.graph(), node);
      const ops::TypeShape type{e_.graph().value(node.outputs[0]).dtype, table->shape()};
      const auto values = op.evaluate(ops::EvalContext(e_.graph(), node, inputs, {type}, true, 1));
      e_.remove_node(n);
      e_.remove_node(*t);
      add_table(inner.inputs[0], values[0].tensor, node.outputs[0]);
      out_.findings.push_back({kName, ir::label(e_.graph(), node), true, node.op_type + " goes into the table", ""});
      return true;
    }
    if (!moves_data(node) || node.op_type == "Pad") return false;
    ir::Node moved = node;
    moved.inputs[0] = inner.inputs[0];
    moved.outputs[0] =
        e_.add_value(e_.graph().value(inner.inputs[0]).name + "_moved", e_.graph().value(inner.inputs[0]).dtype);
    const ir::ValueId source = moved.outputs[0];
    e_.remove_node(n);
    e_.remove_node(*t);
    e_.add_node(std::move(moved));
    ir::Node lookup = inner;
    lookup.inputs[0] = source;
    lookup.outputs[0] = node.outputs[0];
    e_.add_node(std::move(lookup));
    out_.findings.push_back({kName, ir::label(e_.graph(), node), true, "moves data in front of the table", ""});
    return true;
  }

  Editor e_;
  Rewrite out_;
};

Rewrite rewrite(const ir::Graph& graph) { return BuildTables(graph).run(graph); }

}  // namespace

Pass build_tables_pass() {
  return {kName,
          "unary chains between DequantizeLinear and QuantizeLinear become tables",
          {"fold-constants", "merge-duplicates", "canonicalize-qdq", "move-data", "keep-order", "clamp-integers"},
          rewrite};
}

}  // namespace halfeven::passes
