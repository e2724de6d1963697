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
  Form form;
  std::size_t alias_of = SIZE_MAX;  ///< shares the memory of this place
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
  std::vector<Place> places;  ///< by number: values first, in the graph's order, then what conversions make
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;                       ///< place of each graph output
  std::vector<std::pair<std::size_t, Tensor>> constants;  ///< places of kind constant and what they hold
  std::size_t arena_bytes = 0;
  std::size_t tensor_bytes = 0;  ///< sum of all tensors that live in the arena
  std::size_t scratch_bytes = 0;
};

struct PlanOptions {
  Isa isa = Isa::sse2;
  int threads = 1;
  std::vector<std::string> kernels;  ///< names of table entries that come first, whatever their place in the table
};

/// Plans a fused graph whose inputs have concrete shapes. Throws Error{model} where a shape cannot be known before the
/// run.
Plan make_plan(ir::Graph graph, const PlanOptions& options);

}  // namespace halfeven::plan
