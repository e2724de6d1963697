// Whether tables are straight lines between two bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cpu/elementwise/channel_lines.hpp"
#include "cpu/elementwise/linear_words.hpp"

namespace halfeven::plan {

/// A line whose results are the table's for every code: all 65,536 are compared. `table` is by the stored bits of the
/// code; flips are 0x8000 for int16 codes and entries. nullopt where none was found.
std::optional<kernels::LinearWords> find_line(std::span<const std::uint16_t> table, std::uint16_t in_flip,
                                              std::uint16_t out_flip);

/// Lines whose results are the tables' for every code: all are compared. `tables` is [channels][256], by stored bytes;
/// where one line for each channel is not enough, two are tried, of the codes below `split` and of the others. nullopt
/// where none were found.
std::optional<kernels::ChannelLines> find_channel_lines(std::span<const std::uint8_t> tables, std::int32_t split);

}  // namespace halfeven::plan
