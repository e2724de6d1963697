// What the tiles of conv_pairs.inc pass to their innermost loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

constexpr std::int64_t kDepth = 512;           // bytes of a pixel that are widened at once
constexpr std::int64_t kStride = kDepth + 16;  // from pixel to pixel; no power of two: they would share cache sets
constexpr std::size_t kMostPieces = 64;

/// A run of four input channels each, whose weights follow each other.
struct Piece {
  const std::int8_t* weights;
  std::int64_t quads;
};

/// As much of the depth as is widened at once.
struct Part {
  const std::int16_t* x;  ///< [pixels][kStride]
  const Piece* pieces;
  std::size_t count;
  const std::int32_t* from;  ///< [pixels][from_stride]: what the sums start from
  std::size_t from_stride;
  std::int32_t* to;  ///< [pixels][16 * vectors]
};

}  // namespace halfeven::kernels
