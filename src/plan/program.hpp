// Elementwise groups as programs of kernels/cpu/elementwise/fused.hpp.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cpu/elementwise/fused.hpp"
#include "ops/validate.hpp"
#include "plan/codes.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// A compiled program with all that it points to. Not copied or moved once built.
struct Program {
  kernels::FusedProgram view;
  std::vector<kernels::FusedStep> steps;
  std::deque<std::vector<double>> tables;
  std::deque<std::vector<std::uint32_t>> indices;
  std::vector<std::optional<Form>> in_forms;
  Form out_form;
  std::string note;
};

/// Compiles the body of the site's node; false with the reason where it is no elementwise program.
bool compile(const Site& site, const ops::BoundBody& body, Program& program, std::string& refusal);

}  // namespace halfeven::plan
