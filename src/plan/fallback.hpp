// The interpreter as the last resort of a kernel.
#pragma once

#include "ops/validate.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// Runs one node in the interpreter, for the rare values that its kernel cannot answer: elements that it cannot decide,
/// and those without an answer, whose error the interpreter words. Allocates; slow.
class Fallback {
 public:
  explicit Fallback(const Site& site);

  /// `in` has the node's inputs in `forms` (those without a form are constants and not looked at); the result is stored
  /// in `out_form`.
  void run(std::span<const std::byte* const> in, std::span<const std::optional<Form>> forms, std::byte* out,
           Form out_form) const;

 private:
  ir::Graph graph_;
  ops::Facts facts_;
  std::vector<std::size_t> inputs_;  // of the node, by input of the graph
};

/// A tensor from one form to another: channels last or not, bytes with or without 128 added.
void change_form(const std::byte* from, Form has, std::byte* to, Form wanted, const Shape& shape, DType type);

}  // namespace halfeven::plan
