#ifdef __AVX2__
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/dynamic/dynamic.hpp"

namespace halfeven::kernels {
namespace {
#include "cpu/dynamic/dynamic.inc"
}  // namespace

DynamicFunctions dynamic_avx2() { return {integers, floats, range, quantize}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/dynamic/dynamic.hpp"
namespace halfeven::kernels {
DynamicFunctions dynamic_avx2() { return dynamic_portable(); }
}  // namespace halfeven::kernels
#endif
