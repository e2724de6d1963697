// Inputs drawn so that saturation, ties and limits are reached, not only the middle.
#pragma once

#include <map>
#include <string>

#include "verify/passes_check.hpp"

namespace halfeven::verification {

/// Input set number `number` for the seed: the same on every machine. Inputs with a default keep it. A float input that
/// is quantized gets ties and their neighbours, values that saturate, values near 0 and the whole range; quantized
/// inputs get every code; indices stay within what they index; masks and other integers are 0 or 1. An unknown first
/// dimension becomes 1, others 32 unless `shapes` says otherwise. Throws Error{usage} for a shape that does not fit the
/// declaration.
InputSet random_inputs(const ir::Graph& graph, const ops::Facts& facts, const std::map<std::string, Shape>& shapes,
                       std::uint64_t seed, std::size_t number);

}  // namespace halfeven::verification
