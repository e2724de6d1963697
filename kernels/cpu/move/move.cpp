#include "cpu/move/move.hpp"

#include <cstring>

namespace halfeven::kernels {
namespace {

template <class T>
void run(const MoveNest& nest, std::size_t depth, const T* in, T* out) {
  const MoveLoop& l = nest.loop[depth];
  if (depth > 0) {
    for (std::int64_t k = 0; k < l.length; ++k) run(nest, depth - 1, in + k * l.from, out + k * l.to);
    return;
  }
  if (l.to == 1 && l.from == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(l.length) * sizeof(T));
  } else if (l.to == 1 && l.from == 0) {
    const T v = *in;
    for (std::int64_t k = 0; k < l.length; ++k) out[k] = v;
  } else if (l.to == 1) {
    for (std::int64_t k = 0; k < l.length; ++k) out[k] = in[k * l.from];
  } else {
    for (std::int64_t k = 0; k < l.length; ++k) out[k * l.to] = in[k * l.from];
  }
}

template <class T>
void nest_of(const MoveNest& nest, const std::byte* in, std::byte* out, std::int64_t first, std::int64_t last) {
  const T* from = reinterpret_cast<const T*>(in) + nest.from;
  T* to = reinterpret_cast<T*>(out) + nest.to;
  if (nest.loops == 0) {
    *to = *from;
    return;
  }
  MoveNest part = nest;
  MoveLoop& outer = part.loop[nest.loops - 1];
  outer.length = last - first;
  run(part, nest.loops - 1, from + first * outer.from, to + first * outer.to);
}

template <class T>
void indexed(const std::uint32_t* index, const std::byte* in, std::byte* out, std::int64_t first, std::int64_t last) {
  const T* from = reinterpret_cast<const T*>(in);
  T* to = reinterpret_cast<T*>(out);
  for (std::int64_t i = first; i < last; ++i) to[i] = from[index[i]];
}

}  // namespace

void move_nest(const MoveNest& nest, std::size_t element, const std::byte* in, std::byte* out, std::int64_t first,
               std::int64_t last) {
  switch (element) {
    case 2: return nest_of<std::uint16_t>(nest, in, out, first, last);
    case 4: return nest_of<std::uint32_t>(nest, in, out, first, last);
    case 8: return nest_of<std::uint64_t>(nest, in, out, first, last);
    default: return nest_of<std::uint8_t>(nest, in, out, first, last);
  }
}

void move_indexed(const std::uint32_t* index, std::size_t element, const std::byte* in, std::byte* out,
                  std::int64_t first, std::int64_t last) {
  switch (element) {
    case 2: return indexed<std::uint16_t>(index, in, out, first, last);
    case 4: return indexed<std::uint32_t>(index, in, out, first, last);
    case 8: return indexed<std::uint64_t>(index, in, out, first, last);
    default: return indexed<std::uint8_t>(index, in, out, first, last);
  }
}

}  // namespace halfeven::kernels
