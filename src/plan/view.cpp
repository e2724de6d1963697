// Operators whose elements stay where they are.
#include <set>

#include "ops/common.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class ViewKernel final : public Kernel {
 public:
  void run(const Buffers&, const ParallelFor&) const override {}
};

}  // namespace

Offer make_view(const Site& site) {
  static const std::set<std::string> views{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  const ir::Node& node = site.node;
  if (!node.domain.empty() || node.body || !views.contains(node.op_type)) return refuse("moves elements");
  auto kernel = std::make_unique<ViewKernel>();
  kernel->alias = true;
  kernel->in_forms = {Form{Layout::plain, site.form(node.inputs[0]).biased}};
  kernel->out_form = *kernel->in_forms[0];
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
