// The loops of fused.hpp, in a form that compilers vectorise. Included by one file per instruction set, which names the
// function in HALFEVEN_FUSED.
#include <cstring>

#include "cpu/elementwise/fused.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::size_t kBlock = kFusedBlock;

// Adding and subtracting it rounds a double below 2^51 to an integer, half to even.
constexpr double kMagic = 0x1.8p52;

// Templates of the standard library would be shared with files for other instruction sets.
inline std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
inline std::size_t greatest(std::size_t a, std::size_t b) { return a > b ? a : b; }
inline double limited(double v, double lo, double hi) { return v < lo ? lo : (v > hi ? hi : v); }

struct Pair {
  double t;
  double e;
};

// The exact sum of two doubles (Knuth).
inline Pair two_sum(double a, double b) {
  const double t = a + b;
  const double z = t - a;
  return {t, (a - (t - z)) + (b - z)};
}

// The exact rest of a product t = a * b.
inline double product_rest(double a, double b, double t) {
#ifdef __FMA__
  return __builtin_fma(a, b, -t);
#else  // Dekker, with Veltkamp's split
  const double ca = a * 134217729.0;
  const double cb = b * 134217729.0;
  const double ah = ca - (ca - a);
  const double bh = cb - (cb - b);
  const double al = a - ah;
  const double bl = b - bh;
  return ((ah * bh - t) + ah * bl + al * bh) + al * bl;
#endif
}

inline Pair two_product(double a, double b) {
  const double t = a * b;
  return {t, product_rest(a, b, t)};
}

// a / b with the rest; only the sign of the rest is right where `sign_only`.
template <bool kSignOnly>
inline Pair quotient(double a, double b) {
  const double t = a / b;
  const double p = t * b;
  const double r = (a - p) - product_rest(t, b, p);
  return {t, kSignOnly ? (b < 0 ? -r : r) : r / b};
}

// Infinities and NaN have no rest.
inline double sane(double e) { return e == e ? e : 0.0; }

// t rounded to float32. A zero becomes +0, a NaN the positive one.
inline double round_double(double t) {
  const double y = static_cast<double>(static_cast<float>(t)) + 0.0;
  return y == y ? y : __builtin_nan("");
}

// t + e rounded to float32: t is rounded to odd first, then nothing is lost by rounding twice.
inline double round_pair(double t, double e) {
  // Without branches, so that loops become vectors.
  std::int64_t bits = __builtin_bit_cast(std::int64_t, t);
  const std::int64_t inexact = e != 0 ? 1 : 0;
  const std::int64_t rest_up = e > 0 ? 1 : 0;
  const std::int64_t up = t > 0 ? 1 : 0;
  const std::int64_t step = 1 - 2 * (rest_up ^ up);
  bits += step & -(inexact & ((bits & 1) ^ 1));
  return round_double(__builtin_bit_cast(double, bits));
}

// A block of pairs t + e rounded to float32 as if they were t. A rest, at most half a last bit of t, changes something
// only where t lies halfway between two floats: false if one does, or if t is subnormal as a float.
template <class F>
inline bool round_without_rest(double* __restrict to, std::size_t n, F f) {
  constexpr std::int64_t kBelow = (std::int64_t{1} << 29) - 1;  // bits of a double that a float lacks
  constexpr std::int64_t kHalf = std::int64_t{1} << 28;
  std::int64_t open = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const Pair y = f(k);
    const auto bits = __builtin_bit_cast(std::int64_t, y.t);
    const bool halfway = (bits & kBelow) == kHalf || __builtin_fabs(y.t) < 0x1p-126;
    open |= halfway && y.e != 0 ? 1 : 0;
    to[k] = round_double(y.t);
  }
  return open == 0;
}

// y = f(k) for a block, a pair, in the form that the step wants. `to` is none of what f reads.
template <class F>
inline void finish(const FusedStep& s, double* __restrict to, std::size_t n, F f) {
  switch (s.result) {
    case FusedResult::exact:
      for (std::size_t k = 0; k < n; ++k) to[k] = f(k).t + 0.0;
      break;
    case FusedResult::narrowed:
      for (std::size_t k = 0; k < n; ++k) to[k] = round_double(f(k).t);
      break;
    case FusedResult::rounded:
      if (round_without_rest(to, n, f)) break;
      for (std::size_t k = 0; k < n; ++k) {
        const Pair y = f(k);
        to[k] = round_pair(y.t, sane(y.e));
      }
      break;
    case FusedResult::pair:
      for (std::size_t k = 0; k < n; ++k) {
        const Pair y = f(k);
        to[k] = y.t + 0.0;
        to[k + kBlock] = sane(y.e);
      }
      break;
  }
}

// dst[k] = f(source[address(first + k)]).
template <class T, class F>
inline void load(const FusedAddress& at, const T* source, double* __restrict to, std::size_t first, std::size_t n,
                 F f) {
  switch (at.kind) {
    case FusedAddress::Kind::full:
      for (std::size_t k = 0; k < n; ++k) to[k] = f(source[first + k]);
      break;
    case FusedAddress::Kind::scalar: {
      const double v = f(source[0]);
      for (std::size_t k = 0; k < n; ++k) to[k] = v;
      break;
    }
    case FusedAddress::Kind::periodic:
      for (std::size_t k = 0; k < n;) {
        const std::size_t i = first + k;
        const std::size_t within = i % at.period;
        const T* from = source + i / at.span * at.period + within;
        const std::size_t run = least(n - k, at.period - within);
        for (std::size_t j = 0; j < run; ++j) to[k + j] = f(from[j]);
        k += run;
      }
      break;
    case FusedAddress::Kind::repeat:
      for (std::size_t k = 0; k < n;) {
        const std::size_t i = first + k;
        const double v = f(source[i / at.span % at.period]);
        const std::size_t run = least(n - k, at.span - i % at.span);
        for (std::size_t j = 0; j < run; ++j) to[k + j] = v;
        k += run;
      }
      break;
    case FusedAddress::Kind::indexed:
      for (std::size_t k = 0; k < n; ++k) to[k] = f(source[at.index[first + k]]);
      break;
  }
}

inline void run_step(const FusedStep& s, const std::byte* const* in, double* regs, std::size_t first, std::size_t n) {
  double* __restrict to = regs + s.to * (2 * kBlock);
  const double* a = regs + s.a * (2 * kBlock);
  const double* b = regs + s.b * (2 * kBlock);
  const double* c = regs + s.c * (2 * kBlock);
  const double p0 = s.p0;
  const double p1 = s.p1;
  const auto dequantize = [p0, p1](auto q) { return (static_cast<double>(q) - p0) * p1 + 0.0; };
  switch (s.op) {
    case FusedOp::load_u8:
      load(s.address, reinterpret_cast<const std::uint8_t*>(in[s.a]), to, first, n, dequantize);
      break;
    case FusedOp::load_s8:
      load(s.address, reinterpret_cast<const std::int8_t*>(in[s.a]), to, first, n, dequantize);
      break;
    case FusedOp::load_u16:
      load(s.address, reinterpret_cast<const std::uint16_t*>(in[s.a]), to, first, n, dequantize);
      break;
    case FusedOp::load_s16:
      load(s.address, reinterpret_cast<const std::int16_t*>(in[s.a]), to, first, n, dequantize);
      break;
    case FusedOp::load_f32:
      load(s.address, reinterpret_cast<const float*>(in[s.a]), to, first, n,
           [](float v) { return static_cast<double>(v); });
      break;
    case FusedOp::table: {
      const double* table = s.table;
      load(s.address, reinterpret_cast<const std::uint8_t*>(in[s.a]), to, first, n,
           [table](std::uint8_t q) { return table[q]; });
      break;
    }
    case FusedOp::constant: load(s.address, s.table, to, first, n, [](double v) { return v; }); break;
    case FusedOp::add: finish(s, to, n, [=](std::size_t k) { return two_sum(a[k], b[k]); }); break;
    case FusedOp::subtract: finish(s, to, n, [=](std::size_t k) { return two_sum(a[k], -b[k]); }); break;
    case FusedOp::multiply: finish(s, to, n, [=](std::size_t k) { return two_product(a[k], b[k]); }); break;
    case FusedOp::divide:
      if (s.result == FusedResult::pair) {
        finish(s, to, n, [=](std::size_t k) { return quotient<false>(a[k], b[k]); });
      } else {
        finish(s, to, n, [=](std::size_t k) { return quotient<true>(a[k], b[k]); });
      }
      break;
    case FusedOp::minimum:
      finish(s, to, n, [=](std::size_t k) {
        const double m = a[k] < b[k] ? a[k] : b[k];  // b where one is NaN
        return Pair{a[k] != a[k] ? a[k] : m, 0};
      });
      break;
    case FusedOp::maximum:
      finish(s, to, n, [=](std::size_t k) {
        const double m = a[k] > b[k] ? a[k] : b[k];
        return Pair{a[k] != a[k] ? a[k] : m, 0};
      });
      break;
    case FusedOp::negate: finish(s, to, n, [=](std::size_t k) { return Pair{-a[k], 0}; }); break;
    case FusedOp::absolute: finish(s, to, n, [=](std::size_t k) { return Pair{__builtin_fabs(a[k]), 0}; }); break;
    case FusedOp::relu:
      for (std::size_t k = 0; k < n; ++k) to[k] = a[k] > 0 ? a[k] : (a[k] != a[k] ? a[k] : 0.0);
      if (s.a_pair) {
        for (std::size_t k = 0; k < n; ++k) to[k + kBlock] = a[k] > 0 ? a[k + kBlock] : 0.0;
      }
      break;
    case FusedOp::clip:
      if (!s.a_pair) {
        for (std::size_t k = 0; k < n; ++k) {
          const double v = a[k] < p0 ? p0 : a[k];
          to[k] = v > p1 ? p1 : v;
        }
      } else {
        for (std::size_t k = 0; k < n; ++k) {
          const double t = a[k];
          const double e = a[k + kBlock];
          const bool below = t < p0 || (t == p0 && e < 0);
          const double t1 = below ? p0 : t;
          const double e1 = below ? 0.0 : e;
          const bool above = t1 > p1 || (t1 == p1 && e1 > 0);
          to[k] = above ? p1 : t1;
          to[k + kBlock] = above ? 0.0 : e1;
        }
      }
      break;
    case FusedOp::prelu:
      finish(s, to, n, [=](std::size_t k) {
        const Pair y = two_product(a[k], b[k]);
        return Pair{a[k] < 0 ? y.t : a[k], a[k] < 0 ? y.e : 0.0};
      });
      break;
    case FusedOp::hard_sigmoid:
      finish(s, to, n, [=](std::size_t k) {
        const Pair p = two_product(a[k], p0);
        const Pair q = two_sum(p.t, p1);
        const Pair rest = two_sum(p.e, q.e);
        const Pair sum = two_sum(q.t, sane(rest.t));
        // Beside the sum's rest, a multiple of the last bit of rest.t, rest.e changes no sign.
        const Pair y{sum.t, sum.e != 0 ? sum.e : sane(rest.e)};
        const bool above = y.t > 1 || (y.t == 1 && y.e > 0);
        const double t = y.t < 0 ? 0.0 : (above ? 1.0 : y.t);
        return Pair{t, y.t < 0 || above ? 0.0 : y.e};
      });
      break;
    case FusedOp::affine:
      finish(s, to, n, [=](std::size_t k) {
        const Pair p = two_product(a[k], b[k]);
        const Pair q = two_sum(p.t, c[k]);
        return two_sum(q.t, (q.e + p.e) + (a[k] * b[k + kBlock] + c[k + kBlock]));
      });
      break;
    case FusedOp::pair:
      for (std::size_t k = 0; k < n; ++k) to[k] = a[k];
      for (std::size_t k = 0; k < n; ++k) to[k + kBlock] = b[k];
      break;
    case FusedOp::function:
      for (std::size_t k = 0; k < n; ++k) to[k] = s.function(a[k]);
      break;
    case FusedOp::round:
      if (s.a_pair) {
        for (std::size_t k = 0; k < n; ++k) to[k] = round_pair(a[k], a[k + kBlock]);
      } else {
        for (std::size_t k = 0; k < n; ++k) to[k] = round_pair(a[k], 0.0);
      }
      break;
  }
}

// round_half_even((t + e) / scale) for a quotient v next to a tie; false if that cannot be told. A tie has at most 42
// bits, so unless t is one, it lies at least a bit of t away, and e changes nothing.
inline bool settle(const FusedProgram& p, double t, double e, double v, double& y) {
  const double below = __builtin_floor(v);
  double d = t - (below + 0.5) * p.scale;
  if (d == 0) {
    if (p.doubt > 0 && __builtin_fabs(e) <= p.doubt) return false;
    d = e;
  }
  const double side = p.scale < 0 ? -d : d;
  const bool odd = __builtin_floor(below / 2) * 2 != below;
  y = side > 0 || (side == 0 && odd) ? below + 1 : below;
  return true;
}

// The block's results as stored integers; false if one could not be decided. `rests` computes the rests, which few
// blocks need.
template <class F>
inline bool quantize(const FusedProgram& p, const double* t, std::int32_t* __restrict y, std::size_t n, F rests) {
  const double inverse = p.inverse;
  const double lo = p.lo - p.zero;
  const double hi = p.hi - p.zero;
  const double zero = p.zero;
  // A quotient errs by less than 2^-34 where it does not saturate.
  const double tie = 0.5 - 0x1p-33;
  std::int64_t open = 0;  // next to a tie, or NaN
  for (std::size_t k = 0; k < n; ++k) {
    double v = t[k] * inverse;
    v = v < lo - 1 ? lo - 1 : v;
    v = v > hi + 1 ? hi + 1 : v;
    const double r = (v + kMagic) - kMagic;
    open |= __builtin_fabs(v - r) < tie ? 0 : 1;
    double z = r > lo ? r : lo;  // NaN, too
    z = z > hi ? hi : z;
    y[k] = static_cast<std::int32_t>(z + zero);
  }
  if (open == 0) return true;
  rests();
  const double* e = t + kBlock;
  for (std::size_t k = 0; k < n; ++k) {
    if (t[k] != t[k]) return false;
    const double v = limited(t[k] * inverse, lo - 1, hi + 1);
    if (__builtin_fabs(v - ((v + kMagic) - kMagic)) < tie) continue;
    double r = 0;
    if (!settle(p, t[k], p.result_pair ? e[k] : 0.0, v, r)) return false;
    y[k] = static_cast<std::int32_t>(limited(r, lo, hi) + zero);
  }
  return true;
}

template <class T>
inline void narrow(const std::int32_t* __restrict y, T* __restrict out, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) out[k] = static_cast<T>(y[k]);
}

// What an invariant step's block depends on.
inline std::size_t phase(const FusedStep& s, std::size_t first) {
  if (s.address.kind != FusedAddress::Kind::periodic) return 0;
  return first / s.address.span * s.address.period + first % s.address.period;
}

}  // namespace

bool HALFEVEN_FUSED(const FusedProgram& p, const std::byte* const* in, std::byte* out, std::size_t first,
                    std::size_t last) {
  alignas(64) double regs[kFusedRegisters * 2 * kBlock];
  alignas(64) std::int32_t y[kBlock];
  // Blocks begin at multiples of a period where they can, so that periodic operands stay as they are.
  std::size_t block = kBlock;
  std::size_t periodic = 0;
  for (std::size_t s = 0; s < p.step_count; ++s) {
    const FusedAddress& at = p.steps[s].address;
    if (p.steps[s].invariant && at.kind == FusedAddress::Kind::periodic) periodic = greatest(periodic, at.period);
  }
  // The last step's rest is computed where it is looked at.
  FusedStep last_step{};
  bool lazy = false;
  if (p.step_count > 0) {
    last_step = p.steps[p.step_count - 1];
    lazy = !last_step.invariant && last_step.to == p.result && last_step.result == FusedResult::pair;
    if (lazy) last_step.result = FusedResult::exact;
  }
  if (periodic > 1 && periodic <= kBlock) block = kBlock / periodic * periodic;
  std::size_t ready = 0;  // invariant steps are done for so many elements ...
  std::size_t seen = 0;   // ... from this one on
  for (std::size_t i = first; i < last;) {
    const std::size_t n = least(block, last - i);
    bool same = ready >= n;
    bool crosses = false;  // operands that advance within the block
    std::size_t s = 0;
    for (; s < p.step_count && p.steps[s].invariant; ++s) {
      const FusedAddress& at = p.steps[s].address;
      same = same && phase(p.steps[s], i) == phase(p.steps[s], seen);
      crosses = crosses || (at.kind == FusedAddress::Kind::periodic && i / at.span != (i + n - 1) / at.span);
    }
    if (!same || crosses) {
      for (std::size_t k = 0; k < s; ++k) run_step(p.steps[k], in, regs, i, n);
      ready = crosses ? 0 : n;
      seen = i;
    }
    for (; s < p.step_count - (lazy ? 1 : 0); ++s) run_step(p.steps[s], in, regs, i, n);
    if (lazy) run_step(last_step, in, regs, i, n);
    const double* t = regs + p.result * (2 * kBlock);
    if (p.type == FusedType::f32) {
      float* to = reinterpret_cast<float*>(out) + i;
      for (std::size_t k = 0; k < n; ++k) to[k] = static_cast<float>(t[k]);
    } else {
      const auto rests = [&] {
        if (lazy) run_step(p.steps[p.step_count - 1], in, regs, i, n);
      };
      if (!quantize(p, t, y, n, rests)) return false;
      switch (p.type) {
        case FusedType::u8: narrow(y, reinterpret_cast<std::uint8_t*>(out) + i, n); break;
        case FusedType::u16: narrow(y, reinterpret_cast<std::uint16_t*>(out) + i, n); break;
        default: narrow(y, reinterpret_cast<std::int16_t*>(out) + i, n); break;
      }
    }
    i += n;
  }
  return true;
}

}  // namespace halfeven::kernels
