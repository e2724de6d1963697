// Where tensors lie in the arena.
#pragma once

#include <cstddef>
#include <vector>

namespace halfeven::plan {

struct Plan;

/// Memory that is needed from step `first` to step `last`, both included.
struct Block {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t bytes = 0;
  std::size_t offset = 0;  ///< what place_blocks finds
};

/// Gives every block an offset; blocks that are needed in one step do not overlap. Offsets are sums of the blocks'
/// bytes, so they keep any alignment that all of these have. Returns the bytes that all take together: the least that a
/// few first-fit orders give, never below largest_live().
std::size_t place_blocks(std::vector<Block>& blocks);

/// The greatest sum of bytes that are needed in one step: no arrangement can take less.
std::size_t largest_live(const std::vector<Block>& blocks);

/// Decides the memory of every place that a step of the plan writes: that of an input which dies there where the kernel
/// may work in place, else a part of the arena. Sets Place::kind, offset and alias_of, and the plan's sums. Reads
/// Plan::steps, places and outputs.
void assign_memory(Plan& plan);

}  // namespace halfeven::plan
