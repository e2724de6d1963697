// Maxima of windows and of whole images.
#include "cpu/pool/pool.hpp"

#include <algorithm>

#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "plan/codes.hpp"
#include "plan/pool_shape.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class MaxPoolKernel final : public Kernel {
 public:
  kernels::PoolShape shape;
  kernels::PoolType type = kernels::PoolType::u8;
  std::uint8_t flip = 0;
  kernels::MaxPoolFunction function = nullptr;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    parallel(shape.batch * shape.out_height, [&](std::int64_t first, std::int64_t last) {
      function(shape, type, flip, b.in[0], b.out[0], first, last);
    });
  }
};

kernels::MaxPoolFunction function_for(Isa isa) {
  return isa == Isa::sse2 ? kernels::max_pool_portable
                          : (isa == Isa::avx2 ? kernels::max_pool_avx2 : kernels::max_pool_avx512);
}

// DequantizeLinear, MaxPool and QuantizeLinear with the same parameters: the greatest of 16-bit codes.
Offer make_word_max_pool(const Site& site) {
  const ops::BoundBody body = body_at(site);
  const ir::Graph& g = body.graph;
  const char* const form = "is no MaxPool between two operators of the same scale and zero point";
  if (g.nodes.size() != 3 || g.nodes[0].op_type != "DequantizeLinear" || g.nodes[1].op_type != "MaxPool" ||
      g.nodes[2].op_type != "QuantizeLinear" || g.nodes[1].inputs[0] != g.nodes[0].outputs[0] ||
      g.nodes[2].inputs[0] != g.nodes[1].outputs[0] || g.nodes[1].outputs.size() != 1 || g.outputs.size() != 1 ||
      g.outputs[0] != g.nodes[2].outputs[0] || g.nodes[0].inputs.size() != 3 || g.nodes[2].inputs.size() != 3) {
    return refuse(form);
  }
  const auto outer = [&](ir::ValueId id) {
    const auto at = std::find(g.inputs.begin(), g.inputs.end(), id);
    return at == g.inputs.end() ? ir::ValueId{} : site.node.inputs[static_cast<std::size_t>(at - g.inputs.begin())];
  };
  for (std::size_t k = 1; k < 3; ++k) {
    const ir::ValueId a = outer(g.nodes[0].inputs[k]);
    const ir::ValueId b = outer(g.nodes[2].inputs[k]);
    const Tensor* c = a.present() ? site.constant(a) : nullptr;
    if (a != b || c == nullptr || c->size() != 1) return refuse(form);
    if (k == 1 && !(numerics::decode_float(c->dtype(), c->data(), 0) > 0)) return refuse(form);
  }
  const ir::ValueId x = outer(g.nodes[0].inputs[0]);
  if (!x.present()) return refuse(form);
  const DType type = site.dtype(x);
  if ((type != DType::uint16 && type != DType::int16) || site.dtype(site.node.outputs[0]) != type) {
    return refuse("has other than 16-bit tensors");
  }
  std::string refusal;
  const auto geometry = read_window_pool(site, g, g.nodes[1], site.shape(x), refusal);
  if (!geometry) return refuse(refusal);
  if (geometry->has_empty_window()) return refuse("has a window of padding only");
  auto kernel = std::make_unique<MaxPoolKernel>();
  kernel->shape = geometry->shape;
  kernel->type = kernels::PoolType::u16;
  kernel->flip = type == DType::int16 ? 0x80 : 0;
  kernel->function = function_for(site.isa);
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[input_of(site.node, x)] = Form{geometry->layout};
  kernel->out_form = Form{geometry->out_layout};
  return {std::move(kernel), ""};
}

}  // namespace

Offer make_max_pool(const Site& site) {
  const ir::Node& node = site.node;
  if (node.body && node.op_type == "QMaxPool") return make_word_max_pool(site);
  if (node.body || !node.domain.empty()) return refuse("is no MaxPool");
  const bool pool = node.op_type == "MaxPool";
  if (!pool && node.op_type != "ReduceMax" && node.op_type != "ReduceMin") return refuse("is no MaxPool");
  const DType type = site.dtype(node.inputs[0]);
  const bool floats = type == DType::float32 && pool;
  if (!is_byte(type) && !floats) return refuse("has other than 8-bit and float32 tensors");
  if (node.outputs.size() > 1 && node.outputs[1].present()) return refuse("gives indices");
  std::string refusal;
  const auto geometry =
      pool ? read_window_pool(site, site.graph, node, site.shape(node.inputs[0]), refusal)
           : read_reduction(site, site.graph, node, site.shape(node.inputs[0]), site.layout(node.inputs[0]), refusal);
  if (!geometry) return refuse(refusal);
  // A window of padding only has no answer: the interpreter says so.
  if (geometry->has_empty_window()) return refuse("has a window of padding only");
  auto kernel = std::make_unique<MaxPoolKernel>();
  kernel->shape = geometry->shape;
  if (floats) kernel->type = kernels::PoolType::f32;
  kernel->flip = node.op_type == "ReduceMin" ? 0xFF : 0;
  kernel->function = function_for(site.isa);
  kernel->in_forms = {byte_form(geometry->layout, type)};  // (no bias for float32)
  kernel->out_form = byte_form(geometry->out_layout, type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
