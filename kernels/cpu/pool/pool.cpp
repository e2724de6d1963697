#include "cpu/pool/pool.hpp"

#include "common/requantize.hpp"

#include <algorithm>

namespace halfeven::kernels {

void max_pool(const PoolShape& s, const std::uint8_t* input, std::uint8_t flip, std::uint8_t* out,
              std::int64_t first_row, std::int64_t last_row) {
  for (std::int64_t row = first_row; row < last_row; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t oy = row % s.out_height;
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      std::uint8_t* to = out + (row * s.out_width + ox) * s.channels;
      std::fill_n(to, s.channels, std::uint8_t{0});
      for (std::int64_t ky = 0; ky < s.kernel_h; ++ky) {
        const std::int64_t y = oy * s.stride_h - s.pad_h + ky * s.dilation_h;
        if (y < 0 || y >= s.height) continue;
        for (std::int64_t kx = 0; kx < s.kernel_w; ++kx) {
          const std::int64_t x = ox * s.stride_w - s.pad_w + kx * s.dilation_w;
          if (x < 0 || x >= s.width) continue;
          const std::uint8_t* in = input + ((n * s.height + y) * s.width + x) * s.channels;
          if (flip == 0) {  // the common case, in a form that compilers vectorise
            for (std::int64_t c = 0; c < s.channels; ++c) to[c] = std::max(to[c], in[c]);
          } else {
            for (std::int64_t c = 0; c < s.channels; ++c) to[c] = std::max<std::uint8_t>(to[c], in[c] ^ flip);
          }
        }
      }
      if (flip != 0) {
        for (std::int64_t c = 0; c < s.channels; ++c) to[c] ^= flip;
      }
    }
  }
}

void global_average_pool(const PoolShape& s, const std::uint8_t* input, std::uint8_t flip, std::int32_t zero,
                         const Requantize& q, std::uint8_t* out) {
  constexpr std::int64_t kBlock = 256;  // channels whose sums are held at a time
  std::int64_t sums[kBlock];
  const std::int64_t pixels = s.height * s.width;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t first = 0; first < s.channels; first += kBlock) {
      const std::int64_t count = std::min(kBlock, s.channels - first);
      std::fill_n(sums, count, -static_cast<std::int64_t>(zero) * pixels);
      for (std::int64_t p = 0; p < pixels; ++p) {
        const std::uint8_t* in = input + (n * pixels + p) * s.channels + first;
        for (std::int64_t c = 0; c < count; ++c) sums[c] += in[c] ^ flip;
      }
      for (std::int64_t c = 0; c < count; ++c) {
        out[n * s.channels + first + c] = static_cast<std::uint8_t>(requantize(q, 0, sums[c]));
      }
    }
  }
}

}  // namespace halfeven::kernels
