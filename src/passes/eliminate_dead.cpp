// eliminate-dead: nodes and constants from which no graph output can be reached.
#include "passes/editor.hpp"
#include "passes/pass.hpp"

namespace halfeven::passes {
namespace {

Rewrite rewrite(const ir::Graph& graph) {
  ir::Graph clean = Editor(graph).finish();
  const std::size_t gone = (graph.nodes.size() - clean.nodes.size()) + (graph.values.size() - clean.values.size());
  if (gone == 0) return {graph, 0, {}};
  return {std::move(clean), gone, {}};
}

}  // namespace

Pass eliminate_dead_pass() { return {"eliminate-dead", "drop what no output depends on", {}, rewrite}; }

}  // namespace halfeven::passes
