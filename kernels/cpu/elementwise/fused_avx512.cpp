#ifdef __AVX512F__
#define HALFEVEN_FUSED fused_avx512
#include "cpu/elementwise/fused_loops.hpp"

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/fused.hpp"
namespace halfeven::kernels {
bool fused_avx512(const FusedProgram& program, const std::byte* const* in, std::byte* out, std::size_t first,
                  std::size_t last) {
  return fused_portable(program, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
