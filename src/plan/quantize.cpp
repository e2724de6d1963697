// The first quantization.
#include <atomic>
#include <cmath>

#include "cpu/elementwise/quantize.hpp"
#include "numerics/format.hpp"
#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class QuantizeKernel final : public Kernel {
 public:
  kernels::QuantizeFloats q;
  kernels::QuantizeFunction function = nullptr;
  std::int64_t size = 0;
  std::string node;
  std::string tensor;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const float*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    std::atomic<std::size_t> nan{SIZE_MAX};
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      const auto end = static_cast<std::size_t>(last);
      const std::size_t at = function(q, in, out, static_cast<std::size_t>(first), end);
      for (std::size_t seen = nan; at < end && at < seen && !nan.compare_exchange_weak(seen, at);) {
      }
    });
    if (nan != SIZE_MAX) {
      throw Error(ErrorCode::input,
                  "QuantizeLinear '" + node + "': element " + std::to_string(nan) + " of '" + tensor +
                      "' (in C order) is NaN, which has no quantized value",
                  node);
    }
  }
};

}  // namespace

Offer make_quantize(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "QuantizeLinear" || node.body) return refuse("is no QuantizeLinear");
  // Only a stored tensor gets here, whose values are floats; a dequantized one is none.
  const DType type = site.graph.value(node.outputs[0]).dtype;
  const Tensor* s = site.constant(node.inputs[1]);
  const Tensor* z = node.inputs.size() > 2 && node.inputs[2].present() ? site.constant(node.inputs[2]) : nullptr;
  if (site.graph.value(node.inputs[0]).dtype != DType::float32 || !is_byte(type) || s == nullptr || s->size() != 1 ||
      (node.inputs.size() > 2 && node.inputs[2].present() && z == nullptr)) {
    return refuse("is not from float32 to 8 bits per tensor");
  }
  if (s->dtype() != DType::float32) return refuse("has no float32 scale");
  auto kernel = std::make_unique<QuantizeKernel>();
  const std::int32_t bias = type == DType::int8 ? 128 : 0;
  kernel->q.scale = static_cast<float>(numerics::decode_float(s->dtype(), s->data(), 0));
  kernel->q.zero = z == nullptr ? 0 : static_cast<std::int32_t>(ops::integers(*z)[0]);
  kernel->q.zero += bias;
  kernel->q.lo = static_cast<std::int32_t>(integer_min(type)) + bias;
  kernel->q.hi = static_cast<std::int32_t>(integer_max(type)) + bias;
  kernel->function = site.isa >= Isa::avx512
                         ? kernels::quantize_avx512
                         : (site.isa >= Isa::avx2 ? kernels::quantize_avx2 : kernels::quantize_portable);
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->node = ir::label(site.graph, node);
  kernel->tensor = site.graph.value(node.inputs[0]).name;
  kernel->in_forms = {Form{}};
  kernel->out_form = byte_form(Layout::plain, type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
