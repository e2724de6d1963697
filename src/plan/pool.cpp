// Maxima of windows and of whole images.
#include "cpu/pool/pool.hpp"

#include <algorithm>

#include "ops/common.hpp"
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

}  // namespace

Offer make_max_pool(const Site& site) {
  const ir::Node& node = site.node;
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
  kernel->function = site.isa == Isa::sse2
                         ? kernels::max_pool_portable
                         : (site.isa == Isa::avx2 ? kernels::max_pool_avx2 : kernels::max_pool_avx512);
  kernel->in_forms = {byte_form(geometry->layout, type)};  // (no bias for float32)
  kernel->out_form = byte_form(geometry->out_layout, type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
