// The loops of pool.hpp, in a form that compilers vectorise. Included by one file per instruction set, which names the
// functions in HALFEVEN_MAX_POOL and HALFEVEN_POOL_SUMS.
#include "cpu/pool/pool.hpp"

namespace halfeven::kernels {
namespace {

// kLanes channels of one window of float32: the first NaN, else the first of the largest.
template <int kLanes>
inline void largest(const PoolShape& s, std::uint8_t, const float* in, float* to, std::int64_t y0, std::int64_t y1,
                    std::int64_t x0, std::int64_t x1) {
  float best[kLanes];
  for (int c = 0; c < kLanes; ++c) best[c] = in[(y0 * s.width + x0) * s.channels + c];
  for (std::int64_t y = y0; y < y1; y += s.dilation_h) {
    for (std::int64_t x = x0; x < x1; x += s.dilation_w) {
      const float* from = in + (y * s.width + x) * s.channels;
      for (int c = 0; c < kLanes; ++c) {
        const float v = from[c];
        const float larger = v > best[c] ? v : best[c];
        best[c] = (v != v) & (best[c] == best[c]) ? v : larger;
      }
    }
  }
  for (int c = 0; c < kLanes; ++c) to[c] = best[c];
}

// kLanes channels of one window, held in registers.
template <int kLanes>
inline void largest(const PoolShape& s, std::uint8_t flip, const std::uint8_t* in, std::uint8_t* to, std::int64_t y0,
                    std::int64_t y1, std::int64_t x0, std::int64_t x1) {
  std::uint8_t best[kLanes];
  for (int c = 0; c < kLanes; ++c) best[c] = 0;
  for (std::int64_t y = y0; y < y1; y += s.dilation_h) {
    for (std::int64_t x = x0; x < x1; x += s.dilation_w) {
      const std::uint8_t* from = in + (y * s.width + x) * s.channels;
      for (int c = 0; c < kLanes; ++c) {
        const auto v = static_cast<std::uint8_t>(from[c] ^ flip);
        best[c] = best[c] > v ? best[c] : v;
      }
    }
  }
  for (int c = 0; c < kLanes; ++c) to[c] = static_cast<std::uint8_t>(best[c] ^ flip);
}

// The same for words; the flip is that of their high bytes.
template <int kLanes>
inline void largest(const PoolShape& s, std::uint8_t flip, const std::uint16_t* in, std::uint16_t* to, std::int64_t y0,
                    std::int64_t y1, std::int64_t x0, std::int64_t x1) {
  const auto flips = static_cast<std::uint16_t>(flip << 8);
  std::uint16_t best[kLanes];
  for (int c = 0; c < kLanes; ++c) best[c] = 0;
  for (std::int64_t y = y0; y < y1; y += s.dilation_h) {
    for (std::int64_t x = x0; x < x1; x += s.dilation_w) {
      const std::uint16_t* from = in + (y * s.width + x) * s.channels;
      for (int c = 0; c < kLanes; ++c) {
        const auto v = static_cast<std::uint16_t>(from[c] ^ flips);
        best[c] = best[c] > v ? best[c] : v;
      }
    }
  }
  for (int c = 0; c < kLanes; ++c) to[c] = static_cast<std::uint16_t>(best[c] ^ flips);
}

// The first position inside the image of start, start + dilation, ...
inline std::int64_t first_inside(std::int64_t start, std::int64_t dilation) {
  return start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
}

template <class T, int kLanes>
inline void add_integers(const PoolWindow& w, std::int64_t c0, double* sums) {
  const T* in = reinterpret_cast<const T*>(w.input) + w.channel + c0;
  // So many elements fit an int32.
  constexpr std::int64_t kSafe = sizeof(T) == 1 ? std::int64_t{1} << 22 : std::int64_t{1} << 14;
  std::int32_t total[kLanes];
  for (int c = 0; c < kLanes; ++c) total[c] = 0;
  std::int64_t held = 0;
  const auto flush = [&] {
    for (int c = 0; c < kLanes; ++c) {
      sums[c0 + c] += total[c];
      total[c] = 0;
    }
    held = 0;
  };
  for (std::int64_t y = w.y0; y < w.y1; ++y) {
    const T* row = in + (y * w.width + w.x0) * w.channels;
    for (std::int64_t x = w.x0; x < w.x1; ++x) {
      for (int c = 0; c < kLanes; ++c) total[c] += row[c];
      row += w.channels;
      if (++held == kSafe) flush();
    }
  }
  flush();
}

template <int kLanes>
inline void add_floats(const PoolWindow& w, std::int64_t c0, double* sums, double* sizes) {
  const float* in = reinterpret_cast<const float*>(w.input) + w.channel + c0;
  double total[kLanes];
  double size[kLanes];
  for (int c = 0; c < kLanes; ++c) total[c] = size[c] = 0;
  for (std::int64_t y = w.y0; y < w.y1; ++y) {
    const float* row = in + (y * w.width + w.x0) * w.channels;
    for (std::int64_t x = w.x0; x < w.x1; ++x) {
      for (int c = 0; c < kLanes; ++c) {
        const double v = static_cast<double>(row[c]);
        total[c] += v;
        size[c] += __builtin_fabs(v);
      }
      row += w.channels;
    }
  }
  for (int c = 0; c < kLanes; ++c) {
    sums[c0 + c] = total[c];
    sizes[c0 + c] = size[c];
  }
}

template <int kLanes>
inline void add_entries(const PoolWindow& w, std::int64_t c0, double* sums) {
  const std::uint8_t* in = reinterpret_cast<const std::uint8_t*>(w.input) + w.channel + c0;
  double total[kLanes];
  for (int c = 0; c < kLanes; ++c) total[c] = 0;
  for (std::int64_t y = w.y0; y < w.y1; ++y) {
    const std::uint8_t* row = in + (y * w.width + w.x0) * w.channels;
    for (std::int64_t x = w.x0; x < w.x1; ++x) {
      for (int c = 0; c < kLanes; ++c) total[c] += w.table[row[c]];
      row += w.channels;
    }
  }
  for (int c = 0; c < kLanes; ++c) sums[c0 + c] = total[c];
}

template <int kLanes>
inline void add_lanes(const PoolWindow& w, std::int64_t c0, double* sums, double* sizes) {
  switch (w.type) {
    case PoolType::u8: return add_integers<std::uint8_t, kLanes>(w, c0, sums);
    case PoolType::u16: return add_integers<std::uint16_t, kLanes>(w, c0, sums);
    case PoolType::s16: return add_integers<std::int16_t, kLanes>(w, c0, sums);
    case PoolType::table: return add_entries<kLanes>(w, c0, sums);
    case PoolType::f32: return add_floats<kLanes>(w, c0, sums, sizes);
  }
}

}  // namespace

namespace {

template <class T>
void all_windows(const PoolShape& s, std::uint8_t flip, const T* input, T* out, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t y = row % s.out_height * s.stride_h - s.pad_h;
    const std::int64_t y0 = first_inside(y, s.dilation_h);
    const std::int64_t y_end = y + (s.kernel_h - 1) * s.dilation_h + 1;
    const std::int64_t y1 = y_end < s.height ? y_end : s.height;
    const T* image = input + n * s.height * s.width * s.channels;
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      const std::int64_t x = ox * s.stride_w - s.pad_w;
      const std::int64_t x0 = first_inside(x, s.dilation_w);
      const std::int64_t x_end = x + (s.kernel_w - 1) * s.dilation_w + 1;
      const std::int64_t x1 = x_end < s.width ? x_end : s.width;
      T* to = out + (row * s.out_width + ox) * s.channels;
      std::int64_t c = 0;
      for (; c + 64 <= s.channels; c += 64) largest<64>(s, flip, image + c, to + c, y0, y1, x0, x1);
      for (; c + 16 <= s.channels; c += 16) largest<16>(s, flip, image + c, to + c, y0, y1, x0, x1);
      if (c < s.channels && s.channels >= 16) {  // the last 16 once more
        c = s.channels - 16;
        largest<16>(s, flip, image + c, to + c, y0, y1, x0, x1);
        continue;
      }
      for (; c + 8 <= s.channels; c += 8) largest<8>(s, flip, image + c, to + c, y0, y1, x0, x1);
      for (; c + 2 <= s.channels; c += 2) largest<2>(s, flip, image + c, to + c, y0, y1, x0, x1);
      for (; c < s.channels; ++c) largest<1>(s, flip, image + c, to + c, y0, y1, x0, x1);
    }
  }
}

}  // namespace

void HALFEVEN_MAX_POOL(const PoolShape& s, PoolType type, std::uint8_t flip, const std::byte* input, std::byte* out,
                       std::int64_t first, std::int64_t last) {
  if (type == PoolType::f32) {
    all_windows(s, flip, reinterpret_cast<const float*>(input), reinterpret_cast<float*>(out), first, last);
  } else if (type == PoolType::u16) {
    all_windows(s, flip, reinterpret_cast<const std::uint16_t*>(input), reinterpret_cast<std::uint16_t*>(out), first,
                last);
  } else {
    all_windows(s, flip, reinterpret_cast<const std::uint8_t*>(input), reinterpret_cast<std::uint8_t*>(out), first,
                last);
  }
}

void HALFEVEN_POOL_SUMS(const PoolWindow& w, double* sums, double* sizes) {
  for (std::int64_t c = 0; c < w.lanes; ++c) sums[c] = sizes[c] = 0;
  std::int64_t c = 0;
  for (; c + 64 <= w.lanes; c += 64) add_lanes<64>(w, c, sums, sizes);
  for (; c + 16 <= w.lanes; c += 16) add_lanes<16>(w, c, sums, sizes);
  for (; c < w.lanes; ++c) add_lanes<1>(w, c, sums, sizes);
}

}  // namespace halfeven::kernels
