#include "plan/conv_input.hpp"

#include <algorithm>
#include <cstring>

namespace halfeven::plan {
namespace {

constexpr std::size_t kSlack = 64;

// One row of an image, position by position.
template <class T>
void interleave(const ConvInput& c, const T* in, T* to, std::int64_t n, std::int64_t y) {
  const auto padding = static_cast<T>(c.padding);
  std::fill_n(to, c.left * c.channels, padding);
  T* middle = to + c.left * c.channels;
  const std::int64_t right = c.padded_width - c.left - c.width;
  std::fill_n(middle + c.width * c.channels, right * c.channels, padding);
  if (c.layout == Layout::channels_last || c.channels == 1) {
    std::copy_n(in + (n * c.height + y) * c.width * c.channels, c.width * c.channels, middle);
    return;
  }
  const std::int64_t plane = c.height * c.width;
  const T* from = in + n * c.channels * plane + y * c.width;
  if (c.channels == 3) {
    for (std::int64_t x = 0; x < c.width; ++x) {
      middle[3 * x] = from[x];
      middle[3 * x + 1] = from[plane + x];
      middle[3 * x + 2] = from[2 * plane + x];
    }
    return;
  }
  for (std::int64_t k = 0; k < c.channels; ++k) {
    for (std::int64_t x = 0; x < c.width; ++x) middle[x * c.channels + k] = from[k * plane + x];
  }
}

template <class T>
void interleave_all(const ConvInput& c, const std::byte* in, std::byte* scratch, const ParallelFor& parallel) {
  parallel(c.batch * c.height, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      interleave(c, reinterpret_cast<const T*>(in), reinterpret_cast<T*>(scratch) + r * c.padded_width * c.channels,
                 r / c.height, r % c.height);
    }
  });
}

}  // namespace

std::size_t ConvInput::scratch_bytes() const {
  switch (kind) {
    case Kind::rows: return static_cast<std::size_t>(batch * height * padded_width * channels * element_bytes) + kSlack;
    case Kind::planes: return static_cast<std::size_t>(2 * plane_bytes()) + kSlack;
    default: return 0;
  }
}

const std::uint8_t* ConvInput::prepare(const std::byte* in, std::byte* scratch, const ParallelFor& parallel) const {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
  auto* to = reinterpret_cast<std::uint8_t*>(scratch);
  switch (kind) {
    case Kind::rows:
      (element_bytes == 2 ? interleave_all<std::uint16_t> : interleave_all<std::uint8_t>)(*this, in, scratch, parallel);
      return to;
    case Kind::planes: {
      const auto* words = reinterpret_cast<const std::uint16_t*>(in);
      const std::int64_t count = elements();
      parallel(count, [&](std::int64_t first, std::int64_t last) {
        split(words + first, to + first, to + plane_bytes() + first, last - first, flip);
      });
      const auto rest = static_cast<std::size_t>(plane_bytes() - padding_at());
      std::memset(to + padding_at(), zero >> 8, rest);
      std::memset(to + plane_bytes() + padding_at(), zero & 0xFF, rest);
      return to;
    }
    default: return bytes;
  }
}

}  // namespace halfeven::plan
