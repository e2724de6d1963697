#include "plan/samples.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "numerics/format.hpp"
#include "ops/common.hpp"

namespace halfeven::plan {
namespace {

constexpr int kOpset = 21;

class Builder {
 public:
  explicit Builder(std::string name) {
    sample_.name = std::move(name);
    sample_.graph.opsets[""] = kOpset;
  }

  ir::ValueId input(const Tensor& t) {
    const ir::ValueId id = value(t.dtype(), t.shape());
    sample_.graph.inputs.push_back(id);
    sample_.inputs.push_back(t);
    count(t);
    return id;
  }

  ir::ValueId constant(const Tensor& t) {
    const ir::ValueId id = value(t.dtype(), t.shape());
    sample_.graph.initializers.emplace(id, t);
    return id;
  }

  ir::ValueId scalar(DType type, double v) {
    std::vector<std::byte> bytes(storage_size(type));
    if (is_float(type)) {
      numerics::encode_float(type, numerics::round_to(v, numerics::format_of(type)), bytes.data(), 0);
      return constant(Tensor::own(type, {}, std::move(bytes)));
    }
    return constant(ops::make_integers(type, {}, std::vector{static_cast<std::int64_t>(v)}));
  }

  ir::ValueId node(const std::string& op_type, std::vector<ir::ValueId> inputs,
                   std::map<std::string, ir::Attribute> attributes = {}) {
    const ir::ValueId out = value(DType::undefined, std::nullopt);
    ir::Node& n = sample_.graph.nodes.emplace_back();
    n.name = op_type + std::to_string(sample_.graph.nodes.size());
    n.op_type = op_type;
    n.version = kOpset;
    n.inputs = std::move(inputs);
    n.outputs = {out};
    n.attributes = std::move(attributes);
    return out;
  }

  // A quantized tensor as floats: zero point in the middle of unsigned types.
  ir::ValueId dequantize(ir::ValueId q, double scale) {
    const DType type = sample_.graph.value(q).dtype;
    return node("DequantizeLinear", {q, scalar(DType::float32, scale), scalar(type, zero(type))});
  }

  // The result, quantized so that values of up to `reach` fit.
  Sample finish(ir::ValueId y, double reach, DType type, double operations) {
    const double steps = 0.5 * static_cast<double>(integer_max(type) - integer_min(type));
    const ir::ValueId q = node("QuantizeLinear", {y, scalar(DType::float32, reach / steps), scalar(type, zero(type))});
    return finish_float(q, operations);
  }
  Sample finish_float(ir::ValueId y, double operations) {
    sample_.graph.outputs = {y};
    sample_.operations = operations;
    return std::move(sample_);
  }
  void count_output(const Shape& shape, DType type) {
    sample_.bytes += static_cast<double>(element_count(shape) * storage_size(type));
  }

  static double zero(DType type) { return is_signed_integer(type) ? 0.0 : std::exp2(bits(type) - 1); }

 private:
  ir::ValueId value(DType type, std::optional<Shape> shape) {
    const ir::ValueId id{static_cast<std::uint32_t>(sample_.graph.values.size())};
    sample_.graph.values.push_back({"v" + std::to_string(id.index), type, std::move(shape), {}});
    return id;
  }
  void count(const Tensor& t) { sample_.bytes += static_cast<double>(t.bytes().size()); }

  Sample sample_;
};

// Codes of a type. Worst ones: rows of `row` elements that are all greatest, all least, alternating, in pairs, random.
Tensor codes(DType type, const Shape& shape, Operands operands, std::int64_t row, unsigned seed) {
  std::mt19937 random(seed);
  const std::int64_t lo = integer_min(type);
  const std::int64_t hi = integer_max(type);
  std::vector<std::int64_t> v(element_count(shape));
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::size_t r = i / static_cast<std::size_t>(std::max<std::int64_t>(row, 1));
    v[i] = lo + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(hi - lo + 1));
    if (operands == Operands::random) continue;
    switch (r % 6) {
      case 0: v[i] = hi; break;
      case 1: v[i] = lo; break;
      case 2: v[i] = i % 2 == 0 ? hi : lo; break;
      case 3: v[i] = i / 2 % 2 == 0 ? hi : lo; break;
      case 4: v[i] = random() % 2 == 0 ? hi : lo; break;
      default: break;
    }
  }
  return ops::make_integers(type, shape, v);
}

Tensor floats(const Shape& shape, const std::vector<float>& v) { return Tensor::of<float>(DType::float32, shape, v); }

// Scales of output channels, no two alike.
std::vector<float> channel_scales(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < v.size(); ++k) v[k] = 0.001F * (1.0F + 0.37F * static_cast<float>(k % 7));
  return v;
}

// Sums of `depth` products reach this in real numbers; random ones a fraction of it.
double reach_of(std::int64_t depth, double scale, Operands operands) {
  const double d = static_cast<double>(depth);
  return 128.0 * 128.0 * scale * 0.0032 * (operands == Operands::worst ? d : 2 * std::sqrt(d));
}

}  // namespace

Sample sample_conv(const ConvSample& c, Operands operands) {
  Builder b("Conv");
  const double scale = c.ties ? 0.015625 : 0.02;
  const std::int64_t depth = c.channels / c.groups;
  const ir::ValueId x = b.input(
      codes(c.x, {c.batch, c.channels, c.height, c.width}, operands, c.height * c.width * c.channels / c.groups, 1));
  const ir::ValueId xd = b.dequantize(x, scale);
  const ir::ValueId w = b.constant(
      codes(c.w, {c.out_channels, depth, c.kernel_h, c.kernel_w}, operands, depth * c.kernel_h * c.kernel_w, 2));
  std::vector<float> scales = channel_scales(c.out_channels);
  if (c.ties) std::fill(scales.begin(), scales.end(), 0x1p-9F);
  const std::vector<std::int64_t> zeros(scales.size(), static_cast<std::int64_t>(Builder::zero(c.w)));
  const ir::ValueId ws = b.constant(floats({c.out_channels}, scales));
  const ir::ValueId wz = b.constant(ops::make_integers(c.w, {c.out_channels}, zeros));
  const ir::ValueId wd = b.node("DequantizeLinear", {w, ws, wz}, {{"axis", std::int64_t{0}}});
  std::vector<float> bias_scales;
  for (const float s : scales) bias_scales.push_back(s * static_cast<float>(scale));
  std::vector<std::int64_t> bias(scales.size());
  for (std::size_t k = 0; k < bias.size(); ++k) bias[k] = static_cast<std::int64_t>(k * 1234567 % 20001) - 10000;
  const ir::ValueId bq = b.constant(ops::make_integers(DType::int32, {c.out_channels}, bias));
  const ir::ValueId bs = b.constant(floats({c.out_channels}, bias_scales));
  const ir::ValueId bd = b.node("DequantizeLinear", {bq, bs}, {{"axis", std::int64_t{0}}});
  ir::ValueId y = b.node("Conv", {xd, wd, bd},
                         {{"group", c.groups},
                          {"pads", std::vector<std::int64_t>{c.pad, c.pad, c.pad, c.pad}},
                          {"strides", std::vector<std::int64_t>{c.stride, c.stride}}});
  if (c.relu) y = b.node("Relu", {y});
  const std::int64_t oh = (c.height + 2 * c.pad - c.kernel_h) / c.stride + 1;
  const std::int64_t ow = (c.width + 2 * c.pad - c.kernel_w) / c.stride + 1;
  b.count_output({c.batch, c.out_channels, oh, ow}, c.x);
  const auto products = static_cast<double>(c.batch * c.out_channels * oh * ow * depth * c.kernel_h * c.kernel_w);
  double reach = reach_of(depth * c.kernel_h * c.kernel_w, scale, operands) * (bits(c.x) == 16 ? 257 : 1);
  if (c.ties) reach = 127.5 * scale * 0x1p-9 * std::exp2(std::round(std::log2(reach / 127.5 / scale * 0x1p9)));
  return b.finish(y, reach, c.x, 2 * products);
}

Sample sample_product(const ProductSample& p, Operands operands) {
  Builder b(p.gemm ? "Gemm" : "MatMul");
  constexpr double kScale = 0.02;
  const bool stacked = p.batch > 1 && !p.gemm;
  const auto stack = [&](std::int64_t r, std::int64_t c) { return stacked ? Shape{p.batch, r, c} : Shape{r, c}; };
  const ir::ValueId x = b.input(codes(p.a, stack(p.rows, p.depth), operands, p.depth, 1));
  const ir::ValueId xd = b.dequantize(x, kScale);
  ir::ValueId w;
  if (p.constant_b) {
    w = b.constant(codes(p.b, {p.depth, p.columns}, operands, 1, 2));
  } else {
    w = b.input(codes(p.b, stack(p.depth, p.columns), operands, 1, 2));
  }
  ir::ValueId wd;
  if (p.constant_b) {
    const std::vector<float> scales = channel_scales(p.columns);
    const std::vector<std::int64_t> zeros(scales.size(), static_cast<std::int64_t>(Builder::zero(p.b)));
    const ir::ValueId ws = b.constant(floats({p.columns}, scales));
    const ir::ValueId wz = b.constant(ops::make_integers(p.b, {p.columns}, zeros));
    wd = b.node("DequantizeLinear", {w, ws, wz}, {{"axis", std::int64_t{1}}});
  } else {
    wd = b.dequantize(w, 0.0025);
  }
  std::vector<ir::ValueId> inputs{xd, wd};
  if (p.gemm) {
    std::vector<float> bias(static_cast<std::size_t>(p.columns));
    for (std::size_t k = 0; k < bias.size(); ++k) bias[k] = 0.25F * static_cast<float>(k % 9) - 1.0F;
    inputs.push_back(b.constant(floats({p.columns}, bias)));
  }
  const ir::ValueId y = b.node(p.gemm ? "Gemm" : "MatMul", inputs);
  b.count_output(stack(p.rows, p.columns), p.a);
  const double products = static_cast<double>((stacked ? p.batch : 1) * p.rows * p.columns * p.depth);
  return b.finish(y, reach_of(p.depth, kScale, operands), p.a, 2 * products);
}

Sample sample_binary(const std::string& op_type, const Shape& shape, const Shape& b_shape, DType type,
                     Operands operands) {
  Builder b(op_type);
  const ir::ValueId a = b.dequantize(b.input(codes(type, shape, operands, 7, 1)), 0.02);
  const ir::ValueId other = b.dequantize(b.input(codes(type, b_shape, operands, 5, 2)), 0.03125);
  b.count_output(shape, type);
  const double wider = bits(type) == 16 ? 257 : 1;
  return b.finish(b.node(op_type, {a, other}), op_type == "Mul" ? 10.3 * wider * wider : 6.6 * wider, type, 0);
}

Sample sample_unary(const std::string& op_type, const Shape& shape, DType type, Operands operands) {
  Builder b(op_type);
  const ir::ValueId x = b.dequantize(b.input(codes(type, shape, operands, 9, 1)), 0.05);
  std::map<std::string, ir::Attribute> attributes;
  std::vector<ir::ValueId> inputs{x};
  double reach = 6.4;
  Shape out = shape;
  if (op_type == "MaxPool" || op_type == "AveragePool") {
    attributes["kernel_shape"] = std::vector<std::int64_t>{2, 2};
    attributes["strides"] = std::vector<std::int64_t>{2, 2};
    out[2] /= 2;
    out[3] /= 2;
  } else if (op_type == "GlobalAveragePool") {
    out[2] = out[3] = 1;
  } else if (op_type == "Sigmoid" || op_type == "Softmax") {
    reach = 1;
  } else if (op_type == "LayerNormalization") {
    reach = 4;
    std::vector<float> factors(static_cast<std::size_t>(shape.back()));
    for (std::size_t k = 0; k < factors.size(); ++k) factors[k] = 0.5F + 0.125F * static_cast<float>(k % 11);
    inputs.push_back(b.constant(floats({shape.back()}, factors)));
    inputs.push_back(b.constant(floats({shape.back()}, factors)));
  } else if (op_type == "Transpose") {
    std::vector<std::int64_t> order(shape.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    attributes["perm"] = order;
  }
  const ir::ValueId y = b.node(op_type, inputs, attributes);
  b.count_output(out, type);
  return b.finish(y, reach, type, 0);
}

Sample sample_quantize(const Shape& shape, DType type) {
  Builder b("QuantizeLinear");
  std::vector<float> v(element_count(shape));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < v.size(); ++i) {
    // Ties of the scale 1/8, saturation, and anything between.
    v[i] = i % 3 == 0 ? (static_cast<float>(i % 300) - 150.0F + 0.5F) / 8.0F
                      : static_cast<float>(static_cast<double>(random()) / 0x1p32 * 40 - 20);
  }
  const ir::ValueId x = b.input(floats(shape, v));
  const ir::ValueId q =
      b.node("QuantizeLinear", {x, b.scalar(DType::float32, 0.125), b.scalar(type, Builder::zero(type))});
  b.count_output(shape, type);
  return b.finish_float(q, 0);
}

Sample sample_dequantize(const Shape& shape, DType type) {
  Builder b("DequantizeLinear");
  const ir::ValueId y = b.dequantize(b.input(codes(type, shape, Operands::random, 1, 1)), 0.0123);
  b.count_output(shape, DType::float32);
  return b.finish_float(y, 0);
}

}  // namespace halfeven::plan
