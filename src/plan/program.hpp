// Elementwise groups as programs of kernels/cpu/elementwise/fused.hpp.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cpu/elementwise/fused.hpp"
#include "ops/validate.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// A group, or a plain node as a group of one, with the types and shapes of its inputs.
ops::BoundBody body_at(const Site& site);

/// A value of the body for every code of 8-bit input `leaf` (by node input), in the order of integer_min ...
/// integer_max, rounded to its type: it depends on that input and on single numbers only, or, as [256][channels], on
/// constants with an entry for each channel, too. Throws where a code has no answer.
Tensor evaluate_codes(const Site& site, const ops::BoundBody& body, ir::ValueId value, std::size_t leaf,
                      std::int64_t channels = 1);

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

/// The 8-bit input (by node input) that decides every element of the body's result, in place: by its code alone, or
/// together with the number of the channel.
struct DecidingCode {
  std::size_t input = 0;
  std::int64_t channels = 1;
};
std::optional<DecidingCode> only_code(const Site& site, const ops::BoundBody& body);

/// The 8-bit input (by node input) of which the value is a function, element by element, together with single numbers,
/// if a computed operator (no DequantizeLinear, none that passes on) is among those that make it.
std::optional<std::size_t> code_behind(const Site& site, const ops::BoundBody& body, ir::ValueId value);

/// Compiles the body of the site's node; false with the reason where it is no elementwise program.
bool compile(const Site& site, const ops::BoundBody& body, Program& program, std::string& refusal);

}  // namespace halfeven::plan
