#include "properties/graph_generator.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace halfeven::properties {
namespace {

// The nearest value of the type, away from its ends.
double fitted(double v, DType type) {
  if (v == 0) return 0;
  const BinaryFormat f = binary_format(type);
  const int unit = std::max(std::ilogb(v) - f.precision + 1, f.lowest);
  return std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit) + 0.0;
}

double ulp(double v, DType type) {
  const BinaryFormat f = binary_format(type);
  return std::ldexp(1, std::max((v == 0 ? f.lowest : std::ilogb(v)) - f.precision + 1, f.lowest));
}

std::pair<int, int> range_of(DType type) {
  switch (type) {
    case DType::uint8: return {0, 255};
    case DType::int8: return {-128, 127};
    case DType::uint16: return {0, 65535};
    case DType::int16: return {-32768, 32767};
    default: return {-8, 7};
  }
}

std::size_t count(const Shape& shape) {
  std::size_t n = 1;
  for (const std::int64_t d : shape) n *= static_cast<std::size_t>(d);
  return n;
}

struct Made {
  std::string name;
  DType dtype;
  Shape shape;
  double grain;  ///< the step in which its values are thought to come
};

class Draw {
 public:
  explicit Draw(const Pick& pick) : pick_(pick) {}

  SmallGraph graph() {
    static constexpr DType kTypes[] = {DType::float32, DType::float32, DType::float32, DType::float16, DType::bfloat16};
    type_ = kTypes[pick_(std::size(kTypes))];
    const std::size_t rank = pick_(3) == 0 ? 2 : 4;
    const std::size_t sources = 1 + pick_(2);
    Shape shape = rank == 4 ? Shape{one_of({1, 1, 1, 1, 1, 1, 2, 2, 0}), one_of({1, 3, 2, 3, 17}), size(), size()}
                            : Shape{one_of({1, 2, 3, 5}), one_of({1, 3, 4, 17})};
    for (std::size_t i = 0; i < sources; ++i) source(shape);
    if (pick_(4) == 0) constant_chain(shape);
    const std::size_t steps = 1 + pick_(6);
    for (std::size_t i = 0; i < steps; ++i) step();
    if (pick_(2) == 0) qdq(newest());
    finish();
    return graph_;
  }

 private:
  // --- drawing ---
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(pick_(choices.size())));
  }
  std::int64_t size() { return one_of<std::int64_t>({1, 2, 3, 4, 5, 7}); }
  bool coin() { return pick_(2) == 0; }
  double between(double a, double b) { return std::uniform_real_distribution<double>(a, b)(random_); }
  int whole(int a, int b) { return std::uniform_int_distribution<int>(a, b)(random_); }
  // Contents follow from one picked seed a tensor, so that shrinking stays about structure.
  void reseed() { random_.seed(pick_(1U << 20U)); }

  double draw_scale() {
    const double s = one_of({0.1, 0.02, 0.001, 0.05, 0.25, 0.0078125, 1.0, 0.5, 0.3, 2.0, 0.1234567, 1.0 / 3, 0.0117});
    return fitted(s, type_);
  }

  std::string fresh(const char* stem) { return stem + std::to_string(names_++); }

  std::string constant(DType dtype, Shape shape, std::vector<double> values) {
    std::string name = fresh("c");
    if (is_float(dtype)) {
      for (double& v : values) v = fitted(v, dtype);
    }
    graph_.constants.emplace_back(name, SmallTensor{dtype, std::move(shape), std::move(values)});
    return name;
  }
  std::string numbers(const std::vector<std::int64_t>& v) {
    return constant(DType::int64, {static_cast<std::int64_t>(v.size())}, {v.begin(), v.end()});
  }

  // Values next to odd multiples of half of a grain, on the grid, far outside, or anywhere.
  std::vector<double> contents(DType type, std::size_t n, double grain) {
    reseed();
    std::vector<double> out(n);
    for (double& v : out) {
      const int kind = whole(0, 9);
      const double k = kind == 9 ? whole(-70000, 70000) : whole(-300, 300);
      v = kind < 6 ? (k + 0.5) * grain : (kind < 8 ? k * grain : between(-5, 5));
      v = fitted(v, type);
      if (kind < 6) v += whole(-2, 2) * ulp(v, type);
      v = fitted(v, type);
    }
    return out;
  }

  // Powers of two that add up to a tie of the type and a little more or less: a sum in doubles loses the little.
  std::vector<double> telescope(DType type, std::size_t n) {
    reseed();
    telescoping_ = true;
    const int p = binary_format(type).precision;
    // Rows of 17: just below the tie, and then terms that lift the sum over it but that a double loses one by one.
    const bool rows = coin();
    std::vector<double> out(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t place = rows ? std::min<std::size_t>(i % 17, 3) : i % 3;
      if (place < 2) {
        out[i] = place == 0 ? 1 : std::ldexp(1, -p);
      } else if (rows) {
        out[i] = place == 2 ? -0x1p-51 : 0x1p-54;
      } else {
        out[i] = std::ldexp(whole(0, 1) == 0 ? -1 : 1, -p - whole(1, 40));
      }
      out[i] = fitted(out[i], type);
    }
    return out;
  }

  std::vector<double> codes(DType type, std::size_t n) {
    reseed();
    const auto [lo, hi] = range_of(type);
    std::vector<double> out(n);
    for (double& v : out) {
      const int kind = whole(0, 7);
      v = kind == 0 ? lo : (kind == 1 ? hi : whole(std::max(lo, -300), std::min(hi, 300)));
    }
    return out;
  }

  double zero_point(DType type) {
    const auto [lo, hi] = range_of(type);
    switch (pick_(5)) {
      case 0: return 0;
      case 1: return lo;
      case 2: return hi;
      case 3: return std::min(hi, 3);
      default: return std::min(hi, 128 - 1);
    }
  }

  // --- building ---
  Made& add(const std::string& op, std::vector<std::string> inputs, DType dtype, Shape shape, double grain) {
    SmallNode node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.output = fresh("t");
    graph_.nodes.push_back(node);
    made_.push_back({node.output, dtype, std::move(shape), grain});
    return made_.back();
  }
  SmallNode& last() { return graph_.nodes.back(); }
  const Made& newest() const { return made_.back(); }

  void source(const Shape& shape) {
    const std::string name = fresh("x");
    if (coin()) {
      const double grain = draw_scale();
      const std::size_t n = count(shape);
      const bool sums = pick_(5) == 0;
      graph_.inputs.emplace_back(name,
                                 SmallTensor{type_, shape, sums ? telescope(type_, n) : contents(type_, n, grain)});
      made_.push_back({name, type_, shape, grain});
      if (!sums && coin()) qdq(newest());
      return;
    }
    const DType code = one_of({DType::uint8, DType::uint8, DType::int8, DType::int8, DType::uint16, DType::int16});
    graph_.inputs.emplace_back(name, SmallTensor{code, shape, codes(code, count(shape))});
    dequantize(name, code, shape);
  }

  // A float constant, or one that is computed: rule 6.
  void constant_chain(const Shape& shape) {
    const double grain = draw_scale();
    Shape own = shape;
    if (coin()) own[0] = 1;
    const std::string a = constant(type_, own, contents(type_, count(own), grain));
    if (coin()) {
      add(one_of<const char*>({"Mul", "Div", "Add"}), {a, constant(type_, {}, {draw_scale()})}, type_, own, grain);
      if (coin()) add("Relu", {newest().name}, type_, own, grain);
    } else {
      made_.push_back({a, type_, own, grain});
    }
    if (coin()) quantized_copy(newest());
  }

  // Q and DQ of a constant, whose DQ stays exact.
  void quantized_copy(const Made& of) { qdq(Made(of)); }

  void dequantize(const std::string& name, DType code, const Shape& shape) {
    const double s = draw_scale();
    std::vector<std::string> inputs{name, constant(type_, {}, {s})};
    if (pick_(4) != 0) inputs.push_back(constant(code, {}, {zero_point(code)}));
    add("DequantizeLinear", inputs, type_, shape, s);
  }

  // A scale that brings the quotients close to ties.
  double output_scale(double grain) {
    double s = draw_scale();
    if (grain > 1e-6 && pick_(3) != 0) s = fitted(grain * 2 / static_cast<double>(1 + 2 * pick_(8)), type_);
    if (grain > 1e-6 && pick_(6) == 0) s = fitted(grain * static_cast<double>(pick_(40) + 1), type_);
    return pick_(12) == 0 ? -s : s;
  }

  void qdq(const Made of) {
    const DType code = one_of({DType::uint8, DType::int8, DType::int8, DType::uint16, DType::int16, DType::int4});
    std::vector<std::string> parameters;
    const auto axis = of.shape.size() > 1 ? static_cast<std::int64_t>(pick_(of.shape.size())) : 0;
    double s = output_scale(of.grain);
    const bool per_axis = pick_(5) == 0 && count(of.shape) > 0;
    const bool blocked = !per_axis && pick_(6) == 0 && count(of.shape) > 0;
    std::int64_t block = 0;
    if (per_axis || blocked) {
      Shape shape{of.shape[static_cast<std::size_t>(axis)]};
      if (blocked) {
        block = 1 + static_cast<std::int64_t>(pick_(3));
        shape = of.shape;
        std::int64_t& d = shape[static_cast<std::size_t>(axis)];
        d = (d + block - 1) / block;
      }
      std::vector<double> scales;
      std::vector<double> zeros;
      for (std::size_t i = 0; i < count(shape); ++i) {
        scales.push_back(i < 3 ? output_scale(of.grain) : s);
        zeros.push_back(i < 3 ? zero_point(code) : 1);
      }
      parameters = {constant(type_of(of), shape, scales), constant(code, shape, zeros)};
    } else {
      s = fitted(s, of.dtype);
      parameters = {constant(of.dtype, coin() ? Shape{} : Shape{1}, {s})};
      parameters.push_back(constant(code, graph_.constants.back().second.shape, {zero_point(code)}));
    }
    const auto attributes = [&] {
      if (!per_axis && !blocked) return;
      last().integers["axis"] = axis;
      if (blocked) last().integers["block_size"] = block;
    };
    add("QuantizeLinear", {of.name, parameters[0], parameters[1]}, code, of.shape, 1);
    attributes();
    const std::string q = newest().name;
    made_.pop_back();
    // A pair with parameters of its own, or a Reshape between the two, now and then.
    std::string read = q;
    if (!per_axis && !blocked && of.shape.size() == 4 && pick_(4) == 0) {
      add("Transpose", {q}, code, {}, 1);
      last().lists["perm"] = {0, 1, 2, 3};
      read = newest().name;
      made_.pop_back();
    }
    add("DequantizeLinear", {read, parameters[0], parameters[1]}, of.dtype, of.shape, std::fabs(s));
    attributes();
  }
  static DType type_of(const Made& m) { return m.dtype; }

  const Made& any() {
    // Newer tensors more often, so that graphs become deep.
    const std::size_t back = coin() ? 0 : pick_(made_.size());
    return made_[made_.size() - 1 - back];
  }

  // A weight: a float constant, or dequantized per tensor, per axis or blocked.
  std::string weight(DType dtype, const Shape& shape, std::int64_t axis, double& grain) {
    const std::size_t n = count(shape);
    grain = fitted(draw_scale(), dtype);
    if (telescoping_ && coin()) return constant(dtype, shape, std::vector<double>(n, 1));
    if (pick_(4) == 0) return constant(dtype, shape, contents(dtype, n, grain));
    const DType code = one_of({DType::int8, DType::int8, DType::uint8, DType::int4});
    const std::string q = constant(code, shape, codes(code, n));
    std::vector<std::string> parameters;
    const std::size_t kind = pick_(3);
    std::int64_t block = 0;
    if (kind == 0) {
      parameters = {constant(dtype, {}, {grain})};
      if (coin()) parameters.push_back(constant(code, {}, {zero_point(code)}));
    } else {
      Shape ps{shape[static_cast<std::size_t>(axis)]};
      if (kind == 2) {
        ps = shape;
        block = 2;
        std::int64_t& d = ps[static_cast<std::size_t>(axis)];
        d = (d + 1) / 2;
      }
      std::vector<double> scales;
      for (std::size_t i = 0; i < count(ps); ++i) scales.push_back(i % 3 == 0 ? grain : fitted(draw_scale(), dtype));
      parameters = {constant(dtype, ps, scales)};
      if (coin()) {
        std::vector<double> zeros;
        for (std::size_t i = 0; i < count(ps); ++i) zeros.push_back(i % 2 == 0 ? 1 : zero_point(code));
        parameters.push_back(constant(code, ps, zeros));
      }
    }
    parameters.insert(parameters.begin(), q);
    add("DequantizeLinear", parameters, dtype, shape, grain);
    if (kind != 0) last().integers["axis"] = axis;
    if (block != 0) last().integers["block_size"] = block;
    std::string name = newest().name;
    made_.pop_back();
    return name;
  }

  // A bias: float, or int32 with the product of the scales, exactly or as float32 rounds it.
  std::string bias(DType dtype, std::int64_t n, double grain) {
    const auto size = static_cast<std::size_t>(n);
    if (coin()) return constant(dtype, {n}, contents(dtype, size, std::max(grain, 1e-4)));
    reseed();
    std::vector<double> q(size);
    for (double& v : q) v = whole(-5000, 5000);
    add("DequantizeLinear", {constant(DType::int32, {n}, q), constant(dtype, {}, {fitted(grain, dtype)})}, dtype, {n},
        grain);
    std::string name = newest().name;
    made_.pop_back();
    return name;
  }

  void step() {
    const Made x = any();
    if (x.shape.size() == 4 && pick_(2) == 0) {
      image_step(x);
    } else if (x.shape.size() == 2 && pick_(3) == 0) {
      matrix_step(x);
    } else {
      general_step(x);
    }
  }

  std::vector<std::int64_t> draw_pads(std::int64_t kh, std::int64_t kw) {
    std::vector<std::int64_t> pads;
    for (const std::int64_t k : {kh, kw, kh, kw})
      pads.push_back(static_cast<std::int64_t>(pick_(static_cast<std::size_t>(k))));
    return pads;
  }

  // Output size, or nothing where the window does not fit.
  static std::int64_t slid(std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t kernel,
                           std::int64_t stride, std::int64_t dilation, bool ceil) {
    const std::int64_t room = n + begin + end - (kernel - 1) * dilation - 1;
    if (room < 0) return -1;
    std::int64_t out = room / stride + 1;
    if (ceil && room % stride != 0 && out * stride < n + begin) ++out;
    return out;
  }

  void image_step(const Made& x) {
    if (std::count(x.shape.begin() + 1, x.shape.end(), 0) != 0) return general_step(x);
    const std::int64_t channels = x.shape[1];
    const std::int64_t kh = one_of<std::int64_t>({1, 2, 3});
    const std::int64_t kw = one_of<std::int64_t>({1, 2, 3});
    const auto pads = draw_pads(kh, kw);
    const std::vector<std::int64_t> strides{one_of<std::int64_t>({1, 1, 2, 3}), one_of<std::int64_t>({1, 2})};
    const std::size_t kind = pick_(6);
    if (kind == 5) {
      return resize_step(x);
    }
    if (kind == 4) {
      add("GlobalAveragePool", {x.name}, x.dtype, {x.shape[0], channels, 1, 1},
          x.grain / static_cast<double>(x.shape[2] * x.shape[3]));
      return;
    }
    if (kind >= 2) {
      const bool average = kind == 2;
      const bool ceil = coin();
      const std::int64_t oh = slid(x.shape[2], pads[0], pads[2], kh, strides[0], 1, ceil);
      const std::int64_t ow = slid(x.shape[3], pads[1], pads[3], kw, strides[1], 1, ceil);
      if (oh < 1 || ow < 1) return general_step(x);
      add(average ? "AveragePool" : "MaxPool", {x.name}, x.dtype, {x.shape[0], channels, oh, ow},
          average ? x.grain / static_cast<double>(kh * kw) : x.grain);
      last().lists = {{"kernel_shape", {kh, kw}}, {"strides", strides}, {"pads", pads}};
      if (ceil) last().integers["ceil_mode"] = 1;
      if (average && coin()) last().integers["count_include_pad"] = 1;
      return;
    }
    const std::int64_t dilation = one_of<std::int64_t>({1, 1, 2});
    const std::int64_t oh = slid(x.shape[2], pads[0], pads[2], kh, strides[0], dilation, false);
    const std::int64_t ow = slid(x.shape[3], pads[1], pads[3], kw, strides[1], dilation, false);
    if (oh < 1 || ow < 1) return general_step(x);
    const std::int64_t groups = coin() ? 1 : channels;
    const std::int64_t filters =
        groups == 1 ? one_of<std::int64_t>({1, 2, 3}) : channels * (channels < 9 && coin() ? 2 : 1);
    double grain = 0;
    const Shape shape{filters, channels / groups, kh, kw};
    std::vector<std::string> inputs{x.name, weight(x.dtype, shape, pick_(4) == 0 ? 1 : 0, grain)};
    if (coin()) inputs.push_back(bias(x.dtype, filters, x.grain * grain));
    add("Conv", inputs, x.dtype, {x.shape[0], filters, oh, ow}, x.grain * grain);
    last().lists = {
        {"kernel_shape", {kh, kw}}, {"strides", strides}, {"pads", pads}, {"dilations", {dilation, dilation}}};
    last().integers["group"] = groups;
  }

  void resize_step(const Made& x) {
    const double h = one_of({2.0, 1.5, 0.5, 1.0, 3.0});
    const double w = one_of({2.0, 1.0, 0.75, 1.25});
    const auto scaled = [](std::int64_t n, double s) {
      return static_cast<std::int64_t>(std::floor(static_cast<double>(n) * s));
    };
    const Shape out{x.shape[0], x.shape[1], scaled(x.shape[2], h), scaled(x.shape[3], w)};
    if (out[2] < 1 || out[3] < 1) return general_step(x);
    const bool nearest = coin();
    add("Resize", {x.name, "", constant(DType::float32, {4}, {1, 1, h, w})}, x.dtype, out,
        nearest ? x.grain : x.grain / 16);
    last().strings["mode"] = nearest ? "nearest" : "linear";
    last().strings["coordinate_transformation_mode"] = coin() ? "half_pixel" : "asymmetric";
    if (nearest) {
      last().strings["nearest_mode"] =
          one_of<const char*>({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
    }
  }

  void matrix_step(const Made& x) {
    if (x.shape[1] == 0) return general_step(x);
    const std::int64_t columns = one_of<std::int64_t>({1, 2, 5});
    double grain = 0;
    if (coin()) {
      const std::string w = weight(x.dtype, {x.shape[1], columns}, static_cast<std::int64_t>(pick_(2)), grain);
      add("MatMul", {x.name, w}, x.dtype, {x.shape[0], columns}, x.grain * grain);
      return;
    }
    const bool transposed = coin();
    const std::string w = weight(x.dtype, transposed ? Shape{columns, x.shape[1]} : Shape{x.shape[1], columns},
                                 static_cast<std::int64_t>(pick_(2)), grain);
    std::vector<std::string> inputs{x.name, w};
    if (coin()) inputs.push_back(bias(x.dtype, columns, x.grain * grain));
    const float alpha = one_of({1.0F, 1.0F, 0.5F, 0.1F});
    add("Gemm", inputs, x.dtype, {x.shape[0], columns}, x.grain * grain * static_cast<double>(alpha));
    if (transposed) last().integers["transB"] = 1;
    last().floats["alpha"] = alpha;
    if (coin()) last().floats["beta"] = 0.3F;
  }

  std::optional<Made> partner(const Made& x) {
    std::vector<Made> fitting;
    for (const Made& m : made_) {
      if (m.dtype == x.dtype && m.shape == x.shape) fitting.push_back(m);
    }
    return fitting[pick_(fitting.size())];
  }

  void general_step(const Made& x) {
    switch (pick_(17)) {
      case 0: return qdq(x);
      case 1: return qdq(x);
      case 2: {
        const Made y = *partner(x);
        const char* op = one_of<const char*>({"Add", "Add", "Sub", "Mul"});
        add(op, {x.name, y.name}, x.dtype, x.shape,
            std::string(op) == "Mul" ? x.grain * y.grain : std::min(x.grain, y.grain));
        return;
      }
      case 3: {
        const double s = fitted(draw_scale(), x.dtype);
        const Shape shape = x.shape.size() == 4 && coin() ? Shape{x.shape[1], 1, 1} : Shape{};
        const std::string c = constant(x.dtype, shape, std::vector<double>(count(shape), s));
        const char* op = one_of<const char*>({"Add", "Mul", "Div", "Sub"});
        add(op, {x.name, c}, x.dtype, x.shape, *op == 'M' ? x.grain * s : (*op == 'D' ? x.grain / s : x.grain));
        return;
      }
      case 4: add("Relu", {x.name}, x.dtype, x.shape, x.grain); return;
      case 5: {
        std::vector<std::string> inputs{x.name, coin() ? "" : constant(x.dtype, {}, {fitted(-1.7, x.dtype)})};
        if (coin()) inputs.push_back(constant(x.dtype, {}, {fitted(6, x.dtype)}));
        if (inputs.back().empty()) inputs.pop_back();
        add("Clip", inputs, x.dtype, x.shape, x.grain);
        return;
      }
      case 6:
        add("LeakyRelu", {x.name}, x.dtype, x.shape, x.grain);
        if (coin()) last().floats["alpha"] = 0.1F;
        return;
      case 7:
        add("HardSigmoid", {x.name}, x.dtype, x.shape, x.grain * 0.2F);
        if (coin()) last().floats["alpha"] = 1.0F / 6;
        return;
      case 8: add("HardSwish", {x.name}, x.dtype, x.shape, x.grain / 6); return;
      case 9: {
        const Made y = *partner(x);
        const std::size_t axis = pick_(x.shape.size());
        if (x.shape[axis] > 20) return qdq(x);
        Shape shape = x.shape;
        shape[axis] *= 2;
        add("Concat", {x.name, y.name}, x.dtype, shape, x.grain);
        last().integers["axis"] = static_cast<std::int64_t>(axis);
        return;
      }
      case 10: {
        if (count(x.shape) == 0) return qdq(x);
        Shape shape{x.shape[0], 1};
        for (std::size_t k = 1; k < x.shape.size(); ++k) shape[1] *= x.shape[k];
        add("Reshape", {x.name, numbers({shape[0], shape[1]})}, x.dtype, shape, x.grain);
        return;
      }
      case 11: {
        std::vector<std::int64_t> perm(x.shape.size());
        for (std::size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<std::int64_t>(k);
        std::swap(perm[pick_(perm.size())], perm[pick_(perm.size())]);
        Shape shape;
        for (const std::int64_t p : perm) shape.push_back(x.shape[static_cast<std::size_t>(p)]);
        add("Transpose", {x.name}, x.dtype, shape, x.grain);
        last().lists["perm"] = perm;
        return;
      }
      case 12: {
        const std::size_t axis = pick_(x.shape.size());
        const std::int64_t n = x.shape[axis];
        if (n < 2) return qdq(x);
        const std::int64_t start = static_cast<std::int64_t>(pick_(static_cast<std::size_t>(n - 1)));
        const std::int64_t pace = one_of<std::int64_t>({1, 2});
        Shape shape = x.shape;
        shape[axis] = (n - start + pace - 1) / pace;
        add("Slice",
            {x.name, numbers({start}), numbers({n}), numbers({static_cast<std::int64_t>(axis)}), numbers({pace})},
            x.dtype, shape, x.grain);
        return;
      }
      case 13: {
        std::vector<std::int64_t> pads(2 * x.shape.size(), 0);
        const std::size_t axis = pick_(x.shape.size());
        if (axis == 0) return qdq(x);
        pads[axis] = static_cast<std::int64_t>(pick_(2));
        pads[x.shape.size() + axis] = 1;
        Shape shape = x.shape;
        shape[axis] += pads[axis] + 1;
        std::vector<std::string> inputs{x.name, numbers(pads)};
        if (coin()) inputs.push_back(constant(x.dtype, {}, {fitted(0.3, x.dtype)}));
        add("Pad", inputs, x.dtype, shape, x.grain);
        return;
      }
      case 14: add("Identity", {x.name}, x.dtype, x.shape, x.grain); return;
      case 15: {
        const std::size_t axis = x.shape[0] == 0 ? 1 + pick_(x.shape.size() - 1) : pick_(x.shape.size());
        const char* op = one_of<const char*>({"ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax"});
        Shape shape = x.shape;
        const double n = static_cast<double>(shape[axis]);
        if (shape[axis] == 0) return qdq(x);
        shape[axis] = 1;
        add(op, {x.name, numbers({static_cast<std::int64_t>(axis)})}, x.dtype, shape,
            op[6] == 'M' && op[7] == 'e' ? x.grain / n : x.grain);
        return;
      }
      default: {
        const DType to = one_of({DType::float16, DType::float32, DType::bfloat16, DType::float64, DType::float32});
        if (x.dtype == DType::float64 || x.dtype == to || to == DType::float64) return qdq(x);
        add("Cast", {x.name}, to, x.shape, x.grain);
        last().integers["to"] = static_cast<std::int64_t>(to);
        if (coin()) qdq(newest());
        return;
      }
    }
  }

  // Outputs: what nothing reads, and now and then something in between.
  void finish() {
    std::map<std::string, int> readers;
    for (const SmallNode& n : graph_.nodes) {
      for (const std::string& name : n.inputs) ++readers[name];
    }
    for (const SmallNode& n : graph_.nodes) {
      if (readers[n.output] == 0 || pick_(6) == 0) graph_.outputs.push_back(n.output);
    }
    if (graph_.nodes.empty()) {
      add("Identity", {graph_.inputs[0].first}, graph_.inputs[0].second.dtype, {}, 1);
      graph_.outputs.push_back(last().output);
    }
  }

  const Pick& pick_;
  std::mt19937_64 random_;
  SmallGraph graph_;
  std::vector<Made> made_;
  DType type_ = DType::float32;
  bool telescoping_ = false;
  std::size_t names_ = 0;
};

}  // namespace

SmallGraph draw_graph(const Pick& pick) { return Draw(pick).graph(); }

}  // namespace halfeven::properties
