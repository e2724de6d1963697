// The engine gives the interpreter's bits: on every case and network, on random graphs and on random convolutions, with
// every instruction set that this processor has and any number of threads.
#include <random>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "plan/against_interpreter.hpp"
#include "properties/graph_generator.hpp"
#include "support/effort.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

std::vector<std::string> instruction_sets() {
  std::vector<std::string> out;
  for (int k = 0; k <= static_cast<int>(plan::detect_isa()); ++k) {
    out.emplace_back(plan::to_string(static_cast<plan::Isa>(k)));
  }
  return out;
}

CompileOptions options_for(const NamedTensors& inputs, const std::string& isa, int threads) {
  CompileOptions options;
  options.isa = isa;
  options.threads = threads;
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
  return options;
}

// Compares the engine with the interpreter; returns how many steps had a kernel.
std::size_t compare(const Model& model, const NamedTensors& inputs, const std::string& what,
                    const std::vector<int>& threads) {
  std::size_t with_kernel = 0;
  expect_from_engine(model, inputs, interpret(model, inputs), threads, what,
                     [&](const PlanStep& step) { with_kernel += step.kernel == "reference" ? 0 : 1; });
  return with_kernel;
}

TEST(Engine, Cases) {
  std::size_t with_kernel = 0;
  for (const auto& folder : folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases")) {
    if (std::filesystem::exists(folder / "expected_error.txt")) continue;
    const Model model = Model::load(folder / "model.onnx");
    with_kernel += compare(model, load_inputs(model, folder), folder.filename().string(), {1, 2, 3, 4});
  }
  EXPECT_GT(with_kernel, 100U);
}

TEST(Engine, Networks) {
  for (const char* base : {HALFEVEN_TEST_DATA "/models", HALFEVEN_SHARED "/models"}) {
    for (const auto& network : folders_in(base)) {
      const auto own = network / "model.onnx";
      const Model model = Model::load(std::filesystem::exists(own) ? own : HALFEVEN_EXAMPLES "/ppocr_cls/model.onnx");
      for (const auto& folder : folders_in(network)) {
        const auto inputs = load_inputs(model, folder);
        const auto wanted = load_numbered(folder, "expected");
        const std::string isa = instruction_sets().back();
        for (const int threads : {1, 3}) {
          const Executable executable = Executable::compile(model, options_for(inputs, isa, threads));
          const auto got = Context(executable).run(inputs);
          for (std::size_t k = 0; k < got.size(); ++k) {
            expect_identical(got[k], wanted[k], folder.string() + ", output " + std::to_string(k));
          }
        }
      }
    }
  }
}

TEST(Engine, RandomGraphs) {
  std::mt19937_64 random(20261201);
  std::size_t with_kernel = 0;
  for (std::size_t round = 0; round < effort(400, 40); ++round) {
    const auto drawn = properties::draw_graph([&](std::size_t n) { return random() % n; });
    const std::string text = properties::to_onnx(drawn);
    NamedTensors inputs;
    for (const auto& [name, tensor] : drawn.inputs) inputs[name] = properties::to_tensor(tensor);
    try {
      const Model model = Model::load(std::as_bytes(std::span(text)));
      interpret(model, inputs);
      with_kernel += compare(model, inputs, properties::to_text(drawn), {1, 2});
    } catch (const Error& e) {
      if (e.code() != ErrorCode::input && e.code() != ErrorCode::model) throw;
    }
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, 20U);
}

// One quantized convolution with sizes that leave every tail: channels, columns, groups, strides beyond the kernel.
properties::SmallGraph draw_convolution(std::mt19937_64& random) {
  const auto pick = [&](std::vector<std::int64_t> v) { return v[random() % v.size()]; };
  const auto scale = [&] {
    return pick({0, 1}) == 0 ? std::ldexp(1.0, -static_cast<int>(random() % 6))
                             : double(float(0.001 * double(1 + random() % 300)));
  };
  properties::SmallGraph g;
  const bool depthwise = pick({0, 0, 1}) == 1;
  const std::int64_t groups = depthwise ? pick({2, 3, 17, 64, 100}) : pick({1, 1, 1, 2, 3});
  const std::int64_t channels = depthwise ? 1 : pick({1, 3, 4, 5, 17, 32});
  const std::int64_t per_group = depthwise ? 1 : pick({1, 3, 16, 17, 33, 64, 80});
  const std::int64_t kh = pick({1, 1, 2, 3, 5});
  const std::int64_t kw = pick({1, 1, 3, 3, 7});
  const std::int64_t sh = pick({1, 1, 2, 4});
  const std::int64_t sw = pick({1, 1, 2, 3});
  const std::int64_t dh = pick({1, 1, 2});
  const std::int64_t dw = pick({1, 1, 3});
  const std::vector<std::int64_t> pads{pick({0, 1, 2}), pick({0, 1, 3}), pick({0, 1}), pick({0, 2})};
  const std::int64_t h = (kh - 1) * dh + 1 + static_cast<std::int64_t>(random() % 6);
  const std::int64_t w = (kw - 1) * dw + 1 + static_cast<std::int64_t>(random() % 15);
  const DType xt = pick({0, 1}) == 0 ? DType::uint8 : DType::int8;
  const DType wt = pick({0, 0, 1}) == 0 ? DType::int8 : DType::uint8;
  const DType yt = pick({0, 1}) == 0 ? DType::uint8 : DType::int8;
  const auto draw = [&](DType t, std::int64_t count) {
    std::vector<double> v;
    const std::int64_t lo = integer_min(t);
    const std::int64_t hi = integer_max(t);
    const int style = static_cast<int>(random() % 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t middle = lo + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(hi - lo + 1));
      v.push_back(
          static_cast<double>(style == 0 ? pick({lo, hi}) : (style == 1 ? middle : pick({lo, hi, middle, middle}))));
    }
    return v;
  };
  const auto number = [](DType t, double v) { return properties::SmallTensor{t, {}, {v}}; };
  const auto any = [&](DType t) { return draw(t, 1)[0]; };
  const std::int64_t batch = pick({1, 1, 2});
  g.inputs.push_back({"x", {xt, {batch, groups * channels, h, w}, draw(xt, batch * groups * channels * h * w)}});
  const std::int64_t m = groups * per_group;
  g.constants.push_back({"w", {wt, {m, channels, kh, kw}, draw(wt, m * channels * kh * kw)}});
  g.constants.push_back({"xs", number(DType::float32, scale())});
  g.constants.push_back({"xz", number(xt, any(xt))});
  std::vector<double> ws;
  std::vector<double> wz;
  for (std::int64_t i = 0; i < m; ++i) {
    ws.push_back(scale());
    wz.push_back(wt == DType::uint8 ? 128.0 : 0.0);
  }
  g.constants.push_back({"ws", {DType::float32, {m}, ws}});
  g.constants.push_back({"wz", {wt, {m}, wz}});
  // An output scale that brings some sums into range and leaves others saturated.
  g.constants.push_back({"ys", number(DType::float32, double(float(scale() * double(1 + random() % 2000))))});
  g.constants.push_back({"yz", number(yt, any(yt))});
  g.nodes.push_back({"DequantizeLinear", {"x", "xs", "xz"}, "xd", {}, {}, {}, {}});
  g.nodes.push_back({"DequantizeLinear", {"w", "ws", "wz"}, "wd", {{"axis", 0}}, {}, {}, {}});
  std::vector<std::string> inputs{"xd", "wd"};
  const auto bias = random() % 3;
  if (bias == 1) {
    std::vector<double> b;
    std::vector<double> bs;
    for (std::int64_t i = 0; i < m; ++i) {
      b.push_back(double(static_cast<std::int64_t>(random() % 20001) - 10000));
      bs.push_back(double(float(g.constants[1].second.values[0] * ws[static_cast<std::size_t>(i)])));
    }
    g.constants.push_back({"b", {DType::int32, {m}, b}});
    g.constants.push_back({"bs", {DType::float32, {m}, bs}});
    g.nodes.push_back({"DequantizeLinear", {"b", "bs"}, "bd", {{"axis", 0}}, {}, {}, {}});
    inputs.push_back("bd");
  } else if (bias == 2) {
    std::vector<double> b;
    for (std::int64_t i = 0; i < m; ++i)
      b.push_back(double(float(0.25 * double(static_cast<std::int64_t>(random() % 999) - 499))));
    g.constants.push_back({"b", {DType::float32, {m}, b}});
    inputs.push_back("b");
  }
  g.nodes.push_back({"Conv",
                     inputs,
                     "y",
                     {{"group", groups}},
                     {{"pads", pads}, {"strides", {sh, sw}}, {"dilations", {dh, dw}}},
                     {},
                     {}});
  std::string last = "y";
  if (random() % 3 == 0) {
    g.nodes.push_back({"Relu", {"y"}, "r", {}, {}, {}, {}});
    last = "r";
  }
  g.nodes.push_back({"QuantizeLinear", {last, "ys", "yz"}, "q", {}, {}, {}, {}});
  g.outputs = {"q"};
  return g;
}

TEST(Engine, RandomConvolutions) {
  std::mt19937_64 random(20261202);
  std::size_t with_kernel = 0;
  const std::size_t rounds = effort(300, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto drawn = draw_convolution(random);
    const std::string text = properties::to_onnx(drawn);
    const NamedTensors inputs{{"x", properties::to_tensor(drawn.inputs[0].second)}};
    with_kernel += compare(Model::load(std::as_bytes(std::span(text))), inputs,
                           "convolution " + std::to_string(round) + "\n" + properties::to_text(drawn), {1, 2});
    if (HasFailure()) return;
  }
  std::cout << with_kernel << " steps had a kernel\n";
  EXPECT_GT(with_kernel, rounds);
}

// oneDNN's sums, where they are exact on this machine.
TEST(Engine, OneDnn) {
  std::mt19937_64 random(20261203);
  std::size_t taken = 0;
  for (std::size_t round = 0; round < effort(60, 10); ++round) {
    const auto drawn = draw_convolution(random);
    const std::string text = properties::to_onnx(drawn);
    const Model model = Model::load(std::as_bytes(std::span(text)));
    const NamedTensors inputs{{"x", properties::to_tensor(drawn.inputs[0].second)}};
    const auto wanted = interpret(model, inputs);
    for (const int threads : {1, 2}) {
      CompileOptions options = options_for(inputs, instruction_sets().back(), threads);
      options.kernels = {"conv.onednn"};
      const Executable executable = Executable::compile(model, options);
      for (const PlanStep& step : executable.plan().steps) taken += step.kernel == "conv.onednn" ? 1 : 0;
      expect_identical(Context(executable).run(inputs)[0], wanted[0],
                       "convolution " + std::to_string(round) + "\n" + properties::to_text(drawn));
    }
    if (HasFailure()) return;
  }
  std::cout << taken << " convolutions by oneDNN\n";
}

}  // namespace
}  // namespace halfeven::test
