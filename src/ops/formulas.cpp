#include "ops/formulas.hpp"

namespace halfeven::ops {

void require_broadcast_to(const InferContext& c, std::size_t from, std::size_t to) {
  if (!c.has_input(from) || !c.shape(from) || !c.shape(to)) return;
  const Shape& goal = *c.shape(to);
  const auto both = broadcast(c, {c.shape(from), c.shape(to)});
  bool fits = both->size() == goal.size();
  for (std::size_t k = 0; fits && k < goal.size(); ++k) fits = goal[k] < 0 || (*both)[k] == goal[k];
  if (fits) return;
  c.fail("input '" + c.input_name(from) + "' of shape " + to_string(*c.shape(from)) + " does not broadcast to shape " +
         to_string(goal) + " of '" + c.input_name(to) + "'");
}

}  // namespace halfeven::ops
