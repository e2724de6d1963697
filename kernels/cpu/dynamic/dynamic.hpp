// Quantisation with the range of the tensor at hand: float32(float32(x) * scale) + bias, rounded to float32, Relu,
// MaxPool, then DynamicQuantizeLinear.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// Tensors are [pixels][channels]. Pooling needs [batch][height][width][channels].
struct DynamicShape {
  std::int64_t channels = 1;
  std::int64_t batch = 1, height = 1, width = 1;  ///< of the input
  std::int64_t out_height = 1, out_width = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t top = 0, left = 0;

  std::int64_t rows() const { return batch * out_height; }
  std::int64_t row() const { return out_width * channels; }  ///< elements of an output row
};

/// Scales (where `scaled`) and pools output rows [first, last) into `out`, the whole result. least and greatest hold,
/// by channel, what was found so far. True if a NaN was met.
struct DynamicFunctions {
  bool (*integers)(const DynamicShape& s, const std::int32_t* in, float scale, bool scaled, float* out, float* least,
                   float* greatest, std::int64_t first, std::int64_t last);
  bool (*floats)(const DynamicShape& s, const float* in, float scale, bool scaled, float* out, float* least,
                 float* greatest, std::int64_t first, std::int64_t last);
  /// The range of the elements [first, last) of a tensor that is quantized as it is; least and greatest are one each.
  bool (*range)(const float* in, float* least, float* greatest, std::int64_t first, std::int64_t last);
  /// out[i] = clamp(round_half_even(u / scale) + zero, 0, 255) for pixels [first, last), u = float32(in[i] +
  /// bias[channel]), at least 0 if `relu`.
  void (*quantize)(const struct DynamicQuantize& q, const float* in, std::uint8_t* out, std::int64_t first,
                   std::int64_t last);
};

struct DynamicQuantize {
  std::int64_t channels = 1;
  const float* bias = nullptr;  ///< [channels]
  bool relu = false;
  float scale = 1;
  std::int32_t zero = 0;
  /// round_half_even(u / scale) by exact arithmetic, limited to [-256, 256].
  std::int32_t (*exact)(float u, float scale) = nullptr;
};

/// round_half_even(u / scale), in double where its bound allows.
std::int32_t dynamic_quantize_one(const DynamicQuantize& q, float u);

DynamicFunctions dynamic_portable();
DynamicFunctions dynamic_avx2();
DynamicFunctions dynamic_avx512();

}  // namespace halfeven::kernels
