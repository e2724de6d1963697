#include "cpu/logic/logic.hpp"

namespace halfeven::kernels {
namespace {

template <class T>
void choose(const MaskOperand& condition, const MaskOperand& a, const MaskOperand& b, T* out, std::int64_t first,
            std::int64_t last) {
  const T* x = reinterpret_cast<const T*>(a.data);
  const T* y = reinterpret_cast<const T*>(b.data);
  for (std::int64_t i = first; i < last; ++i) {
    out[i] = condition.data[condition.at(i)] != std::byte{0} ? x[a.at(i)] : y[b.at(i)];
  }
}

template <class F>
void combine(const MaskOperand& a, const MaskOperand& b, std::byte* out, std::int64_t first, std::int64_t last, F f) {
  for (std::int64_t i = first; i < last; ++i) out[i] = f(a.data[a.at(i)], b.data[b.at(i)]);
}

// f(pointer to the integers' type), by their size.
template <class F>
void with_integers(std::size_t element, F f) {
  switch (element) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

}  // namespace

void mask_combine(MaskOperation op, const MaskOperand& a, const MaskOperand& b, std::byte* out, std::int64_t first,
                  std::int64_t last) {
  switch (op) {
    case MaskOperation::conjunction:
      return combine(a, b, out, first, last, [](std::byte x, std::byte y) { return x & y; });
    case MaskOperation::disjunction:
      return combine(a, b, out, first, last, [](std::byte x, std::byte y) { return x | y; });
    case MaskOperation::difference:
      return combine(a, b, out, first, last, [](std::byte x, std::byte y) { return x ^ y; });
  }
}

void mask_invert(const std::byte* in, std::byte* out, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) out[i] = in[i] ^ std::byte{1};
}

void mask_choose(const MaskOperand& condition, const MaskOperand& a, const MaskOperand& b, std::size_t element,
                 std::byte* out, std::int64_t first, std::int64_t last) {
  with_integers(element, [&](auto t) { choose(condition, a, b, reinterpret_cast<decltype(t)*>(out), first, last); });
}

void mask_of_integers(const std::byte* in, std::size_t element, std::byte* out, std::int64_t first, std::int64_t last) {
  with_integers(element, [&](auto t) {
    const auto* from = reinterpret_cast<const decltype(t)*>(in);
    for (std::int64_t i = first; i < last; ++i) out[i] = std::byte{from[i] != 0};
  });
}

void integers_of_mask(const std::byte* in, std::size_t element, std::byte* out, std::int64_t first, std::int64_t last) {
  with_integers(element, [&](auto t) {
    auto* to = reinterpret_cast<decltype(t)*>(out);
    for (std::int64_t i = first; i < last; ++i) to[i] = in[i] != std::byte{0} ? 1 : 0;
  });
}

}  // namespace halfeven::kernels
