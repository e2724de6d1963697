// Averages of windows, of whole images and of last dimensions: of quantized tensors, of chains from 8-bit codes, and of
// float32.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "numerics/closest_approach.hpp"
#include "numerics/format.hpp"
#include "numerics/rational.hpp"
#include "ops/common.hpp"
#include "plan/fallback.hpp"
#include "plan/pool_shape.hpp"
#include "plan/program.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

class AverageKernel final : public Kernel {
 public:
  explicit AverageKernel(const Site& site) : fallback(site) {}
  Fallback fallback;
  PoolGeometry geometry;
  kernels::PoolSumFunction function = nullptr;
  kernels::PoolType source = kernels::PoolType::u8;
  std::vector<double> table;
  double table_error = 0;  // of a sum, per element of its window; 0 where sums of the table are exact in double
  std::size_t input = 0;
  std::size_t element = 1;
  double x_scale = 1;  // of integers; else 1
  std::int64_t x_zero = 0;
  bool quantized = true;
  double scale = 1;
  double zero = 0;
  double lo = 0;
  double hi = 0;
  bool proved = false;          // quantized: what double leaves open are ties
  std::size_t out_element = 1;  // 1 and 2 bytes: integers; 4: float32

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const kernels::PoolShape& s = geometry.shape;
    const std::int64_t blocks = (s.channels + kernels::kPoolLanes - 1) / kernels::kPoolLanes;
    std::atomic<bool> decided{true};
    parallel(s.batch * s.out_height * blocks, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k) {
        const std::int64_t row = k / blocks;
        if (!windows(b.in[input], b.out[0], row / s.out_height, row % s.out_height, k % blocks)) decided = false;
      }
    });
    if (!decided) fallback.run(b.in, in_forms, b.out[0], out_form);
  }

 private:
  // A row of windows, a block of channels; false where a sum is no finite number.
  bool windows(const std::byte* in, std::byte* out, std::int64_t n, std::int64_t oy, std::int64_t block) const {
    const kernels::PoolShape& s = geometry.shape;
    kernels::PoolWindow w;
    w.type = source;
    w.table = table.data();
    w.input = in + static_cast<std::size_t>(n * s.height * s.width * s.channels) * element;
    w.width = s.width;
    w.channels = s.channels;
    w.channel = block * kernels::kPoolLanes;
    w.lanes = std::min(kernels::kPoolLanes, s.channels - w.channel);
    w.y0 = std::max<std::int64_t>(0, oy * s.stride_h - s.pad_h);
    w.y1 = std::min(s.height, oy * s.stride_h - s.pad_h + s.kernel_h);
    alignas(64) double sums[kernels::kPoolLanes];
    alignas(64) double sizes[kernels::kPoolLanes];
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      w.x0 = std::max<std::int64_t>(0, ox * s.stride_w - s.pad_w);
      w.x1 = std::min(s.width, ox * s.stride_w - s.pad_w + s.kernel_w);
      const std::int64_t count = std::max<std::int64_t>(0, w.y1 - w.y0) * std::max<std::int64_t>(0, w.x1 - w.x0);
      const std::int64_t divisor =
          geometry.rows[static_cast<std::size_t>(oy)] * geometry.columns[static_cast<std::size_t>(ox)];
      function(w, sums, sizes);
      const std::int64_t at = ((n * s.out_height + oy) * s.out_width + ox) * s.channels + w.channel;
      for (std::int64_t c = 0; c < w.lanes; ++c) {
        double sum = sums[c];
        if (!std::isfinite(sum)) return false;
        double error = 0;
        switch (source) {
          case kernels::PoolType::table: error = table_error * static_cast<double>(count); break;
          case kernels::PoolType::f32: error = sizes[c] * static_cast<double>(count) * 0x1p-52; break;
          default: sum -= static_cast<double>(x_zero * count); break;
        }
        store(out, static_cast<std::size_t>(at + c), sum, error, divisor, w, c);
      }
    }
    return true;
  }

  void store(std::byte* out, std::size_t at, double sum, double error, std::int64_t divisor,
             const kernels::PoolWindow& w, std::int64_t c) const {
    const double mean = sum * x_scale / static_cast<double>(divisor);
    const double reach = error * x_scale / static_cast<double>(divisor) + std::fabs(mean) * 0x1p-51;
    if (!quantized) {
      const float low = static_cast<float>(mean - std::fabs(reach));
      float y = low;
      if (low != static_cast<float>(mean + std::fabs(reach))) {
        y = static_cast<float>(numerics::round_to(exact(w, c, divisor), numerics::format_of(DType::float32)));
      }
      reinterpret_cast<float*>(out)[at] = y + 0.0F;
      return;
    }
    const double v = mean / scale;
    const double slack = std::fabs(reach / scale) + std::fabs(v) * 0x1p-51;
    double y = 0;
    if (v < lo - zero - 1 - slack) {
      y = lo;
    } else if (v > hi - zero + 1 + slack) {
      y = hi;
    } else {
      double r = std::nearbyint(v);
      if (std::fabs(v - r) >= 0.5 - slack) {
        r = proved ? std::nearbyint(std::nearbyint(2 * v) / 2)
                   : (exact(w, c, divisor) / Rational::from_double(scale)).round_half_even().get_d();
      }
      y = std::clamp(r + zero, lo, hi);
    }
    if (out_element == 1) {
      reinterpret_cast<std::uint8_t*>(out)[at] = static_cast<std::uint8_t>(y);
    } else {
      reinterpret_cast<std::uint16_t*>(out)[at] = static_cast<std::uint16_t>(static_cast<std::int32_t>(y));
    }
  }

  // The mean as it is. For the few that double leaves open.
  Rational exact(const kernels::PoolWindow& w, std::int64_t c, std::int64_t divisor) const {
    Rational total;
    std::int64_t integers = 0;
    for (std::int64_t y = w.y0; y < w.y1; ++y) {
      for (std::int64_t x = w.x0; x < w.x1; ++x) {
        const auto at = static_cast<std::size_t>((y * w.width + x) * w.channels + w.channel + c);
        switch (source) {
          case kernels::PoolType::u8: integers += std::to_integer<std::int64_t>(w.input[at]) - x_zero; break;
          case kernels::PoolType::u16: integers += reinterpret_cast<const std::uint16_t*>(w.input)[at] - x_zero; break;
          case kernels::PoolType::s16: integers += reinterpret_cast<const std::int16_t*>(w.input)[at] - x_zero; break;
          case kernels::PoolType::table:
            total = total + Rational::from_double(table[std::to_integer<std::size_t>(w.input[at])]);
            break;
          case kernels::PoolType::f32:
            total = total + Rational::from_double(static_cast<double>(reinterpret_cast<const float*>(w.input)[at]));
            break;
        }
      }
    }
    return (total + Rational(integers) * Rational::from_double(x_scale)) / Rational(divisor);
  }
};

bool is_average(const ir::Node& n) {
  return n.domain.empty() && !n.body &&
         (n.op_type == "GlobalAveragePool" || n.op_type == "AveragePool" || n.op_type == "ReduceMean");
}

class Maker {
 public:
  explicit Maker(const Site& site) : site_(site), body_(body_at(site)), g_(body_.graph) {}

  Offer run() {
    const ir::Node* pool = nullptr;
    for (const ir::Node& n : g_.nodes) {
      if (is_average(n)) pool = &n;
    }
    if (pool == nullptr) return refuse("holds no average");
    kernel_ = std::make_unique<AverageKernel>(site_);
    std::string refusal;
    if (!read_result(*pool, refusal) || !read_source(*pool, refusal)) return refuse(refusal);
    const Shape& shape = *g_.value(pool->inputs[0]).shape;
    const ir::ValueId outer = site_.node.inputs[kernel_->input];
    const auto geometry = pool->op_type == "ReduceMean"
                              ? read_reduction(site_, g_, *pool, shape, site_.layout(outer), refusal)
                              : read_window_pool(site_, g_, *pool, shape, refusal);
    if (!geometry) return refuse(refusal);
    kernel_->geometry = *geometry;
    if (geometry->shape.dilation_h != 1 || geometry->shape.dilation_w != 1) return refuse("dilates its windows");
    const auto none = [](std::int64_t n) { return n < 1; };
    if (std::any_of(geometry->rows.begin(), geometry->rows.end(), none) ||
        std::any_of(geometry->columns.begin(), geometry->columns.end(), none)) {
      return refuse("has a window of padding only");
    }
    const std::int64_t most = geometry->shape.kernel_h * geometry->shape.kernel_w;
    if (most > (std::int64_t{1} << 30)) return refuse("has windows that are too large");
    if (kernel_->source == kernels::PoolType::table) bound_table(most);
    if (kernel_->quantized) prove(most);
    switch (site_.isa) {
      case Isa::sse2: kernel_->function = kernels::pool_sums_portable; break;
      case Isa::avx2: kernel_->function = kernels::pool_sums_avx2; break;
      default: kernel_->function = kernels::pool_sums_avx512; break;
    }
    const DType in = site_.dtype(outer);
    kernel_->in_forms.resize(site_.node.inputs.size());
    kernel_->in_forms[kernel_->input] = {geometry->layout, in == DType::int8};
    kernel_->out_form = {geometry->out_layout, site_.dtype(site_.node.outputs[0]) == DType::int8};
    kernel_->note = kernel_->proved
                        ? "sums in double, proved for every mean"
                        : "sums in double with a bound; means that it leaves open are recomputed as fractions";
    return {std::move(kernel_), ""};
  }

 private:
  const ir::Node* node_of(ir::ValueId id) const {
    for (const ir::Node& n : g_.nodes) {
      if (n.outputs[0] == id) return &n;
    }
    return nullptr;
  }
  std::optional<std::size_t> input_of_node(ir::ValueId id) const {
    const auto at = std::find(g_.inputs.begin(), g_.inputs.end(), id);
    return at == g_.inputs.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - g_.inputs.begin()));
  }
  const Tensor* constant(const ir::Node& n, std::size_t k) const {
    if (n.inputs.size() <= k || !n.inputs[k].present()) return nullptr;
    const auto at = input_of_node(n.inputs[k]);
    return at ? site_.constant(site_.node.inputs[*at]) : nullptr;
  }

  // What becomes of the pool's result.
  bool read_result(const ir::Node& pool, std::string& refusal) {
    AverageKernel& k = *kernel_;
    const ir::Node* last = node_of(g_.outputs[0]);
    const DType type = g_.value(g_.outputs[0]).dtype;
    if (last == &pool) {
      k.quantized = false;
      k.out_element = 4;
      refusal = "has another type than float32";
      return type == DType::float32;
    }
    double bounds[] = {static_cast<double>(integer_min(type)), static_cast<double>(integer_max(type))};
    if (last->op_type == "Clip") {
      for (std::size_t i = 0; i < 2; ++i) {
        if (const Tensor* t = constant(*last, i + 1)) bounds[i] = static_cast<double>(ops::integers(*t)[0]);
      }
      bounds[0] = std::min(bounds[0], bounds[1]);
      last = node_of(last->inputs[0]);
    }
    refusal = "other operators stand behind the average";
    if (last == nullptr || last->op_type != "QuantizeLinear" || node_of(last->inputs[0]) != &pool) return false;
    const Tensor* scale = constant(*last, 1);
    const Tensor* zero = constant(*last, 2);
    const bool has_zero = last->inputs.size() > 2 && last->inputs[2].present();
    refusal = "its result is not quantized per tensor to 8 or 16 bits";
    if (scale == nullptr || scale->size() != 1 || (has_zero && (zero == nullptr || zero->size() != 1)) ||
        (bits(type) != 8 && bits(type) != 16)) {
      return false;
    }
    const double bias = type == DType::int8 ? 128 : 0;
    k.scale = numerics::decode_float(scale->dtype(), scale->data(), 0);
    k.zero = (zero == nullptr ? 0.0 : static_cast<double>(ops::integers(*zero)[0])) + bias;
    k.lo = bounds[0] + bias;
    k.hi = bounds[1] + bias;
    k.out_element = storage_size(type);
    return true;
  }

  bool read_source(const ir::Node& pool, std::string& refusal) {
    AverageKernel& k = *kernel_;
    const ir::ValueId x = pool.inputs[0];
    refusal = "averages another type than float32";
    if (g_.value(x).dtype != DType::float32) return false;
    const ir::Node* before = node_of(x);
    if (before == nullptr) {
      const auto at = input_of_node(x);
      refusal = "averages a constant";
      if (!at || site_.constant(site_.node.inputs[*at]) != nullptr) return false;
      k.input = *at;
      k.source = kernels::PoolType::f32;
      k.element = 4;
      return true;
    }
    if (const auto code = code_behind(site_, body_, x)) {
      k.input = *code;
      k.source = kernels::PoolType::table;
      refusal = "some codes have no answer";
      try {
        const Tensor t = evaluate_codes(site_, body_, x, *code);
        for (std::size_t i = 0; i < t.size(); ++i) {
          k.table.push_back(numerics::decode_float(t.dtype(), t.data(), i));
          if (!std::isfinite(k.table.back())) return false;
        }
      } catch (const Error&) {
        return false;
      }
      return site_.shape(site_.node.inputs[*code]) == *g_.value(x).shape;
    }
    if (before->op_type == "Relu" && node_of(before->inputs[0]) != nullptr) return read_relu(*before, refusal);
    refusal = "averages what it computes from several tensors";
    if (before->op_type != "DequantizeLinear") return false;
    const auto at = input_of_node(before->inputs[0]);
    const Tensor* scale = constant(*before, 1);
    const Tensor* zero = constant(*before, 2);
    const bool has_zero = before->inputs.size() > 2 && before->inputs[2].present();
    refusal = "its input is not quantized per tensor in 8 or 16 bits";
    if (!at || scale == nullptr || scale->size() != 1 || (has_zero && (zero == nullptr || zero->size() != 1)) ||
        site_.constant(site_.node.inputs[*at]) != nullptr) {
      return false;
    }
    const DType type = site_.dtype(site_.node.inputs[*at]);
    k.input = *at;
    k.element = storage_size(type);
    k.x_scale = numerics::decode_float(scale->dtype(), scale->data(), 0);
    k.x_zero = (zero == nullptr ? 0 : ops::integers(*zero)[0]) + (type == DType::int8 ? 128 : 0);
    switch (type) {
      case DType::uint8:
      case DType::int8: k.source = kernels::PoolType::u8; return true;
      case DType::uint16: k.source = kernels::PoolType::u16; return true;
      case DType::int16: k.source = kernels::PoolType::s16; return true;
      default: return false;
    }
  }

  // Relu of a dequantized 8-bit tensor: a table, too, of dequantized numbers, which nobody rounds.
  bool read_relu(const ir::Node& relu, std::string& refusal) {
    AverageKernel& k = *kernel_;
    const ir::Node* d = node_of(relu.inputs[0]);
    const auto at = input_of_node(d->inputs[0]);
    const Tensor* scale = constant(*d, 1);
    const Tensor* zero = constant(*d, 2);
    const bool has_zero = d->inputs.size() > 2 && d->inputs[2].present();
    refusal = "averages what it computes from several tensors";
    if (d->op_type != "DequantizeLinear" || !at || scale == nullptr || scale->size() != 1 ||
        (has_zero && (zero == nullptr || zero->size() != 1)) || site_.constant(site_.node.inputs[*at]) != nullptr ||
        !is_byte(site_.dtype(site_.node.inputs[*at]))) {
      return false;
    }
    const DType type = site_.dtype(site_.node.inputs[*at]);
    const double s = numerics::decode_float(scale->dtype(), scale->data(), 0);
    const std::int64_t z = zero == nullptr ? 0 : ops::integers(*zero)[0];
    k.input = *at;
    k.source = kernels::PoolType::table;
    for (std::int64_t q = integer_min(type); q <= integer_max(type); ++q) {
      k.table.push_back(std::max(0.0, static_cast<double>(q - z) * s));
    }
    return true;
  }

  // Whether double decides every mean: sums are multiples of one number, so that those of each size of window are
  // numbers of a lattice. Sums of float32 are not.
  void prove(std::int64_t most) {
    AverageKernel& k = *kernel_;
    double largest = 65535;
    double unit = k.x_scale;
    switch (k.source) {
      case kernels::PoolType::f32: return;
      case kernels::PoolType::table:
        if (k.table_error != 0) return;
        unit = table_unit_;
        largest = table_largest_ / unit;
        break;
      case kernels::PoolType::u8: largest = 255; break;
      default: break;
    }
    if (k.scale == 0 || !std::isfinite(k.scale) || !std::isfinite(unit)) return;
    const double reach = std::max(std::fabs(k.lo - k.zero), std::fabs(k.hi - k.zero)) + 2;
    std::set<std::int64_t> divisors;
    for (const std::int64_t rows : std::set(k.geometry.rows.begin(), k.geometry.rows.end())) {
      for (const std::int64_t columns : std::set(k.geometry.columns.begin(), k.geometry.columns.end())) {
        divisors.insert(rows * columns);
      }
    }
    numerics::ClosestApproach closest{HUGE_VAL, false};
    for (const std::int64_t divisor : divisors) {
      const Rational ratio = Rational::from_double(unit) / (Rational(divisor) * Rational::from_double(k.scale));
      const double size = std::fabs(ratio.to_double());
      double sums = largest * static_cast<double>(most);
      if (size > 0) sums = std::min(sums, reach / size * (1 + 0x1p-40) + 1);
      if (!(sums < 0x1p60)) return;
      const auto bound = static_cast<std::int64_t>(std::ceil(sums));
      closest = closest & closest_approach(ratio, Rational(), {-bound, bound});
    }
    // Twice what store() allows a mean to be off by.
    const double error = reach * 0x1p-49;
    k.proved = closest.distance > 2 * error;
    k.rounding = PlanRounding{k.proved ? "double, proved for every sum" : "double with a check",
                              closest.distance,
                              closest.ties,
                              error,
                              HUGE_VAL,
                              k.proved,
                              false};
  }

  // Whether sums of entries fit a double: all are multiples of one power of two.
  void bound_table(std::int64_t most) {
    double largest = 0;
    int lsb = 1000;
    for (const double v : kernel_->table) {
      if (v == 0) continue;
      largest = std::max(largest, std::fabs(v));
      int exponent = 0;
      double m = std::frexp(v, &exponent);
      while (m != std::floor(m)) {
        m *= 2;
        --exponent;
      }
      lsb = std::min(lsb, exponent);
    }
    table_largest_ = largest;
    table_unit_ = std::ldexp(1.0, largest == 0 ? 0 : lsb);
    const double sum = largest * static_cast<double>(most);
    const bool exact = std::ldexp(sum, -lsb) <= 0x1p53;
    kernel_->table_error = exact ? 0 : sum * 0x1p-52;
  }

  const Site& site_;
  ops::BoundBody body_;
  const ir::Graph& g_;
  std::unique_ptr<AverageKernel> kernel_;
  double table_largest_ = 0;
  double table_unit_ = 1;  // all entries are its multiples
};

}  // namespace

Offer make_average(const Site& site) {
  if (site.node.outputs.size() != 1 || (!site.node.body && !is_average(site.node))) return refuse("is no average");
  return Maker(site).run();
}

}  // namespace halfeven::plan
