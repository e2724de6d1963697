// Groups of which an 8-bit code decides every element.
#pragma once

#include <optional>
#include <vector>

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

/// What a value of a body depends on besides single numbers.
struct Source {
  enum class Kind : std::uint8_t {
    number,  ///< nothing
    code,    ///< one 8-bit input, element by element
    other,
  } kind = Kind::other;
  std::size_t input = 0;  ///< of the node
  int depth = 0;          ///< operators on the way but DequantizeLinear and those that pass on
};

/// By ValueId of the body.
std::vector<Source> sources_of(const Site& site, const ops::BoundBody& body);

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

}  // namespace halfeven::plan
