// Inputs drawn so that saturation, ties and limits are reached, not only the middle.
#pragma once

#include <map>
#include <string>

#include "verify/passes_check.hpp"

namespace halfeven::verification {

/// Input set number `number` for the seed: the same on every machine. Inputs with a default keep it. A float input that
/// is quantized gets ties and their neighbours, values that saturate, values near 0 and the whole range; quantized
/// inputs get every code; indices stay within what they index; masks and other integers are 0 or 1. An unknown first
/// dimension becomes 1, others 32 unless `shapes` says otherwise. A model that has no answer to such numbers (roots of
/// negative ones, say) may have one to tamer floats: 1 leaves only the middle of the range, 2 only its positive part.
/// Throws Error{usage} for a shape that does not fit the declaration.
InputSet random_inputs(const ir::Graph& graph, const ops::Facts& facts, const std::map<std::string, Shape>& shapes,
                       std::uint64_t seed, std::size_t number, int tameness = 0);
inline constexpr int kTamest = 2;

}  // namespace halfeven::verification
