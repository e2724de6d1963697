// Gather along an axis with indices that the model computes.
#include <cstring>

#include <fmt/format.h>

#include "ops/operator.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class GatherKernel final : public Kernel {
 public:
  std::int64_t outer = 1;
  std::int64_t length = 1;  // of the axis
  std::int64_t picks = 1;   // indices
  std::size_t row = 1;      // bytes behind one position of the axis
  bool wide = true;         // indices are int64
  std::string node;         // for messages
  std::string indices_name;
  std::string label;

  void run(const Buffers& b, const ParallelFor&) const override {
    for (std::int64_t k = 0; k < picks; ++k) {
      std::int64_t index = 0;
      if (wide) {
        std::memcpy(&index, b.in[1] + k * 8, sizeof index);
      } else {
        std::int32_t narrow = 0;
        std::memcpy(&narrow, b.in[1] + k * 4, sizeof narrow);
        index = narrow;
      }
      const std::int64_t at = index < 0 ? index + length : index;
      if (at < 0 || at >= length) {
        throw Error(ErrorCode::input,
                    fmt::format("{}: index {} (element {} of '{}') is out of range for an axis of length {}", node,
                                index, k, indices_name, length),
                    label);
      }
      for (std::int64_t o = 0; o < outer; ++o) {
        std::memcpy(b.out[0] + static_cast<std::size_t>(o * picks + k) * row,
                    b.in[0] + static_cast<std::size_t>(o * length + at) * row, row);
      }
    }
  }
};

}  // namespace

Offer make_gather(const Site& site) {
  const ir::Node& node = site.node;
  if (!node.domain.empty() || node.body || node.op_type != "Gather") return refuse("is no Gather");
  const DType type = site.dtype(node.inputs[0]);
  if (type == DType::string || bits(type) % 8 != 0) return refuse("has elements of less than a byte");
  const Shape& data = site.shape(node.inputs[0]);
  const auto rank = static_cast<std::int64_t>(data.size());
  const std::int64_t given = ir::int_attribute(node, "axis", 0);
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  auto kernel = std::make_unique<GatherKernel>();
  kernel->row = storage_size(type);
  for (std::size_t k = 0; k < data.size(); ++k) {
    if (k < axis) kernel->outer *= data[k];
    if (k > axis) kernel->row *= static_cast<std::size_t>(data[k]);
  }
  kernel->length = data[axis];
  kernel->picks = elements(site.shape(node.inputs[1]));
  kernel->wide = site.dtype(node.inputs[1]) == DType::int64;
  kernel->node = ir::describe(site.graph, node);
  kernel->indices_name = site.graph.value(node.inputs[1]).name;
  kernel->label = ir::label(site.graph, node);
  kernel->in_forms = {Form{Layout::plain, site.form(node.inputs[0]).biased}, Form{}};
  kernel->out_form = *kernel->in_forms[0];
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
