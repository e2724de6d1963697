// Tables.
#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class LookupKernel final : public Kernel {
 public:
  std::uint8_t table[256] = {};  // by the byte in byte_form
  std::int64_t size = 0;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) out[i] = table[in[i]];
    });
  }
};

}  // namespace

Offer make_lookup(const Site& site) {
  const ir::Node& node = site.node;
  if (node.op_type != "Table" || node.domain != "halfeven") return refuse("is no table");
  const Tensor* table = site.constant(node.inputs[1]);
  const DType type = site.graph.value(node.inputs[0]).dtype;
  if (table == nullptr || !is_byte(type) || storage_size(table->dtype()) != 1 || table->size() != 256) {
    return refuse("has other than 8-bit tensors");
  }
  auto kernel = std::make_unique<LookupKernel>();
  kernel->in_place = true;
  for (std::size_t i = 0; i < 256; ++i) {
    // Entry i belongs to code least + i.
    const std::uint8_t flip = table->dtype() == DType::int8 ? 0x80 : 0;
    kernel->table[i] = static_cast<std::uint8_t>(std::to_integer<std::uint8_t>(table->data()[i]) ^ flip);
  }
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->in_forms = {byte_form(site.layout(node.inputs[0]), type)};
  kernel->out_form = byte_form(site.layout(node.inputs[0]), table->dtype());
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
