#include "plan/quantized.hpp"

#include <algorithm>
#include <cmath>

#include "numerics/format.hpp"
#include "ops/common.hpp"

namespace halfeven::plan {
namespace {

const ir::Node* producer(const ir::Graph& g, ir::ValueId id) {
  for (const ir::Node& n : g.nodes) {
    if (!n.outputs.empty() && n.outputs[0] == id) return &n;
  }
  return nullptr;
}

// A node's inputs as outer values: through the group's inputs.
struct Outer {
  const ir::Node& group;
  ir::ValueId operator()(ir::ValueId inner) const {
    for (std::size_t k = 0; k < group.inputs.size(); ++k) {
      if (group.body->inputs[k] == inner) return group.inputs[k];
    }
    return {};
  }
};

bool finish_output(const Site& site, QuantizedOperator& q, ir::ValueId scale, ir::ValueId zero, DType type,
                   std::string& refusal) {
  const Tensor* s = site.constant(scale);
  const Tensor* z = zero.present() ? site.constant(zero) : nullptr;
  if (s == nullptr || s->size() != 1 || (zero.present() && z == nullptr)) {
    refusal = "its result is not quantized per tensor with constants";
    return false;
  }
  q.out_scale = numerics::decode_float(s->dtype(), s->data(), 0);
  q.out_zero = z == nullptr ? 0 : ops::integers(*z)[0];
  q.out_type = type;
  q.lo = integer_min(type);
  q.hi = integer_max(type);
  return true;
}

std::optional<QuantizedOperator> read_qlinear_conv(const Site& site, std::string& refusal) {
  const ir::Node& n = site.node;
  QuantizedOperator q;
  q.chief = &n;
  q.op_type = "Conv";
  auto x = read_operand(site, n.inputs[0], n.inputs[1], n.inputs[2], 0, 0, refusal);
  auto w = read_operand(site, n.inputs[3], n.inputs[4], n.inputs[5], 0, 0, refusal);
  if (!x || !w) return std::nullopt;
  q.operands = {x, w};
  q.float_constants.resize(3);
  if (n.inputs.size() > 8 && n.inputs[8].present()) {
    if (!x->per_tensor()) {
      refusal = "its activation is quantized per axis";
      return std::nullopt;
    }
    Operand b{n.inputs[8], {}, {0}, 0};
    for (const double s : w->scales) b.scales.push_back(x->scales[0] * s);  // exact: two float32
    q.operands.emplace_back(std::move(b));
  } else {
    q.operands.emplace_back();
  }
  const DType type = site.graph.value(n.outputs[0]).dtype;
  if (!finish_output(site, q, n.inputs[6], n.inputs[7], type, refusal)) return std::nullopt;
  return q;
}

}  // namespace

std::optional<Operand> read_operand(const Site& site, ir::ValueId tensor, ir::ValueId scale, ir::ValueId zero,
                                    std::int64_t axis, std::int64_t block, std::string& refusal) {
  const Tensor* s = scale.present() ? site.constant(scale) : nullptr;
  const Tensor* z = zero.present() ? site.constant(zero) : nullptr;
  if (!tensor.present() || s == nullptr || s->rank() > 1 || block != 0 ||
      (zero.present() && (z == nullptr || z->rank() > 1))) {
    refusal = "its quantisation parameters are not constants per tensor or per axis";
    return std::nullopt;
  }
  Operand o;
  o.id = tensor;
  for (std::size_t i = 0; i < s->size(); ++i) o.scales.push_back(numerics::decode_float(s->dtype(), s->data(), i));
  o.zeros = z == nullptr ? std::vector<std::int64_t>{0} : ops::integers(*z);
  if (std::all_of(o.zeros.begin(), o.zeros.end(), [&](auto v) { return v == o.zeros[0]; })) o.zeros.resize(1);
  const auto rank = static_cast<std::int64_t>(site.shape(tensor).size());
  o.axis = axis < 0 ? axis + rank : axis;
  return o;
}

std::size_t input_of(const ir::Node& node, ir::ValueId id) {
  return static_cast<std::size_t>(std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin());
}

std::optional<QuantizedOperator> read_quantized(const Site& site, std::string& refusal) {
  const ir::Node& group = site.node;
  if (group.op_type == "QLinearConv" && group.domain.empty()) return read_qlinear_conv(site, refusal);
  if (!group.body) {
    refusal = "is no group";
    return std::nullopt;
  }
  const ir::Graph& body = *group.body;
  const Outer outer{group};
  QuantizedOperator q;
  const ir::Node* last = producer(body, body.outputs[0]);
  const ir::Node* clip = nullptr;
  if (last != nullptr && last->op_type == "Clip") {
    clip = last;
    last = producer(body, clip->inputs[0]);
  }
  if (last == nullptr || last->op_type != "QuantizeLinear") {
    refusal = "its result is not quantized";
    return std::nullopt;
  }
  q.chief = producer(body, last->inputs[0]);
  if (q.chief == nullptr) {
    refusal = "quantizes what it reads";
    return std::nullopt;
  }
  q.op_type = q.chief->op_type;
  q.float_constants.resize(q.chief->inputs.size());
  std::size_t dequantizations = 0;
  for (std::size_t k = 0; k < q.chief->inputs.size(); ++k) {
    const ir::ValueId id = q.chief->inputs[k];
    q.operands.emplace_back();
    if (!id.present()) continue;
    const ir::Node* d = producer(body, id);
    if (d == nullptr) {
      const ir::ValueId given = outer(id);
      if (site.constant(given) == nullptr) {
        refusal = "reads a float tensor";
        return std::nullopt;
      }
      q.float_constants[k] = given;
      continue;
    }
    if (d->op_type != "DequantizeLinear") {
      refusal = d->op_type + " stands in front of " + q.op_type;
      return std::nullopt;
    }
    ++dequantizations;
    q.operands[k] = read_operand(site, outer(d->inputs[0]), outer(d->inputs[1]),
                                 d->inputs.size() > 2 ? outer(d->inputs[2]) : ir::ValueId{},
                                 ir::int_attribute(*d, "axis", 1), ir::int_attribute(*d, "block_size", 0), refusal);
    if (!q.operands[k]) return std::nullopt;
  }
  if (body.nodes.size() != dequantizations + 2 + (clip == nullptr ? 0 : 1)) {
    refusal = "other operators belong to it";
    return std::nullopt;
  }
  const ir::ValueId zero = last->inputs.size() > 2 ? outer(last->inputs[2]) : ir::ValueId{};
  if (!finish_output(site, q, outer(last->inputs[1]), zero, site.graph.value(group.outputs[0]).dtype, refusal)) {
    return std::nullopt;
  }
  if (clip != nullptr) {
    const auto bound = [&](std::size_t k, std::int64_t otherwise) {
      if (clip->inputs.size() <= k || !clip->inputs[k].present()) return otherwise;
      const Tensor* t = site.constant(outer(clip->inputs[k]));
      return t == nullptr ? otherwise : ops::integers(*t)[0];
    };
    q.lo = bound(1, q.lo);
    q.hi = bound(2, q.hi);
    if (q.lo > q.hi) q.lo = q.hi;  // Clip is min(max(x, lo), hi)
  }
  return q;
}

}  // namespace halfeven::plan
