// What a Model holds.
#pragma once

#include <halfeven/halfeven.hpp>

#include "ops/validate.hpp"

namespace halfeven {

struct Model::Impl {
  ir::Graph graph;
  ops::Facts facts;
};

}  // namespace halfeven
