// Pool kernels give the interpreter's bits: maxima and averages of every type, with and without chains in front.
#include "plan/compare.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;

SmallGraph draw_pool(Draw& d) {
  SmallGraph g;
  int next = 0;
  const auto name = [&] { return "v" + std::to_string(next++); };
  const auto add = [&](const std::string& op, std::vector<std::string> in,
                       std::map<std::string, std::int64_t> ints = {},
                       std::map<std::string, std::vector<std::int64_t>> lists = {}) {
    const std::string y = name();
    g.nodes.push_back({op, std::move(in), y, std::move(ints), std::move(lists), {}, {}});
    return y;
  };
  const auto number = [&](DType t, double v) {
    const std::string n = name();
    g.constants.push_back({n, {t, {}, {v}}});
    return n;
  };
  Shape shape{d.pick<std::int64_t>({1, 2}), d.pick<std::int64_t>({1, 3, 16, 17, 65, 150}),
              d.pick<std::int64_t>({1, 4, 7}), d.pick<std::int64_t>({1, 5, 12})};
  if (d.chance(6)) shape.pop_back();
  const std::size_t spatial = shape.size() - 2;
  const DType t = d.pick({DType::uint8, DType::int8, DType::uint8, DType::uint16, DType::int16, DType::float32});
  std::string x = name();
  const bool is_float = t == DType::float32;
  g.inputs.push_back({x, {t, shape, is_float ? d.floats(count_of(shape)) : d.codes(t, count_of(shape))}});
  if (spatial == 2 && (t == DType::uint8 || t == DType::int8) && d.chance(3)) {
    x = add("MaxPool", {x}, {}, {{"kernel_shape", {2, 2}}, {"pads", {1, 1, 0, 0}}});
  }
  const auto window = [&] {
    std::map<std::string, std::vector<std::int64_t>> lists;
    for (std::size_t k = 0; k < spatial; ++k) {
      const std::int64_t kernel = d.pick<std::int64_t>({1, 2, 3});
      lists["kernel_shape"].push_back(std::min(kernel, shape[k + 2]));
      lists["strides"].push_back(d.pick<std::int64_t>({1, 2}));
    }
    std::vector<std::int64_t> pads(2 * spatial);
    for (std::size_t k = 0; k < pads.size(); ++k) {
      pads[k] = lists["kernel_shape"][k % spatial] > 1 ? d.pick<std::int64_t>({0, 1}) : 0;
    }
    lists["pads"] = pads;
    return lists;
  };
  if ((is_float || t == DType::uint8 || t == DType::int8) && d.chance(3)) {
    if (is_float || d.chance(2)) {
      auto lists = window();
      if (d.chance(3)) lists["dilations"] = std::vector<std::int64_t>(spatial, 2);
      g.outputs = {add("MaxPool", {x}, {{"ceil_mode", d.chance(2) ? 1 : 0}}, lists)};
    } else {
      const std::string axes = name();
      g.constants.push_back({axes, {DType::int64, {2}, {2, -1}}});
      if (spatial < 2) g.constants.back().second = {DType::int64, {1}, {-1}};
      g.outputs = {add(d.chance(2) ? "ReduceMax" : "ReduceMin", {x, axes}, {{"keepdims", d.chance(2) ? 1 : 0}})};
    }
    return g;
  }
  if (!is_float) x = add("DequantizeLinear", {x, number(DType::float32, d.scale()), number(t, d.codes(t, 1)[0])});
  switch (d.below(4)) {
    case 0: x = add("Mul", {x, number(DType::float32, d.floats(1)[0])}); break;
    case 2: x = add("Relu", {x}); break;
    case 1: x = add("Div", {add("Relu", {x}), number(DType::float32, 6)}); break;
    default: break;
  }
  switch (d.below(3)) {
    case 0: x = add("GlobalAveragePool", {x}); break;
    case 1:
      x = add("AveragePool", {x}, {{"count_include_pad", d.chance(2) ? 1 : 0}, {"ceil_mode", d.chance(2) ? 1 : 0}},
              window());
      break;
    default: {
      const std::string axes = name();
      g.constants.push_back({axes, {DType::int64, {2}, {2, 3}}});
      if (spatial < 2 || d.chance(3)) g.constants.back().second = {DType::int64, {1}, {-1}};
      x = add("ReduceMean", {x, axes}, {{"keepdims", d.chance(2) ? 1 : 0}});
    }
  }
  if (!d.chance(4)) {
    const DType y = d.pick({DType::uint8, DType::int8, DType::uint16, DType::int16});
    x = add("QuantizeLinear", {x, number(DType::float32, d.scale()), number(y, d.codes(y, 1)[0])});
  }
  g.outputs = {x};
  return g;
}

TEST(Pool, RandomPools) {
  constexpr std::uint64_t kSeed = 20261213;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(500, 60); ++round) {
    compare_engine(draw_pool(d), "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  std::cout << tally.kernels << " steps had a kernel, " << tally.references << " had none\n";
  EXPECT_GT(tally.kernels, 4 * tally.references);
}

}  // namespace
}  // namespace halfeven::test
