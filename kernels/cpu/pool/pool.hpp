// Pools of 8-bit integers, NHWC.
#pragma once

#include <cstdint>

#include "common/requantize.hpp"

namespace halfeven::kernels {

struct PoolShape {
  std::int64_t batch = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t pad_h = 0;  ///< before
  std::int64_t pad_w = 0;
};

/// The largest of the elements inside the image. flip is 0x80 for signed elements. Every window holds an element.
void max_pool(const PoolShape& shape, const std::uint8_t* input, std::uint8_t flip, std::uint8_t* out,
              std::int64_t first_row, std::int64_t last_row);

/// Requantised sums over the whole image: out is [batch][channels]. The element's value is (byte ^ flip) - zero.
void global_average_pool(const PoolShape& shape, const std::uint8_t* input, std::uint8_t flip, std::int32_t zero,
                         const Requantize& q, std::uint8_t* out);

}  // namespace halfeven::kernels
