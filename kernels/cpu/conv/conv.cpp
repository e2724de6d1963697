// Packing, and the walk over tiles.
#include "cpu/conv/conv.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace halfeven::kernels {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kMostTaps = 128;  // whose positions a tile at the border keeps on the stack at once
constexpr std::int64_t kChunkBytes = 24 * 1024;
constexpr std::int64_t kHeavyWeights = 128 * 1024;  // of a layer: lighter ones stay in the cache while chunks pass

std::vector<ConvBlock> blocks_of(const ConvGeometry& g, std::int64_t most_vectors) {
  std::vector<ConvBlock> out;
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t channel = 0; channel < g.out_channels;) {
      const std::int64_t left = g.out_channels - channel;
      const std::int64_t vectors =
          std::min<std::int64_t>(most_vectors, left > 2 * kLanes ? 4 : (left > kLanes ? 2 : 1));
      // 33 to 48 channels: 32 and the rest.
      const std::int64_t used = vectors == 4 && left <= 3 * kLanes ? 2 : vectors;
      ConvBlock b;
      b.group = group;
      b.channel = channel;
      b.vectors = used;
      b.channels = std::min(left, used * kLanes);
      out.push_back(b);
      channel += b.channels;
    }
  }
  return out;
}

std::int64_t channel_of(LaneOrder order, std::int64_t vectors, std::int64_t vector, std::int64_t lane) {
  switch (order) {
    case LaneOrder::bytes: return interleaved_channel(vectors, vector, lane);
    case LaneOrder::words: return interleaved_word(vectors, vector, lane);
    default: return vector * kLanes + lane;
  }
}

// What a tap's weights add to a sum, modulo 2^32, where they read padding.
std::int32_t padding_sum(const ConvGeometry& g, const std::int8_t* weights) {
  const std::int32_t factor = g.words ? static_cast<std::int16_t>(g.padding_word ^ g.flip) : g.padding;
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < g.inputs(); ++i) sum += static_cast<std::uint32_t>(weights[i] * factor);
  return static_cast<std::int32_t>(sum);
}

}  // namespace

ConvWeights pack_conv(const ConvGeometry& g, const std::int8_t* weights, const std::int32_t* start, LaneOrder order,
                      std::int64_t most_vectors) {
  ConvWeights w;
  w.blocks = blocks_of(g, most_vectors);
  const auto taps = static_cast<std::int64_t>(g.taps.size());
  const std::int64_t factors = g.words ? 2 : 4;  // of a lane
  std::size_t bytes = 0;
  for (ConvBlock& b : w.blocks) {
    b.weights = bytes;
    b.lanes = w.lanes;
    bytes += static_cast<std::size_t>(taps * g.quads() * b.vectors * kLanes * factors);
    w.lanes += static_cast<std::size_t>(b.vectors * kLanes);
  }
  w.packed = AlignedBytes(bytes);
  w.start.assign(w.lanes, 0);
  w.channel.assign(w.lanes, -1);
  w.padding.assign(static_cast<std::size_t>(taps) * w.lanes, 0);
  for (const ConvBlock& b : w.blocks) {
    for (std::int64_t v = 0; v < b.vectors; ++v) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::int64_t c = channel_of(order, b.vectors, v, lane);
        if (c >= b.channels) continue;
        const std::int64_t oc = b.group * g.out_channels + b.channel + c;
        const std::size_t at = b.lanes + static_cast<std::size_t>(v * kLanes + lane);
        w.start[at] = start[oc];
        w.channel[at] = oc;
        for (std::int64_t t = 0; t < taps; ++t) {
          const std::int8_t* from = weights + (oc * taps + t) * g.inputs();
          for (std::int64_t i = 0; i < g.inputs(); ++i) {
            const std::int64_t quad = t * g.quads() + i / factors;
            const std::int64_t at_lane = ((quad * b.vectors + v) * kLanes + lane) * factors;
            w.packed.data()[static_cast<std::int64_t>(b.weights) + at_lane + i % factors] = from[i];
          }
          w.padding[static_cast<std::size_t>(t) * w.lanes + at] = padding_sum(g, from);
        }
      }
    }
  }
  for (const Tap& t : g.taps) w.tap_offsets.push_back(t.y * g.row_bytes + t.x * g.column_bytes);
  w.tap_numbers.resize(g.taps.size());
  std::iota(w.tap_numbers.begin(), w.tap_numbers.end(), 0);
  w.padding_row.assign(static_cast<std::size_t>(g.quads() * 4), g.padding);
  for (std::size_t i = 0; g.words && i < w.padding_row.size(); i += 2) {
    std::memcpy(w.padding_row.data() + i, &g.padding_word, sizeof g.padding_word);
  }
  return w;
}

bool prefers_rows(const ConvGeometry& g) {
  bool reads_padding = false;
  for (const Tap& t : g.taps) reads_padding = reads_padding || t.y + g.origin_y < 0;
  return reads_padding && g.out_width >= 7 && g.out_width <= 2 * kMostPixels;
}

void Conv::divide(int threads) {
  const std::int64_t pixels = geometry.out_pixels();
  const std::int64_t bytes = std::max<std::int64_t>(1, geometry.channels * geometry.stride_h * geometry.stride_w);
  chunk = std::max<std::int64_t>(24, kChunkBytes / bytes);
  // Enough units for the threads to share evenly.
  const auto blocks = static_cast<std::int64_t>(weights.blocks.size());
  if (threads > 1) {
    const std::int64_t wanted = (16 * threads + geometry.batch * blocks - 1) / (geometry.batch * blocks);
    chunk = std::min(chunk, std::max<std::int64_t>(24, (pixels + wanted - 1) / wanted));
  }
  chunks = std::max<std::int64_t>(1, (pixels + chunk - 1) / chunk);
  chunk = (pixels + chunks - 1) / chunks;
  const auto weight_bytes = static_cast<std::int64_t>(weights.packed.size());
  blocks_first = weight_bytes > std::max(kHeavyWeights, geometry.height * geometry.row_bytes);
  if (rows) {  // whole ones
    chunk = (chunk + geometry.out_width - 1) / geometry.out_width * geometry.out_width;
    chunks = (pixels + chunk - 1) / chunk;
  }
}

namespace {

// The input positions of a tile, and what of its taps is left.
struct Positions {
  std::array<const std::uint8_t*, kMostTaps * kMostPixels> in;
  std::array<std::int32_t, kMostTaps> numbers;
  std::array<std::int64_t, kMostTaps> offsets;  // zeros
};

class Walk {
 public:
  Walk(const Conv& conv, const std::uint8_t* in, const Requantize& q, std::byte* out)
      : conv_(conv), g_(conv.geometry), q_(q), in_(in), out_(out) {
    for (const Tap& t : g_.taps) {
      least_y_ = std::min(least_y_, t.y);
      most_y_ = std::max(most_y_, t.y);
      least_x_ = std::min(least_x_, t.x);
      most_x_ = std::max(most_x_, t.x);
    }
    positions_.offsets.fill(0);
    // Columns whose taps are all inside.
    const auto up = [&](std::int64_t v) { return v <= 0 ? 0 : (v + g_.stride_w - 1) / g_.stride_w; };
    first_inside_ = std::min(g_.out_width, up(-g_.origin_x - least_x_));
    last_inside_ = std::clamp(up(g_.width - g_.origin_x - most_x_), first_inside_, g_.out_width);
    linear_ = g_.taps.size() == 1 && least_y_ == 0 && least_x_ == 0 && g_.stride_h == 1 && g_.stride_w == 1 &&
              g_.origin_y == 0 && g_.origin_x == 0 && g_.out_height == g_.height && g_.out_width == g_.width &&
              g_.row_bytes == g_.width * g_.column_bytes && g_.out_row == g_.out_width * g_.out_column;
  }

  void unit(std::int64_t number) {
    const auto blocks = static_cast<std::int64_t>(conv_.weights.blocks.size());
    const std::int64_t n = number / blocks / conv_.chunks;
    number %= blocks * conv_.chunks;
    const std::int64_t chunk = conv_.blocks_first ? number % conv_.chunks : number / blocks;
    const ConvBlock& block =
        conv_.weights.blocks[static_cast<std::size_t>(conv_.blocks_first ? number / conv_.chunks : number % blocks)];
    const std::int64_t begin = chunk * conv_.chunk;
    const std::int64_t end = std::min(begin + conv_.chunk, g_.out_pixels());
    const std::int64_t most = conv_.functions.most_pixels(block.vectors);
    if (conv_.rows) {
      const std::int64_t parts = (g_.out_width + most - 1) / most;
      for (std::int64_t row = begin; row < end; row += g_.out_width) {
        for (std::int64_t k = 0; k < parts; ++k) {
          const std::int64_t at = g_.out_width * k / parts;
          tile(block, n, row + at, g_.out_width * (k + 1) / parts - at);
        }
      }
      return;
    }
    const bool fixed = conv_.result == ConvResult::fixed || conv_.result == ConvResult::fixed_words;
    if (linear_ && fixed) {
      run_of_tiles(block, n, begin, end, most);
      return;
    }
    if (fixed && g_.out_width >= 4 * most) {
      row_by_row(block, n, begin, end, most);
      return;
    }
    const std::int64_t tiles = (end - begin + most - 1) / most;
    for (std::int64_t k = 0, at = begin; k < tiles; ++k) {
      // Of nearly equal length: a short tile at the end would waste its loads of weights.
      const std::int64_t next = begin + (end - begin) * (k + 1) / tiles;
      tile(block, n, at, next - at);
      at = next;
    }
  }

 private:
  // Many tiles of a length, and fewer one pixel shorter.
  void run_of_tiles(const ConvBlock& block, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t most) {
    const std::int64_t tiles = (end - begin + most - 1) / most;
    const std::int64_t length = (end - begin + tiles - 1) / tiles;
    const std::int64_t shorter = tiles * length - (end - begin);
    if (tiles > shorter) tile(block, n, begin, length, tiles - shorter);
    if (shorter > 0) tile(block, n, end - shorter * (length - 1), length - 1, shorter);
  }

  // Wide images: what is inside of a row in one run, its ends in tiles of their own.
  void row_by_row(const ConvBlock& block, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t most) {
    while (begin < end) {
      const std::int64_t r = begin / g_.out_width;
      const std::int64_t row = r * g_.out_width;
      const std::int64_t last = std::min(end, row + g_.out_width);
      const std::int64_t y = r * g_.stride_h + g_.origin_y;
      const bool inside = y + least_y_ >= 0 && y + most_y_ < g_.height;
      const std::int64_t from = inside ? std::clamp(row + first_inside_, begin, last) : last;
      const std::int64_t to = inside ? std::clamp(row + last_inside_, from, last) : last;
      ends(block, n, begin, from, most);
      if (to > from) run_of_tiles(block, n, from, to, most);
      ends(block, n, to, last, most);
      begin = last;
    }
  }

  void ends(const ConvBlock& block, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t most) {
    for (; begin < end; begin += most) tile(block, n, begin, std::min(most, end - begin));
  }

  void tile(const ConvBlock& block, std::int64_t n, std::int64_t first, std::int64_t pixels, std::int64_t count = 1) {
    const std::uint8_t* image = in_ + n * g_.image_bytes + block.group * g_.group_bytes;
    std::byte* to = out_ + (n * g_.out_image + g_.out_origin + block.group * g_.out_channels + block.channel) *
                               static_cast<std::int64_t>(g_.out_element);
    std::array<std::uint8_t*, kMostPixels> out;
    const bool inside = place(first, pixels, image, reinterpret_cast<std::uint8_t*>(to), out);
    TileArgs args;
    args.quads = g_.quads();
    args.count = count;
    args.in_advance = pixels * g_.stride_w * g_.column_bytes;
    args.out_advance = pixels * g_.out_column * static_cast<std::int64_t>(g_.out_element);
    args.weights = conv_.weights.packed.data() + block.weights;
    args.start = conv_.weights.start.data() + block.lanes;
    args.channels = block.channels;
    args.lane = block.lanes;
    args.out = out.data();
    args.q = &q_;
    args.first_channel = static_cast<std::size_t>(block.group * g_.out_channels + block.channel);
    args.fixed = conv_.result == ConvResult::fixed ? &conv_.fixed : nullptr;
    args.fixed_words = conv_.result == ConvResult::fixed_words ? &conv_.fixed_words : nullptr;
    args.flip = g_.flip;
    const bool fixed = args.fixed != nullptr || args.fixed_words != nullptr;
    args.in = positions_.in.data();
    const TileFunction function = conv_.functions.tile(pixels, block.vectors);
    const std::int64_t stride = block.vectors * kLanes;
    args.raw = fixed ? nullptr : sums_.data();
    args.plane = conv_.one_sum ? conv_.plane_bytes : 0;
    if (inside) {
      args.offsets = conv_.weights.tap_offsets.data();
      args.numbers = conv_.weights.tap_numbers.data();
      args.taps = static_cast<std::int64_t>(g_.taps.size());
      function(args);
      if (conv_.wide && !conv_.one_sum) {
        for (std::int64_t m = 0; m < pixels; ++m) positions_.in[static_cast<std::size_t>(m)] += conv_.plane_bytes;
        low(args, function);
      }
    } else {
      border(args, block, function, image, pixels);
    }
    if (!fixed) finish(block, args, pixels, stride);
  }

  // Finds where the pixels are; true if no tap of any of them leaves the image.
  bool place(std::int64_t first, std::int64_t pixels, const std::uint8_t* image, std::uint8_t* to,
             std::array<std::uint8_t*, kMostPixels>& out) {
    const auto element = static_cast<std::int64_t>(g_.out_element);
    if (linear_) {
      const std::uint8_t* in = image + first * g_.column_bytes;
      to += first * g_.out_column * element;
      for (std::int64_t m = 0; m < pixels; ++m) {
        positions_.in[static_cast<std::size_t>(m)] = in + m * g_.column_bytes;
        out[static_cast<std::size_t>(m)] = to + m * g_.out_column * element;
      }
      return true;
    }
    std::int64_t r = first / g_.out_width;
    std::int64_t c = first % g_.out_width;
    bool inside = true;
    for (std::int64_t m = 0; m < pixels;) {
      // As many as lie in this row.
      const std::int64_t count = std::min(pixels - m, g_.out_width - c);
      const std::int64_t y = r * g_.stride_h + g_.origin_y;
      const std::int64_t x = c * g_.stride_w + g_.origin_x;
      inside = inside && y + least_y_ >= 0 && y + most_y_ < g_.height && x + least_x_ >= 0 &&
               x + (count - 1) * g_.stride_w + most_x_ < g_.width;
      const std::uint8_t* in = image + y * g_.row_bytes + x * g_.column_bytes;
      std::uint8_t* pixel = to + (r * g_.out_row + c * g_.out_column) * element;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto k = static_cast<std::size_t>(m + i);
        positions_.in[k] = in + i * g_.stride_w * g_.column_bytes;
        out[k] = pixel + i * g_.out_column * element;
        ys_[k] = y;
        xs_[k] = x + i * g_.stride_w;
      }
      m += count;
      c = 0;
      ++r;
    }
    return inside;
  }

  // The sums of the low bytes, which start from nothing.
  void low(TileArgs& args, TileFunction function) {
    args.start = zeros_.data();
    args.raw = low_sums_.data();
    function(args);
  }

  void border(TileArgs& args, const ConvBlock& block, TileFunction function, const std::uint8_t* image,
              std::int64_t pixels) {
    // Taps that read nothing but padding are left out; what they would add is known.
    const auto lanes = static_cast<std::size_t>(block.vectors * kLanes);
    const std::int32_t* start = args.start;
    args.in_step = pixels;
    args.offsets = positions_.offsets.data();
    args.numbers = positions_.numbers.data();
    const std::uint8_t* padding = conv_.wide ? in_ + conv_.padding_at : conv_.weights.padding_row.data();
    std::int64_t used = 0;
    for (std::size_t t = 0; t < g_.taps.size(); ++t) {
      bool any = false;
      const auto at = static_cast<std::size_t>(used * pixels);
      for (std::int64_t m = 0; m < pixels; ++m) {
        const auto k = static_cast<std::size_t>(m);
        const std::int64_t y = ys_[k] + g_.taps[t].y;
        const std::int64_t x = xs_[k] + g_.taps[t].x;
        const bool within = y >= 0 && y < g_.height && x >= 0 && x < g_.width;
        any = any || within;
        positions_.in[at + k] = within ? image + y * g_.row_bytes + x * g_.column_bytes : padding;
      }
      if (!any && !conv_.wide) {
        if (start != starts_.data()) std::copy(start, start + lanes, starts_.begin());
        start = starts_.data();
        const std::int32_t* add = conv_.weights.padding.data() + t * conv_.weights.lanes + block.lanes;
        for (std::size_t l = 0; l < lanes; ++l) {  // modulo 2^32
          starts_[l] =
              static_cast<std::int32_t>(static_cast<std::uint32_t>(starts_[l]) + static_cast<std::uint32_t>(add[l]));
        }
        continue;
      }
      positions_.numbers[static_cast<std::size_t>(used)] = static_cast<std::int32_t>(t);
      ++used;
    }
    args.taps = used;
    args.start = start;
    function(args);
    if (conv_.wide && !conv_.one_sum) {
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(g_.taps.size()) * pixels; ++k) {
        positions_.in[static_cast<std::size_t>(k)] += conv_.plane_bytes;
      }
      args.taps = static_cast<std::int64_t>(g_.taps.size());
      low(args, function);
    }
  }

  void finish(const ConvBlock& block, const TileArgs& tile, std::int64_t pixels, std::int64_t stride) {
    FinishArgs f;
    f.sums = sums_.data();
    f.low_sums = conv_.wide && !conv_.one_sum ? low_sums_.data() : nullptr;
    f.pixels = pixels;
    f.stride = stride;
    f.channels = block.channels;
    f.first_channel = tile.first_channel;
    f.out = reinterpret_cast<std::byte* const*>(tile.out);
    f.q = &q_;
    if (!conv_.weight_zeros.empty()) {
      f.weight_zeros = conv_.weight_zeros.data();
      f.pixel_terms = terms_.data();
      for (std::int64_t m = 0; m < pixels; ++m) terms_[static_cast<std::size_t>(m)] = sum_of_inputs(tile, m);
    }
    (conv_.result == ConvResult::words ? conv_.functions.to_words : conv_.functions.to_bytes)(f);
  }

  // Sum of the activations that a pixel's sums have seen.
  std::int32_t sum_of_inputs(const TileArgs& tile, std::int64_t m) const {
    std::int32_t sum = 0;
    std::int64_t seen = 0;
    for (std::int64_t t = 0; t < tile.taps; ++t) {
      const std::uint8_t* p = tile.in[t * tile.in_step + m] + tile.offsets[t];
      std::int32_t part = 0;
      for (std::int64_t c = 0; c < g_.channels; ++c) part += p[c];
      sum += part;
      ++seen;
    }
    // Taps left out read padding everywhere.
    const std::int64_t left = static_cast<std::int64_t>(g_.taps.size()) - seen;
    return sum + static_cast<std::int32_t>(left * g_.channels * g_.padding);
  }

  const Conv& conv_;
  const ConvGeometry& g_;
  const Requantize& q_;
  const std::uint8_t* in_;
  std::byte* out_;
  std::int64_t least_y_ = INT64_MAX;
  std::int64_t most_y_ = INT64_MIN;
  std::int64_t least_x_ = INT64_MAX;
  std::int64_t most_x_ = INT64_MIN;
  std::int64_t first_inside_ = 0;
  std::int64_t last_inside_ = 0;
  bool linear_ = false;  // input and output are one row of pixels each
  Positions positions_;
  std::array<std::int64_t, kMostPixels> ys_;
  std::array<std::int64_t, kMostPixels> xs_;
  alignas(64) std::array<std::int32_t, kMostPixels * 4 * kLanes> sums_;
  alignas(64) std::array<std::int32_t, kMostPixels * 4 * kLanes> low_sums_;
  alignas(64) std::array<std::int32_t, 4 * kLanes> starts_;
  alignas(64) std::array<std::int32_t, 4 * kLanes> zeros_{};
  std::array<std::int32_t, kMostPixels> terms_;
};

}  // namespace

void Conv::run(const std::uint8_t* in, const Requantize& q, std::byte* out, std::int64_t first,
               std::int64_t last) const {
  Walk walk(*this, in, q, out);
  for (std::int64_t u = first; u < last; ++u) walk.unit(u);
}

}  // namespace halfeven::kernels
