// MatMul (ai.onnx 1, 9, 13), Gemm (7, 9, 11, 13), MatMulInteger (10), QLinearMatMul (10, 21), com.microsoft QGemm.
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "ops/contraction.hpp"
#include "ops/integer_result.hpp"
#include "ops/quantize_linear.hpp"

namespace halfeven::ops {
namespace {

// numpy.matmul: leading dimensions broadcast; a rank-1 operand gets a dimension that the result loses again.
struct Product {
  Shape a;  // with at least two dimensions
  Shape b;
  Shape batch;  // broadcast leading dimensions
};

Product product_of(const Shape& a, const Shape& b) {
  Product p{a, b, {}};
  if (p.a.size() == 1) p.a.insert(p.a.begin(), 1);
  if (p.b.size() == 1) p.b.push_back(1);
  return p;
}

Shape leading(const Shape& s) { return {s.begin(), s.end() - 2}; }

std::optional<Shape> matmul_shape(const InferContext& c, std::size_t x, std::size_t y) {
  if (!c.shape(x) || !c.shape(y)) return std::nullopt;
  if (c.shape(x)->empty() || c.shape(y)->empty()) c.fail("an operand is a scalar; a rank of 1 or more is needed");
  const Product p = product_of(*c.shape(x), *c.shape(y));
  const std::int64_t inner = p.a.back();
  const std::int64_t other = p.b[p.b.size() - 2];
  if (inner >= 0 && other >= 0 && inner != other) {
    c.fail(fmt::format("shapes {} and {} cannot be multiplied: {} columns meet {} rows", to_string(*c.shape(x)),
                       to_string(*c.shape(y)), inner, other));
  }
  Shape out = *broadcast(c, {leading(p.a), leading(p.b)});
  if (c.shape(x)->size() > 1) out.push_back(p.a[p.a.size() - 2]);
  if (c.shape(y)->size() > 1) out.push_back(p.b.back());
  return out;
}

numerics::ExactPtr multiply(const NodeReader& node, const numerics::ExactPtr& x, const numerics::ExactPtr& y,
                            DType dtype, const Shape& out, int threads) {
  const Product p = product_of(x->shape(), y->shape());
  const Shape batch = *broadcast(node, {leading(p.a), leading(p.b)});
  const auto ia = std::make_shared<const std::vector<std::size_t>>(broadcast_indices(leading(p.a), batch));
  const auto ib = std::make_shared<const std::vector<std::size_t>>(broadcast_indices(leading(p.b), batch));
  Contraction plan;
  plan.batches = element_count(batch);
  plan.rows = static_cast<std::size_t>(p.a[p.a.size() - 2]);
  plan.depth = static_cast<std::size_t>(p.a.back());
  plan.columns = static_cast<std::size_t>(p.b.back());
  plan.left = [ia, rows = plan.rows, depth = plan.depth](std::size_t b, std::size_t r, std::size_t k) {
    return ((*ia)[b] * rows + r) * depth + k;
  };
  plan.right = [ib, depth = plan.depth, columns = plan.columns](std::size_t b, std::size_t k, std::size_t first,
                                                                std::size_t last, std::size_t* to) {
    const std::size_t base = ((*ib)[b] * depth + k) * columns;
    for (std::size_t c = first; c < last; ++c) *to++ = base + c;
  };
  return contract(dtype, out, std::move(plan), x, y, nullptr, threads);
}

std::vector<TypeShape> infer_matmul(const InferContext& c) {
  c.require_type(0, {DType::float32, DType::float16, DType::bfloat16, DType::float64, DType::int32, DType::uint32,
                     DType::int64, DType::uint64});
  c.require_same_type(0, 1);
  return {{c.dtype(0), matmul_shape(c, 0, 1)}};
}

std::vector<Data> evaluate_matmul(const EvalContext& c) {
  if (c.reals(0)) return {multiply(c, c.reals(0), c.reals(1), c.result_type(), c.result_shape(), c.threads())};
  // Integers wrap: plain modular arithmetic.
  const Product p = product_of(c.input(0).shape(), c.input(1).shape());
  const Shape batch = *broadcast(c, {leading(p.a), leading(p.b)});
  const auto ia = broadcast_indices(leading(p.a), batch);
  const auto ib = broadcast_indices(leading(p.b), batch);
  const auto a = c.ints(0);
  const auto b = c.ints(1);
  const auto m = static_cast<std::size_t>(p.a[p.a.size() - 2]);
  const auto depth = static_cast<std::size_t>(p.a.back());
  const auto n = static_cast<std::size_t>(p.b.back());
  std::vector<std::int64_t> out;
  for (std::size_t t = 0; t < ia.size(); ++t) {
    for (std::size_t r = 0; r < m; ++r) {
      for (std::size_t col = 0; col < n; ++col) {
        std::uint64_t sum = 0;
        for (std::size_t k = 0; k < depth; ++k) {
          sum += static_cast<std::uint64_t>(a[(ia[t] * m + r) * depth + k]) *
                 static_cast<std::uint64_t>(b[(ib[t] * depth + k) * n + col]);
        }
        out.push_back(static_cast<std::int64_t>(sum));
      }
    }
  }
  return {make_integers(c.result_type(), c.result_shape(), out)};
}

// --- Gemm ------------------------------------------------------------------------------------------------------------

bool transposed(const NodeReader& c, const char* name) { return c.get_int(name, 0) != 0; }

std::optional<Shape> gemm_shape(const InferContext& c, std::size_t x, std::size_t y, std::size_t bias) {
  c.require_rank(x, 2, 2);
  c.require_rank(y, 2, 2);
  if (!c.shape(x) || !c.shape(y)) return std::nullopt;
  Shape a = *c.shape(x);
  Shape b = *c.shape(y);
  if (transposed(c, "transA")) std::swap(a[0], a[1]);
  if (transposed(c, "transB")) std::swap(b[0], b[1]);
  if (a[1] >= 0 && b[0] >= 0 && a[1] != b[0]) {
    c.fail(fmt::format("shapes {} and {} (after transposition) cannot be multiplied", to_string(a), to_string(b)));
  }
  const Shape out{a[0], b[1]};
  if (c.has_input(bias) && c.shape(bias)) {
    const auto both = broadcast(c, {out, c.shape(bias)});
    if (both && (both->size() != 2 || (out[0] >= 0 && (*both)[0] != out[0]) || (out[1] >= 0 && (*both)[1] != out[1]))) {
      c.fail(fmt::format("'{}' of shape {} does not broadcast to {}", c.input_name(bias), to_string(*c.shape(bias)),
                         to_string(out)));
    }
  }
  return out;
}

numerics::ExactPtr gemm(const NodeReader& node, const numerics::ExactPtr& x, const numerics::ExactPtr& y,
                        const numerics::ExactPtr& bias, double alpha, DType dtype, const Shape& out, int threads) {
  const bool ta = transposed(node, "transA");
  const bool tb = transposed(node, "transB");
  Contraction plan;
  plan.rows = static_cast<std::size_t>(out[0]);
  plan.columns = static_cast<std::size_t>(out[1]);
  plan.depth = static_cast<std::size_t>(x->shape()[ta ? 0 : 1]);
  plan.left = [ta, rows = plan.rows, depth = plan.depth](std::size_t, std::size_t r, std::size_t k) {
    return ta ? k * rows + r : r * depth + k;
  };
  plan.right = [tb, depth = plan.depth, columns = plan.columns](std::size_t, std::size_t k, std::size_t first,
                                                                std::size_t last, std::size_t* to) {
    for (std::size_t c = first; c < last; ++c) *to++ = tb ? c * depth + k : k * columns + c;
  };
  if (bias) {
    const auto index = std::make_shared<const std::vector<std::size_t>>(broadcast_indices(bias->shape(), out));
    plan.bias = [index, columns = plan.columns](std::size_t, std::size_t r, std::size_t c) {
      return (*index)[r * columns + c];
    };
  }
  return contract(dtype, out, std::move(plan), x, y, bias, threads, alpha);
}

numerics::ExactPtr scaled(const numerics::ExactPtr& x, double factor) {
  if (factor == 1.0) return x;
  return numerics::make_elements(x->dtype(), x->shape(), 1,
                                 [x, factor]<class N>(std::size_t i, std::type_identity<N>) -> N {
                                   return numerics::load<N>(*x, i) * numerics::number<N>(factor);
                                 });
}

std::vector<TypeShape> infer_gemm(const InferContext& c) {
  c.require_type(0, {DType::float32, DType::float16, DType::bfloat16, DType::float64});
  c.require_same_type(0, 1);
  if (c.has_input(2)) c.require_same_type(0, 2);
  return {{c.dtype(0), gemm_shape(c, 0, 1, 2)}};
}

std::vector<Data> evaluate_gemm(const EvalContext& c) {
  const auto alpha = static_cast<double>(c.get_float("alpha", 1.0F));
  const auto beta = static_cast<double>(c.get_float("beta", 1.0F));
  const auto bias = c.has_input(2) ? scaled(c.reals(2), beta) : nullptr;
  return {gemm(c, c.reals(0), c.reals(1), bias, alpha, c.result_type(), c.result_shape(), c.threads())};
}

// --- integer and quantized forms
// --------------------------------------------------------------------------------------

std::vector<TypeShape> infer_matmul_integer(const InferContext& c) {
  c.require_type(0, {DType::uint8, DType::int8});
  c.require_type(1, {DType::uint8, DType::int8});
  if (c.has_input(2)) c.require_same_type(0, 2);
  if (c.has_input(3)) c.require_same_type(1, 3);
  return {{DType::int32, matmul_shape(c, 0, 1)}};
}

// x minus a zero point that is a scalar, one per row (a) or column (b), or shaped to broadcast.
numerics::ExactPtr shifted(const EvalContext& c, std::size_t i, std::size_t zero_point, bool rows) {
  const Data& q = c.input(i);
  numerics::Affine affine{integers(q.tensor), {1.0}, {}};
  if (c.has_input(zero_point)) {
    const Data& z = c.input(zero_point);
    const auto zeros = integers(z.tensor);
    Shape shape = z.shape();
    if (zeros.size() == 1) shape = {};
    if (shape.size() == 1 && rows) shape.push_back(1);
    if (!broadcast(c, {q.shape(), shape}) || *broadcast(c, {q.shape(), shape}) != q.shape()) {
      c.fail_input(fmt::format("zero point '{}' of shape {} fits no tensor of shape {}", c.input_name(zero_point),
                               to_string(z.shape()), to_string(q.shape())));
    }
    const auto index = broadcast_indices(shape, q.shape());
    for (std::size_t k = 0; k < index.size(); ++k) affine.integers[k] -= zeros[index[k]];
  }
  return numerics::make_affine(DType::float64, q.shape(), std::move(affine));
}

std::vector<Data> evaluate_matmul_integer(const EvalContext& c) {
  const auto sums =
      multiply(c, shifted(c, 0, 2, true), shifted(c, 1, 3, false), DType::float64, c.result_shape(), c.threads());
  return {int32_result(c, *sums)};
}

// A scale of rank 1 belongs to the rows of the first operand, the columns of the second and, for the result, to rows.
QuantAxis rows_of(const Shape& shape) { return {shape.size() > 1 ? -2 : -1, 0}; }
constexpr QuantAxis kColumns{-1, 0};

std::vector<TypeShape> infer_qlinear_matmul(const InferContext& c) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
    c.require_type(i, {DType::uint8, DType::int8, DType::uint16, DType::int16});
  }
  const auto shape = matmul_shape(c, 0, 3);
  check_parameters(c, 1, 2, c.dtype(0), c.shape(0), c.shape(0) ? rows_of(*c.shape(0)) : QuantAxis{}, false);
  check_parameters(c, 4, 5, c.dtype(3), c.shape(3), kColumns, false);
  check_parameters(c, 6, 7, c.dtype(7), shape, shape ? rows_of(*shape) : QuantAxis{}, true);
  return {{c.dtype(7), shape}};
}

std::vector<Data> evaluate_qlinear_matmul(const EvalContext& c) {
  const auto a = dequantize(c, c.input(0), c.input(1), c.input(2), rows_of(c.input(0).shape()), DType::float32);
  const auto b = dequantize(c, c.input(3), c.input(4), c.input(5), kColumns, DType::float32);
  const auto y = multiply(c, a, b, DType::float32, c.result_shape(), c.threads());
  return {quantize(c, *y, "accumulator", c.input(6), c.input(7), rows_of(c.result_shape()), c.result_type(),
                   std::nullopt, true, c.threads())};
}

// QGemm's inputs: A, a_scale, a_zero_point, B, b_scale, b_zero_point, C (int32), y_scale, y_zero_point.
std::vector<TypeShape> infer_qgemm(const InferContext& c) {
  c.require_type(0, {DType::uint8, DType::int8});
  c.require_type(3, {DType::uint8, DType::int8});
  c.require_type(6, {DType::int32});
  const auto shape = gemm_shape(c, 0, 3, 6);
  check_per_tensor(c, 1, c.dtype(0), false);
  check_parameters(c, 4, 5, c.dtype(3), c.shape(3), {transposed(c, "transB") ? 0 : 1, 0}, false);
  if (!c.has_input(7)) return {{DType::float32, shape}};
  const DType type = c.has_input(8) ? c.dtype(8) : c.dtype(0);
  check_per_tensor(c, 7, type, true);
  return {{type, shape}};
}

std::vector<Data> evaluate_qgemm(const EvalContext& c) {
  const auto a = dequantize(c, c.input(0), c.input(1), c.input(2), {0, 0}, DType::float32);
  const auto b =
      dequantize(c, c.input(3), c.input(4), c.input(5), {transposed(c, "transB") ? 0 : 1, 0}, DType::float32);
  const auto alpha = static_cast<double>(c.get_float("alpha", 1.0F));
  numerics::ExactPtr bias;
  if (c.has_input(6)) {  // in units of a_scale * b_scale; alpha scales it as it scales the product
    const auto& as = a->affine()->scales;
    const auto& bs = b->affine()->scales;
    const auto index = broadcast_indices(c.input(6).shape(), c.result_shape());
    bias = numerics::make_elements(
        DType::float32, c.result_shape(), c.threads(),
        [q = c.ints(6), index, s = as[0], bs, alpha, n = static_cast<std::size_t>(c.result_shape()[1])]<class N>(
            std::size_t i, std::type_identity<N>) -> N {
          return numerics::number<N>(static_cast<double>(q[index[i]])) * numerics::number<N>(s) *
                 numerics::number<N>(bs[bs.size() == 1 ? 0 : i % n]) * numerics::number<N>(alpha);
        });
  }
  const auto y = gemm(c, a, b, bias, alpha, DType::float32, c.result_shape(), c.threads());
  if (!c.has_input(7)) return {y};
  return {quantize(c, *y, "accumulator", c.input(7), c.has_input(8) ? c.input(8) : Data(), {0, 0}, c.result_type(),
                   std::nullopt, true, c.threads())};
}

}  // namespace

std::vector<Operator> matmul_operators() {
  return {
      {"", "Gemm", {7, 9, 11, 13}, 2, 3, 1, infer_gemm, evaluate_gemm},
      {"", "MatMul", {1, 9, 13}, 2, 2, 1, infer_matmul, evaluate_matmul},
      {"", "MatMulInteger", {10}, 2, 4, 1, infer_matmul_integer, evaluate_matmul_integer},
      {"", "QLinearMatMul", {10, 21}, 8, 8, 1, infer_qlinear_matmul, evaluate_qlinear_matmul},
      {"com.microsoft", "QGemm", {1}, 6, 9, 1, infer_qgemm, evaluate_qgemm},
  };
}

}  // namespace halfeven::ops
