#include "plan/program_parts.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "numerics/format.hpp"
#include "ops/formulas.hpp"

namespace halfeven::plan {
namespace {

using numerics::Real;

// Odd part's bits and exponent of a finite double that is not zero.
std::pair<int, int> bits_and_lsb(double v) {
  int exponent = 0;
  double m = std::frexp(std::fabs(v), &exponent);
  int precision = 0;
  while (m != 0) {
    m *= 2;
    m -= std::floor(m);
    ++precision;
  }
  return {precision, exponent - precision};
}

std::vector<std::size_t> storage_axes(std::size_t rank, Layout layout) {
  std::vector<std::size_t> axes;
  for (std::size_t k = 0; k < rank; ++k) axes.push_back(k);
  if (layout == Layout::channels_last && rank >= 3) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

// f(x) rounded to float32: with a bound on the error, and exactly where the bound leaves it open.
template <class F>
double decided(double x, F f) {
  if (x != x) return std::numeric_limits<double>::quiet_NaN();
  const numerics::Approx y = f(numerics::Approx{x, 0});
  if (std::isfinite(y.mid) && std::isfinite(y.err)) {
    const auto low = static_cast<float>(std::nextafter(y.mid - y.err, -HUGE_VAL));
    const auto high = static_cast<float>(std::nextafter(y.mid + y.err, HUGE_VAL));
    if (low == high) return static_cast<double>(low) + 0.0;
  }
  const double exact = numerics::round_to(f(Real::from_double(x)), numerics::format_of(DType::float32));
  return exact != exact ? std::numeric_limits<double>::quiet_NaN() : exact + 0.0;
}

}  // namespace

Known known_of(double v) {
  if (v == 0 || !std::isfinite(v)) return {0, std::isfinite(v) ? 0 : kUnknownMagnitude, 1};
  const auto [precision, lsb] = bits_and_lsb(v);
  return {lsb, precision + lsb, precision};
}

Known join(const Known& a, const Known& b) {
  Known k{std::min(a.lsb, b.lsb), std::max(a.magnitude, b.magnitude), std::max(a.precision, b.precision)};
  return k;
}

kernels::FusedAddress fused_address(const Shape& result, Layout layout, const Shape& from, Layout stored,
                                    std::deque<std::vector<std::uint32_t>>& indices) {
  kernels::FusedAddress out;
  const std::size_t count = element_count(from);
  const std::size_t rank = result.size();
  if (from.size() > rank) throw Refusal{"adds dimensions"};
  // Strides of the operand by axis of the result.
  std::vector<std::size_t> stride(rank, 0);
  std::size_t step = 1;
  const auto axes = storage_axes(from.size(), stored);
  for (std::size_t k = axes.size(); k-- > 0;) {
    const std::size_t axis = axes[k] + rank - from.size();
    if (from[axes[k]] != 1) {
      if (from[axes[k]] != result[axis]) throw Refusal{"does not broadcast to its result"};
      stride[axis] = step;
    }
    step *= static_cast<std::size_t>(from[axes[k]]);
  }
  // Axes in the order of storage, joined where the strides allow it; the innermost last.
  std::vector<std::pair<std::size_t, std::size_t>> runs;  // length, stride
  for (const std::size_t axis : storage_axes(rank, layout)) {
    const auto length = static_cast<std::size_t>(result[axis]);
    if (length == 1) continue;
    if (!runs.empty() && runs.back().second == stride[axis] * length) {
      runs.back() = {runs.back().first * length, stride[axis]};
    } else {
      runs.emplace_back(length, stride[axis]);
    }
  }
  const std::size_t n = runs.size();
  if (count == 1 || n == 0) {
    out.kind = kernels::FusedAddress::Kind::scalar;
  } else if (n == 1 && runs[0].second == 1) {
    out.kind = kernels::FusedAddress::Kind::full;
  } else if (runs[n - 1].second == 1 && runs[n - 2].second == 0 &&
             (n == 2 || (n == 3 && runs[0].second == runs[n - 1].first))) {
    out.kind = kernels::FusedAddress::Kind::periodic;
    out.period = runs[n - 1].first;
    if (n == 3) out.span = runs[2].first * runs[1].first;
  } else if (runs[n - 1].second == 0 && runs[n - 2].second == 1 && (n == 2 || (n == 3 && runs[0].second == 0))) {
    out.kind = kernels::FusedAddress::Kind::repeat;
    out.span = runs[n - 1].first;
    out.period = runs[n - 2].first;
  } else {
    out.kind = kernels::FusedAddress::Kind::indexed;
    std::vector<std::uint32_t> index{0};
    for (const auto& [length, s] : runs) {
      std::vector<std::uint32_t> next;
      if (index.size() * length > (std::size_t{1} << 28)) throw Refusal{"broadcasts a huge tensor"};
      next.reserve(index.size() * length);
      for (const std::uint32_t base : index) {
        for (std::size_t k = 0; k < length; ++k) next.push_back(base + static_cast<std::uint32_t>(k * s));
      }
      index = std::move(next);
    }
    indices.push_back(std::move(index));
    out.index = indices.back().data();
  }
  return out;
}

ScalarFunction function_of(const ir::Node& n, const ops::NodeReader& reader) {
  static const std::map<std::string, ScalarFunction> functions{
      {"Sigmoid", [](double x) { return decided(x, [](const auto& v) { return sigmoid(v); }); }},
      {"Tanh", [](double x) { return decided(x, [](const auto& v) { return tanh(v); }); }},
      {"Erf", [](double x) { return decided(x, [](const auto& v) { return erf(v); }); }},
      {"Exp", [](double x) { return decided(x, [](const auto& v) { return ops::decaying_exp(v); }); }},
      {"Sqrt", [](double x) { return decided(x, [](const auto& v) { return sqrt(v); }); }},
      {"HardSwish",
       [](double x) {
         return decided(x, []<class N>(const N& v) -> N {
           const N part = v / numerics::number<N>(6.0) + numerics::number<N>(0.5);
           return v * max(numerics::number<N>(0.0), min(numerics::number<N>(1.0), part));
         });
       }},
      {"Gelu", [](double x) {
         return decided(x, []<class N>(const N& v) -> N {
           return v * numerics::number<N>(0.5) * (numerics::number<N>(1.0) + erf(v * sqrt(numerics::number<N>(0.5))));
         });
       }}};
  if (n.op_type == "Gelu" && reader.get_string("approximate", "none") != "none") return nullptr;
  const auto at = functions.find(n.op_type);
  return at == functions.end() ? nullptr : at->second;
}

}  // namespace halfeven::plan
