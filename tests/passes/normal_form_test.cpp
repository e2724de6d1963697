// The passes have one normal form: whatever the order, run to a fixpoint, the same graph. The set of passes is all of
// passes::passes(); docs/passes.md names them.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"
#include "properties/graph_generator.hpp"
#include "support/effort.hpp"
#include "support/files.hpp"

namespace halfeven::test {
namespace {

struct Subject {
  std::string name;
  ir::Graph graph;
};

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& pass : passes::passes()) names.emplace_back(pass.name);
  return names;
}

std::vector<Subject> small_graphs() {
  std::vector<Subject> out;
  for (const auto& folder : folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases")) {
    if (std::filesystem::exists(folder / "expected_error.txt")) continue;
    out.push_back({folder.filename().string(), Model::load(folder / "model.onnx").impl().graph});
  }
  return out;
}

std::vector<Subject> random_graphs(std::size_t count) {
  std::vector<Subject> out;
  std::mt19937_64 random(20261130);
  while (out.size() < count) {
    const auto drawn = properties::draw_graph([&](std::size_t n) { return random() % n; });
    const std::string text = properties::to_onnx(drawn);
    try {
      const Model model = Model::load(std::as_bytes(std::span(text)));
      out.push_back(
          {"random graph " + std::to_string(out.size()) + "\n" + properties::to_text(drawn), model.impl().graph});
    } catch (const Error&) {
      continue;  // the generator also draws graphs that are refused
    }
  }
  return out;
}

std::string normal_form(const ir::Graph& graph, const std::vector<std::string>& names) {
  return ir::structural_hash(passes::Pipeline(names).run_to_fixpoint(graph).graph);
}

// Every order of `names` gives one hash; the message names the first two orders that do not.
std::string compare_orders(const Subject& s, std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  const std::string first = normal_form(s.graph, names);
  const std::string first_order = passes::Pipeline(names).text();
  while (std::next_permutation(names.begin(), names.end())) {
    if (normal_form(s.graph, names) != first) {
      return s.name + ": '" + first_order + "' and '" + passes::Pipeline(names).text() + "' end differently";
    }
  }
  return "";
}

// Runs check(subject) for all subjects on two threads; reports what it returns.
template <class Check>
void for_all(const std::vector<Subject>& subjects, Check check) {
  std::atomic<std::size_t> next{0};
  std::vector<std::string> complaints(subjects.size());
  const auto work = [&] {
    for (std::size_t k = next++; k < subjects.size(); k = next++) complaints[k] = check(subjects[k]);
  };
  {
    std::jthread other(work);
    work();
  }
  for (const std::string& c : complaints) EXPECT_TRUE(c.empty()) << c;
}

std::string check_pairs_and_triples(const Subject& s) {
  const auto names = all_names();
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (std::size_t b = a + 1; b < names.size(); ++b) {
      if (auto c = compare_orders(s, {names[a], names[b]}); !c.empty()) return c;
      for (std::size_t d = b + 1; d < names.size(); ++d) {
        if (auto c = compare_orders(s, {names[a], names[b], names[d]}); !c.empty()) return c;
      }
    }
  }
  return "";
}

std::string check_permutations(const Subject& s, std::size_t count) {
  auto names = all_names();
  const std::string wanted = normal_form(s.graph, names);
  std::mt19937_64 random(7);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[random() % i]);
    if (normal_form(s.graph, names) != wanted)
      return s.name + ": '" + passes::Pipeline(names).text() + "' ends differently";
  }
  return "";
}

TEST(NormalForm, PairsAndTriplesOnCases) { for_all(small_graphs(), check_pairs_and_triples); }
TEST(NormalForm, PairsAndTriplesOnRandomGraphs) { for_all(random_graphs(effort(200, 10)), check_pairs_and_triples); }
TEST(NormalForm, PermutationsOnCases) {
  for_all(small_graphs(), [](const Subject& s) { return check_permutations(s, effort(50, 3)); });
}
TEST(NormalForm, PermutationsOnRandomGraphs) {
  for_all(random_graphs(effort(200, 10)), [](const Subject& s) { return check_permutations(s, effort(50, 3)); });
}

TEST(NormalForm, PermutationsOnNetworks) {
  std::vector<Subject> networks;
  for (const char* base : {HALFEVEN_TEST_DATA "/models", HALFEVEN_SHARED "/models"}) {
    for (const auto& folder : folders_in(base)) {
      if (!std::filesystem::exists(folder / "model.onnx")) continue;
      networks.push_back({folder.filename().string(), Model::load(folder / "model.onnx").impl().graph});
    }
  }
  for_all(networks, [](const Subject& s) { return check_permutations(s, effort(5, 1)); });
}

// A pass is idempotent, its pipeline is the composition of its parts, and what goes in does not change.
std::string check_properties(const Subject& s) {
  const std::string before = ir::to_text(s.graph);
  std::vector<passes::PipelineResult> once;
  for (const auto& pass : passes::passes()) {
    once.push_back(passes::apply(pass, s.graph));
    const auto twice = passes::apply(pass, once.back().graph);
    if (ir::to_text(twice.graph) != ir::to_text(once.back().graph)) {
      return s.name + ": " + std::string(pass.name) + " is not idempotent";
    }
  }
  for (std::size_t a = 0; a < once.size(); ++a) {
    for (const auto& second : passes::passes()) {
      const auto& first = passes::passes()[a];
      const passes::Pipeline both({std::string(first.name), std::string(second.name)});
      if (ir::to_text(both.run(s.graph).graph) != ir::to_text(passes::apply(second, once[a].graph).graph)) {
        return s.name + ": '" + both.text() + "' is not the composition of its passes";
      }
    }
  }
  return ir::to_text(s.graph) == before ? "" : s.name + ": the graph that went in changed";
}

TEST(PassProperties, OnCases) { for_all(small_graphs(), check_properties); }
TEST(PassProperties, OnRandomGraphs) { for_all(random_graphs(effort(200, 10)), check_properties); }

TEST(Pipeline, TextRoundTrips) {
  const auto all = passes::Pipeline::all();
  EXPECT_EQ(passes::Pipeline::parse(all.text()).text(), all.text());
  EXPECT_EQ(passes::Pipeline::parse(" fold-constants , fuse-qdq").text(), "fold-constants,fuse-qdq");
  EXPECT_EQ(passes::Pipeline::parse("").text(), "");
  EXPECT_THROW(passes::Pipeline::parse("fold-constants,no-such-pass"), Error);
}

passes::Rewrite nothing(const ir::Graph& graph) { return {graph, 0, {}}; }

TEST(Pipeline, NeedsAreResolvedAndCirclesRefused) {
  const std::vector<passes::Pass> circle{{"a", "", {"b"}, nothing},      {"b", "", {"c"}, nothing},
                                         {"c", "", {"a"}, nothing},      {"d", "", {"nowhere"}, nothing},
                                         {"e", "", {"f", "g"}, nothing}, {"f", "", {"g"}, nothing},
                                         {"g", "", {}, nothing}};
  const ir::Graph graph;
  try {
    passes::apply(circle[0], graph, nullptr, nullptr, circle);
    FAIL() << "a circle of needs was accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("a needs b needs c needs a"), std::string::npos) << e.what();
  }
  EXPECT_THROW(passes::apply(circle[3], graph, nullptr, nullptr, circle), Error);
  std::string order;
  for (const auto& step : passes::apply(circle[4], graph, nullptr, nullptr, circle).steps) order += step.pass;
  EXPECT_EQ(order, "gfe");
}

TEST(Pipeline, ExecutedListNamesNeededPasses) {
  const auto folder = std::filesystem::path(HALFEVEN_TEST_DATA) / "cases" / "seed-qdq-conv";
  const auto result = passes::apply(*passes::find_pass("fuse-qdq"), Model::load(folder / "model.onnx").impl().graph);
  ASSERT_FALSE(result.steps.empty());
  EXPECT_EQ(result.steps.back().pass, "fuse-qdq");
  EXPECT_TRUE(std::any_of(result.steps.begin(), result.steps.end(),
                          [](const auto& step) { return step.pass == "canonicalize-qdq"; }));
}

}  // namespace
}  // namespace halfeven::test
