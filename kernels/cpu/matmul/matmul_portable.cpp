#include "cpu/matmul/pack_quads.hpp"

namespace halfeven::kernels {
namespace {

void pack(const MatMulRight& right, std::byte* to, std::int32_t* sums, std::int64_t first, std::int64_t last) {
  for (std::int64_t b = first; b < last; ++b) pack_quads_block(right, to, sums, b);
}

// finish(row, column, sum) for every element of the part.
template <class Finish>
void multiply(const MatMulTask& t, const MatMulPart& part, Finish finish) {
  const std::int64_t depth = matmul_depth(t.depth);
  for (std::int64_t b = part.first_block; b < part.last_block; ++b) {
    const auto* right = reinterpret_cast<const std::int8_t*>(t.right) + b * kMatMulBlock * depth;
    for (std::int64_t r = part.first_row; r < part.last_row; ++r) {
      std::uint32_t sums[kMatMulBlock];
      for (std::int64_t c = 0; c < kMatMulBlock; ++c) {
        const std::int64_t n = b * kMatMulBlock + c;
        sums[c] = static_cast<std::uint32_t>(t.start[n]);
        if (t.row_sums != nullptr) {
          sums[c] += static_cast<std::uint32_t>(t.row_sums[r]) * static_cast<std::uint32_t>(t.row_factor[n]);
        }
      }
      const std::uint8_t* left = t.left + r * t.left_stride;
      for (std::int64_t k = 0; k < depth; k += 4) {
        const std::int8_t* four = right + k * kMatMulBlock;
        for (std::int64_t c = 0; c < kMatMulBlock; ++c) {
          const int sum = left[k] * four[c * 4] + left[k + 1] * four[c * 4 + 1] + left[k + 2] * four[c * 4 + 2] +
                          left[k + 3] * four[c * 4 + 3];
          sums[c] += static_cast<std::uint32_t>(sum);
        }
      }
      const std::int64_t n = b * kMatMulBlock;
      for (std::int64_t c = 0; c < std::min(kMatMulBlock, t.columns - n); ++c) {
        finish(r, n + c, static_cast<std::int32_t>(sums[c]));
      }
    }
  }
}

void bytes(const MatMulTask& t, const Requantize& q, std::uint8_t* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int32_t sum) {
    out[r * t.columns + n] = static_cast<std::uint8_t>(requantize(q, static_cast<std::size_t>(n), sum));
  });
}

void floats(const MatMulTask& t, const RoundToFloat& f, float* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int32_t sum) {
    out[r * t.columns + n] = round_to_float(f, static_cast<std::size_t>(n), sum);
  });
}

void integers(const MatMulTask& t, std::int32_t* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int32_t sum) { out[r * t.columns + n] = sum; });
}

}  // namespace

MatMulFunctions matmul_portable() { return {1, pack, bytes, floats, integers}; }

void matmul_row_sums(const std::uint8_t* left, std::int64_t stride, std::int64_t depth, std::int64_t first,
                     std::int64_t last, std::int32_t* sums) {
  for (std::int64_t r = first; r < last; ++r) {
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) sum += left[r * stride + k];
    sums[r] = sum;
  }
}

}  // namespace halfeven::kernels
