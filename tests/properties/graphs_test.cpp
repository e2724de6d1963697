// The interpreter against the rational evaluation, and what must change no bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include <halfeven/halfeven.hpp>

#include "properties/properties.hpp"
#include "properties/rational_evaluation.hpp"

namespace halfeven::properties {
namespace {

using Named = std::map<std::string, Tensor>;

struct Outcome {
  Named outputs;
  Named taps;
};

Outcome run(const SmallGraph& graph, Contract contract = Contract::exact, int threads = 1, bool tapped = true) {
  const std::string bytes = to_onnx(graph);
  const Model model = Model::load(std::as_bytes(std::span(bytes)));
  NamedTensors inputs;
  for (const auto& [name, t] : graph.inputs) inputs[name] = to_tensor(t);
  Outcome out;
  InterpretOptions options;
  options.contract = contract;
  options.threads = threads;
  if (tapped) options.tap = [&](const std::string& name, const Tensor& t) { out.taps[name] = t; };
  const std::vector<Tensor> outputs = interpret(model, inputs, options);
  for (std::size_t i = 0; i < outputs.size(); ++i) out.outputs[graph.outputs[i]] = outputs[i];
  return out;
}

// What the graph means before it is changed. Graphs without an answer (a NaN reaches QuantizeLinear) are left out.
Outcome reference(const SmallGraph& graph) {
  try {
    return run(graph);
  } catch (const Error& e) {
    if (std::string(e.what()).find("NaN") == std::string::npos) throw;
    RC_DISCARD("NaN");
  }
}

void require_same(const std::string& name, const Tensor& got, const Tensor& expected) {
  if (identical(got, expected)) return;
  std::ostringstream text;
  text << "'" << name << "' " << to_string(got.dtype()) << to_string(got.shape()) << ", expected "
       << to_string(expected.dtype()) << to_string(expected.shape());
  if (got.dtype() == expected.dtype() && got.shape() == expected.shape()) {
    const std::size_t width = storage_size(got.dtype());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::memcmp(got.data() + i * width, expected.data() + i * width, width) == 0) continue;
      text << "\nfirst difference at element " << i << ": bytes";
      for (const Tensor* t : {&got, &expected}) {
        text << (t == &got ? " " : " against ");
        for (std::size_t k = width; k-- > 0;) text << std::hex << std::to_integer<int>(t->data()[i * width + k]) << '.';
      }
      break;
    }
  }
  RC_FAIL(text.str());
}

void require_same(const Named& got, const Named& expected) {
  for (const auto& [name, tensor] : expected) {
    if (!got.contains(name)) RC_FAIL("'" + name + "' is missing");
    require_same(name, got.at(name), tensor);
  }
}

void against_rationals(const SmallGraph& graph, Contract contract) {
  std::map<std::string, SmallTensor> expected;
  try {
    expected = evaluate(graph, contract == Contract::exact);
  } catch (const OutOfRange&) {
    RC_DISCARD("overflow");
  }
  const Outcome got = run(graph, contract);
  for (const auto& [name, tensor] : expected) {
    RC_ASSERT(got.taps.contains(name));
    require_same(name, got.taps.at(name), to_tensor(tensor));
  }
  for (const std::string& name : graph.outputs) require_same(name, got.outputs.at(name), to_tensor(expected.at(name)));
}

TEST(GraphProperties, ExactIsTheRationalEvaluation) {
  for_graphs(1, [](const SmallGraph& graph) { against_rationals(graph, Contract::exact); });
}

TEST(GraphProperties, OnnxFloat32IsTheRationalEvaluation) {
  for_graphs(0.5, [](const SmallGraph& graph) { against_rationals(graph, Contract::onnx_float32); });
}

// 1 + 2^-24 - 2^-51 and fourteen times 2^-54: above the tie, while doubles added in turn stay below it.
TEST(GraphProperties, SumsThatDoublesLose) {
  SmallTensor x{DType::float32, {1, 17}, std::vector<double>(17, 0x1p-54)};
  x.values[0] = 1;
  x.values[1] = 0x1p-24;
  x.values[2] = -0x1p-51;
  SmallGraph graph;
  graph.inputs = {{"x", x}};
  graph.constants = {{"ones", {DType::float32, {17, 1}, std::vector<double>(17, 1)}}};
  graph.nodes = {{"MatMul", {"x", "ones"}, "y", {}, {}, {}, {}}};
  graph.outputs = {"y"};
  for (const Contract contract : {Contract::exact, Contract::onnx_float32}) {
    EXPECT_EQ(run(graph, contract).outputs.at("y").values<float>()[0], 1 + 0x1p-23F);
  }
  EXPECT_EQ(evaluate(graph, true).at("y").values[0], 1 + 0x1p-23);
}

TEST(GraphProperties, ThreadsAndTapsChangeNoBit) {
  for_graphs(0.3, [](const SmallGraph& graph) {
    const Outcome expected = reference(graph);
    require_same(run(graph, Contract::exact, 4, false).outputs, expected.outputs);
    require_same(run(graph, Contract::exact, 3, true).taps, expected.taps);
  });
}

TEST(GraphProperties, DeadNodesChangeNoBit) {
  for_graphs(0.3, [](const SmallGraph& graph) {
    const Outcome expected = reference(graph);
    SmallGraph larger = graph;
    for (std::size_t i = larger.nodes.size(); i-- > 0;) {  // a reader of everything that has a float type
      const std::string name = larger.nodes[i].output;
      if (!is_float(expected.taps.at(name).dtype())) continue;
      SmallNode dead;
      dead.op = i % 2 == 0 ? "HardSwish" : "Relu";
      dead.inputs = {name};
      dead.output = "dead" + std::to_string(i);
      larger.nodes.insert(larger.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1, dead);
    }
    require_same(run(larger).outputs, expected.outputs);
  });
}

TEST(GraphProperties, MoreOutputsChangeNoBit) {
  for_graphs(0.3, [](const SmallGraph& graph) {
    const Outcome expected = reference(graph);
    SmallGraph open = graph;
    for (const SmallNode& n : graph.nodes) {
      if (std::find(open.outputs.begin(), open.outputs.end(), n.output) == open.outputs.end())
        open.outputs.push_back(n.output);
    }
    require_same(run(open).outputs, expected.taps);
  });
}

TEST(GraphProperties, CopiedNodesChangeNoBit) {
  for_graphs(0.3, [](const SmallGraph& graph) {
    const Outcome expected = reference(graph);
    SmallGraph copied = graph;
    for (std::size_t i = 0; i < copied.nodes.size(); i += 2) {  // the last reader reads a copy
      const std::string original = copied.nodes[i].output;
      for (std::size_t j = copied.nodes.size(); j-- > i + 1;) {
        auto& inputs = copied.nodes[j].inputs;
        const auto at = std::find(inputs.begin(), inputs.end(), original);
        if (at == inputs.end()) continue;
        *at = original + "_copy";
        SmallNode copy = copied.nodes[i];
        copy.output = original + "_copy";
        copied.nodes.insert(copied.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1, copy);
        ++i;
        break;
      }
    }
    require_same(run(copied).outputs, expected.outputs);
  });
}

TEST(GraphProperties, FoldedConstantsChangeNoBit) {
  for_graphs(0.5, [](const SmallGraph& graph) {
    std::map<std::string, SmallTensor> values;
    try {
      values = evaluate(graph, true);
    } catch (const OutOfRange&) {
      RC_DISCARD("overflow");
    }
    const Outcome expected = reference(graph);
    SmallGraph folded = graph;
    folded.nodes.clear();
    const auto constant = constant_tensors(graph);
    for (const SmallNode& n : graph.nodes) {
      // A dequantized constant is exact, and an operator that passes it on keeps it so: these stay.
      const SmallTensor& value = values.at(n.output);
      const bool exact =
          is_float(value.dtype) && (n.op == "DequantizeLinear" || passes_values_on(n, value.dtype, value.dtype));
      if (constant.at(n.output) && !exact) {
        folded.constants.emplace_back(n.output, value);
      } else {
        folded.nodes.push_back(n);
      }
    }
    require_same(run(folded).outputs, expected.outputs);
  });
}

TEST(GraphProperties, ReshapeMovesAcrossQuantization) {
  for_graphs(0.3, [](const SmallGraph& graph) {
    const Outcome expected = reference(graph);
    SmallGraph moved = graph;
    bool any = false;
    for (std::size_t i = 0; i < moved.nodes.size(); ++i) {
      const SmallNode q = moved.nodes[i];
      if (q.op != "QuantizeLinear" || q.integers.contains("axis")) continue;
      const Shape& shape = expected.taps.at(q.output).shape();
      if (std::find(shape.begin(), shape.end(), 0) != shape.end()) continue;
      // Q becomes Reshape to one row -> Q -> Reshape back.
      any = true;
      std::int64_t size = 1;
      for (const std::int64_t d : shape) size *= d;
      const std::string stem = q.output + "_moved";
      moved.constants.emplace_back(stem + "_row", SmallTensor{DType::int64, {1}, {static_cast<double>(size)}});
      moved.constants.emplace_back(
          stem + "_shape",
          SmallTensor{DType::int64, {static_cast<std::int64_t>(shape.size())}, {shape.begin(), shape.end()}});
      SmallNode before{"Reshape", {q.inputs[0], stem + "_row"}, stem + "_x", {}, {}, {}, {}};
      SmallNode inner = q;
      inner.inputs[0] = before.output;
      inner.output = stem + "_q";
      SmallNode after{"Reshape", {inner.output, stem + "_shape"}, q.output, {}, {}, {}, {}};
      moved.nodes[i] = before;
      moved.nodes.insert(moved.nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1, {inner, after});
      i += 2;
    }
    if (!any) return;
    require_same(run(moved).outputs, expected.outputs);
  });
}

}  // namespace
}  // namespace halfeven::properties
