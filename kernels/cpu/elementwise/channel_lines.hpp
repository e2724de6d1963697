// Tables of bytes, one for each channel, that are one or two straight lines: computed, not looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace halfeven::kernels {

/// A channel's line: code x gives clamp(int32(fma(float(x - split), ratio, offset)) >> 16, lo, hi), where ratio and
/// offset are those of the piece that x belongs to. No value before clamping exceeds 2^31 - 2^16.
struct ChannelLines {
  struct Piece {
    std::vector<float>
        ratio;  ///< [period], in quarters: of 64 elements first those numbered 0, 4, 8 ...; then 1, 5 ...
    std::vector<float> offset;
  };
  Piece below;  ///< codes less than split; empty where there is one line
  Piece above;  ///< the others
  std::int32_t split = 0;
  std::size_t period = 0;  ///< a multiple of 64 and of the channels, which lie last
  std::uint8_t lo = 0;
  std::uint8_t hi = 255;
};

/// Elements [first, last) of the result; `first` is a multiple of 64.
void channel_lines_avx512(const ChannelLines& f, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                          std::size_t last);

}  // namespace halfeven::kernels
