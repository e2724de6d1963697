// fuse: the passes' public face.
#include <set>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "passes/pass.hpp"

namespace halfeven {
namespace {

bool is_product(const std::string& op_type) {
  static const std::set<std::string> names{"Conv", "ConvTranspose", "MatMul", "Gemm"};
  return names.contains(op_type);
}

std::size_t count_products(const ir::Graph& graph) {
  std::size_t n = 0;
  for (const ir::Node& node : graph.nodes) n += node.domain.empty() && is_product(node.op_type) ? 1 : 0;
  return n;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> pass_names() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const passes::Pass& pass : passes::passes()) out.emplace_back(pass.name, pass.summary);
  return out;
}

Fusion fuse(const Model& model, std::string_view names) {
  const auto pipeline = names.empty() ? passes::Pipeline::all() : passes::Pipeline::parse(names);
  auto result = pipeline.run(model.impl().graph);
  const std::size_t before = count_products(model.impl().graph);
  const std::size_t left = count_products(result.graph);
  Fusion fusion{ModelAccess::make(std::move(result.graph)), {}, {}, before, before - std::min(before, left)};
  for (const auto& step : result.steps) fusion.steps.push_back({step.pass, step.changes, step.milliseconds});
  for (auto& f : result.findings) {
    fusion.findings.push_back({f.pass, f.where, f.applied, std::move(f.text), std::move(f.advice)});
  }
  return fusion;
}

}  // namespace halfeven
