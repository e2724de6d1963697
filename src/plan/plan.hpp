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
  std::size_t alias_of = SIZE_MAX;  ///< shares the memory of this place: a view of it, or written over it
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::string node;  ///< what it computes, for reports
  std::string op_type;
  std::vector<std::string> refusals;  ///< of the kernels that would have come first
  std::vector<std::size_t> inputs;    ///< places; SIZE_MAX where absent
  std::vector<std::size_t> outputs;
  std::vector<std::uint32_t> nodes{};  ///< of Plan::graph that it computes; none for conversions
};

/// A graph input or output.
struct Port {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;
  Tensor otherwise{};  ///< an input's default; undefined type where it has none
};

struct Plan {
  std::vector<Port> inputs;   ///< in the model's order
  std::vector<Port> outputs;  ///< likewise
  std::vector<Place> places;  ///< by number: values first, in the graph's order, then what conversions make
  std::vector<Step> steps;
  std::vector<std::size_t> output_places;                 ///< of each graph output
  std::vector<std::pair<std::size_t, Tensor>> constants;  ///< places that steps or outputs read, and what they hold
  std::vector<std::string> dropped;                       ///< table entries that failed their self-test, and how
  std::size_t arena_bytes = 0;
  std::size_t tensor_bytes = 0;        ///< sum of all tensors that live in the arena
  std::size_t largest_live_bytes = 0;  ///< most that one step needs of them
  std::size_t scratch_bytes = 0;
  ir::Graph graph;   ///< fused, with concrete shapes; empty unless PlanOptions::keep_graph
  ops::Facts facts;  ///< of the graph; likewise
};

struct PlanOptions {
  Isa isa = Isa::sse2;
  int threads = 1;
  bool plain_rounding = false;         ///< CompileOptions::plain_rounding
  std::vector<std::string> kernels{};  ///< names of table entries that come first, whatever their place in the table
  bool keep_graph = false;             ///< for checks; the graph's constants live as long as the plan then
  bool self_test = true;               ///< drop entries that fail their self-test on this machine
  std::uint64_t bytes = UINT64_MAX;    ///< most that arena and scratch may take
  std::span<const Entry> table = kernel_table();
};

/// Plans a fused graph whose inputs have concrete shapes. Constants that kernels have packed are let go one by one.
/// Throws Error{model} where a shape cannot be known before the run, or more memory is needed than the options allow;
/// Error{usage} for a kernel that the table does not have.
Plan make_plan(ir::Graph graph, const PlanOptions& options);

}  // namespace halfeven::plan
