// oneDNN's convolution from u8 and s8 to s32: the only file that sees oneDNN is onednn.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace halfeven::kernels::onednn {

/// Empty if oneDNN's sums of u8 * s8 are exact here: built in, and with VNNI or AMX in use. Otherwise why not: without
/// VNNI it adds pairs of products in saturating 16 bits. What ONEDNN_MAX_CPU_ISA (DNNL_MAX_CPU_ISA) forbids is not in
/// use.
std::string why_not_exact();

struct Shape {
  std::int64_t batch = 1;
  std::int64_t height = 1;  ///< of the input, padding included
  std::int64_t width = 1;
  std::int64_t groups = 1;
  std::int64_t channels = 1;      ///< of a group
  std::int64_t out_channels = 1;  ///< of a group
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
};

/// A prepared convolution. Immutable; runs may overlap.
class Convolution {
 public:
  /// weights: [groups * out_channels][kernel_h][kernel_w][channels]. For runs on so many threads. Throws
  /// std::runtime_error where oneDNN has no implementation.
  Convolution(const Shape& shape, const std::int8_t* weights, int threads);
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  std::size_t scratch_bytes() const;
  std::size_t weight_bytes() const;
  std::string implementation() const;
  /// input: NHWC; sums: NHWC. Uses so many of oneDNN's own threads.
  void run(const std::uint8_t* input, std::int32_t* sums, std::byte* scratch, int threads) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace halfeven::kernels::onednn
