// Pools over NHWC tensors.
#pragma once

#include <cstddef>
#include <cstdint>

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

enum class PoolType : std::uint8_t {
  u8,
  u16,
  s16,
  table,  ///< bytes that stand for table[byte]
  f32,
};

/// The largest of the elements inside the image, for rows [first, last) of batch x out_height: of bytes (`type` u8; the
/// least of them where `flip` is 0xFF), of words (u16; of int16 where `flip` is 0x80) or of float32 (f32; the first NaN
/// wins). Every window holds an element.
using MaxPoolFunction = void (*)(const PoolShape& shape, PoolType type, std::uint8_t flip, const std::byte* input,
                                 std::byte* out, std::int64_t first, std::int64_t last);

inline constexpr std::int64_t kPoolLanes = 64;

/// Channels [channel, channel + lanes), lanes <= kPoolLanes, summed over a rectangle of one image (at `input`): sums of
/// integers, exact, or of numbers, in double; for f32 also the sums of absolute values.
struct PoolWindow {
  PoolType type = PoolType::u8;
  const double* table = nullptr;
  const std::byte* input = nullptr;
  std::int64_t width = 1;
  std::int64_t channels = 1;
  std::int64_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
  std::int64_t channel = 0;
  std::int64_t lanes = 0;
};
using PoolSumFunction = void (*)(const PoolWindow& window, double* sums, double* sizes);

void max_pool_portable(const PoolShape& shape, PoolType type, std::uint8_t flip, const std::byte* input, std::byte* out,
                       std::int64_t first, std::int64_t last);
void max_pool_avx2(const PoolShape& shape, PoolType type, std::uint8_t flip, const std::byte* input, std::byte* out,
                   std::int64_t first, std::int64_t last);
void max_pool_avx512(const PoolShape& shape, PoolType type, std::uint8_t flip, const std::byte* input, std::byte* out,
                     std::int64_t first, std::int64_t last);
void pool_sums_portable(const PoolWindow& window, double* sums, double* sizes);
void pool_sums_avx2(const PoolWindow& window, double* sums, double* sizes);
void pool_sums_avx512(const PoolWindow& window, double* sums, double* sizes);

}  // namespace halfeven::kernels
