#include "cpu/depthwise/depthwise_words.hpp"

namespace halfeven::kernels {

std::vector<std::int64_t> depthwise_words_lanes(std::int64_t channels) {
  std::vector<std::int64_t> out;
  for (std::int64_t strip = 0; strip < channels; strip += 32) {
    const std::int64_t together = depthwise_words_together(channels - strip);
    for (std::int64_t v = 0; v < 2; ++v) {
      for (std::int64_t lane = 0; lane < 16; ++lane) {
        const std::int64_t c = strip + depthwise_word(v, lane) % together;
        out.push_back(c < channels ? c : -1);
      }
    }
  }
  return out;
}

void pack_depthwise_words(DepthwiseWords& d, const std::vector<std::int16_t>& weights,
                          const std::vector<std::int32_t>& start) {
  const std::int64_t channels = d.geometry.groups;
  const auto lanes = depthwise_words_lanes(channels);
  d.strips = static_cast<std::int64_t>(lanes.size()) / 32;
  d.pairs = (d.kernel_h + 1) / 2;
  d.packed = AlignedBytes(static_cast<std::size_t>(d.strips * d.pairs * d.kernel_w) * 128);
  d.start.assign(lanes.size(), 0);
  d.padding_row.assign(32, d.geometry.padding_word);
  auto* packed = reinterpret_cast<std::int16_t*>(d.packed.data());
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l] < 0) continue;
    d.start[l] = start[static_cast<std::size_t>(lanes[l])];
    const auto strip = static_cast<std::int64_t>(l) / 32;
    for (std::int64_t ky = 0; ky < d.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < d.kernel_w; ++kx) {
        packed[((strip * d.pairs + ky / 2) * d.kernel_w + kx) * 64 + static_cast<std::int64_t>(l) % 32 * 2 + ky % 2] =
            weights[static_cast<std::size_t>((ky * d.kernel_w + kx) * channels + lanes[l])];
      }
    }
  }
}

}  // namespace halfeven::kernels
