// Loops that the front end unrolls.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace halfeven::kernels {

// Unrolled by the front end: indices stay constants, so the accumulators stay in registers.
template <std::size_t... I, class F>
[[gnu::always_inline]] inline void unroll(std::index_sequence<I...>, F&& f) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
template <std::size_t N, class F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  unroll(std::make_index_sequence<N>{}, std::forward<F>(f));
}

}  // namespace halfeven::kernels
