#include "plan/conv_input.hpp"

#include <cstring>

namespace halfeven::plan {
namespace {

constexpr std::size_t kSlack = 64;

// One row of an image, position by position.
void interleave(const ConvInput& c, const std::uint8_t* in, std::uint8_t* to, std::int64_t n, std::int64_t y) {
  std::memset(to, c.padding, static_cast<std::size_t>(c.left * c.channels));
  std::uint8_t* middle = to + c.left * c.channels;
  const std::int64_t right = c.padded_width - c.left - c.width;
  std::memset(middle + c.width * c.channels, c.padding, static_cast<std::size_t>(right * c.channels));
  if (c.layout == Layout::channels_last || c.channels == 1) {
    std::memcpy(middle, in + (n * c.height + y) * c.width * c.channels, static_cast<std::size_t>(c.width * c.channels));
    return;
  }
  const std::int64_t plane = c.height * c.width;
  const std::uint8_t* from = in + n * c.channels * plane + y * c.width;
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

}  // namespace

std::size_t ConvInput::scratch_bytes() const {
  switch (kind) {
    case Kind::rows: return static_cast<std::size_t>(batch * height * padded_width * channels) + kSlack;
    case Kind::planes: return static_cast<std::size_t>(2 * plane_bytes()) + kSlack;
    default: return 0;
  }
}

const std::uint8_t* ConvInput::prepare(const std::byte* in, std::byte* scratch, const ParallelFor& parallel) const {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
  auto* to = reinterpret_cast<std::uint8_t*>(scratch);
  switch (kind) {
    case Kind::rows:
      parallel(batch * height, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          interleave(*this, bytes, to + r * padded_width * channels, r / height, r % height);
        }
      });
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
