// Elementwise groups: one loop over all their operators.
#include <atomic>
#include <cstring>

#include "ops/common.hpp"
#include "plan/fallback.hpp"
#include "plan/program.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

class FusedKernel final : public Kernel {
 public:
  explicit FusedKernel(const Site& site) : fallback(site) {}
  Program program;
  kernels::FusedFunction function = nullptr;
  std::int64_t size = 0;
  Fallback fallback;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    std::atomic<bool> decided{true};
    constexpr std::int64_t kGrain = 1024;
    parallel((size + kGrain - 1) / kGrain, [&](std::int64_t first, std::int64_t last) {
      const auto end = static_cast<std::size_t>(std::min(last * kGrain, size));
      if (!function(program.view, b.in.data(), b.out[0], static_cast<std::size_t>(first * kGrain), end)) {
        decided = false;
      }
    });
    if (!decided) fallback.run(b.in, in_forms, b.out[0], out_form);
  }
};

}  // namespace

Offer make_fused(const Site& site) {
  const ir::Node& node = site.node;
  if (node.outputs.size() != 1) return refuse("has several results");
  if (!node.body && !node.domain.empty()) return refuse("is no elementwise operator");
  for (const ir::ValueId id : node.inputs) {
    if (id.present() && !site.graph.value(id).shape) return refuse("has inputs of unknown shape");
  }
  const ops::BoundBody body = body_at(site);
  auto kernel = std::make_unique<FusedKernel>(site);
  std::string refusal;
  if (!compile(site, body, kernel->program, refusal)) return refuse(refusal);
  switch (site.isa) {
    case Isa::avx2: kernel->function = kernels::fused_avx2; break;
    case Isa::sse2: kernel->function = kernels::fused_portable; break;
    default: kernel->function = kernels::fused_avx512; break;
  }
  kernel->size = elements(site.shape(node.outputs[0]));
  kernel->in_forms = kernel->program.in_forms;
  kernel->out_form = kernel->program.out_form;
  kernel->note = std::to_string(kernel->program.steps.size()) + " steps in pairs of doubles, every tie decided";
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
