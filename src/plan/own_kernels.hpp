// The kernels that are in no table: the planner brings them where it needs them.
#pragma once

#include "ops/validate.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// Nodes that no kernel takes run in the interpreter, those that pass float tensors to each other together: between
/// them values travel unrounded (contract section 1).
class ReferenceKernel final : public Kernel {
 public:
  ir::Graph graph;
  ops::Facts facts;
  int threads = 1;

  void run(const Buffers& b, const ParallelFor& parallel) const override;
};

/// From one form to another.
class ConvertKernel final : public Kernel {
 public:
  std::int64_t batch = 1, rows = 1, columns = 1;  ///< of the result; 1 x elements where the layout stays
  std::size_t element = 1;
  std::uint8_t flip = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override;

 private:
  template <class T>
  void move(const Buffers& b, const ParallelFor& parallel) const;
};

}  // namespace halfeven::plan
