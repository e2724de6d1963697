#include "plan/product.hpp"

#include <algorithm>
#include <cmath>

#include "numerics/format.hpp"
#include "ops/common.hpp"

namespace halfeven::plan {

using numerics::Rational;

std::optional<std::vector<Rational>> constant_numbers(const Site& site, ir::ValueId id, std::string& refusal) {
  const Tensor* t = site.constant(id);
  if (t == nullptr || !is_float(t->dtype())) {
    refusal = "its bias is computed";
    return std::nullopt;
  }
  std::vector<Rational> out;
  for (std::size_t i = 0; i < t->size(); ++i) {
    const double v = numerics::decode_float(t->dtype(), t->data(), i);
    if (!std::isfinite(v)) {
      refusal = "its bias is not finite";
      return std::nullopt;
    }
    out.push_back(Rational::from_double(v));
  }
  return out;
}

std::optional<std::vector<Rational>> constant_numbers(const Site& site, const Operand& o, std::string& refusal) {
  const Tensor* t = site.constant(o.id);
  if (t == nullptr) {
    refusal = "its bias is computed";
    return std::nullopt;
  }
  const bool last = o.per_tensor() || o.axis + 1 == static_cast<std::int64_t>(t->rank());
  if (!last || std::any_of(o.scales.begin(), o.scales.end(), [](double s) { return !std::isfinite(s); })) {
    refusal = "its bias is quantized in a way that no kernel has";
    return std::nullopt;
  }
  const auto q = ops::integers(*t);
  std::vector<Rational> out;
  const std::size_t period = std::max(o.scales.size(), o.zeros.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    out.push_back(Rational(q[i] - o.zero(i % period)) * Rational::from_double(o.scale(i % period)));
  }
  return out;
}

bool read_result(const Site& site, QuantizedOperator& q, ir::ValueId scale, ir::ValueId zero, std::string& refusal) {
  const auto o = read_operand(site, site.node.outputs[0], scale, zero, 0, 0, refusal);
  if (!o) return false;
  if (!o->per_tensor()) {
    refusal = "its result is not quantized per tensor with constants";
    return false;
  }
  q.out_scale = o->scales[0];
  q.out_zero = o->zeros[0];
  q.out_type = site.dtype(site.node.outputs[0]);
  q.lo = integer_min(q.out_type);
  q.hi = integer_max(q.out_type);
  return true;
}

namespace {

ir::ValueId input(const ir::Node& node, std::size_t k) {
  return k < node.inputs.size() ? node.inputs[k] : ir::ValueId{};
}

std::optional<Product> read_qlinear_matmul(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  Product p;
  p.op.op_type = "MatMul";
  p.op.operands = {read_operand(site, n.inputs[0], n.inputs[1], n.inputs[2], -2, 0, refusal),
                   read_operand(site, n.inputs[3], n.inputs[4], n.inputs[5], -1, 0, refusal)};
  if (!p.op.operands[0] || !p.op.operands[1] || !read_result(site, p.op, n.inputs[6], n.inputs[7], refusal)) {
    return std::nullopt;
  }
  return p;
}

bool read_gemm_attributes(const ir::Node& n, Product& p) {
  p.transpose_left = ir::int_attribute(n, "transA", 0) != 0;
  p.transpose_right = ir::int_attribute(n, "transB", 0) != 0;
  const auto at = n.attributes.find("alpha");
  const float alpha = at == n.attributes.end() ? 1.0F : std::get<float>(at->second);
  if (!std::isfinite(alpha)) return false;
  p.alpha = Rational::from_double(static_cast<double>(alpha));
  return true;
}

std::optional<Product> read_qgemm(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  Product p;
  p.op.op_type = "Gemm";
  if (!read_gemm_attributes(n, p)) return std::nullopt;
  p.op.operands = {read_operand(site, n.inputs[0], n.inputs[1], n.inputs[2], 0, 0, refusal),
                   read_operand(site, n.inputs[3], n.inputs[4], n.inputs[5], p.transpose_right ? 0 : 1, 0, refusal)};
  if (!p.op.operands[0] || !p.op.operands[1]) return std::nullopt;
  if (input(n, 6).present()) {
    const Tensor* t = site.constant(n.inputs[6]);
    const Operand& b = *p.op.operands[1];
    if (t == nullptr || !p.op.operands[0]->per_tensor()) {
      refusal = "its bias is computed";
      return std::nullopt;
    }
    const auto q = ops::integers(*t);
    const std::size_t count = q.size() == 1 ? b.scales.size() : q.size();
    for (std::size_t i = 0; i < count; ++i) {
      p.bias.push_back(Rational(q[q.size() == 1 ? 0 : i]) * Rational::from_double(p.op.operands[0]->scales[0]) *
                       Rational::from_double(b.scales[b.scales.size() == 1 ? 0 : i % b.scales.size()]) * p.alpha);
    }
  }
  if (!input(n, 7).present()) {
    p.result = Product::Result::floats;
    return p;
  }
  if (!read_result(site, p.op, n.inputs[7], input(n, 8), refusal)) return std::nullopt;
  return p;
}

std::optional<Product> read_matmul_integer(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  Product p;
  p.result = Product::Result::integers;
  p.op.op_type = "MatMul";
  for (std::size_t k = 0; k < 2; ++k) {
    Operand o{n.inputs[k], {1.0}, {0}, 0};
    const ir::ValueId zero = input(n, k + 2);
    const Tensor* z = zero.present() ? site.constant(zero) : nullptr;
    if (z != nullptr && (z->size() == 1 || (k == 1 && z->rank() == 1))) {
      o.zeros = ops::integers(*z);
      o.axis = static_cast<std::int64_t>(site.shape(o.id).size()) - 1;
    } else if (zero.present()) {
      if (elements(site.shape(zero)) != 1) {
        refusal = "its zero points differ within a tensor";
        return std::nullopt;
      }
      (k == 0 ? p.left_zero : p.right_zero) = zero;
    }
    p.op.operands.emplace_back(std::move(o));
  }
  return p;
}

// A group: chief, and perhaps the Add of a constant behind it.
class Group {
 public:
  Group(const Site& site, std::string& refusal) : site_(site), body_(*site.node.body), refusal_(refusal) {}

  // Reads a group without QuantizeLinear.
  std::optional<Product> read() {
    Product p;
    p.result = Product::Result::floats;
    if (site_.dtype(site_.node.outputs[0]) != DType::float32) return fail("its float result is not float32");
    const ir::Node* last = producer(body_.outputs[0]);
    const ir::Node* add = nullptr;
    if (last != nullptr && last->op_type == "Add" && last->domain.empty()) {
      add = last;
      last = producer(add->inputs[0]);
      ir::ValueId other = add->inputs[1];
      if (last == nullptr || last->op_type == "DequantizeLinear") {
        last = producer(other);
        other = add->inputs[0];
      }
      if (!constant(other, p.addend)) return std::nullopt;
      ++used_;
    }
    if (last == nullptr || (last->op_type != "MatMul" && last->op_type != "Gemm")) return fail("is no product");
    p.op.chief = last;
    p.op.op_type = last->op_type;
    for (std::size_t k = 0; k < last->inputs.size(); ++k) {
      const ir::ValueId id = last->inputs[k];
      p.op.operands.emplace_back();
      p.op.float_constants.emplace_back();
      if (!id.present()) continue;
      if (producer(id) == nullptr) {
        p.op.float_constants[k] = outer(id);
        continue;
      }
      auto o = operand(id);
      if (!o) return std::nullopt;
      p.op.operands[k] = std::move(o);
    }
    ++used_;
    if (used_ != body_.nodes.size()) return fail("other operators belong to it");
    return p;
  }

 private:
  std::nullopt_t fail(const char* why) {
    refusal_ = why;
    return std::nullopt;
  }

  const ir::Node* producer(ir::ValueId id) const {
    for (const ir::Node& n : body_.nodes) {
      if (!n.outputs.empty() && n.outputs[0] == id) return &n;
    }
    return nullptr;
  }

  ir::ValueId outer(ir::ValueId inner) const {
    const auto at = std::find(body_.inputs.begin(), body_.inputs.end(), inner);
    return at == body_.inputs.end() ? ir::ValueId{}
                                    : site_.node.inputs[static_cast<std::size_t>(at - body_.inputs.begin())];
  }

  std::optional<Operand> operand(ir::ValueId id) {
    const ir::Node* d = producer(id);
    if (d->op_type != "DequantizeLinear" || ir::int_attribute(*d, "block_size", 0) != 0) {
      return fail("an operator or blocked scales stand in front of it");
    }
    ++used_;
    const ir::ValueId zero = input(*d, 2);
    return read_operand(site_, outer(d->inputs[0]), outer(d->inputs[1]), zero.present() ? outer(zero) : zero,
                        ir::int_attribute(*d, "axis", 1), 0, refusal_);
  }

  bool constant(ir::ValueId id, std::vector<Rational>& out) {
    std::optional<std::vector<Rational>> v;
    Shape shape;
    if (producer(id) == nullptr) {
      v = constant_numbers(site_, outer(id), refusal_);
      if (v) shape = site_.shape(outer(id));
    } else if (auto o = operand(id)) {
      v = constant_numbers(site_, *o, refusal_);
      shape = site_.shape(o->id);
    }
    if (!v) return false;
    if (v->size() != 1 && (shape.empty() || static_cast<std::int64_t>(v->size()) != shape.back())) {
      refusal_ = "adds a tensor that is no vector";
      return false;
    }
    out = std::move(*v);
    return true;
  }

  const Site& site_;
  const ir::Graph& body_;
  std::string& refusal_;
  std::size_t used_ = 0;  // nodes of the body that were read
};

}  // namespace

std::optional<Product> read_product(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  if (n.domain.empty() && n.op_type == "QLinearMatMul") return read_qlinear_matmul(site, refusal);
  if (n.domain == "com.microsoft" && n.op_type == "QGemm") return read_qgemm(site, refusal);
  if (n.domain.empty() && n.op_type == "MatMulInteger") return read_matmul_integer(site, refusal);
  if (!n.body || (n.op_type.find("MatMul") == std::string::npos && n.op_type.find("Gemm") == std::string::npos)) {
    refusal = "is no product";
    return std::nullopt;
  }
  std::optional<Product> p;
  if (is_float(site.dtype(n.outputs[0]))) {
    p = Group(site, refusal).read();
  } else if (auto q = read_quantized(site, refusal)) {
    p.emplace();
    p->op = std::move(*q);
  }
  if (!p) return std::nullopt;
  if (p->op.op_type != "MatMul" && p->op.op_type != "Gemm") {
    refusal = "is no product";
    return std::nullopt;
  }
  if (!p->op.operands[0] || !p->op.operands[1]) {
    refusal = "an operand is not quantized";
    return std::nullopt;
  }
  if (p->op.op_type == "Gemm") {
    if (!read_gemm_attributes(*p->op.chief, *p)) return std::nullopt;
    if (p->op.operands.size() > 2) {
      std::optional<std::vector<Rational>> bias;
      Shape shape;
      if (p->op.operands[2]) {
        bias = constant_numbers(site, *p->op.operands[2], refusal);
        shape = site.shape(p->op.operands[2]->id);
      } else if (p->op.float_constants[2].present()) {
        bias = constant_numbers(site, p->op.float_constants[2], refusal);
        shape = site.shape(p->op.float_constants[2]);
      } else {
        return p;
      }
      if (!bias) return std::nullopt;
      if (bias->size() != 1 && (shape.empty() || static_cast<std::int64_t>(bias->size()) != shape.back())) {
        refusal = "its bias is no vector";
        return std::nullopt;
      }
      const auto at = p->op.chief->attributes.find("beta");
      const double beta = at == p->op.chief->attributes.end() ? 1.0 : static_cast<double>(std::get<float>(at->second));
      if (!std::isfinite(beta)) return std::nullopt;
      for (Rational& v : *bias) v = v * Rational::from_double(beta);
      p->bias = std::move(*bias);
    }
  }
  return p;
}

}  // namespace halfeven::plan
