// Masks against the interpreter: every logical operator, casts, choices, broadcast in every way.
#include "plan/compare.hpp"
#include "support/effort.hpp"

namespace halfeven::test {
namespace {

using properties::SmallGraph;

TEST(Logic, Masks) {
  constexpr std::uint64_t kSeed = 20261203;
  constexpr std::int64_t kBoolean = 9;
  Draw d(kSeed);
  Tally tally;
  for (std::size_t round = 0; round < effort(200, 30); ++round) {
    SmallGraph g;
    const Shape shape{d.pick<std::int64_t>({1, 2, 0}), d.pick<std::int64_t>({1, 3}), d.pick<std::int64_t>({1, 5}),
                      d.pick<std::int64_t>({1, 7, 300})};
    int next = 0;
    const auto name = [&] { return "v" + std::to_string(next++); };
    const auto node = [&](const std::string& op, std::vector<std::string> in, std::int64_t to = 0) {
      const std::string out = name();
      std::map<std::string, std::int64_t> integers;
      if (to != 0) integers["to"] = to;
      g.nodes.push_back({op, std::move(in), out, integers, {}, {}, {}});
      return out;
    };
    const auto mask = [&](const Shape& s) {
      const std::string x = name();
      const DType t = d.pick({DType::int64, DType::int32, DType::uint8, DType::int8});
      std::vector<double> v;
      for (std::int64_t i = 0; i < count_of(s); ++i) v.push_back(d.pick({0.0, 0.0, 1.0, 3.0, 100.0}));
      g.inputs.push_back({x, {t, s, v}});
      return node("Cast", {x}, kBoolean);
    };
    std::string m = mask(shape);
    const std::string other = mask(smaller(d, shape));
    const bool swap = d.chance(2);
    m = node(d.pick({"And", "Or", "Xor"}), swap ? std::vector{other, m} : std::vector{m, other});
    if (d.chance(2)) m = node("Not", {m});
    if (d.chance(3)) {
      g.outputs = {node("Cast", {m}, d.pick<std::int64_t>({2, 3, 6, 7}))};
    } else {
      const DType t = d.pick({DType::float32, DType::uint8, DType::int8, DType::int64});
      const auto value = [&](const Shape& s) {
        const std::string x = name();
        const properties::SmallTensor v{t, s, t == DType::float32 ? d.floats(count_of(s)) : d.codes(t, count_of(s))};
        (d.chance(3) ? g.constants : g.inputs).push_back({x, v});
        return x;
      };
      const std::string a = value(smaller(d, shape));
      const std::string b = value(smaller(d, shape));
      g.outputs = {node("Where", {m, a, b})};
    }
    compare_engine(g, "seed " + std::to_string(kSeed) + ", round " + std::to_string(round), tally);
    if (HasFailure()) return;
  }
  EXPECT_EQ(tally.references, 0U);
}

}  // namespace
}  // namespace halfeven::test
