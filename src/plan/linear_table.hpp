// Whether a table is a straight line between two bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cpu/elementwise/linear_words.hpp"

namespace halfeven::plan {

/// A line whose results are the table's for every code: all 65,536 are compared. `table` is by the stored bits of the
/// code; flips are 0x8000 for int16 codes and entries. nullopt where none was found.
std::optional<kernels::LinearWords> find_line(std::span<const std::uint16_t> table, std::uint16_t in_flip,
                                              std::uint16_t out_flip);

}  // namespace halfeven::plan
