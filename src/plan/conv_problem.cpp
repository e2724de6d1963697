#include "plan/conv_problem.hpp"

#include <cmath>
#include <set>

#include "numerics/format.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

// Reads what the node is; an empty string if a kernel may take it.
std::string read_product(const Site& site, ConvProblem& p, const Shape& xs, const Shape& ws) {
  if (p.q.op_type == "Gemm") {
    if (ir::int_attribute(*p.q.chief, "transA", 0) != 0) return "transposes its activation";
    for (const char* name : {"alpha", "beta"}) {
      const auto at = p.q.chief->attributes.find(name);
      if (at != p.q.chief->attributes.end() && std::get<float>(at->second) != 1.0F) return "has alpha or beta";
    }
  }
  if (ws.size() != 2 || xs.size() < 2) return "has weights of other than two dimensions";
  const bool flipped = p.q.op_type == "Gemm" && ir::int_attribute(*p.q.chief, "transB", 0) != 0;
  p.out_channels = ws[flipped ? 0 : 1];
  p.in_channels = ws[flipped ? 1 : 0];
  p.stride_oc = flipped ? p.in_channels : 1;
  p.stride_c = flipped ? 1 : p.out_channels;
  p.window = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
  p.width = p.in_channels == 0 ? 0 : elements(site.shape(p.x.id)) / p.in_channels;
  p.window.out[1] = p.width;
  const std::int64_t axis = flipped ? 0 : 1;
  if (p.w.scales.size() + p.w.zeros.size() > 2 && p.w.axis != axis) return "scales run along the depth";
  return "";
}

std::string read_window(const Site& site, ConvProblem& p, const Shape& xs, const Shape& ws) {
  if (xs.size() != 4 && xs.size() != 3) return "has other than one or two spatial dimensions";
  const ops::NodeReader reader(site.graph, *p.q.chief);
  p.groups = reader.get_int("group", 1);
  const Shape sizes(xs.begin() + 2, xs.end());
  const Shape kernel(ws.begin() + 2, ws.end());
  p.window = p.transposed ? ops::read_transposed_window(reader, sizes, kernel)
                          : ops::read_window(reader, sizes, kernel, false);
  if (xs.size() == 3) {  // an image of one row
    const auto widen = [](Shape& s, std::int64_t v) { s.insert(s.begin(), v); };
    widen(p.window.kernel, 1);
    widen(p.window.strides, 1);
    widen(p.window.dilations, 1);
    widen(p.window.begin, 0);
    widen(p.window.end, 0);
    widen(p.window.out, 1);
  }
  p.batch = xs[0];
  p.height = xs.size() == 3 ? 1 : xs[2];
  p.width = xs.back();
  p.out_channels = p.transposed ? ws[1] * p.groups : ws[0];
  p.in_channels = p.transposed ? ws[0] / p.groups : ws[1];
  p.stride_t = 1;
  p.stride_c = p.taps();
  p.stride_oc = p.taps() * p.in_channels;
  const std::int64_t axis = p.transposed ? 1 : 0;
  if (p.w.scales.size() + p.w.zeros.size() > 2) {
    if (p.w.axis != axis) return "weight scales are not per output channel";
    if (p.transposed && p.groups != 1) return "weight scales of several groups share an axis";
  }
  return "";
}

// Weights are many: no wider than need be.
std::vector<std::int16_t> stored_weights(const Tensor& t) {
  const auto* bytes = reinterpret_cast<const std::int8_t*>(t.data());
  if (t.dtype() == DType::int8) return {bytes, bytes + t.size()};
  const auto* unsigned_bytes = reinterpret_cast<const std::uint8_t*>(t.data());
  if (t.dtype() == DType::uint8) return {unsigned_bytes, unsigned_bytes + t.size()};
  const auto values = ops::integers(t);
  return {values.begin(), values.end()};
}

}  // namespace

std::string read_conv(const Site& site, ConvProblem& p) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refusal;
  p.q = std::move(*q);
  p.q.store_biased();
  static const std::set<std::string_view> names{"Conv", "ConvTranspose", "Gemm", "MatMul"};
  if (!names.contains(p.q.op_type)) return "is no convolution or product";
  p.product = p.q.op_type == "Gemm" || p.q.op_type == "MatMul";
  p.transposed = p.q.op_type == "ConvTranspose";
  if (p.q.operands.size() < 2 || !p.q.operands[0] || !p.q.operands[1]) return "an operand is not quantized";
  p.x = *p.q.operands[0];
  p.w = *p.q.operands[1];
  const Tensor* wt = site.constant(p.w.id);
  p.xt = site.dtype(p.x.id);
  if (wt == nullptr) return "its weights are computed";
  p.wide = p.xt == DType::uint16 || p.xt == DType::int16;
  if ((!is_byte(p.xt) && !p.wide) || bits(wt->dtype()) > 8)
    return "has other than 8-bit weights and 8- or 16-bit activations";
  if (bits(p.q.out_type) != 8 && bits(p.q.out_type) != 16) return "has a result of other than 8 or 16 bits";
  if (!p.x.per_tensor() || p.x.scales[0] == 0) return "its activation is quantized per axis";
  const Shape& xs = site.shape(p.x.id);
  const std::string why = p.product ? read_product(site, p, xs, wt->shape()) : read_window(site, p, xs, wt->shape());
  if (!why.empty()) return why;
  const auto whole = [&](std::size_t n) { return n == 1 || n == static_cast<std::size_t>(p.out_channels); };
  if (!whole(p.w.scales.size()) || !whole(p.w.zeros.size())) return "weight scales are not per output channel";
  if (p.batch == 0 || p.window.out[0] <= 0 || p.window.out[1] <= 0 || p.out_channels == 0 || p.in_channels == 0) {
    return "is empty";
  }
  p.raw = stored_weights(*wt);
  p.zero = p.wide ? p.x.zeros[0] + (p.xt == DType::int16 ? 32768 : 0) : byte_zero(site, p.x);
  return "";
}

bool fits_bytes(const ConvProblem& p) {
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) {
        const std::int64_t v = p.weight(oc, t, c);
        if (v < -128 || v > 127) return false;
      }
    }
  }
  return true;
}

std::vector<std::int32_t> middle_shifts(const Site& site, const ConvProblem& p) {
  std::vector<std::int32_t> shifts;
  const bool is_signed = is_signed_integer(site.constant(p.w.id)->dtype());
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    const std::int64_t zero = p.w.zero(static_cast<std::size_t>(oc));
    shifts.push_back(static_cast<std::int32_t>(zero - (is_signed ? 0 : 128)));
  }
  return shifts;
}

std::string round_sums(const Site& site, const ConvProblem& p, const std::vector<std::int32_t>& shifts,
                       ConvRounding& out) {
  const Rational sx = Rational::from_double(p.x.scales[0]);
  const Rational sy = Rational::from_double(p.q.out_scale);
  const bool has_bias = p.q.operands.size() > 2 && p.q.operands[2];
  const Tensor* bias = has_bias ? site.constant(p.q.operands[2]->id) : nullptr;
  if (has_bias && bias == nullptr) return "its bias is computed";
  const std::vector<std::int64_t> bias_values = bias == nullptr ? std::vector<std::int64_t>{} : ops::integers(*bias);
  const Tensor* float_bias = p.q.float_constants.size() > 2 && p.q.float_constants[2].present()
                                 ? site.constant(p.q.float_constants[2])
                                 : nullptr;
  const double most = p.wide ? 65535 : 255;
  for (std::int64_t channel = 0; channel < p.out_channels; ++channel) {
    const auto oc = static_cast<std::size_t>(channel);
    std::int64_t sum = 0;
    std::int64_t magnitude = 0;
    std::int64_t stored = 0;  // of what the kernel multiplies by
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) {
        const std::int64_t v = p.weight(channel, t, c);
        sum += v;
        magnitude += std::abs(v);
        stored += std::abs(v + (shifts.empty() ? 0 : shifts[oc]));
      }
    }
    const Rational product = sx * Rational::from_double(p.w.scale(oc));
    std::int64_t begin = -p.zero * sum;
    std::int64_t bias_part = 0;
    Rational offset;
    const auto pick = [&](std::size_t n) { return n == 1 ? std::size_t{0} : oc; };
    if (bias != nullptr) {
      if (bias_values.size() != 1 && bias_values.size() != static_cast<std::size_t>(p.out_channels)) {
        return "its bias is no vector";
      }
      const Operand& b = *p.q.operands[2];
      const std::int64_t v = bias_values[pick(bias_values.size())] - b.zero(oc);
      const Rational unit = Rational::from_double(b.scale(oc));
      if (unit == product && std::abs(v) < (std::int64_t{1} << 30)) {
        bias_part = v;  // part of the accumulator, where it is exact
        begin += v;
      } else {
        offset = Rational(v) * unit / sy;
      }
    } else if (float_bias != nullptr) {
      if (float_bias->size() != 1 && float_bias->size() != static_cast<std::size_t>(p.out_channels)) {
        return "its bias is no vector";
      }
      const double v = numerics::decode_float(float_bias->dtype(), float_bias->data(), pick(float_bias->size()));
      if (!std::isfinite(v)) return "its bias is not finite";
      offset = Rational::from_double(v) / sy;
    }
    if (p.wide) {  // the two planes' sums start from zero
      offset = offset + Rational(begin) * product / sy;
      begin = 0;
    }
    // Every partial sum lies within the start plus all products at their largest.
    const double reach = std::fabs(static_cast<double>(begin)) + 255.0 * static_cast<double>(stored);
    if (reach >= 0x1p31) return "its sums may exceed int32";
    out.bounds.push_back(std::fabs(static_cast<double>(begin)) + most * static_cast<double>(magnitude));
    out.start.push_back(static_cast<std::int32_t>(begin));
    out.bias.push_back(bias_part);
    out.ratios.push_back(product / sy);
    out.offsets.push_back(std::move(offset));
  }
  return "";
}

std::optional<WordSums> word_sums(const ConvProblem& p, std::vector<int> bits, std::int64_t largest) {
  WordSums out;
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    const std::int64_t unit = std::int64_t{1} << bits[static_cast<std::size_t>(oc)];
    std::int64_t positive = 0;
    std::int64_t negative = 0;
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) {
        const std::int64_t v = p.weight(oc, t, c);
        if (v * unit > largest || v * unit < -largest - 1) return std::nullopt;
        (v > 0 ? positive : negative) += v;
      }
    }
    const std::int64_t width = 65535 * (positive - negative);
    if (width * unit >= std::int64_t{1} << 32) return std::nullopt;
    const std::int64_t middle = 65535 * negative + (width + 1) / 2;
    const std::int64_t start = (32768 * (positive + negative) - middle) * unit;
    out.start.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(start)));
    out.shift.push_back(-middle);
  }
  out.bits = std::move(bits);
  return out;
}

}  // namespace halfeven::plan
