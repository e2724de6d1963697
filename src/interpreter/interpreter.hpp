// The interpreter: runs a valid graph operator by operator under a contract. Naive on purpose; shares no code with
// kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/validate.hpp"

namespace halfeven::interpreter {

struct Options {
  bool exact = true;  ///< contract section 1; false: section 2
  int threads = 1;
  std::uint64_t tensor_bytes = Limits{}.tensor_bytes;  ///< largest tensor that an operator may make
  std::function<void(std::size_t done, std::size_t total)> progress;
  /// Every tensor that a node computes, as an ordinary reader sees it, rounded to its type.
  std::function<void(ir::ValueId id, const Tensor& tensor)> tap;
  /// The same, unrounded (contract section 1, rule 2), and called first.
  std::function<void(ir::ValueId id, const ops::Data& unrounded)> tap_unrounded;
};

/// Runs `graph`, which `facts` describes. `inputs` has a tensor for each graph input, of the declared type. Returns the
/// graph outputs in order. Throws Error{input} for values without an answer (contract section 6), naming the node.
std::vector<Tensor> run(const ir::Graph& graph, const ops::Facts& facts, const std::vector<Tensor>& inputs,
                        const Options& options);

}  // namespace halfeven::interpreter
