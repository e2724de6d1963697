// What a Model holds.
#pragma once

#include <halfeven/halfeven.hpp>

#include "ops/validate.hpp"

namespace halfeven {

struct Model::Impl {
  ir::Graph graph;
  ops::Facts facts;
};

/// A tensor for each graph input in order: the given one, checked as interpret() says, or the default.
std::vector<Tensor> bind_inputs(const Model& model, const NamedTensors& inputs,
                                const std::function<void(const std::string&)>& warn = {});

/// Makes Models for the other parts of the library.
class ModelAccess {
 public:
  /// Validates the graph. Throws Error{model}.
  static Model make(ir::Graph graph) {
    auto impl = std::make_shared<Model::Impl>();
    impl->graph = std::move(graph);
    impl->facts = ops::validate(impl->graph);
    return Model(std::move(impl));
  }
};

}  // namespace halfeven
