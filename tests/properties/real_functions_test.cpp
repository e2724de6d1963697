// Real functions against MPFR: the whole formula at 2048 bits, rounded once. Arguments are random, extreme, and such
// that the result lies as close to a rounding boundary as a search finds.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>

#include <halfeven/halfeven.hpp>

#include "properties/small_graph.hpp"

namespace halfeven::properties {
namespace {

// --- numbers of 2048 bits --------------------------------------------------------------------------------------------

class Mp {
 public:
  Mp(double v = 0) {  // NOLINT(google-explicit-constructor)
    mpfr_init2(v_, 2048);
    mpfr_set_d(v_, v, MPFR_RNDN);
  }
  Mp(const Mp& other) : Mp() { mpfr_set(v_, other.v_, MPFR_RNDN); }
  Mp& operator=(const Mp& other) {
    mpfr_set(v_, other.v_, MPFR_RNDN);
    return *this;
  }
  ~Mp() { mpfr_clear(v_); }
  mpfr_ptr get() { return v_; }
  mpfr_srcptr get() const { return v_; }

 private:
  mpfr_t v_;
};

template <int (*kF)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)>
Mp call(const Mp& x) {
  Mp y;
  kF(y.get(), x.get(), MPFR_RNDN);
  return y;
}
template <int (*kF)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t)>
Mp call(const Mp& a, const Mp& b) {
  Mp y;
  kF(y.get(), a.get(), b.get(), MPFR_RNDN);
  return y;
}
Mp operator+(const Mp& a, const Mp& b) { return call<mpfr_add>(a, b); }
Mp operator-(const Mp& a, const Mp& b) { return call<mpfr_sub>(a, b); }
Mp operator*(const Mp& a, const Mp& b) { return call<mpfr_mul>(a, b); }
Mp operator/(const Mp& a, const Mp& b) { return call<mpfr_div>(a, b); }
Mp operator-(const Mp& a) { return Mp(0) - a; }
Mp exp(const Mp& x) { return call<mpfr_exp>(x); }
Mp sqrt(const Mp& x) { return call<mpfr_sqrt>(x); }
Mp log(const Mp& x) { return call<mpfr_log>(x); }
bool positive(const Mp& x) { return mpfr_sgn(x.get()) > 0; }

Mp pi() {
  Mp y;
  mpfr_const_pi(y.get(), MPFR_RNDN);
  return y;
}

// a - tail and a + tail for a tail above 0, on the right side of `a` however small the tail is.
Mp less(const Mp& a, Mp tail) {
  if (!positive(tail)) mpfr_nextabove(tail.get());
  Mp y;
  mpfr_sub(y.get(), a.get(), tail.get(), MPFR_RNDD);
  return y;
}
Mp more(const Mp& a, const Mp& tail) { return -less(-a, tail); }

Mp logistic(const Mp& x) { return Mp(1) / (Mp(1) + exp(-x)); }
Mp sigmoid(const Mp& x) { return positive(x) ? less(1, logistic(-x)) : logistic(x); }
Mp tanh(const Mp& x) {
  if (mpfr_cmpabs(x.get(), Mp(20).get()) < 0) return call<mpfr_tanh>(x);
  return positive(x) ? less(1, Mp(2) * logistic(Mp(-2) * x)) : more(-1, Mp(2) * logistic(Mp(2) * x));
}
Mp erf(const Mp& x) {
  if (mpfr_cmpabs(x.get(), Mp(5).get()) < 0) return call<mpfr_erf>(x);
  return positive(x) ? less(1, call<mpfr_erfc>(x)) : more(-1, call<mpfr_erfc>(-x));
}
Mp softplus(const Mp& x) {
  const Mp tail = call<mpfr_log1p>(exp(positive(x) ? -x : x));
  return positive(x) ? more(x, tail) : tail;
}
// x times 1 - small for positive x; small written without cancellation.
Mp gelu(const Mp& x) {
  const Mp half = x * Mp(0.5);
  const Mp scaled = x / sqrt(Mp(2));
  return positive(x) ? less(x, half * call<mpfr_erfc>(scaled)) : half * call<mpfr_erfc>(-scaled);
}
Mp tanh_gelu(const Mp& x) {
  const Mp inner = Mp(2) * sqrt(Mp(2) / pi()) * (x + Mp(44715) / Mp(1000000) * x * x * x);
  return positive(x) ? less(x, x * logistic(-inner)) : x * logistic(inner);
}
Mp mish(const Mp& x) {
  const Mp e = Mp(1) + exp(x);
  return positive(x) ? less(x, Mp(2) * x / (Mp(1) + e * e)) : x * call<mpfr_tanh>(softplus(x));
}
Mp elu(const Mp& x) {
  if (positive(x)) return x;
  return mpfr_cmp_d(x.get(), -20) < 0 ? more(-1, exp(x)) : call<mpfr_expm1>(x);
}

double nearest(const Mp& x, DType type) {
  if (mpfr_zero_p(x.get()) != 0) return 0;
  const double infinity = mpfr_sgn(x.get()) < 0 ? -HUGE_VAL : HUGE_VAL;
  if (mpfr_number_p(x.get()) == 0) return infinity;
  const BinaryFormat f = binary_format(type);
  const mpfr_exp_t e = mpfr_get_exp(x.get());  // |x| < 2^e
  if (e < f.lowest - 1) return 0;
  if (e > f.highest + 2) return infinity;
  const auto unit = std::max<mpfr_exp_t>(e - f.precision, f.lowest);
  Mp steps;
  mpfr_mul_2si(steps.get(), x.get(), static_cast<long>(-unit), MPFR_RNDN);
  mpfr_roundeven(steps.get(), steps.get());
  const double y = std::ldexp(mpfr_get_d(steps.get(), MPFR_RNDN), static_cast<int>(unit));
  return std::isfinite(y) && (y == 0 || std::ilogb(y) <= f.highest) ? y + 0.0 : infinity;
}

double quantized(const Mp& x, double scale, double zero_point) {
  Mp q = x / Mp(scale);
  if (mpfr_cmp_d(q.get(), 1e6) > 0) return 65535;
  if (mpfr_cmp_d(q.get(), -1e6) < 0) return 0;
  mpfr_roundeven(q.get(), q.get());
  return std::clamp(mpfr_get_d(q.get(), MPFR_RNDN) + zero_point, 0.0, 65535.0);
}

// --- the engine ------------------------------------------------------------------------------------------------------

double value_of(const Tensor& t, std::size_t i) {
  if (t.dtype() == DType::float32) return static_cast<double>(t.values<float>()[i]);
  if (t.dtype() == DType::float64) return t.values<double>()[i];
  if (t.dtype() == DType::uint16) return t.values<std::uint16_t>()[i];
  const unsigned bits = t.values<std::uint16_t>()[i];
  const BinaryFormat f = binary_format(t.dtype());
  const auto fraction_bits = static_cast<unsigned>(f.precision - 1);
  const unsigned field = (bits & 0x7FFFU) >> fraction_bits;
  const unsigned fraction = bits & ((1U << fraction_bits) - 1);
  double v = 0;
  if (field == 0x7FFFU >> fraction_bits) {
    v = fraction == 0 ? HUGE_VAL : std::nan("");
  } else {
    v = std::ldexp(static_cast<double>(field == 0 ? fraction : fraction + (1U << fraction_bits)),
                   f.lowest + static_cast<int>(field == 0 ? 0 : field - 1));
  }
  return (bits & 0x8000U) != 0 ? -v : v;
}

constexpr double kZeroPoint = 32769;

// y = node(x, constants...), and q = QuantizeLinear(y) where there is a scale.
struct Ran {
  Tensor y;
  Tensor q;
};
Ran run(SmallNode node, const SmallTensor& x, double scale, Contract contract = Contract::exact,
        const std::vector<SmallTensor>& constants = {}) {
  SmallGraph graph;
  graph.inputs.emplace_back("x", x);
  node.inputs = {"x"};
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    graph.constants.emplace_back(name, constants[i]);
    node.inputs.push_back(name);
  }
  node.output = "y";
  graph.nodes.push_back(node);
  graph.outputs = {"y"};
  if (scale != 0) {
    graph.constants.emplace_back("scale", SmallTensor{x.dtype, {}, {scale}});
    graph.constants.emplace_back("zero", SmallTensor{DType::uint16, {}, {kZeroPoint}});
    graph.nodes.push_back({"QuantizeLinear", {"y", "scale", "zero"}, "q", {}, {}, {}, {}});
    graph.outputs.emplace_back("q");
  }
  const std::string bytes = to_onnx(graph);
  InterpretOptions options;
  options.contract = contract;
  const auto out = interpret(Model::load(std::as_bytes(std::span(bytes))), {{"x", to_tensor(x)}}, options);
  return {out[0], out.size() > 1 ? out[1] : Tensor()};
}

void require(const Ran& ran, DType type, double scale, const std::vector<Mp>& expected, const std::string& what,
             const std::vector<double>& arguments) {
  int shown = 0;
  for (std::size_t i = 0; i < expected.size() && shown < 3; ++i) {
    const double want = nearest(expected[i], type);
    const double got = value_of(ran.y, i);
    if (std::bit_cast<std::uint64_t>(want) != std::bit_cast<std::uint64_t>(got)) {
      ADD_FAILURE() << what << " " << to_string(type) << ", element " << i << " of argument " << std::hexfloat
                    << arguments[i] << ": " << got << ", but MPFR says " << want;
      ++shown;
    }
    if (scale == 0) continue;
    if (const double q = quantized(expected[i], scale, kZeroPoint); q != value_of(ran.q, i)) {
      ADD_FAILURE() << what << " " << to_string(type) << ", quantized by " << scale << ", argument " << std::hexfloat
                    << arguments[i] << ": " << value_of(ran.q, i) << ", but MPFR says " << q;
      ++shown;
    }
  }
}

// --- arguments -------------------------------------------------------------------------------------------------------

struct Function {
  std::string name;
  SmallNode node;
  std::function<Mp(const Mp&)> exact;
  std::function<double(double)> rough;
  double low;  // domain
  double high;
};

double fitted(double v, DType type) { return nearest(Mp(v), type); }

std::vector<double> arguments(const Function& f, DType type, std::mt19937_64& random) {
  std::vector<double> out{0,     1,       -1,       2,       4,   0.25, 6.25, 0.5,  -0.5, 3,      100,  -100,
                          300.5, 20000.5, -20000.5, 60000.0, 700, -700, 1e4,  -1e4, 88.5, -103.5, -87.5};
  const BinaryFormat format = binary_format(type);
  for (const double sign : {1.0, -1.0}) {
    for (const int e :
         {format.lowest, format.lowest + 1, format.lowest + format.precision, -10, 5, 10, format.highest}) {
      out.push_back(sign * std::ldexp(1, e));
      out.push_back(fitted(sign * std::ldexp(1.9, e), type));
    }
  }
  std::uniform_real_distribution<double> moderate(std::max(f.low, -12.0), std::min(f.high, 12.0));
  std::uniform_int_distribution<int> exponent(format.lowest, format.highest);
  for (int i = 0; i < 96; ++i) out.push_back(moderate(random));
  for (int i = 0; i < 48; ++i)
    out.push_back(std::ldexp(moderate(random), std::min(exponent(random), format.highest - 5)));
  for (double& v : out) v = fitted(v, type);
  std::erase_if(out, [&](double v) { return !(v >= f.low && v <= f.high) || !std::isfinite(v); });
  return out;
}

// Distance of y from a boundary between two values of a grid: 0 at a tie, 0.5 on the grid.
double distance(double y, double unit) {
  const double steps = std::fabs(y / unit);
  return std::fabs(steps - std::floor(steps) - 0.5);
}

// The arguments of `tries` whose results come closest to a tie, of the type or of the quotient.
std::vector<double> near_ties(const Function& f, DType type, double scale, int tries, std::mt19937_64& random) {
  std::uniform_real_distribution<double> any(std::max(f.low, -6.0), std::min(f.high, 6.0));
  const BinaryFormat format = binary_format(type);
  std::vector<std::pair<double, double>> by_type;
  std::vector<std::pair<double, double>> by_step;
  for (int i = 0; i < tries; ++i) {
    const double x =
        type == DType::float32 ? static_cast<double>(static_cast<float>(any(random))) : fitted(any(random), type);
    const double y = f.rough(x);
    if (y == 0 || !std::isfinite(y)) continue;
    by_type.emplace_back(distance(y, std::ldexp(1, std::ilogb(y) - format.precision + 1)), x);
    by_step.emplace_back(distance(y, scale), x);
  }
  std::vector<double> out;
  for (auto* list : {&by_type, &by_step}) {
    const std::size_t n = std::min<std::size_t>(40, list->size());
    std::partial_sort(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(n), list->end());
    for (std::size_t i = 0; i < n; ++i) out.push_back((*list)[i].second);
  }
  return out;
}

Function function(const char* op, std::function<Mp(const Mp&)> exact, std::function<double(double)> rough,
                  double low = -HUGE_VAL, double high = HUGE_VAL) {
  SmallNode node;
  node.op = op;
  return {op, node, std::move(exact), std::move(rough), low, high};
}

std::vector<Function> functions() {
  const double inf = HUGE_VAL;
  std::vector<Function> out{
      function("Sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }),
      function("Tanh", tanh, [](double x) { return std::tanh(x); }),
      function("Exp", exp, [](double x) { return std::exp(x); }),
      function(
          "Log", log, [](double x) { return std::log(x); }, std::numeric_limits<double>::denorm_min(), inf),
      function("Erf", erf, [](double x) { return std::erf(x); }),
      function("Softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }),
      function(
          "Sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0, inf),
      function("Sin", call<mpfr_sin>, [](double x) { return std::sin(x); }),
      function("Cos", call<mpfr_cos>, [](double x) { return std::cos(x); }),
      function("Tan", call<mpfr_tan>, [](double x) { return std::tan(x); }),
      function("Atan", call<mpfr_atan>, [](double x) { return std::atan(x); }),
      function(
          "Asin", call<mpfr_asin>, [](double x) { return std::asin(x); }, -1, 1),
      function(
          "Acos", call<mpfr_acos>, [](double x) { return std::acos(x); }, -1, 1),
      function("Sinh", call<mpfr_sinh>, [](double x) { return std::sinh(x); }),
      function("Cosh", call<mpfr_cosh>, [](double x) { return std::cosh(x); }),
      function("Asinh", call<mpfr_asinh>, [](double x) { return std::asinh(x); }),
      function(
          "Acosh", call<mpfr_acosh>, [](double x) { return std::acosh(x); }, 1, inf),
      function(
          "Atanh", call<mpfr_atanh>, [](double x) { return std::atanh(x); }, -0.9999, 0.9999),
      function("Gelu", gelu, [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2)); }),
      function("Gelu", tanh_gelu,
               [](double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }),
      function("Mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }),
      function("Elu", elu, [](double x) { return x > 0 ? x : std::expm1(x); }),
      function(
          "Reciprocal", [](const Mp& x) { return Mp(1) / x; }, [](double x) { return 1 / x; }, 1e-4, inf),
  };
  for (Function& f : out) {
    if (f.exact.target<Mp (*)(const Mp&)>() != nullptr && *f.exact.target<Mp (*)(const Mp&)>() == tanh_gelu) {
      f.node.strings["approximate"] = "tanh";
      f.name = "Gelu (tanh)";
    }
  }
  return out;
}

class RealFunctions : public ::testing::TestWithParam<std::size_t> {};

TEST_P(RealFunctions, RoundOnceAsMpfrDoes) {
  const Function f = functions()[GetParam()];
  std::mt19937_64 random(GetParam() + 1);
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
    std::vector<double> scales{0.0117, 1.0 / 255, 0.5, 2};
    if (type == DType::float64) scales = {0};
    for (double scale : scales) {
      scale = scale == 0 ? 0 : fitted(scale, type);
      std::vector<double> x = arguments(f, type, random);
      const auto hard = near_ties(f, type, scale == 0 ? 1 : scale, type == DType::float32 ? 1 << 18 : 1 << 10, random);
      x.insert(x.end(), hard.begin(), hard.end());
      std::vector<Mp> expected;
      for (const double v : x) expected.push_back(f.exact(Mp(v)));
      const SmallTensor input{type, {static_cast<std::int64_t>(x.size())}, x};
      SCOPED_TRACE(f.name);
      require(run(f.node, input, scale), type, scale, expected, f.name, x);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealFunctions, ::testing::Range<std::size_t>(0, functions().size()),
                         [](const auto& which) {
                           std::string name = functions()[which.param].name;
                           std::erase_if(name, [](char c) { return c == ' ' || c == '(' || c == ')'; });
                           return name;
                         });

// --- functions of several numbers ------------------------------------------------------------------------------------

std::vector<double> row(std::mt19937_64& random, std::size_t n, double spread, DType type) {
  std::normal_distribution<double> any(0, spread);
  std::vector<double> out(n);
  for (double& v : out) v = fitted(any(random), type);
  return out;
}

std::vector<Mp> softmax(const std::vector<double>& x, std::size_t n, bool logarithm) {
  std::vector<Mp> out;
  for (std::size_t r = 0; r < x.size(); r += n) {
    const double top = *std::max_element(&x[r], &x[r] + n);
    Mp total = 0;
    for (std::size_t j = 0; j < n; ++j) total = total + exp(Mp(x[r + j]) - Mp(top));
    for (std::size_t j = 0; j < n; ++j) {
      const Mp shifted = Mp(x[r + j]) - Mp(top);
      out.push_back(logarithm ? shifted - log(total) : exp(shifted) / total);
    }
  }
  return out;
}

TEST(RealFunctionsOfRows, SoftmaxAndLogSoftmax) {
  std::mt19937_64 random(7);
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
    for (const double spread : {0.01, 1.0, 30.0, 1000.0}) {
      for (const std::size_t n : {1U, 2U, 5U, 33U}) {
        const std::size_t rows = type == DType::float64 ? 2 : 8;
        auto x = row(random, n * rows, spread, type);
        if (n == 2) x[1] = x[0];  // exactly one half
        const SmallTensor input{type, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(n)}, x};
        const double scale = type == DType::float64 ? 0 : fitted(1.0 / 255, type);
        for (const bool logarithm : {false, true}) {
          SmallNode node;
          node.op = logarithm ? "LogSoftmax" : "Softmax";
          require(run(node, input, scale), type, scale, softmax(x, n, logarithm), node.op, x);
        }
      }
    }
  }
}

// (x - mean) * scale / sqrt(variance + epsilon) + bias over rows of n.
std::vector<Mp> normalized(const std::vector<double>& x, std::size_t n, float epsilon,
                           const std::function<double(std::size_t)>& scale,
                           const std::function<double(std::size_t)>& bias) {
  std::vector<Mp> out;
  for (std::size_t r = 0; r < x.size(); r += n) {
    Mp total = 0;
    for (std::size_t j = 0; j < n; ++j) total = total + Mp(x[r + j]);
    const Mp mean = total / Mp(static_cast<double>(n));
    Mp squares = 0;
    for (std::size_t j = 0; j < n; ++j) squares = squares + (Mp(x[r + j]) - mean) * (Mp(x[r + j]) - mean);
    const Mp root = sqrt(squares / Mp(static_cast<double>(n)) + Mp(static_cast<double>(epsilon)));
    for (std::size_t j = 0; j < n; ++j) {
      out.push_back((Mp(x[r + j]) - mean) * Mp(scale(r + j)) / root + Mp(bias(r + j)));
    }
  }
  return out;
}

TEST(RealFunctionsOfRows, Normalizations) {
  std::mt19937_64 random(8);
  for (const DType type : {DType::float32, DType::float16, DType::float64}) {
    for (const double spread : {0.001, 1.0, 50.0}) {
      for (const std::size_t n : {1U, 3U, 16U}) {
        const auto length = static_cast<std::int64_t>(n);
        const double step = type == DType::float64 ? 0 : fitted(0.0117, type);
        const auto x = row(random, 4 * n, spread, type);
        const auto scale = row(random, n, 2, type);
        const auto bias = row(random, n, 1, type);
        SmallNode layer;
        layer.op = "LayerNormalization";
        layer.floats["epsilon"] = 1e-3F;
        require(
            run(layer, {type, {4, length}, x}, step, Contract::exact,
                {{type, {length}, scale}, {type, {length}, bias}}),
            type, step,
            normalized(
                x, n, 1e-3F, [&](std::size_t i) { return scale[i % n]; }, [&](std::size_t i) { return bias[i % n]; }),
            layer.op, x);
        SmallNode instance;
        instance.op = "InstanceNormalization";
        const auto s2 = row(random, 2, 2, type);
        const auto b2 = row(random, 2, 1, type);
        require(run(instance, {type, {2, 2, length}, x}, step, Contract::exact, {{type, {2}, s2}, {type, {2}, b2}}),
                type, step,
                normalized(
                    x, n, 1e-5F, [&](std::size_t i) { return s2[i / n % 2]; },
                    [&](std::size_t i) { return b2[i / n % 2]; }),
                instance.op, x);
        SmallNode batch;
        batch.op = "BatchNormalization";
        const auto mean = row(random, 2, spread, type);
        auto variance = row(random, 2, spread, type);
        for (double& v : variance) v = std::fabs(v);
        std::vector<Mp> expected;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t c = i / n % 2;
          expected.push_back((Mp(x[i]) - Mp(mean[c])) * Mp(s2[c]) /
                                 sqrt(Mp(variance[c]) + Mp(static_cast<double>(1e-5F))) +
                             Mp(b2[c]));
        }
        require(run(batch, {type, {2, 2, length}, x}, step, Contract::exact,
                    {{type, {2}, s2}, {type, {2}, b2}, {type, {2}, mean}, {type, {2}, variance}}),
                type, step, expected, batch.op, x);
      }
    }
  }
}

TEST(RealFunctionsOfRows, Pow) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> base(0, 20);
  std::uniform_real_distribution<double> exponent(-9, 9);
  for (const DType type : {DType::float32, DType::float16, DType::float64}) {
    std::vector<double> x;
    std::vector<double> y;
    for (const double e : {2.0, 3.0, -1.0, 0.5, 1.5, -0.5, 0.25, 10.0, -2.0, 0.75, 0.0}) {
      for (const double b : {1.0, 2.0, 4.0, 9.0, 0.0625, 3.0, 1.5, 2.25, 0.1, 1e4}) {
        x.push_back(fitted(b, type));
        y.push_back(e);
        if (e == std::floor(e)) {
          x.push_back(fitted(-b, type));
          y.push_back(e);
        }
      }
    }
    for (int i = 0; i < 200; ++i) {
      x.push_back(fitted(base(random), type));
      y.push_back(fitted(exponent(random), type));
    }
    std::vector<Mp> expected;
    for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(call<mpfr_pow>(Mp(x[i]), Mp(y[i])));
    const auto n = static_cast<std::int64_t>(x.size());
    SmallNode node;
    node.op = "Pow";
    const double scale = type == DType::float64 ? 0 : fitted(0.25, type);
    require(run(node, {type, {n}, x}, scale, Contract::exact, {{type, {n}, y}}), type, scale, expected, node.op, x);
  }
}

}  // namespace
}  // namespace halfeven::properties
