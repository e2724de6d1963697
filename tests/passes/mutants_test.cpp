// Wrong rewrites, on purpose: each does to a graph what a careless pass would, and the check of passes has to see it.
#include <cmath>
#include <functional>
#include <iostream>

#include <gtest/gtest.h>

#include "api/model_impl.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "passes/pass.hpp"
#include "support/files.hpp"
#include "verify/passes_check.hpp"

namespace halfeven::test {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

struct Mutant {
  const char* name;     // what the careless pass does
  const char* subject;  // a case
  const char* after;    // the passes that ran, rightly, before it
  void (*corrupt)(Graph&);
};

// --- small tools -----------------------------------------------------------------------------------------------------

Node& node_of(Graph& g, const std::string& op_type) {
  for (Node& n : g.nodes) {
    if (n.op_type == op_type) return n;
  }
  throw std::runtime_error("no node " + op_type);
}

// Changes the body of the first group of that kind.
void edit_body(Graph& g, const std::string& op_type, const std::function<void(Graph&)>& edit) {
  Node& group = node_of(g, op_type);
  Graph body = *group.body;
  edit(body);
  group.body = std::make_shared<const Graph>(std::move(body));
}

// The outer value that a group's body reads at input k of its node `op_type`.
ValueId outer(const Graph& g, const Node& group, const Node& inner, std::size_t k) {
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    if (group.body->inputs[i] == inner.inputs[k]) return group.inputs[i];
  }
  throw std::runtime_error("no such input of " + ir::describe(g, group));
}

// The DequantizeLinear in front of input k of the group's node `op_type`.
const Node& dequantize_of(const Node& group, const std::string& op_type, std::size_t k) {
  for (const Node& n : group.body->nodes) {
    if (n.op_type != op_type) continue;
    for (const Node& d : group.body->nodes) {
      if (d.outputs[0] == n.inputs[k]) return d;
    }
  }
  throw std::runtime_error("no dequantization at " + op_type);
}

void set_floats(Graph& g, ValueId id, const std::function<float(std::size_t, float)>& f) {
  const Tensor old = g.initializers.at(id);
  std::vector<float> values(old.values<float>().begin(), old.values<float>().end());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(i, values[i]);
  g.initializers[id] = Tensor::of<float>(old.dtype(), old.shape(), values);
}

void set_integers(Graph& g, ValueId id, const std::function<std::int64_t(std::size_t, std::int64_t)>& f) {
  const Tensor old = g.initializers.at(id);
  auto values = ops::integers(old);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(i, values[i]);
  g.initializers[id] = ops::make_integers(old.dtype(), old.shape(), values);
}

// Takes the operator out; who made its input makes its output.
void bypass(Graph& g, const std::string& op_type) {
  const Node gone = node_of(g, op_type);
  std::erase_if(g.nodes, [&](const Node& n) { return n.outputs == gone.outputs; });
  for (Node& n : g.nodes) {
    for (ValueId& id : n.outputs) {
      if (id == gone.inputs[0]) id = gone.outputs[0];
    }
  }
}

ValueId new_value(Graph& g, const std::string& name) {
  g.values.push_back({name + "_" + std::to_string(g.values.size()), DType::undefined, std::nullopt, {}});
  return {static_cast<std::uint32_t>(g.values.size() - 1)};
}

// A node of another operator in the same place.
Node like(const Node& node, const std::string& op_type, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node out = node;
  out.op_type = op_type;
  out.name.clear();
  out.attributes.clear();
  out.inputs = std::move(inputs);
  out.outputs = std::move(outputs);
  return out;
}

ValueId parameter(const Graph& g, const std::string& group, const std::string& chief, std::size_t operand,
                  std::size_t k) {
  for (const Node& n : g.nodes) {
    if (n.op_type == group) return outer(g, n, dequantize_of(n, chief, operand), k);
  }
  throw std::runtime_error("no group " + group);
}

// --- the mutants -----------------------------------------------------------------------------------------------------

const std::vector<Mutant> kMutants{
    {"drop the bias scale (read the bias in units of x_scale * w_scale)", "06-bias-scale-not-sx-sw", "fuse-qdq",
     [](Graph& g) {
       const float x = g.initializers.at(parameter(g, "QConv", "Conv", 0, 1)).values<float>()[0];
       const float w = g.initializers.at(parameter(g, "QConv", "Conv", 1, 1)).values<float>()[0];
       set_floats(g, parameter(g, "QConv", "Conv", 2, 1), [&](std::size_t, float) { return x * w; });
     }},
    {"drop the bias", "06-bias-scale-not-sx-sw", "fuse-qdq",
     [](Graph& g) { edit_body(g, "QConv", [](Graph& b) { node_of(b, "Conv").inputs.resize(2); }); }},
    {"drop the bias's zero point", "08-bias-nonzero-zero-point", "fuse-qdq",
     [](Graph& g) {
       set_integers(g, parameter(g, "QConv", "Conv", 2, 2), [](std::size_t, std::int64_t) { return 0; });
     }},
    {"round a float bias to the accumulator's grid", "09-float-bias-coarse-accumulator", "fuse-qdq",
     [](Graph& g) {
       for (auto& [id, t] : g.initializers) {
         if (t.dtype() == DType::float32 && t.size() == 2) {
           set_floats(g, id, [](std::size_t, float v) { return std::nearbyint(v / 0.25F) * 0.25F; });
         }
       }
     }},
    {"pad with raw 0 instead of the zero point", "10-s8-activation-zp-padding-dynamic-shape", "lower-standard",
     [](Graph& g) {
       // The integers are shifted by the zero point, padding then is 0, and the shift of the padding is forgotten.
       Node& conv = node_of(g, "QLinearConv");
       set_integers(g, conv.inputs[2], [](std::size_t, std::int64_t) { return 0; });
     }},
    {"multiply by the reciprocal instead of dividing", "seed-pass-order", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QDiv", [](Graph& b) {
         Node& div = node_of(b, "Div");
         b.values.push_back({"reciprocal", DType::undefined, std::nullopt, {}});
         const ValueId r{static_cast<std::uint32_t>(b.values.size() - 1)};
         Node reciprocal = div;
         reciprocal.op_type = "Reciprocal";
         reciprocal.inputs = {div.inputs[1]};
         reciprocal.outputs = {r};
         div.op_type = "Mul";
         div.inputs[1] = r;
         b.nodes.push_back(reciprocal);
         ir::sort_and_check(b);
       });
     }},
    {"write only the first element of a constant", "seed-pass-order", "fuse-qdq",
     [](Graph& g) {
       for (auto& [id, t] : g.initializers) {
         if (g.value(id).name == "mlist.1.data_q") {
           set_integers(g, id, [](std::size_t i, std::int64_t v) { return i == 0 ? v : 1; });
         }
       }
     }},
    {"drop a Clip because its bounds are close to the quantization's", "27-clip-not-foldable",
     "canonicalize-qdq,clamp-integers", [](Graph& g) { bypass(g, "Clip"); }},
    {"merge two QDQ pairs of different parameters", "51-double-qdq-different-scales", "canonicalize-qdq",
     [](Graph& g) {
       // The second pair reads the input directly.
       Node& second =
           *std::find_if(g.nodes.rbegin(), g.nodes.rend(), [](const Node& n) { return n.op_type == "QuantizeLinear"; });
       second.inputs[0] = g.inputs[0];
     }},
    {"clamp an intermediate result with the final parameters", "06-bias-scale-not-sx-sw", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QConv", [](Graph& b) {
         // The sum is cut off at 0 before the bias comes in, as a saturating accumulator does it.
         const Node conv = node_of(b, "Conv");
         const ValueId sum = new_value(b, "sum");
         const ValueId cut = new_value(b, "cut");
         const ValueId shape = new_value(b, "shape");
         const ValueId bias = new_value(b, "bias");
         node_of(b, "Conv").inputs.resize(2);
         node_of(b, "Conv").outputs = {sum};
         b.nodes.push_back(like(conv, "Relu", {sum}, {cut}));
         b.nodes.push_back(like(conv, "Constant", {}, {shape}));
         b.nodes.back().attributes["value_ints"] = std::vector<std::int64_t>{1, -1, 1, 1};
         b.nodes.push_back(like(conv, "Reshape", {conv.inputs[2], shape}, {bias}));
         b.nodes.push_back(like(conv, "Add", {cut, bias}, conv.outputs));
         ir::sort_and_check(b);
       });
     }},
    {"read the weight axis as 1 (convolution)", "03-perchannel-negative-axis", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QConv", [](Graph& b) {
         for (Node& n : b.nodes) {
           if (n.attributes.contains("axis")) n.attributes["axis"] = std::int64_t{1};
         }
       });
     }},
    {"read the weight axis as 0 (transposed convolution)", "15-convtranspose-perchannel-axis1", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QConvTranspose", [](Graph& b) {
         for (Node& n : b.nodes) {
           if (n.attributes.contains("axis")) n.attributes["axis"] = std::int64_t{0};
         }
       });
     }},
    {"forget transB", "16-gemm-transB-perchannel", "fuse-qdq",
     [](Graph& g) { edit_body(g, "QGemm", [](Graph& b) { node_of(b, "Gemm").attributes.erase("transB"); }); }},
    {"round ties the other way in a table", "21-concat-different-scales", "build-tables",
     [](Graph& g) {
       for (const Node& n : g.nodes) {
         // Ties between even and odd: an even entry that was a tie becomes odd.
         if (n.op_type == "Table") {
           set_integers(g, n.inputs[1],
                        [](std::size_t i, std::int64_t v) { return i % 2 == 1 && v > 0 && v < 255 ? v + 1 : v; });
         }
       }
     }},
    {"round after adding the zero point", "34-quantize-ties-odd-zero-point", "canonicalize-qdq",
     [](Graph& g) {
       // x / s + z rounded to even: the zero point moves into the quotient.
       for (Node& n : g.nodes) {
         if (n.op_type != "QuantizeLinear") continue;
         const float s = g.initializers.at(n.inputs[1]).values<float>()[0];
         const auto z = ops::integers(g.initializers.at(n.inputs[2]))[0];
         g.values.push_back({"shift", DType::float32, Shape{}, {}});
         const ValueId shift{static_cast<std::uint32_t>(g.values.size() - 1)};
         g.values.push_back({n.name + "_shifted", DType::undefined, std::nullopt, {}});
         const ValueId shifted{static_cast<std::uint32_t>(g.values.size() - 1)};
         const float value = s * static_cast<float>(z);
         g.initializers[shift] = Tensor::of<float>(DType::float32, {}, std::span(&value, 1));
         g.values.push_back({"no_zero", g.value(n.inputs[2]).dtype, Shape{}, {}});
         const ValueId zero{static_cast<std::uint32_t>(g.values.size() - 1)};
         const std::int64_t none = 0;
         g.initializers[zero] = ops::make_integers(g.value(n.inputs[2]).dtype, {}, std::span(&none, 1));
         Node add = n;
         add.op_type = "Add";
         add.name = "shift";
         add.attributes.clear();
         add.inputs = {n.inputs[0], shift};
         add.outputs = {shifted};
         n.inputs[0] = shifted;
         n.inputs[2] = zero;
         g.nodes.insert(g.nodes.begin(), add);
         break;
       }
     }},
    {"drop a Relu whose bound the quantization does not imply", "30-relu-zero-point-not-at-qmin",
     "canonicalize-qdq,clamp-integers", [](Graph& g) { bypass(g, "Clip"); }},
    {"clamp a Relu at raw 0 instead of the zero point", "30-relu-zero-point-not-at-qmin",
     "canonicalize-qdq,clamp-integers",
     [](Graph& g) { set_integers(g, node_of(g, "Clip").inputs[1], [](std::size_t, std::int64_t) { return 0; }); }},
    {"use the first channel's weight scale for all", "13-depthwise-perchannel", "fuse-qdq",
     [](Graph& g) {
       const ValueId id = parameter(g, "QConv", "Conv", 1, 1);
       const float first = g.initializers.at(id).values<float>()[0];
       set_floats(g, id, [&](std::size_t, float) { return first; });
     }},
    {"use the first channel's weight zero point for all", "53-conv-perchannel-weight-zero-points", "lower-standard",
     [](Graph& g) {
       const ValueId id = node_of(g, "QLinearConv").inputs[5];
       const auto first = ops::integers(g.initializers.at(id))[0];
       set_integers(g, id, [&](std::size_t, std::int64_t) { return first; });
     }},
    {"put SAME_UPPER's odd padding on the other side", "11-same-upper-asymmetric", "lower-standard",
     [](Graph& g) { node_of(g, "QLinearConv").attributes["auto_pad"] = std::string("SAME_LOWER"); }},
    {"forget count_include_pad", "22-avgpool-count-include-pad-1", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QAveragePool", [](Graph& b) { node_of(b, "AveragePool").attributes.erase("count_include_pad"); });
     }},
    {"concatenate integers of different scales as they are", "21-concat-different-scales", "build-tables",
     [](Graph& g) {
       Node& concat = node_of(g, "Concat");
       for (ValueId& id : concat.inputs) {
         for (const Node& n : g.nodes) {
           if (n.op_type == "Table" && n.outputs[0] == id) id = n.inputs[0];
         }
       }
     }},
    {"ignore a negative scale", "63-negative-scale", "lower-standard",
     [](Graph& g) {
       set_floats(g, node_of(g, "QLinearConv").inputs[1], [](std::size_t, float v) { return std::fabs(v); });
     }},
    {"forget the rounding between a convolution and its residual", "85-residual-rounds-in-between", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QConv", [](Graph& b) {
         // The group computes in float64, where the convolution of the case is exact.
         const std::vector<Node> nodes = b.nodes;
         for (const Node& d : nodes) {
           if (d.op_type != "DequantizeLinear") continue;
           const ValueId wide = new_value(b, "wide");
           for (Node& n : b.nodes) {
             for (ValueId& id : n.inputs) {
               if (id == d.outputs[0]) id = wide;
             }
           }
           b.nodes.push_back(like(d, "Cast", {d.outputs[0]}, {wide}));
           b.nodes.back().attributes["to"] = std::int64_t{11};
         }
         ir::sort_and_check(b);
       });
     }},
    {"interleave blocks of scales", "43-int4-blocked-axis0", "fuse-float-output",
     [](Graph& g) {
       const ValueId id = parameter(g, "QMatMul", "MatMul", 1, 0);
       const auto old = ops::integers(g.initializers.at(id));
       set_integers(g, id, [&](std::size_t i, std::int64_t) {
         const std::size_t row = i / 4;
         return old[(row % 2 * 3 + row / 2) * 4 + i % 4];
       });
     }},
    {"read unsigned weights as signed", "53-conv-perchannel-weight-zero-points", "lower-standard",
     [](Graph& g) {
       const ValueId id = node_of(g, "QLinearConv").inputs[3];
       set_integers(g, id, [](std::size_t, std::int64_t v) { return v & 127; });
     }},
    {"change a shared dequantization for one reader", "46-dq-shared-by-two-consumers", "canonicalize-qdq",
     [](Graph& g) {
       for (Node& n : g.nodes) {
         if (n.op_type != "Relu") continue;
         for (Node& d : g.nodes) {
           if (d.outputs[0] != n.inputs[0]) continue;
           for (const Node& other : g.nodes) {
             if (other.op_type == "Conv") n.inputs[0] = other.outputs[0];
           }
         }
       }
     }},
    {"cancel a pair that is a graph output", "47-qdq-pair-is-graph-output", "canonicalize-qdq",
     [](Graph& g) {
       for (Node& n : g.nodes) {
         if (n.op_type == "DequantizeLinear") {
           n.op_type = "Identity";
           n.attributes.clear();
           n.inputs = {g.inputs[0]};
         }
       }
     }},
    {"swap the dilations", "14-group2-perchannel-dilated", "fuse-qdq",
     [](Graph& g) {
       edit_body(g, "QConv", [](Graph& b) {
         node_of(b, "Conv").attributes["dilations"] = std::vector<std::int64_t>{1, 2};
       });
     }},
    {"saturate before adding the zero point", "35-quantize-saturate-after-zero-point", "canonicalize-qdq",
     [](Graph& g) {
       set_integers(g, node_of(g, "QuantizeLinear").inputs[2], [](std::size_t, std::int64_t v) { return v - 1; });
     }},
};

TEST(Mutants, EveryOneIsCaught) {
  ASSERT_GE(kMutants.size(), 20U);
  for (const Mutant& m : kMutants) {
    const auto folder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / m.subject;
    const Model model = Model::load(folder / "model.onnx");
    const auto named = load_inputs(model, folder);
    verification::InputSet inputs;
    for (const ValueInfo& v : model.inputs()) {
      if (named.contains(v.name)) inputs.push_back(named.at(v.name));
    }
    bool reached = false;
    const auto run = [&](bool wrong) {
      return [&, wrong](const Graph& graph, passes::Observer observer, void* context) {
        auto result = passes::Pipeline::parse(m.after).run(graph, observer, context);
        if (!wrong) return result;
        Graph bad = result.graph;
        m.corrupt(bad);
        ops::validate(bad);
        reached = true;
        observer(context, {"mutant", 1, 0}, result.graph, bad);
        result.steps.push_back({"mutant", 1, 0});
        result.graph = bad;
        return result;
      };
    };
    const auto good = verification::check_passes(model.impl().graph, model.impl().facts, {inputs}, run(false), {});
    for (const auto& step : good.steps)
      EXPECT_TRUE(step.ok()) << m.name << ": " << step.pass << ": " << step.difference;
    const auto bad = verification::check_passes(model.impl().graph, model.impl().facts, {inputs}, run(true), {});
    ASSERT_TRUE(reached) << m.name << ": " << (bad.steps.empty() ? "" : bad.steps.back().difference);
    ASSERT_FALSE(bad.steps.empty()) << m.name;
    const auto& last = bad.steps.back();
    EXPECT_FALSE(last.ok()) << "survived: " << m.name;
    std::cout << (last.ok() ? "SURVIVED  " : "caught    ") << m.name << "  [" << m.subject << "]\n";
  }
}

}  // namespace
}  // namespace halfeven::test
