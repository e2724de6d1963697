#ifdef __AVX2__
#include "cpu/elementwise/binary.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::size_t kBlock = 64;
// Adding and subtracting it rounds a float below 2^22 to an integer, half to even.
constexpr float kMagic = 0x1.8p23F;

// Elements [first, first + n) with b at b[0 ... n): float32 where every lane is checked, the definition for the rest.
template <bool kProduct>
void block(const BinaryOperands& in, const Requantize& q, const std::uint8_t* b, std::uint8_t* out, std::size_t first,
           std::size_t n) {
  std::int32_t y[kBlock];
  std::int32_t u[kBlock];
  std::int32_t v[kBlock];
  const std::uint8_t* a = in.a + first;
  const float ratio = q.float_ratio[0];
  const float ratio2 = q.float_ratio2;
  const float offset = q.float_offset[0];
  const float lo = static_cast<float>(q.lo - q.zero);
  const float hi = static_cast<float>(q.hi - q.zero);
  const float tie = 0.5F - q.float_slack;
  const std::int32_t zero = q.zero;
  for (std::size_t k = 0; k < n; ++k) {
    u[k] = a[k] - in.a_zero;
    v[k] = b[k] - in.b_zero;
  }
  std::int32_t open = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const float t0 = kProduct ? __builtin_fmaf(static_cast<float>(u[k] * v[k]), ratio, offset)
                              : __builtin_fmaf(static_cast<float>(u[k]), ratio,
                                               __builtin_fmaf(static_cast<float>(v[k]), ratio2, offset));
    const float t1 = t0 < lo ? lo : t0;
    const float t = t1 > hi ? hi : t1;
    const float r = (t + kMagic) - kMagic;
    open |= __builtin_fabsf(t - r) < tie ? 0 : 1;
    y[k] = static_cast<std::int32_t>(r) + zero;
  }
  // Not both: the output may be the memory of an operand.
  if (open != 0) return (kProduct ? multiply_portable : add_portable)(in, q, out, first, first + n);
  for (std::size_t k = 0; k < n; ++k) out[first + k] = static_cast<std::uint8_t>(y[k]);
}

template <bool kProduct>
void run(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  std::uint8_t same[kBlock];
  const bool scalar = in.b_period == 1 && in.b_span == SIZE_MAX;
  for (std::uint8_t& v : same) v = scalar ? in.b[0] : 0;
  for (std::size_t i = first; i < last;) {
    std::size_t n = last - i < kBlock ? last - i : kBlock;
    const std::uint8_t* b = same;
    if (in.b_period == 0) {
      b = in.b + i;
    } else if (!scalar) {
      const std::size_t within = i % in.b_period;
      n = n < in.b_period - within ? n : in.b_period - within;
      b = in.b + i / in.b_span * in.b_period + within;
    }
    block<kProduct>(in, q, b, out, i, n);
    i += n;
  }
}

}  // namespace

void add_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  if (q.float_ratio == nullptr) return add_portable(in, q, out, first, last);
  run<false>(in, q, out, first, last);
}

void multiply_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  if (q.float_ratio == nullptr) return multiply_portable(in, q, out, first, last);
  run<true>(in, q, out, first, last);
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/binary.hpp"
namespace halfeven::kernels {
void add_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  add_portable(in, q, out, first, last);
}
void multiply_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  multiply_portable(in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
