// Runs a property over random graphs. The seed is fixed, so that a run repeats; HALFEVEN_PROPERTY_SEED changes it and
// HALFEVEN_PROPERTY_COUNT sets the number of graphs. A failure prints the seed and the smallest graph found.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "properties/graph_generator.hpp"

namespace halfeven::properties {

// How rapidcheck prints a counterexample.
inline void showValue(const SmallGraph& graph, std::ostream& out) { out << to_text(graph); }

inline std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Calls body(graph) for many graphs; it reports with RC_ASSERT and RC_FAIL, and leaves a graph out with RC_DISCARD.
/// `share`: the part of all graphs that this property needs.
template <class Body>
void for_graphs(double share, Body body) {
  rc::detail::TestParams params;
  params.seed = environment("HALFEVEN_PROPERTY_SEED", 20240229);
  params.maxSuccess = static_cast<int>(share * static_cast<double>(environment("HALFEVEN_PROPERTY_COUNT", 6000)) + 1);
  params.maxDiscardRatio = 1;  // a generator that is mostly discarded tests little
  rc::detail::TestMetadata metadata;
  metadata.id = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  metadata.description = metadata.id;
  const auto result = rc::detail::checkTestable(
      [&] {
        // The nominal size: the whole range from the first graph on.
        const auto pick = [](std::size_t n) {
          return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, n));
        };
        const SmallGraph graph = *rc::gen::exec([&] { return draw_graph(pick); });
        body(graph);
      },
      metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  FAIL() << "HALFEVEN_PROPERTY_SEED=" << params.seed << "\n" << message.str();
}

}  // namespace halfeven::properties
