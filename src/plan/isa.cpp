// Instruction sets of this processor.
#include <array>
#include <cstdlib>

#include "plan/kernel.hpp"

#ifdef __x86_64__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace halfeven::plan {
namespace {

constexpr std::array<std::string_view, 5> kNames{"sse2", "avx2", "avx512", "vnni", "amx"};

#ifdef __x86_64__
// Linux lends the tile registers to processes that ask.
bool may_use_tiles() {
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

bool has_amx_int8() {
  unsigned a = 7;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return ((d >> 24) & 3U) == 3U && may_use_tiles();
}
#endif

Isa detect() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::sse2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::avx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::avx512;
  return has_amx_int8() ? Isa::amx : Isa::vnni;
#else
  return Isa::sse2;
#endif
}

}  // namespace

std::string_view to_string(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

std::optional<Isa> parse_isa(std::string_view name) {
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    if (kNames[k] == name) return static_cast<Isa>(k);
  }
  return std::nullopt;
}

Isa detect_isa() {
  static const Isa isa = detect();
  return isa;
}

}  // namespace halfeven::plan
