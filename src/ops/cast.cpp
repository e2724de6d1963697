// Cast (ai.onnx 6) and CastLike (15). A Cast to a float type that holds every value of the source passes on (contract
// section 1, rule 4), one to a narrower type rounds at once (rule 6), one to an integer truncates; what an integer type
// cannot hold is an error (section 6).
#include <cmath>

#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

using numerics::ExactPtr;
using numerics::ExactTensor;

// --- types -----------------------------------------------------------------------------------------------------------

DType target(const InferContext& c) {
  if (!c.has_attribute("to")) c.fail("attribute 'to' is missing");
  const std::int64_t to = c.get_int("to", 0);
  const auto type = to < 0 || to > 255 ? DType::undefined : static_cast<DType>(to);
  if (storage_size(type) == 0) c.fail(fmt::format("a cast to type {} ({}) is not supported", to, to_string(type)));
  return type;
}

std::vector<TypeShape> infer_cast(const InferContext& c) { return {{target(c), c.shape(0)}}; }

std::vector<TypeShape> infer_cast_like(const InferContext& c) { return {{c.dtype(1), c.shape(0)}}; }

// True if every value of the first float type is one of the second.
bool holds_all(DType from, DType to) {
  if (from == to || to == DType::float64) return true;
  return to == DType::float32 && from != DType::float64;
}

// --- to integers -----------------------------------------------------------------------------------------------------

[[noreturn]] void cannot_hold(const EvalContext& c, const ExactTensor& x, std::size_t i, DType to) {
  c.fail_input(fmt::format("element {} of '{}' is {}, which {} cannot hold", i, c.input_name(0),
                           numerics::round_element(x, i, DType::float64), to_string(to)));
}

std::int64_t truncated(const EvalContext& c, const ExactTensor& x, std::size_t i, DType to) {
  const numerics::Approx a = x.approx(i);
  if (a.exact() && std::fabs(a.mid) < 0x1p62) {
    const auto v = static_cast<std::int64_t>(a.mid);
    if (v >= integer_min(to) && (v <= integer_max(to) || to == DType::uint64)) return v;
    cannot_hold(c, x, i, to);
  }
  const numerics::Real r = x.exact(i);
  if (!r.is_rational()) cannot_hold(c, x, i, to);
  const mpz_class v = r.rational().trunc();

  if (to == DType::uint64 && sgn(v) >= 0 && v.fits_ulong_p()) return static_cast<std::int64_t>(v.get_ui());
  if (!v.fits_slong_p() || v < integer_min(to) || v > integer_max(to)) cannot_hold(c, x, i, to);
  return v.get_si();
}

Tensor to_integers(const EvalContext& c, const ExactTensor& x, DType to) {
  std::vector<std::int64_t> values(x.size());
  numerics::parallel_for(values.size(), 4096, c.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (to == DType::boolean) {
        values[i] = numerics::sign(x, i).value_or(1) != 0 ? 1 : 0;  // NaN is not zero
      } else {
        values[i] = truncated(c, x, i, to);
      }
    }
  });
  return make_integers(to, x.shape(), values);
}

// --- to float8 and float4 --------------------------------------------------------------------------------------------

// float8e8m0 holds the powers of two from 2^-127 to 2^127; the result is NaN where the table of ONNX's Cast says so.
double to_power_of_two(double v, const std::string& mode, bool saturate) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (std::isnan(v)) return nan;
  if (v < 0x1p-127) return saturate ? 0x1p-127 : nan;
  if (v > 0x1p127) return saturate ? 0x1p127 : nan;
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);  // [0.5, 1)
  const double below = std::ldexp(0.5, exponent);
  const bool up = fraction > 0.5 && (mode == "up" || (mode == "nearest" && fraction >= 0.75));
  return up ? 2 * below : below;
}

Tensor to_small_floats(const EvalContext& c, const ExactTensor& x, DType to) {
  const bool saturate = to == DType::float4e2m1 || c.get_int("saturate", 1) != 0;
  const std::string mode = c.get_string("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    c.fail(fmt::format("round_mode '{}' is not supported", mode));
  std::vector<std::byte> bytes(x.size());
  numerics::parallel_for(x.size(), 4096, c.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      double v = 0;
      if (to == DType::float8e8m0) {
        v = numerics::round_element(x, i, DType::float64);
        if (v < 0) cannot_hold(c, x, i, to);
        v = to_power_of_two(v, mode, saturate);
      } else {
        v = numerics::round_element(x, i, to);
        if (std::isinf(v)) {
          if (saturate) {
            v = std::copysign(numerics::format_of(to).max, v);
          } else if (to != DType::float8e5m2) {
            v = std::numeric_limits<double>::quiet_NaN();
          }
        }
      }
      numerics::encode_float(to, v, bytes.data(), i);
    }
  });
  return Tensor::own(to, x.shape(), std::move(bytes));
}

// --- to floats -------------------------------------------------------------------------------------------------------

// The same numbers under a wider float type.
ExactPtr relabelled(const ExactPtr& x, DType to, int threads) {
  if (x->floats() != nullptr) return numerics::make_floats(numerics::round_tensor(*x, to, threads));
  if (x->affine() != nullptr) return numerics::make_affine(to, x->shape(), *x->affine());
  std::vector<numerics::Ref> all(x->size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = {0, i};
  return numerics::make_selection(to, x->shape(), {x}, std::move(all));
}

// Integers as real numbers of a float type, not rounded.
ExactPtr reals_of(const EvalContext& c, DType type) {
  const bool unsigned64 = c.input(0).dtype() == DType::uint64;
  const auto value = [values = c.ints(0), unsigned64]<class N>(std::size_t i, std::type_identity<N>) -> N {
    const std::int64_t v = values[i];
    const bool wrapped = unsigned64 && v < 0;
    if (!wrapped && std::fabs(static_cast<double>(v)) < 0x1p53) return numerics::number<N>(static_cast<double>(v));
    const numerics::Rational exact(v);
    return numerics::number<N>(wrapped ? exact + numerics::Rational(1).scaled(64) : exact);
  };
  return numerics::make_elements(type, c.input(0).shape(), c.threads(), value);
}

std::vector<Data> cast(const EvalContext& c) {
  const DType from = c.input(0).dtype();
  const DType to = c.result_type();
  if (from == to) return {c.input(0)};
  const bool from_integer = is_integer(from) || from == DType::boolean;
  const bool to_integer = is_integer(to) || to == DType::boolean;
  if (from_integer && to_integer) return {make_integers(to, c.input(0).shape(), c.ints(0))};
  if (from_integer && is_float(to)) return {reals_of(c, to)};
  ExactPtr x = c.reals(0);
  if (!x) x = from_integer ? reals_of(c, DType::float64) : numerics::make_floats(c.input(0).tensor);
  if (to_integer) return {to_integers(c, *x, to)};
  if (is_small_float(to)) return {to_small_floats(c, *x, to)};
  if (c.reals(0) && holds_all(from, to)) return {relabelled(x, to, c.threads())};
  return {numerics::make_floats(numerics::round_tensor(*x, to, c.threads()))};
}

}  // namespace

std::vector<Operator> cast_operators() {
  return {
      {"", "Cast", {6, 9, 13, 19, 21, 23, 24, 25, 28}, 1, 1, 1, infer_cast, cast, PassOn::if_widening},
      {"", "CastLike", {15, 19, 21, 23, 24, 25}, 2, 2, 1, infer_cast_like, cast},
  };
}

}  // namespace halfeven::ops
