#include "plan/lower.hpp"

#include "plan/lower_steps.hpp"

namespace halfeven::plan {

ir::Graph lower(ir::Graph graph) {
  graph = write_out(graph);
  while (move_to_integers(graph)) {
  }
  return regroup(graph);
}

}  // namespace halfeven::plan
