// Softmax, LogSoftmax (ai.onnx 1, 11, 13): before 13 over all axes from `axis` (default 1) on, since 13 along `axis`
// (default -1).
#include "ops/softmax.hpp"

#include "ops/formulas.hpp"

namespace halfeven::ops {
namespace {

using numerics::Approx;
using numerics::Real;

// One row: its elements' places in the tensor.
struct Row {
  std::size_t first;
  std::size_t step;
  std::size_t length;

  std::size_t operator()(std::size_t j) const { return first + j * step; }
};

Row row_of(const AxisSplit& split, std::size_t r) {
  return {r / split.inner * split.length * split.inner + r % split.inner, split.inner, split.length};
}

// What exponents are counted from. Any element will do for the result to be right; the greatest keeps it in range and
// makes the exponentials of equal values exactly 1.
std::size_t greatest(const numerics::ExactTensor& x, const Row& row) {
  std::size_t best = row(0);
  double most = x.approx(best).mid;
  for (std::size_t j = 1; j < row.length; ++j) {
    const double m = x.approx(row(j)).mid;
    if (m > most) {
      best = row(j);
      most = m;
    }
  }
  return best;
}

void approximate_row(const numerics::ExactTensor& x, const Row& row, std::size_t reference, bool logarithm,
                     std::vector<Approx>& values) {
  const Approx top = x.approx(reference);
  Approx total{0, 0};
  bool nan = std::isnan(top.mid) || (top.exact() && top.special());
  for (std::size_t j = 0; j < row.length; ++j) {
    const Approx shifted = x.approx(row(j)) - top;
    const Approx power = decaying_exp(shifted);
    nan = nan || std::isnan(shifted.mid);
    total = total + power;
    values[row(j)] = logarithm ? shifted : power;
  }
  const Approx log_total = logarithm ? log(total) : total;
  for (std::size_t j = 0; j < row.length; ++j) {
    Approx& v = values[row(j)];
    if (nan) {
      v = {std::nan(""), 0};
    } else if (logarithm && v.exact() && v.special()) {
      // -inf stays.
    } else if (!logarithm && v.exact() && v.mid == 0) {
      // exp(-inf) is 0, whatever the sum.
    } else {
      v = logarithm ? v - log_total : v / total;
    }
  }
}

Real exact_total(const numerics::ExactTensor& x, const Row& row, const Real& top) {
  return sum_of<Real>(row.length, [&](std::size_t j) { return exp(x.exact(row(j)) - top); });
}

}  // namespace

AxisSplit flattened_at(const Shape& shape, std::size_t axis) {
  AxisSplit split;
  for (std::size_t k = 0; k < shape.size(); ++k)
    (k < axis ? split.outer : split.length) *= static_cast<std::size_t>(shape[k]);
  return split;
}

numerics::ExactPtr softmax(const numerics::ExactPtr& x, const AxisSplit& split, bool logarithm, DType dtype,
                           int threads) {
  const std::size_t rows = split.length == 0 ? 0 : split.outer * split.inner;
  std::vector<Approx> values(x->size());
  std::vector<std::size_t> references(rows);
  numerics::parallel_for(rows, 1 + 1024 / std::max<std::size_t>(split.length, 1), threads,
                         [&](std::size_t begin, std::size_t end) {
                           for (std::size_t r = begin; r < end; ++r) {
                             const Row row = row_of(split, r);
                             references[r] = greatest(*x, row);
                             approximate_row(*x, row, references[r], logarithm, values);
                           }
                         });
  auto totals = std::make_shared<SharedValues<Real>>();
  return numerics::make_computed(
      dtype, x->shape(), std::move(values),
      [x, split, logarithm, totals, references = std::move(references)](std::size_t i) -> Real {
        const std::size_t r = i / (split.length * split.inner) * split.inner + i % split.inner;
        const Real top = x->exact(references[r]);
        const Real total = totals->get(r, [&] { return exact_total(*x, row_of(split, r), top); });
        const Real shifted = x->exact(i) - top;
        return logarithm ? shifted - log(total) : exp(shifted) / total;
      });
}

namespace {

std::size_t axis_of(const NodeReader& c, std::size_t rank) {
  return normalize_axis(c, c.get_int("axis", c.version() < 13 ? 1 : -1), rank);
}

std::vector<TypeShape> infer_softmax(const InferContext& c) {
  if (c.shape(0)) axis_of(c, c.shape(0)->size());
  return infer_same_float(c);
}

template <bool kLogarithm>
std::vector<Data> evaluate_softmax(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const std::size_t axis = axis_of(c, shape.size());
  const AxisSplit split = c.version() < 13 ? flattened_at(shape, axis) : split_at(shape, axis);
  return {softmax(c.reals(0), split, kLogarithm, c.result_type(), c.threads())};
}

}  // namespace

std::vector<Operator> softmax_operators() {
  return {
      {"", "Softmax", {1, 11, 13}, 1, 1, 1, infer_softmax, evaluate_softmax<false>},
      {"", "LogSoftmax", {1, 11, 13}, 1, 1, 1, infer_softmax, evaluate_softmax<true>},
  };
}

}  // namespace halfeven::ops
