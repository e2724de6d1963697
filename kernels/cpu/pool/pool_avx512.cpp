#ifdef __AVX512BW__
#define HALFEVEN_MAX_POOL max_pool_avx512
#define HALFEVEN_POOL_SUMS pool_sums_avx512
#include "cpu/pool/pool_loops.hpp"

#else  // another processor: the name stands, the portable code serves
#include "cpu/pool/pool.hpp"
namespace halfeven::kernels {
void max_pool_avx512(const PoolShape& shape, PoolType type, std::uint8_t flip, const std::byte* input, std::byte* out,
                     std::int64_t first, std::int64_t last) {
  max_pool_portable(shape, type, flip, input, out, first, last);
}
void pool_sums_avx512(const PoolWindow& window, double* sums, double* sizes) {
  pool_sums_portable(window, sums, sizes);
}
}  // namespace halfeven::kernels
#endif
