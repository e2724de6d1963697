// The plan: which kernel runs each node, in which layout, in which memory, and why.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/validate.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// Where a value lives while the plan runs.
struct Place {
  enum class Kind : std::uint8_t { none, input, constant, arena } kind = Kind::none;
  std::size_t index = 0;   ///< of the graph input
  std::size_t offset = 0;  ///< in the arena
  std::size_t bytes = 0;
  Layout layout = Layout::plain;
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::string node;  ///< what it computes, for reports
  std::string op_type;
  std::vector<std::string> refusals;  ///< of the kernels that would have come first
  std::vector<std::size_t> inputs;    ///< places; SIZE_MAX where absent
  std::vector<std::size_t> outputs;
};

struct Plan {
  ir::Graph graph;            ///< fused, with concrete shapes
  std::vector<Place> places;  ///< by number: values first, in the graph's order, then what layout changes make
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;  ///< place of each graph output
  std::size_t arena_bytes = 0;
  std::size_t tensor_bytes = 0;  ///< sum of all tensors that live in the arena
  std::size_t scratch_bytes = 0;
};

/// Plans a fused graph whose inputs have concrete shapes. Throws Error{model} where a shape cannot be known before the
/// run.
Plan make_plan(ir::Graph graph, Isa isa, int threads);

}  // namespace halfeven::plan
