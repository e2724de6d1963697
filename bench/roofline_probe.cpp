#include "roofline_probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace halfeven::bench {

// Return the operations done in `rounds` rounds. In files of their own for the sake of their compile flags.
double spin_vnni(std::int64_t rounds);
double spin_avx512(std::int64_t rounds);
double spin_avx2(std::int64_t rounds);

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// int8 pairs to int32 as compilers vectorise it.
double spin_portable(std::int64_t rounds) {
  constexpr std::size_t kSize = 512;
  std::array<std::int16_t, kSize> a{};
  std::array<std::int16_t, kSize> b{};
  for (std::size_t i = 0; i < kSize; ++i) {
    a[i] = static_cast<std::int16_t>(i % 255);
    b[i] = static_cast<std::int16_t>(i % 127);
  }
  std::int32_t total = 0;
  for (std::int64_t r = 0; r < rounds; ++r) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < kSize; ++i) sum += a[i] * b[i];
    total += sum;
    __asm__ volatile("" : "+r"(total) : : "memory");
  }
  return static_cast<double>(rounds) * 2.0 * kSize;
}

double measure(double (*spin)(std::int64_t)) {
  double best = 0;
  std::int64_t rounds = 1000;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const auto start = Clock::now();
    const double done = spin(rounds);
    const double t = seconds_since(start);
    best = std::max(best, done / t);
    if (t < 0.005) {
      rounds *= 4;
      repeat = std::max(-1, repeat - 1);
    }
  }
  return best;
}

}  // namespace

double peak_operations(plan::Isa isa) {
  static std::map<plan::Isa, double> known;
  const auto [at, fresh] = known.try_emplace(isa, 0);
  if (fresh) {
    switch (isa) {
      case plan::Isa::sse2: at->second = measure(spin_portable); break;
      case plan::Isa::avx2: at->second = measure(spin_avx2); break;
      case plan::Isa::avx512: at->second = measure(spin_avx512); break;
      default: at->second = measure(spin_vnni);
    }
  }
  return at->second;
}

double read_bandwidth(std::size_t bytes) {
  static std::map<std::size_t, double> known;
  const auto [at, fresh] = known.try_emplace(bytes, 0);
  if (!fresh) return at->second;
  std::vector<std::uint64_t> data(bytes / sizeof(std::uint64_t), 1);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::size_t rounds = std::max<std::size_t>(1, (std::size_t{64} << 20) / bytes);
    const auto start = Clock::now();
    std::array<std::uint64_t, 24> sums{};  // independent, or additions would set the pace
    for (std::size_t r = 0; r < rounds; ++r) {
      for (std::size_t i = 0; i + sums.size() <= data.size(); i += sums.size()) {
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] ^= data[i + k];
      }
      __asm__ volatile("" : : "r"(sums.data()) : "memory");
    }
    at->second = std::max(at->second, static_cast<double>(bytes * rounds) / seconds_since(start));
  }
  return at->second;
}

double attainable(plan::Isa isa, double operations, double bytes) {
  // Memory at the level that holds what is moved.
  const std::size_t level = bytes < 24e3    ? std::size_t{24} << 10
                            : bytes < 512e3 ? std::size_t{512} << 10
                            : bytes < 8e6   ? std::size_t{8} << 20
                                            : std::size_t{128} << 20;
  const double time = std::max(operations / peak_operations(isa), bytes / read_bandwidth(level));
  return operations > 0 ? operations / time : bytes / time;
}

}  // namespace halfeven::bench
