// How an activation reaches a convolution kernel.
#pragma once

#include <cstdint>

#include "cpu/conv/split_words.hpp"
#include "plan/kernel.hpp"

namespace halfeven::plan {

/// What is done to the input before the kernel reads it.
struct ConvInput {
  enum class Kind : std::uint8_t {
    as_it_is,
    rows,    ///< few channels: rows padded left and right, so that a row of taps is one run of bytes
    planes,  ///< 16-bit values: all high bytes, then all low bytes, each with a position of padding behind
  } kind = Kind::as_it_is;
  std::int64_t batch = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;
  Layout layout = Layout::channels_last;  ///< of what comes in
  // rows:
  std::int64_t left = 0;
  std::int64_t padded_width = 1;
  std::int64_t element_bytes = 1;  ///< or 2
  std::uint16_t padding = 0;
  // planes:
  std::uint16_t flip = 0;  ///< 0x8000 for signed values
  std::uint16_t zero = 0;  ///< what padding holds
  kernels::SplitFunction split = kernels::split_words_portable;

  /// Where in a plane the position of padding lies: behind all others, and what vectors read beyond them.
  std::int64_t padding_at() const { return elements() + 64; }
  /// From one plane to the other.
  std::int64_t plane_bytes() const { return padding_at() + (channels + 127) / 64 * 64; }

  std::int64_t elements() const { return batch * height * width * channels; }
  std::size_t scratch_bytes() const;
  /// Returns what the kernel reads: `in` or `scratch`.
  const std::uint8_t* prepare(const std::byte* in, std::byte* scratch, const ParallelFor& parallel) const;
};

}  // namespace halfeven::plan
