// What this machine can do: multiply-adds of 8-bit integers and reading memory, one thread.
#pragma once

#include <cstddef>

#include "plan/kernel.hpp"

namespace halfeven::bench {

/// Operations a second (a multiplication and an addition are two) of the instructions that the set offers for products
/// of 8-bit integers with exact sums: vpdpbusd (vnni), vpmaddwd on 512 and 256 bits (avx512, avx2), what the compiler
/// makes of portable code (sse2). Measured once, best of several.
double peak_operations(plan::Isa isa);

/// Bytes a second when `bytes` of memory are read again and again.
double read_bandwidth(std::size_t bytes);

/// The most that a kernel could do which needs so many operations and moves so many bytes, all of them once.
double attainable(plan::Isa isa, double operations, double bytes);

}  // namespace halfeven::bench
