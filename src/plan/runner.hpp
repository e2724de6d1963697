// Runs a plan, or single steps of it, without a Context: for self-tests and benchmarks.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace halfeven::plan {

class Runner {
 public:
  /// Both have to outlive the runner; the inputs have the plan's types and shapes.
  Runner(const Plan& plan, const std::vector<Tensor>& inputs);

  /// Step `k` on the memory that the plan gives it.
  void step(std::size_t k, const ParallelFor& parallel) const;
  void run(const ParallelFor& parallel) const {
    for (std::size_t k = 0; k < plan_.steps.size(); ++k) step(k, parallel);
  }
  /// Step `k`, its first output written over a copy of input `input`, which has as many bytes.
  void step_in_place(std::size_t k, std::size_t input, const ParallelFor& parallel) const;
  /// What graph output `k` holds.
  const std::byte* output(std::size_t k) const { return pointers_[plan_.output_places[k]]; }

  /// One thread, or as many as are pretended: pieces one after the other.
  static ParallelFor serial();
  static ParallelFor halves();

 private:
  struct Pointers {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
  };

  const Plan& plan_;
  std::vector<std::byte> memory_;
  std::byte* scratch_ = nullptr;
  std::vector<std::byte*> pointers_;  // by place
  std::vector<Pointers> steps_;
};

}  // namespace halfeven::plan
