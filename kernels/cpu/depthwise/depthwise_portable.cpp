#include <algorithm>

#include "cpu/depthwise/depthwise.hpp"

namespace halfeven::kernels {

std::vector<std::int64_t> depthwise_lanes(std::int64_t channels) {
  std::vector<std::int64_t> out;
  for (std::int64_t strip = 0; strip < channels; strip += 64) {
    const std::int64_t together = depthwise_strip_channels(channels - strip);
    for (std::int64_t v = 0; v < 4; ++v) {
      for (std::int64_t lane = 0; lane < 16; ++lane) {
        const std::int64_t c = strip + depthwise_byte(v, lane) % together;
        out.push_back(c < channels ? c : -1);
      }
    }
  }
  return out;
}

void pack_depthwise(Depthwise& d) {
  const std::int64_t channels = d.geometry.groups;
  const auto lanes = depthwise_lanes(channels);
  d.strips = static_cast<std::int64_t>(lanes.size()) / 64;
  d.quads = (d.kernel_h + 3) / 4;
  d.planes = 1;
  for (const int w : d.weights) d.planes = std::max<std::int64_t>(d.planes, w < 0 ? (127 - w) / 128 : (w + 126) / 127);
  d.packed = AlignedBytes(static_cast<std::size_t>(d.strips * d.kernel_w * d.quads * d.planes * 256));
  d.lane_start.assign(lanes.size(), 0);
  d.padding_row.assign(lanes.size(), d.geometry.padding);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l] < 0) continue;
    d.lane_start[l] = d.start[static_cast<std::size_t>(lanes[l])];
    const auto strip = static_cast<std::int64_t>(l) / 64;
    for (std::int64_t ky = 0; ky < d.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < d.kernel_w; ++kx) {
        int rest = d.weights[static_cast<std::size_t>((ky * d.kernel_w + kx) * channels + lanes[l])];
        std::int64_t at = ((strip * d.kernel_w + kx) * d.quads + ky / 4) * d.planes * 256 +
                          static_cast<std::int64_t>(l) % 64 * 4 + ky % 4;
        for (std::int64_t plane = 0; plane < d.planes; ++plane, at += 256) {
          const int part = std::clamp(rest, -128, 127);
          d.packed.data()[at] = static_cast<std::int8_t>(part);
          rest -= part;
        }
      }
    }
  }
}

std::vector<std::int64_t> depthwise_pair_lanes(std::int64_t channels) {
  std::vector<std::int64_t> out;
  for (std::int64_t strip = 0; strip * 16 < channels; ++strip) {
    for (std::int64_t v = 0; v < 2; ++v) {
      for (std::int64_t lane = 0; lane < 8; ++lane) {
        const std::int64_t c = depthwise_pair_channel(channels, strip) + 8 * (lane / 4) + 4 * v + lane % 4;
        out.push_back(c < channels ? c : -1);
      }
    }
  }
  return out;
}

void pack_depthwise_pairs(Depthwise& d) {
  const std::int64_t channels = d.geometry.groups;
  const auto lanes = depthwise_pair_lanes(channels);
  const std::int64_t pairs = (d.kernel_h + 1) / 2;
  d.pairs = AlignedBytes(lanes.size() * static_cast<std::size_t>(pairs * d.kernel_w * 4));
  d.lane_start.assign(lanes.size(), 0);
  d.padding_row.assign(16, d.geometry.padding);
  auto* to = reinterpret_cast<std::int16_t*>(d.pairs.data());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l] < 0) continue;
    d.lane_start[l] = d.start[static_cast<std::size_t>(lanes[l])];
    const auto strip = static_cast<std::int64_t>(l / 16);
    for (std::int64_t ky = 0; ky < d.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < d.kernel_w; ++kx) {
        const std::int64_t at = ((strip * pairs + ky / 2) * d.kernel_w + kx) * 32;
        to[at + static_cast<std::int64_t>(l % 16) * 2 + ky % 2] =
            d.weights[static_cast<std::size_t>((ky * d.kernel_w + kx) * channels + lanes[l])];
      }
    }
  }
}

void depthwise_portable(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                        std::int64_t first, std::int64_t last) {
  const ConvGeometry& g = d.geometry;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / g.out_height;
    const std::int64_t oy = row % g.out_height;
    for (std::int64_t ox = 0; ox < g.out_width; ++ox) {
      const std::int64_t at = n * g.out_image + oy * g.out_row + ox * g.out_column;
      for (std::int64_t c = 0; c < g.groups; ++c) {
        std::int32_t sum = d.start[static_cast<std::size_t>(c)];
        for (std::size_t t = 0; t < g.taps.size(); ++t) {
          const std::int64_t y = oy * g.stride_h + g.origin_y + g.taps[t].y;
          const std::int64_t x = ox * g.stride_w + g.origin_x + g.taps[t].x;
          const bool inside = y >= 0 && y < g.height && x >= 0 && x < g.width;
          const std::uint8_t a = inside ? in[n * g.image_bytes + y * g.row_bytes + x * g.column_bytes + c] : g.padding;
          sum += a * d.weights[t * static_cast<std::size_t>(g.groups) + static_cast<std::size_t>(c)];
        }
        if (d.raw) {
          reinterpret_cast<std::int32_t*>(out)[at + c] = sum;
        } else {
          out[at + c] = static_cast<std::uint8_t>(requantize(q, static_cast<std::size_t>(c), sum));
        }
      }
    }
  }
}

}  // namespace halfeven::kernels
