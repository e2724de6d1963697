// The engine beside the interpreter, for random graphs.
#pragma once

#include <random>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "plan/against_interpreter.hpp"
#include "properties/small_graph.hpp"
#include "support/files.hpp"

namespace halfeven::test {

struct Tally {
  std::size_t kernels = 0;
  std::size_t references = 0;
};

/// Runs the graph in the interpreter and, with every instruction set of this processor, in the engine.
inline void compare_engine(const properties::SmallGraph& drawn, const std::string& what, Tally& tally) {
  const std::string text = properties::to_onnx(drawn);
  NamedTensors inputs;
  for (const auto& [name, tensor] : drawn.inputs) inputs[name] = properties::to_tensor(tensor);
  std::vector<Tensor> wanted;
  std::optional<Model> model;
  try {
    model = Model::load(std::as_bytes(std::span(text)));
    wanted = interpret(*model, inputs);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::input && e.code() != ErrorCode::model) throw;
    if (!model) return;
    // What has no answer has none in the engine.
    CompileOptions options;
    for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
    EXPECT_THROW(Context(Executable::compile(*model, options)).run(inputs), Error) << what << ": " << e.what() << "\n"
                                                                                   << properties::to_text(drawn);
    return;
  }
  expect_from_engine(
      *model, inputs, wanted, {1, 3}, what + "\n" + properties::to_text(drawn),
      [&](const PlanStep& step) { (step.kernel == "reference" ? tally.references : tally.kernels) += 1; });
}

/// Draws what boundaries need: extreme codes, scales that make ties, odd zero points.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random(seed) {}
  std::mt19937_64 random;

  std::size_t below(std::size_t n) { return random() % n; }
  bool chance(std::size_t n) { return below(n) == 0; }
  template <class T>
  T pick(std::initializer_list<T> v) {
    return v.begin()[below(v.size())];
  }
  /// A power of two, a short number, or any float32.
  double scale() {
    if (chance(3)) return std::ldexp(1.0, -static_cast<int>(below(6)));
    if (chance(2)) return static_cast<double>(static_cast<float>(0.001 * static_cast<double>(1 + below(300))));
    return static_cast<double>(std::ldexp(static_cast<float>(1 + below(1 << 20)), -24));
  }
  std::vector<double> codes(DType t, std::int64_t count) {
    const std::int64_t lo = bits(t) > 16 ? -1000 : integer_min(t);
    const std::int64_t hi = bits(t) > 16 ? 1000 : integer_max(t);
    const bool extreme = chance(4);
    std::vector<double> v;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t any = lo + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(hi - lo + 1));
      v.push_back(static_cast<double>(extreme || chance(8) ? pick({lo, hi}) : any));
    }
    return v;
  }
  std::vector<double> floats(std::int64_t count) {
    std::vector<double> v;
    const bool coarse = chance(2);
    for (std::int64_t i = 0; i < count; ++i) {
      const double m = coarse ? static_cast<double>(below(33)) - 16 : static_cast<double>(below(1 << 24)) - (1 << 23);
      v.push_back(static_cast<double>(static_cast<float>(std::ldexp(m, coarse ? -3 : -20))));
    }
    return v;
  }
};

inline std::int64_t count_of(const Shape& s) {
  std::int64_t n = 1;
  for (const std::int64_t d : s) n *= d;
  return n;
}

/// A shape that broadcasts to the given one.
inline Shape smaller(Draw& d, Shape shape) {
  if (d.chance(2)) return shape;
  if (d.chance(3)) return {};
  if (shape.size() == 4 && d.chance(2)) return {d.chance(2) ? shape[0] : 1, shape[1], 1, 1};
  for (auto& n : shape) n = d.chance(2) ? 1 : n;
  if (!shape.empty() && d.chance(3)) shape.erase(shape.begin());
  return shape;
}

}  // namespace halfeven::test
