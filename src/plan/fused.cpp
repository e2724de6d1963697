// Elementwise groups: one loop over all their operators, or a table where an 8-bit code decides the result.
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

// What a byte stands for, in results of 1, 2 or 4 bytes.
class CodeKernel final : public Kernel {
 public:
  std::vector<std::byte> table;
  std::size_t input = 0;
  std::size_t element = 4;
  std::int64_t size = 0;
  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[input]);
    parallel(size, [&](std::int64_t first, std::int64_t last) {
      switch (element) {
        case 1: return pick<std::uint8_t>(in, b.out[0], first, last);
        case 2: return pick<std::uint16_t>(in, b.out[0], first, last);
        default: return pick<std::uint32_t>(in, b.out[0], first, last);
      }
    });
  }

 private:
  template <class T>
  void pick(const std::uint8_t* in, std::byte* out, std::int64_t first, std::int64_t last) const {
    const T* from = reinterpret_cast<const T*>(table.data());
    T* to = reinterpret_cast<T*>(out);
    for (std::int64_t i = first; i < last; ++i) to[i] = from[in[i]];
  }
};

Offer make_codes(const Site& site, const ops::BoundBody& body, std::size_t input) {
  Tensor table;
  try {
    table = evaluate_codes(site, body, body.graph.outputs[0], input);
  } catch (const Error& e) {
    return refuse(std::string("some codes have no answer: ") + e.what());
  }
  const ir::ValueId id = site.node.inputs[input];
  auto kernel = std::make_unique<CodeKernel>();
  kernel->element = storage_size(table.dtype());
  if (kernel->element != 1 && kernel->element != 2 && kernel->element != 4) return refuse("has results of 8 bytes");
  kernel->table.assign(table.bytes().begin(), table.bytes().end());
  if (table.dtype() == DType::int8) {
    for (std::byte& v : kernel->table) v ^= std::byte{0x80};
  }
  kernel->size = elements(site.shape(id));
  kernel->note = "a table of " + std::to_string(table.size()) + " results";
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[input] = byte_form(site.layout(id), site.dtype(id));
  kernel->out_form = {site.layout(id), table.dtype() == DType::int8};
  kernel->input = input;
  return {std::move(kernel), ""};
}

}  // namespace

Offer make_fused(const Site& site) {
  const ir::Node& node = site.node;
  if (node.outputs.size() != 1) return refuse("has several results");
  if (!node.body && !node.domain.empty()) return refuse("is no elementwise operator");
  for (const ir::ValueId id : node.inputs) {
    if (id.present() && !site.graph.value(id).shape) return refuse("has inputs of unknown shape");
  }
  const ops::BoundBody body = body_at(site);
  if (const auto input = only_code(site, body)) {
    Offer offer = make_codes(site, body, *input);
    if (offer.kernel) return offer;
  }
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
