// Copies of elements of 1, 2, 4 or 8 bytes from where one tensor has them to where another wants them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// A nest of loops, the innermost first; strides count elements and may be 0 or negative in the source.
struct MoveLoop {
  std::int64_t length = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

inline constexpr std::size_t kMoveLoops = 8;

struct MoveNest {
  std::size_t source = 0;  ///< number of the input
  std::int64_t from = 0;   ///< where the first element lies
  std::int64_t to = 0;
  std::size_t loops = 0;
  std::array<MoveLoop, kMoveLoops> loop{};

  /// Rounds of the outermost loop: the pieces in which threads take it.
  std::int64_t rounds() const { return loops == 0 ? 1 : loop[loops - 1].length; }
};

/// Rounds [first, last) of the outermost loop.
void move_nest(const MoveNest& nest, std::size_t element, const std::byte* in, std::byte* out, std::int64_t first,
               std::int64_t last);

/// out[i] = in[index[i]] for i in [first, last).
void move_indexed(const std::uint32_t* index, std::size_t element, const std::byte* in, std::byte* out,
                  std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
