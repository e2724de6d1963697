// Data movement kernels give the interpreter's bits, between every pair of layouts.
#include "plan/compare.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;
using Ints = std::vector<double>;

class Movements {
 public:
  explicit Movements(Draw& draw) : d(draw) {}
  Draw& d;
  SmallGraph g;

  std::string name() { return "v" + std::to_string(next_++); }
  std::string numbers(DType t, const Ints& v) {
    const std::string n = name();
    g.constants.push_back({n, {t, {static_cast<std::int64_t>(v.size())}, v}});
    return n;
  }
  std::string list(const Ints& v) { return numbers(DType::int64, v); }

  std::string input(DType t, const Shape& shape) {
    const std::string x = name();
    const bool is_float = t == DType::float32;
    g.inputs.push_back({x, {t, shape, is_float ? d.floats(count_of(shape)) : d.codes(t, count_of(shape))}});
    if ((t != DType::uint8 && t != DType::int8) || shape.size() != 4 || !d.chance(2)) return x;
    const std::string y = name();  // channels last
    g.nodes.push_back({"MaxPool", {x}, y, {}, {{"kernel_shape", {2, 2}}, {"pads", {1, 1, 0, 0}}}, {}, {}});
    return y;
  }

  std::string add(const std::string& op, std::vector<std::string> in, std::map<std::string, std::int64_t> ints = {},
                  std::map<std::string, std::vector<std::int64_t>> lists = {},
                  std::map<std::string, std::string> strings = {}) {
    const std::string y = name();
    g.nodes.push_back({op, std::move(in), y, std::move(ints), std::move(lists), {}, std::move(strings)});
    return y;
  }

 private:
  int next_ = 0;
};

SmallGraph draw_movement(Draw& d) {
  Movements m(d);
  const DType t = d.pick({DType::uint8, DType::int8, DType::int8, DType::uint16, DType::float32, DType::int64});
  Shape shape{d.pick<std::int64_t>({1, 2}), d.pick<std::int64_t>({1, 3, 4, 17}), d.pick<std::int64_t>({1, 2, 5}),
              d.pick<std::int64_t>({1, 3, 6})};
  if (d.chance(4)) shape.resize(1 + d.below(3));
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto axis = static_cast<std::int64_t>(d.below(shape.size()));
  const std::string x = m.input(t, shape);
  std::string y;
  switch (d.below(10)) {
    case 0: {
      std::vector<std::int64_t> perm;
      for (std::int64_t k = 0; k < rank; ++k) perm.push_back(k);
      std::shuffle(perm.begin(), perm.end(), d.random);
      if (rank == 4 && d.chance(2))
        perm = d.chance(2) ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 3, 1, 2};
      y = m.add("Transpose", {x}, {}, {{"perm", perm}});
      break;
    }
    case 1: {
      std::vector<std::string> parts{x};
      const std::size_t more = 1 + d.below(3);
      for (std::size_t k = 0; k < more; ++k) {
        Shape other = shape;
        other[static_cast<std::size_t>(axis)] = d.pick<std::int64_t>({1, 2, 5});
        parts.push_back(m.input(t, other));
      }
      y = m.add("Concat", parts, {{"axis", rank == 4 && d.chance(2) ? axis - rank : axis}});
      break;
    }
    case 2:
      y = m.add("Slice", {x, m.list({d.chance(2) ? 0.0 : -2.0}), m.list({d.chance(2) ? 1e6 : -1.0}),
                          m.list({static_cast<double>(axis)}), m.list({d.pick({1.0, 2.0})})});
      break;
    case 3: y = m.add("Gather", {x, m.list({0, -1, 0})}, {{"axis", axis}}); break;
    case 4: {
      Ints pads;
      for (std::int64_t k = 0; k < 2 * rank; ++k) pads.push_back(static_cast<double>(d.chance(2) ? 0 : d.below(3)));
      std::vector<std::string> in{x, m.list(pads)};
      if (d.chance(2)) {
        in.push_back(m.name());
        m.g.constants.push_back({in.back(), {t, {}, t == DType::float32 ? Ints{-1.5} : Ints{7}}});
      }
      y = m.add("Pad", in, {}, {}, {{"mode", d.chance(3) ? "edge" : "constant"}});
      break;
    }
    case 5: {
      Ints to;
      for (const std::int64_t n : shape) to.push_back(static_cast<double>(n == 1 ? 3 : n));
      y = m.add("Expand", {x, m.list(to)});
      break;
    }
    case 6: {
      Ints repeats;
      for (std::int64_t k = 0; k < rank; ++k) repeats.push_back(static_cast<double>(1 + d.below(3)));
      y = m.add("Tile", {x, m.list(repeats)});
      break;
    }
    case 7: {
      Ints scales;
      for (std::int64_t k = 0; k < rank; ++k) scales.push_back(k < 2 ? 1.0 : d.pick({1.0, 2.0, 3.0, 1.5, 0.5}));
      y = m.add("Resize", {x, "", m.numbers(DType::float32, scales)}, {}, {},
                {{"mode", "nearest"},
                 {"coordinate_transformation_mode", d.pick({"asymmetric", "half_pixel", "align_corners"})},
                 {"nearest_mode", d.pick({"floor", "round_prefer_floor"})}});
      break;
    }
    case 8: y = m.add("SpaceToDepth", {x}, {{"blocksize", 1 + static_cast<std::int64_t>(d.below(2))}}); break;
    default:
      y = m.add("DepthToSpace", {x}, {{"blocksize", 1 + static_cast<std::int64_t>(d.below(2))}}, {},
                {{"mode", d.pick({"DCR", "CRD"})}});
  }
  m.g.outputs = {y};
  if (d.chance(3)) {  // and on, in the layout that the first one left
    m.g.outputs = {m.add("Transpose", {y})};
  }
  return m.g;
}

TEST(Move, RandomMovements) {
  constexpr std::uint64_t kSeed = 20261212;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(500, 60); ++round) {
    compare_engine(draw_movement(d), "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  std::cout << tally.kernels << " steps had a kernel, " << tally.references << " had none\n";
  EXPECT_GT(tally.kernels, 10 * tally.references);
}

}  // namespace
}  // namespace halfeven::test
