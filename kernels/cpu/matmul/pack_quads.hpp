// Right sides in blocks of 16 columns, per four rows 16 columns of four signed bytes: what vpdpbusd reads.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/matmul/matmul.hpp"

namespace halfeven::kernels {

/// One block, element by element.
inline void pack_quads_block(const MatMulRight& right, std::byte* to, std::int32_t* sums, std::int64_t block) {
  const std::int64_t depth = matmul_depth(right.depth);
  auto* bytes = reinterpret_cast<std::int8_t*>(to) + block * kMatMulBlock * depth;
  for (std::int64_t c = 0; c < kMatMulBlock; ++c) {
    const std::int64_t n = block * kMatMulBlock + c;
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      std::int8_t v = 0;
      if (n < right.columns && k < right.depth) {
        v = static_cast<std::int8_t>(right.data[k * right.row + n * right.column] ^ right.flip);
      }
      bytes[k / 4 * kMatMulBlock * 4 + c * 4 + k % 4] = v;
      sum += v;
    }
    sums[n] = sum;
  }
}

}  // namespace halfeven::kernels
