// ConvInteger with constant weights: strips of the image as rows of a matrix product.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/window.hpp"
#include "plan/product.hpp"

namespace halfeven::plan {
namespace {

constexpr std::int64_t kStrip = 50;  // pixels at once
constexpr std::int64_t kSlots = 16;  // strips that may be under work at once

// memcpy, without its call where a few bytes are all there is.
inline void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  if (bytes > 8) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t k = 0; k < bytes; ++k) to[k] = from[k];
}

class ConvIntegerKernel final : public Kernel {
 public:
  kernels::MatMulFunctions functions{};
  std::int64_t batch = 1, height = 1, width = 1, channels = 1, out_height = 1, out_width = 1, out_channels = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t top = 0, left = 0;
  std::size_t zero_input = SIZE_MAX;
  bool zero_is_signed = false;
  std::int32_t zero = 0;                  // of a stored byte
  std::vector<std::int32_t> right_zeros;  // by column, less 128; empty where all are 0
  std::vector<std::int32_t> row_factor;   // the same, negated
  std::vector<std::int32_t> packed_sums;
  std::vector<std::byte> packed_store;

  std::int64_t depth() const { return kernel_h * kernel_w * channels; }
  std::int64_t padded() const { return kernels::matmul_blocks(out_channels) * kernels::kMatMulBlock; }
  std::int64_t strip_bytes() const { return (kStrip * kernels::matmul_depth(depth()) + 63) / 64 * 64; }
  std::byte* packed() const {
    const auto at = reinterpret_cast<std::uintptr_t>(packed_store.data());
    return const_cast<std::byte*>(packed_store.data()) + ((at + 63) / 64 * 64 - at);
  }

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::int32_t*>(b.out[0]);
    std::int32_t za = zero;
    if (zero_input != SIZE_MAX) {
      const auto v = std::to_integer<std::uint8_t>(*b.in[zero_input]);
      za = zero_is_signed ? static_cast<std::int8_t>(v) + 128 : v;
    }
    auto* start = reinterpret_cast<std::int32_t*>(b.scratch);
    for (std::int64_t n = 0; n < padded(); ++n) {
      const std::int32_t zb = right_zeros.empty() ? 0 : right_zeros[static_cast<std::size_t>(n)];
      const std::uint32_t sum = static_cast<std::uint32_t>(packed_sums[static_cast<std::size_t>(n)]) -
                                static_cast<std::uint32_t>(depth()) * static_cast<std::uint32_t>(zb);
      start[n] = static_cast<std::int32_t>(0U - static_cast<std::uint32_t>(za) * sum);
    }
    auto* strips = reinterpret_cast<std::uint8_t*>(b.scratch) + (padded() * 4 + 63) / 64 * 64;
    const std::int64_t pixels = batch * out_height * out_width;
    const std::int64_t count = (pixels + kStrip - 1) / kStrip;
    parallel(kSlots, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t slot = first; slot < last; ++slot) {
        for (std::int64_t k = count * slot / kSlots; k < count * (slot + 1) / kSlots; ++k) {
          strip(in, out, start, strips + slot * strip_bytes(), static_cast<std::uint8_t>(za), k * kStrip,
                std::min(pixels, (k + 1) * kStrip));
        }
      }
    });
  }

 private:
  void strip(const std::uint8_t* in, std::int32_t* out, const std::int32_t* start, std::uint8_t* rows,
             std::uint8_t fill, std::int64_t first, std::int64_t last) const {
    const std::int64_t stride = kernels::matmul_depth(depth());
    std::int32_t sums[kStrip];
    for (std::int64_t i = first; i < last; ++i) gather(in, rows + (i - first) * stride, fill, i);
    kernels::MatMulTask t;
    t.left = rows;
    t.left_stride = stride;
    t.depth = depth();
    t.columns = out_channels;
    t.right = packed();
    t.start = start;
    if (!right_zeros.empty()) {
      kernels::matmul_row_sums(rows, stride, depth(), 0, last - first, sums);
      t.row_sums = sums;
      t.row_factor = row_factor.data();
    }
    functions.integers(t, out + first * out_channels, {0, last - first, 0, kernels::matmul_blocks(out_channels)});
  }

  // What the pixel's taps meet, taps first, channels last.
  void gather(const std::uint8_t* in, std::uint8_t* row, std::uint8_t fill, std::int64_t pixel) const {
    const std::int64_t n = pixel / (out_height * out_width);
    const std::int64_t y = pixel / out_width % out_height * stride_h - top;
    const std::int64_t x = pixel % out_width * stride_w - left;
    const auto bytes = static_cast<std::size_t>(channels);
    const bool inside = dilation_w == 1 && x >= 0 && x + kernel_w <= width;
    for (std::int64_t ky = 0; ky < kernel_h; ++ky) {
      const std::int64_t iy = y + ky * dilation_h;
      const bool exists = iy >= 0 && iy < height;
      const std::uint8_t* line = in + (n * height + iy) * width * channels;
      if (exists && inside) {
        copy(row, line + x * channels, bytes * static_cast<std::size_t>(kernel_w));
        row += kernel_w * channels;
        continue;
      }
      for (std::int64_t kx = 0; kx < kernel_w; ++kx, row += channels) {
        const std::int64_t ix = x + kx * dilation_w;
        if (exists && ix >= 0 && ix < width) {
          copy(row, line + ix * channels, bytes);
        } else {
          std::memset(row, fill, bytes);
        }
      }
    }
    for (std::int64_t k = depth(); k < kernels::matmul_depth(depth()); ++k) *row++ = 0;
  }
};

}  // namespace

Offer make_conv_integer(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "ConvInteger" || !node.domain.empty() || node.body) return refuse("is no ConvInteger");
  const Shape& xs = site.shape(node.inputs[0]);
  const Tensor* weights = site.constant(node.inputs[1]);
  if (weights == nullptr) return refuse("its weights are computed");
  const Shape& ws = weights->shape();
  const ops::NodeReader reader(site.graph, node);
  if (xs.size() != 4 || reader.get_int("group", 1) != 1) return refuse("is not two-dimensional or has groups");
  const ops::Window win = ops::read_window(reader, {xs[2], xs[3]}, {ws[2], ws[3]}, false);
  const auto input = [&](std::size_t k) { return k < node.inputs.size() ? node.inputs[k] : ir::ValueId{}; };
  const DType type = site.dtype(node.inputs[0]);
  auto kernel = std::make_unique<ConvIntegerKernel>();
  ConvIntegerKernel& c = *kernel;
  c.functions = matmul_functions(site.isa);
  c.batch = xs[0], c.channels = xs[1], c.height = xs[2], c.width = xs[3];
  c.out_channels = ws[0], c.out_height = win.out[0], c.out_width = win.out[1];
  c.kernel_h = ws[2], c.kernel_w = ws[3];
  c.stride_h = win.strides[0], c.stride_w = win.strides[1];
  c.dilation_h = win.dilations[0], c.dilation_w = win.dilations[1];
  c.top = win.begin[0], c.left = win.begin[1];
  if (elements(site.shape(node.outputs[0])) == 0 || c.depth() == 0) return refuse("is empty");

  // --- zero points
  const std::int32_t shift = type == DType::int8 ? 128 : 0;
  c.zero = shift;
  c.zero_is_signed = type == DType::int8;
  if (input(2).present()) {
    if (elements(site.shape(input(2))) != 1) return refuse("its activation has several zero points");
    c.zero_input = 2;
  }
  const DType wt = weights->dtype();
  const std::int64_t to_signed = is_signed_integer(wt) ? 0 : 128;
  std::vector<std::int64_t> zeros{0};
  if (input(3).present()) {
    const Tensor* z = site.constant(input(3));
    if (z == nullptr) return refuse("its weights' zero point is computed");
    zeros = ops::integers(*z);
    if (zeros.size() != 1 && static_cast<std::int64_t>(zeros.size()) != c.out_channels) {
      return refuse("its weights' zero points are not one or one per channel");
    }
  }
  const auto zero_of = [&](std::int64_t n) { return zeros[zeros.size() == 1 ? 0 : static_cast<std::size_t>(n)]; };
  if (std::any_of(zeros.begin(), zeros.end(), [&](std::int64_t z) { return z != to_signed; })) {
    c.right_zeros.assign(static_cast<std::size_t>(c.padded()), 0);
    c.row_factor.assign(static_cast<std::size_t>(c.padded()), 0);
    for (std::int64_t n = 0; n < c.out_channels; ++n) {
      c.right_zeros[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(zero_of(n) - to_signed);
      c.row_factor[static_cast<std::size_t>(n)] = -c.right_zeros[static_cast<std::size_t>(n)];
    }
  }

  // --- weights as a matrix [output channel][tap][channel]
  const auto values = ops::integers(*weights);
  const std::int64_t taps = c.kernel_h * c.kernel_w;
  std::vector<std::uint8_t> matrix(values.size());
  double reach = 0;
  for (std::int64_t n = 0; n < c.out_channels; ++n) {
    double magnitude = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      for (std::int64_t k = 0; k < c.channels; ++k) {
        const std::int64_t v = values[static_cast<std::size_t>((n * c.channels + k) * taps + t)];
        matrix[static_cast<std::size_t>((n * taps + t) * c.channels + k)] =
            static_cast<std::uint8_t>(v - to_signed + 128);
        magnitude += std::fabs(static_cast<double>(v - zero_of(n)));
      }
    }
    reach = std::max(reach, 255 * magnitude);
  }
  if (reach >= 0x1p31) return refuse("its sums may exceed int32");
  kernels::MatMulRight right;
  right.data = matrix.data();
  right.depth = c.depth();
  right.columns = c.out_channels;
  right.row = 1;
  right.column = c.depth();
  const std::int64_t bytes = c.padded() * kernels::matmul_depth(c.depth()) * c.functions.element;
  c.packed_store.assign(static_cast<std::size_t>(bytes) + 64, std::byte{0});
  c.packed_sums.assign(static_cast<std::size_t>(c.padded()), 0);
  c.functions.pack(right, c.packed(), c.packed_sums.data(), 0, kernels::matmul_blocks(c.out_channels));

  c.scratch = static_cast<std::size_t>((c.padded() * 4 + 63) / 64 * 64 + kSlots * c.strip_bytes());
  c.note = "|sum| <= " + std::to_string(static_cast<std::int64_t>(reach)) + ", int32";
  c.in_forms.resize(node.inputs.size());
  c.in_forms[0] = byte_form(Layout::channels_last, type);
  if (c.zero_input != SIZE_MAX) c.in_forms[2] = Form{};
  c.out_form = Form{Layout::channels_last, false};
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
