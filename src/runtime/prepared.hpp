// What an Executable holds.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <halfeven/executable.hpp>

#include "api/model_impl.hpp"
#include "plan/plan.hpp"

namespace halfeven {

namespace runtime {

/// Everything for inputs of certain shapes. Immutable.
struct Prepared {
  std::vector<Shape> shapes;  ///< of the inputs, in the model's order
  plan::Plan plan;
  /// Instead of a plan: the graph for the interpreter, where shapes are known only when it runs.
  std::optional<ir::Graph> graph;
  ops::Facts facts;
};

}  // namespace runtime

struct Executable::Impl {
  CompileOptions options;
  plan::Isa isa = plan::Isa::sse2;
  int threads = 1;
  std::vector<ValueInfo> inputs;   ///< as the model declares them
  std::vector<ValueInfo> outputs;  ///< likewise
  std::vector<Tensor> defaults;    ///< by input; undefined type where there is none
  std::optional<Model> model;      ///< for more shapes; none where only those compiled are served
  std::shared_ptr<const runtime::Prepared> first;

  mutable std::mutex mutex;
  mutable std::list<std::shared_ptr<const runtime::Prepared>> plans;  ///< last used first, at most kMostPlans

  /// The plan for these shapes, made if need be.
  std::shared_ptr<const runtime::Prepared> prepared(const std::vector<Shape>& shapes) const;
};

}  // namespace halfeven
