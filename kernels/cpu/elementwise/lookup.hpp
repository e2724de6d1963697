// Tables of 8-bit codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// out[i] = table[in[i]] for i in [first, last), 256 entries of a byte.
using LookupFunction = void (*)(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                                std::size_t last);

void lookup_portable(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                     std::size_t last);
/// Selects among shuffles.
void lookup_avx2(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                 std::size_t last);
/// Permutes registers where the processor has AVX-512 VBMI.
void lookup_avx512(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                   std::size_t last);

}  // namespace halfeven::kernels
