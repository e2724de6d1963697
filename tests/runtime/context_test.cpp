// Contexts: the three ways to run, shapes that vary, several threads, errors.
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "properties/small_graph.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

Tensor bytes_tensor(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> values(element_count(shape));
  for (auto& v : values) v = static_cast<std::uint8_t>(random());
  return Tensor::of<std::uint8_t>(DType::uint8, shape, values);
}

// x [N, 4, H, W] -> Conv 3x3 -> Add x' -> q, in 8 bits; the first and the spatial dimensions are open.
Model open_model() {
  properties::SmallGraph g;
  const auto number = [](DType t, double v) { return properties::SmallTensor{t, {}, {v}}; };
  g.inputs.push_back({"x", {DType::uint8, {-1, 4, -1, -1}, {}}});
  std::vector<double> w;
  for (int k = 0; k < 4 * 4 * 9; ++k) w.push_back((k * 37) % 255 - 127);
  g.constants.push_back({"w", {DType::int8, {4, 4, 3, 3}, w}});
  g.constants.push_back({"s", number(DType::float32, 0.03125)});
  g.constants.push_back({"ys", number(DType::float32, 3.7)});
  g.constants.push_back({"z", number(DType::uint8, 119)});
  g.constants.push_back({"wz", number(DType::int8, 0)});
  g.nodes.push_back({"DequantizeLinear", {"x", "s", "z"}, "xd", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"w", "s", "wz"}, "wd", {}, {}, {}, {}});
  g.nodes.push_back({"Conv", {"xd", "wd"}, "c", {}, {{"pads", {1, 1, 1, 1}}}, {}, {}});
  g.nodes.push_back({"QuantizeLinear", {"c", "ys", "z"}, "cq", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"cq", "ys", "z"}, "cd", {}, {}, {}, {}});
  g.nodes.push_back({"Add", {"cd", "xd"}, "a", {}, {}, {}, {}});
  g.nodes.push_back({"QuantizeLinear", {"a", "ys", "z"}, "q", {}, {}, {}, {}});
  g.outputs = {"q"};
  const std::string text = properties::to_onnx(g);
  return Model::load(std::as_bytes(std::span(text)));
}

const std::vector<Shape> kShapes{{1, 4, 8, 8}, {2, 4, 5, 9}, {1, 4, 1, 1}, {3, 4, 7, 3}};

TEST(Context, ShapesVaryFromRunToRun) {
  const Model model = open_model();
  const Executable executable = Executable::compile(model);
  EXPECT_THROW(executable.plan(), Error);
  Context context(executable);
  for (int round = 0; round < 3; ++round) {
    for (const Shape& shape : kShapes) {
      const NamedTensors inputs{{"x", bytes_tensor(shape, static_cast<unsigned>(round))}};
      expect_identical(context.run(inputs).at(0), interpret(model, inputs).at(0), to_string(shape));
    }
  }
}

TEST(Context, MoreShapesThanPlansAreKept) {
  const Model model = open_model();
  const Executable executable = Executable::compile(model);
  Context context(executable);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 1; n <= static_cast<std::int64_t>(Executable::kMostPlans) + 3; ++n) {
      const NamedTensors inputs{{"x", bytes_tensor({1, 4, n, 3}, 1)}};
      expect_identical(context.run(inputs).at(0), interpret(model, inputs).at(0), std::to_string(n));
    }
  }
}

TEST(Context, FourThreadsShareAnExecutable) {
  const Model model = open_model();
  CompileOptions options;
  options.threads = 2;
  options.shapes["x"] = kShapes[0];
  const Executable executable = Executable::compile(model, options);
  std::vector<Tensor> inputs;
  std::vector<Tensor> wanted;
  for (const Shape& shape : kShapes) {
    inputs.push_back(bytes_tensor(shape, 7));
    wanted.push_back(interpret(model, {{"x", inputs.back()}}).at(0));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Context context(executable);
      for (std::size_t round = 0; round < 40; ++round) {
        const std::size_t k = (round + t) % kShapes.size();
        wrong[t] += identical(context.run({{"x", inputs[k]}}).at(0), wanted[k]) ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Context, OnlyTheseShapes) {
  const Model model = open_model();
  CompileOptions options;
  options.only_these_shapes = true;
  EXPECT_THROW(Executable::compile(model, options), Error);  // it has to be told which
  options.shapes["x"] = kShapes[0];
  Context context(Executable::compile(model, options));
  const NamedTensors inputs{{"x", bytes_tensor(kShapes[0], 3)}};
  expect_identical(context.run(inputs).at(0), interpret(model, inputs).at(0), "the given shape");
  try {
    context.run({{"x", bytes_tensor(kShapes[1], 3)}});
    FAIL() << "another shape was served";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::input);
  }
}

TEST(Context, ViewsByPlaceAndByName) {
  const Model model = open_model();
  Context context(Executable::compile(model));
  const Tensor x = bytes_tensor(kShapes[1], 5);
  const Tensor wanted = interpret(model, {{"x", x}}).at(0);
  const TensorView in(x);
  const auto types = context.output_types({&in, 1});
  ASSERT_EQ(types.size(), 1U);
  EXPECT_EQ(*types[0].shape, wanted.shape());
  std::vector<std::byte> memory(wanted.bytes().size());
  const MutableTensorView out{DType::uint8, wanted.shape(), memory};
  context.run({&in, 1}, {&out, 1});
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), wanted.data()));
  std::fill(memory.begin(), memory.end(), std::byte{0});
  const NamedView named_in{"x", in};
  const NamedMutableView named_out{"q", out};
  context.run({&named_in, 1}, {&named_out, 1});
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), wanted.data()));

  const MutableTensorView small{DType::uint8, wanted.shape(), std::span(memory).first(3)};
  EXPECT_THROW(context.run({&in, 1}, {&small, 1}), Error);
  EXPECT_THROW(context.run(std::span<const TensorView>(), {&out, 1}), Error);
  const NamedView unknown{"y", in};
  EXPECT_THROW(context.run({&unknown, 1}, {&named_out, 1}), Error);
  const TensorView wrong(DType::int8, x.shape(), x.bytes());
  EXPECT_THROW(context.run({&wrong, 1}, {&out, 1}), Error);
}

// An application's own pool: pieces in reverse order, on the calling thread.
class ReversePool final : public ThreadPool {
 public:
  int calls = 0;
  int threads() const override { return 5; }
  void run(int pieces, void (*piece)(void*, int), void* argument) override {
    ++calls;
    while (pieces-- > 0) piece(argument, pieces);
  }
};

TEST(Context, RunsOnAnotherPool) {
  const Model model = open_model();
  const auto pool = std::make_shared<ReversePool>();
  Context context(Executable::compile(model), pool);
  const NamedTensors inputs{{"x", bytes_tensor(kShapes[3], 9)}};
  expect_identical(context.run(inputs).at(0), interpret(model, inputs).at(0), "own pool");
  EXPECT_GT(pool->calls, 0);
}

TEST(Context, OptionsAreChecked) {
  const Model model = open_model();
  const auto message = [&](const CompileOptions& options) -> std::string {
    try {
      Executable::compile(model, options);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  CompileOptions options;
  options.shapes["x"] = kShapes[0];
  auto o = options;
  o.contract = Contract::onnx_float32;
  EXPECT_NE(message(o).find("interpret()"), std::string::npos);
  o = options;
  o.backend = "abacus";
  EXPECT_NE(message(o).find("abacus"), std::string::npos);
  o = options;
  o.isa = "z80";
  EXPECT_NE(message(o).find("z80"), std::string::npos);
  o = options;
  o.kernels = {"conv.abacus"};
  EXPECT_NE(message(o).find("conv.abacus"), std::string::npos);
  o = options;
  o.limits.tensor_bytes = 100;
  EXPECT_NE(message(o).find("limit of 100"), std::string::npos);
  o = options;
  o.shapes["nobody"] = {1};
  EXPECT_NE(message(o).find("nobody"), std::string::npos);
  o = options;
  o.shapes["x"] = {1, 5, 8, 8};
  EXPECT_NE(message(o).find("declared"), std::string::npos);
}

TEST(Context, ReferenceBackendGivesTheSameBits) {
  const Model model = open_model();
  CompileOptions options;
  options.backend = "reference";
  Context context(Executable::compile(model, options));
  for (const Shape& shape : kShapes) {
    const NamedTensors inputs{{"x", bytes_tensor(shape, 2)}};
    expect_identical(context.run(inputs).at(0), interpret(model, inputs).at(0), to_string(shape));
  }
}

// A shape that comes with an input's values.
TEST(Context, ShapesKnownOnlyWhenTheModelRuns) {
  properties::SmallGraph g;
  g.inputs.push_back({"x", {DType::float32, {2, 6}, {}}});
  g.inputs.push_back({"shape", {DType::int64, {2}, {}}});
  g.nodes.push_back({"Reshape", {"x", "shape"}, "y", {}, {}, {}, {}});
  g.outputs = {"y"};
  const std::string text = properties::to_onnx(g);
  const Model model = Model::load(std::as_bytes(std::span(text)));
  CompileOptions options;
  options.backend = "cpu";
  EXPECT_THROW(Executable::compile(model, options), Error);
  Context context(Executable::compile(model));
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3, 4}, {12, 1}, {4, 3}}) {
    const NamedTensors inputs{{"x", Tensor::of<float>(DType::float32, {2, 6}, x)},
                              {"shape", Tensor::of<std::int64_t>(DType::int64, {2}, shape)}};
    const Tensor y = context.run(inputs).at(0);
    expect_identical(y, interpret(model, inputs).at(0), "reshaped");
    std::vector<std::byte> memory(y.bytes().size());
    const std::vector<TensorView> views{inputs.at("x"), inputs.at("shape")};
    const MutableTensorView out{DType::float32, y.shape(), memory};
    context.run(views, {&out, 1});
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(), y.data()));
    EXPECT_THROW(context.output_types(views), Error);
  }
}

TEST(Context, AKernelThatIsPreferredServes) {
  const Model model = open_model();
  CompileOptions options;
  options.shapes["x"] = kShapes[0];
  options.kernels = {"conv.sse2"};
  const auto report = Executable::compile(model, options).plan();
  EXPECT_TRUE(
      std::any_of(report.steps.begin(), report.steps.end(), [](const PlanStep& s) { return s.kernel == "conv.sse2"; }));
}

}  // namespace
}  // namespace halfeven::test
