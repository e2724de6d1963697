// Masks: And, Or, Xor, Not, Cast between booleans and integers, Where with a computed condition.
#include "cpu/logic/logic.hpp"

#include <deque>
#include <map>

#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using kernels::MaskOperand;

class MaskKernel final : public Kernel {
 public:
  enum class What : std::uint8_t { combine, invert, choose, to_mask, to_integers } what{};
  kernels::MaskOperation operation{};
  std::array<MaskOperand, 3> operands{};
  std::deque<std::vector<std::size_t>> indices;
  std::size_t element = 1;
  std::int64_t size = 0;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    std::array<MaskOperand, 3> in = operands;
    for (std::size_t k = 0; k < b.in.size() && k < in.size(); ++k) in[k].data = b.in[k];
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      switch (what) {
        case What::combine: return kernels::mask_combine(operation, in[0], in[1], b.out[0], first, last);
        case What::invert: return kernels::mask_invert(in[0].data, b.out[0], first, last);
        case What::choose: return kernels::mask_choose(in[0], in[1], in[2], element, b.out[0], first, last);
        case What::to_mask: return kernels::mask_of_integers(in[0].data, element, b.out[0], first, last);
        case What::to_integers: return kernels::integers_of_mask(in[0].data, element, b.out[0], first, last);
      }
    });
  }
};

// How elements of a result of shape `out` find those of an operand; both are as ONNX has them.
MaskOperand operand_of(const Shape& out, const Shape& from, std::deque<std::vector<std::size_t>>& indices) {
  if (from == out) return {};
  if (element_count(from) == 1) return {.step = 0};
  indices.push_back(ops::broadcast_indices(from, out));
  return {.index = indices.back().data()};
}

}  // namespace

Offer make_logic(const Site& site) {
  using What = MaskKernel::What;
  const ir::Node& n = site.node;
  static const std::map<std::string, What> kinds{{"And", What::combine},  {"Or", What::combine},
                                                 {"Xor", What::combine},  {"Not", What::invert},
                                                 {"Cast", What::to_mask}, {"Where", What::choose}};
  const auto kind = kinds.find(n.op_type);
  if (kind == kinds.end() || !n.domain.empty() || n.body) return refuse("is no logical operator");
  auto kernel = std::make_unique<MaskKernel>();
  kernel->what = kind->second;
  const Shape& out = site.shape(n.outputs[0]);
  const DType type = site.dtype(n.outputs[0]);
  if (elements(out) >= std::int64_t{1} << 28) return refuse("is huge");
  if (n.op_type == "Cast") {
    const DType from = site.dtype(n.inputs[0]);
    const auto whole = [](DType t) { return is_integer(t) && bits(t) >= 8; };
    if (from == DType::boolean && whole(type)) {
      kernel->what = What::to_integers;
      kernel->element = storage_size(type);
    } else if (type == DType::boolean && whole(from)) {
      kernel->element = storage_size(from);
    } else {
      return refuse("is not between booleans and integers");
    }
  } else {
    if (kernel->what == What::choose) {
      kernel->element = storage_size(type);
      const std::size_t e = kernel->element;
      if (bits(type) < 8 || (e != 1 && e != 2 && e != 4 && e != 8)) return refuse("has elements of another size");
    }
    kernel->operation = n.op_type == "And"  ? kernels::MaskOperation::conjunction
                        : n.op_type == "Or" ? kernels::MaskOperation::disjunction
                                            : kernels::MaskOperation::difference;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      kernel->operands[k] = operand_of(out, site.shape(n.inputs[k]), kernel->indices);
    }
  }
  kernel->size = elements(out);
  kernel->in_forms.assign(n.inputs.size(), Form{});
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
