#include "ops/contraction.hpp"

#include <algorithm>
#include <cmath>

namespace halfeven::ops {
namespace {

using numerics::Affine;
using numerics::Approx;
using numerics::ExactPtr;
using numerics::Real;

// Columns that are worked on together: their sums and one row of factors stay in the first-level cache.
constexpr std::size_t kBlock = 256;
constexpr std::size_t kRows = 4;

// The factors of one row of the left operand, as doubles, and the scale to be multiplied in afterwards.
struct Packed {
  std::vector<double> values;  // [rows][depth]
  std::vector<double> scales;  // [rows]; empty in float mode
  std::vector<double> weight;  // [rows]: sum of |values|
};

// Everything the evaluation and the later exact recomputation share.
struct Sum {
  Contraction plan;
  ExactPtr left;
  ExactPtr right;
  ExactPtr bias;
  double factor;
  bool integral = false;             // sums[i] is an exact integer, to be multiplied by left and right scale
  std::vector<double> sums;          // integral mode
  std::vector<double> left_scales;   // [batches][rows]
  std::vector<double> right_scales;  // [batches][columns], or one entry
};

// sums[r][c] += w[r] * x[c] for up to four rows. Plain doubles; integers below 2^53 stay exact in any order.
void accumulate(double* const* sums, const double* w, std::size_t rows, const double* x, std::size_t n) {
  if (rows == kRows) {
    double* __restrict s0 = sums[0];
    double* __restrict s1 = sums[1];
    double* __restrict s2 = sums[2];
    double* __restrict s3 = sums[3];
    for (std::size_t c = 0; c < n; ++c) {
      const double v = x[c];
      s0[c] += w[0] * v;
      s1[c] += w[1] * v;
      s2[c] += w[2] * v;
      s3[c] += w[3] * v;
    }
    return;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < n; ++c) sums[r][c] += w[r] * x[c];
  }
}

// Scale of each row (or column), if it does not vary along the depth; empty if it does.
std::vector<double> row_scales(const Contraction& p, const Affine& a) {
  std::vector<double> scales(p.batches * p.rows, a.scales.empty() ? 1.0 : a.scales[0]);
  if (a.per_tensor()) return scales;
  for (std::size_t b = 0; b < p.batches; ++b) {
    for (std::size_t r = 0; r < p.rows; ++r) {
      for (std::size_t k = 0; k < p.depth; ++k) {
        const double s = a.scales[a.map(p.left(b, r, k))];
        if (k == 0) {
          scales[b * p.rows + r] = s;
        } else if (s != scales[b * p.rows + r]) {
          return {};
        }
      }
    }
  }
  return scales;
}

std::vector<double> column_scales(const Contraction& p, const Affine& a) {
  if (a.per_tensor()) return {a.scales[0]};
  std::vector<double> scales(p.batches * p.columns, 0.0);
  std::vector<std::size_t> index(p.columns);
  for (std::size_t b = 0; b < p.batches; ++b) {
    std::vector<bool> seen(p.columns, false);
    for (std::size_t k = 0; k < p.depth; ++k) {
      p.right(b, k, 0, p.columns, index.data());
      for (std::size_t c = 0; c < p.columns; ++c) {
        if (index[c] == Contraction::kZero) continue;
        const double s = a.scales[a.map(index[c])];
        double& mine = scales[b * p.columns + c];
        if (!seen[c]) {
          seen[c] = true;
          mine = s;
        } else if (s != mine) {
          return {};
        }
      }
    }
  }
  return scales;
}

double largest(const std::vector<std::int64_t>& v) {
  double m = 0;
  for (const std::int64_t x : v) m = std::max(m, std::fabs(static_cast<double>(x)));
  return m;
}

// Decides whether all sums are integers that double holds exactly.
void plan_integral(Sum& s) {
  const Affine* a = s.left->affine();
  const Affine* b = s.right->affine();
  if (a == nullptr || b == nullptr || a->scales.empty() || b->scales.empty()) return;
  const double bound = static_cast<double>(s.plan.depth) * largest(a->integers) * largest(b->integers);
  if (!(bound < 0x1p53)) return;
  s.left_scales = row_scales(s.plan, *a);
  s.right_scales = column_scales(s.plan, *b);
  s.integral = !s.left_scales.empty() && !s.right_scales.empty();
}

// Doubles of all elements; false where one is not finite or carries more than a rounding error of its own.
bool plain_values(const numerics::ExactTensor& x, std::vector<double>& out) {
  out.resize(x.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Approx a = x.approx(i);
    if (a.special() || !(a.err <= std::fabs(a.mid) * numerics::detail::kUnit)) return false;
    out[i] = a.mid;
  }
  return true;
}

void to_doubles(const std::vector<std::int64_t>& v, std::vector<double>& out) {
  out.resize(v.size());
  std::transform(v.begin(), v.end(), out.begin(), [](std::int64_t x) { return static_cast<double>(x); });
}

Packed pack(const Sum& s, const std::vector<double>& left, std::size_t b) {
  const Contraction& p = s.plan;
  Packed out;
  out.values.resize(p.rows * p.depth);
  out.weight.assign(p.rows, 0.0);
  for (std::size_t r = 0; r < p.rows; ++r) {
    for (std::size_t k = 0; k < p.depth; ++k) {
      const double v = left[p.left(b, r, k)];
      out.values[r * p.depth + k] = v;
      out.weight[r] += std::fabs(v);
    }
  }
  return out;
}

template <class N>
N with_bias(const Sum& s, N sum, std::size_t b, std::size_t r, std::size_t c) {
  if (s.factor != 1.0) sum = sum * numerics::number<N>(s.factor);
  if (!s.bias) return sum;
  return sum + numerics::load<N>(*s.bias, s.plan.bias(b, r, c));
}

double right_scale(const Sum& s, std::size_t b, std::size_t c) {
  return s.right_scales.size() == 1 ? s.right_scales[0] : s.right_scales[b * s.plan.columns + c];
}

// The sum of one element with nothing rounded.
Real exact_sum(const Sum& s, std::size_t b, std::size_t r, std::size_t c, std::size_t i) {
  if (s.integral) {
    return Real::from_double(s.sums[i]) * Real::from_double(s.left_scales[b * s.plan.rows + r]) *
           Real::from_double(right_scale(s, b, c));
  }
  std::vector<Real> terms;
  terms.reserve(s.plan.depth);
  for (std::size_t k = 0; k < s.plan.depth; ++k) {
    std::size_t j = 0;
    s.plan.right(b, k, c, c + 1, &j);
    if (j != Contraction::kZero) terms.push_back(s.left->exact(s.plan.left(b, r, k)) * s.right->exact(j));
  }
  return numerics::sum(std::move(terms));
}

// Infinities, NaN or inexact operands: element by element with bounds.
Approx careful_sum(const Sum& s, std::size_t b, std::size_t r, std::size_t c) {
  Approx total{0, 0};
  for (std::size_t k = 0; k < s.plan.depth; ++k) {
    std::size_t j = 0;
    s.plan.right(b, k, c, c + 1, &j);
    if (j != Contraction::kZero) total = total + s.left->approx(s.plan.left(b, r, k)) * s.right->approx(j);
  }
  return total;
}

}  // namespace

ExactPtr contract(DType dtype, Shape shape, Contraction plan, ExactPtr left, ExactPtr right, ExactPtr bias, int threads,
                  double factor) {
  auto s = std::make_shared<Sum>(
      Sum{std::move(plan), std::move(left), std::move(right), std::move(bias), factor, false, {}, {}, {}});
  const Contraction& p = s->plan;
  const std::size_t per_batch = p.rows * p.columns;
  std::vector<Approx> values(p.batches * per_batch);
  plan_integral(*s);

  std::vector<double> left_values;
  std::vector<double> right_values;
  bool plain = true;
  if (s->integral) {
    s->sums.resize(values.size());
    to_doubles(s->left->affine()->integers, left_values);
    to_doubles(s->right->affine()->integers, right_values);
  } else {
    plain = plain_values(*s->left, left_values) && plain_values(*s->right, right_values);
  }

  const std::size_t blocks = (p.columns + kBlock - 1) / kBlock;
  // Each product and each addition of a sum of `depth` products of rounded factors errs by at most a unit of the sum of
  // magnitudes; four units more cover the factors' own errors and the bound's.
  const double unit = (static_cast<double>(p.depth) + 6) * numerics::detail::kUnit;

  const auto block = [&](const Packed& a, std::size_t b, std::size_t first, std::size_t last) {
    const std::size_t n = last - first;
    std::vector<double> factors(p.depth * n);
    std::vector<double> top(n, 0.0);  // largest factor of the column
    std::vector<std::size_t> index(n);
    for (std::size_t k = 0; k < p.depth; ++k) {
      p.right(b, k, first, last, index.data());
      for (std::size_t c = 0; c < n; ++c) {
        const double v = index[c] == Contraction::kZero ? 0.0 : right_values[index[c]];
        factors[k * n + c] = v;
        top[c] = std::max(top[c], std::fabs(v));
      }
    }
    std::vector<double> sums(kRows * n);
    for (std::size_t r0 = 0; r0 < p.rows; r0 += kRows) {
      const std::size_t rows = std::min(kRows, p.rows - r0);
      std::fill(sums.begin(), sums.end(), 0.0);
      double* lines[kRows] = {&sums[0], &sums[n], &sums[2 * n], &sums[3 * n]};
      for (std::size_t k = 0; k < p.depth; ++k) {
        double w[kRows] = {};
        for (std::size_t r = 0; r < rows; ++r) w[r] = a.values[(r0 + r) * p.depth + k];
        accumulate(lines, w, rows, &factors[k * n], n);
      }
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < n; ++c) {
          const std::size_t i = b * per_batch + (r0 + r) * p.columns + first + c;
          const double v = lines[r][c];
          Approx sum{v, 0};
          if (s->integral) {
            s->sums[i] = v;
            sum = sum * (Approx{s->left_scales[b * p.rows + r0 + r], 0} * Approx{right_scale(*s, b, first + c), 0});
          } else {
            const double magnitude = a.weight[r0 + r] * top[c];
            sum.err = magnitude * unit;
            // Products so small that they may have lost bits, or so large that sums may have overflowed.
            if (magnitude != 0 && !(magnitude > 0x1p-900 && magnitude < 0x1p1000)) sum = Approx::unknown();
          }
          values[i] = with_bias(*s, sum, b, r0 + r, first + c);
        }
      }
    }
  };

  if (values.empty()) {
    // nothing to compute
  } else if (!plain) {
    numerics::parallel_for(values.size(), 256, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t b = i / per_batch;
        const std::size_t r = i % per_batch / p.columns;
        values[i] = with_bias(*s, careful_sum(*s, b, r, i % p.columns), b, r, i % p.columns);
      }
    });
  } else if (blocks >= static_cast<std::size_t>(threads)) {
    for (std::size_t b = 0; b < p.batches; ++b) {
      const Packed a = pack(*s, left_values, b);
      numerics::parallel_for(blocks, 1, threads, [&](std::size_t begin, std::size_t end) {
        for (std::size_t k = begin; k < end; ++k) block(a, b, k * kBlock, std::min(p.columns, (k + 1) * kBlock));
      });
    }
  } else {
    numerics::parallel_for(p.batches, 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) {
        const Packed a = pack(*s, left_values, b);
        for (std::size_t k = 0; k < blocks; ++k) block(a, b, k * kBlock, std::min(p.columns, (k + 1) * kBlock));
      }
    });
  }

  return numerics::make_computed(dtype, std::move(shape), std::move(values),
                                 [s = std::shared_ptr<const Sum>(s), per_batch](std::size_t i) {
                                   const std::size_t b = i / per_batch;
                                   const std::size_t r = i % per_batch / s->plan.columns;
                                   const std::size_t c = i % s->plan.columns;
                                   return with_bias(*s, exact_sum(*s, b, r, c, i), b, r, c);
                                 });
}

}  // namespace halfeven::ops
