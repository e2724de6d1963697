// Speed of the interpreter, one thread: what decides how long a whole network takes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <halfeven/halfeven.hpp>

#include "interpreter/interpreter.hpp"
#include "ir/graph.hpp"
#include "ops/validate.hpp"

namespace {

using halfeven::DType;
using halfeven::Shape;
using halfeven::Tensor;
using halfeven::ir::Graph;
using halfeven::ir::ValueId;

constexpr int kOpset = 21;

template <class T>
Tensor random_integers(DType type, Shape shape, int low, int high) {
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> distribution(low, high);
  std::vector<T> values(halfeven::element_count(shape));
  for (T& value : values) value = static_cast<T>(distribution(engine));
  return Tensor::of<T>(type, std::move(shape), values);
}

Tensor random_floats(Shape shape) {
  std::mt19937 engine(1);
  std::normal_distribution<float> distribution;
  std::vector<float> values(halfeven::element_count(shape));
  for (float& value : values) value = distribution(engine);
  return Tensor::of<float>(DType::float32, std::move(shape), values);
}

template <class T>
Tensor scalar(DType type, T value) {
  return Tensor::of<T>(type, {}, std::vector<T>{value});
}

// Builds a graph value by value; the node added last makes the output.
class Builder {
 public:
  Builder() { graph_.opsets[""] = kOpset; }

  ValueId value(DType type, std::optional<Shape> shape) {
    const ValueId id{static_cast<std::uint32_t>(graph_.values.size())};
    graph_.values.push_back({std::to_string(id.index), type, std::move(shape), {}});
    return id;
  }

  ValueId input(const Tensor& tensor) {
    graph_.inputs.push_back(value(tensor.dtype(), tensor.shape()));
    return graph_.inputs.back();
  }

  ValueId constant(const Tensor& tensor) {
    const ValueId id = value(tensor.dtype(), tensor.shape());
    graph_.initializers.emplace(id, tensor);
    return id;
  }

  ValueId node(const std::string& op_type, std::vector<ValueId> inputs) {
    const ValueId id = value(DType::undefined, std::nullopt);
    halfeven::ir::Node& node = graph_.nodes.emplace_back();
    node.op_type = op_type;
    node.version = kOpset;
    node.inputs = std::move(inputs);
    node.outputs = {id};
    graph_.outputs = {id};
    return id;
  }

  halfeven::ir::Attribute& attribute(const std::string& name) { return graph_.nodes.back().attributes[name]; }

  Graph& graph() { return graph_; }

 private:
  Graph graph_;
};

void run(benchmark::State& state, Graph& graph, const std::vector<Tensor>& inputs, std::int64_t macs) {
  const halfeven::ops::Facts facts = halfeven::ops::validate(graph);
  halfeven::interpreter::Options options;
  options.exact = state.range(0) == 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(halfeven::interpreter::run(graph, facts, inputs, options));
  }
  state.SetLabel(options.exact ? "exact" : "onnx-float32");
  state.counters["MAC/s"] =
      benchmark::Counter(static_cast<double>(macs), benchmark::Counter::kIsIterationInvariantRate);
}

// uint8 x int8 per channel, 64 channels of 56 x 56 to 64: dequantize, convolve, quantize.
void conv_3x3(benchmark::State& state) {
  constexpr std::int64_t kChannels = 64;
  constexpr std::int64_t kSide = 56;
  const Tensor x = random_integers<std::uint8_t>(DType::uint8, {1, kChannels, kSide, kSide}, 0, 255);
  std::vector<float> scales(kChannels);
  for (std::size_t c = 0; c < scales.size(); ++c) scales[c] = 0.001F * static_cast<float>(c + 1);

  Builder b;
  const ValueId zero_point = b.constant(scalar<std::uint8_t>(DType::uint8, 119));
  const ValueId in = b.node("DequantizeLinear", {b.input(x), b.constant(scalar(DType::float32, 0.0173F)), zero_point});
  const ValueId weights =
      b.node("DequantizeLinear",
             {b.constant(random_integers<std::int8_t>(DType::int8, {kChannels, kChannels, 3, 3}, -127, 127)),
              b.constant(Tensor::of<float>(DType::float32, {kChannels}, scales))});
  b.attribute("axis") = std::int64_t{0};
  const ValueId out = b.node("Conv", {in, weights});
  b.attribute("pads") = std::vector<std::int64_t>{1, 1, 1, 1};
  b.node("QuantizeLinear", {out, b.constant(scalar(DType::float32, 1.7F)), zero_point});
  run(state, b.graph(), {x}, kChannels * kChannels * 9 * kSide * kSide);
}
BENCHMARK(conv_3x3)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// 256 x 256 times 256 x 256, float32: a correctly rounded sum of exact products per element.
void matmul_float(benchmark::State& state) {
  constexpr std::int64_t kSide = 256;
  const Tensor x = random_floats({kSide, kSide});
  Builder b;
  b.node("MatMul", {b.input(x), b.constant(random_floats({kSide, kSide}))});
  run(state, b.graph(), {x}, kSide * kSide * kSide);
}
BENCHMARK(matmul_float)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// Reading, checking and shape inference of a network of 600 nodes.
void import(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(halfeven::Model::load(HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx"));
}
BENCHMARK(import)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
