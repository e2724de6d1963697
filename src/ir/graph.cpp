#include "ir/graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"

namespace halfeven::ir {
namespace {

constexpr std::uint32_t kNobody = ValueId::kNone;

// Which node defines each value (kNobody: an input, an initializer, or nothing).
struct Definitions {
  std::vector<std::uint32_t> node;
  std::vector<bool> given;  // input or initializer
};

[[noreturn]] void fail(const Graph& graph, const Node& node, const std::string& message) {
  throw Error(ErrorCode::model, message, label(graph, node));
}

void check_id(const Graph& graph, ValueId id) {
  if (id.index >= graph.values.size()) {
    throw Error(ErrorCode::other, fmt::format("the graph has no value {}: it was put together wrongly", id.index));
  }
}

Definitions find_definitions(const Graph& graph) {
  Definitions definitions{std::vector<std::uint32_t>(graph.values.size(), kNobody),
                          std::vector<bool>(graph.values.size())};
  for (const ValueId id : graph.inputs) {
    check_id(graph, id);
    if (definitions.given[id.index]) {
      throw Error(ErrorCode::model, fmt::format("graph input {} is declared twice", quote(graph.value(id).name)));
    }
    definitions.given[id.index] = true;
  }
  for (const auto& [id, tensor] : graph.initializers) {
    check_id(graph, id);
    definitions.given[id.index] = true;
  }
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId id : node.outputs) {
      if (!id.present()) continue;
      check_id(graph, id);
      const std::uint32_t other = definitions.node[id.index];
      if (other != kNobody || definitions.given[id.index]) {
        const std::string first = other != kNobody ? "an output of " + describe(graph, graph.nodes[other])
                                  : graph.initializers.contains(id) ? std::string("an initializer")
                                                                    : std::string("a graph input");
        fail(graph, node,
             fmt::format("tensor {} is defined twice: as {} and as an output of {}", quote(graph.value(id).name), first,
                         describe(graph, node)));
      }
      definitions.node[id.index] = i;
    }
  }
  return definitions;
}

void check_uses(const Graph& graph, const Definitions& definitions) {
  const auto defined = [&](ValueId id) {
    check_id(graph, id);
    return definitions.given[id.index] || definitions.node[id.index] != kNobody;
  };
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (!id.present() || defined(id)) continue;
      fail(graph, node,
           fmt::format("tensor {} read by {} (input {}) is not an input, an initializer or the output of a node",
                       quote(graph.value(id).name), describe(graph, node), i));
    }
  }
  for (const ValueId id : graph.outputs) {
    if (!id.present()) throw Error(ErrorCode::model, "a graph output has no name");
    if (defined(id)) continue;
    throw Error(ErrorCode::model, fmt::format("graph output {} is not an input, an initializer or the output of a node",
                                              quote(graph.value(id).name)));
  }
}

// Calls visit(index of the defining node) for every input of `node` that a node defines, repetitions included.
template <class Visit>
void for_each_producer(const Node& node, const Definitions& definitions, Visit visit) {
  for (const ValueId id : node.inputs) {
    if (id.present() && definitions.node[id.index] != kNobody) visit(definitions.node[id.index]);
  }
}

bool is_sorted(const Graph& graph, const Definitions& definitions) {
  bool sorted = true;
  for (std::uint32_t i = 0; sorted && i < graph.nodes.size(); ++i) {
    for_each_producer(graph.nodes[i], definitions, [&](std::uint32_t producer) { sorted = sorted && producer < i; });
  }
  return sorted;
}

// Every node of `left_over` waits for another one of them, so walking backwards must come round.
[[noreturn]] void fail_on_cycle(const Graph& graph, const Definitions& definitions,
                                const std::vector<bool>& left_over) {
  constexpr std::size_t kMostNames = 16;
  std::vector<std::uint32_t> path;
  std::vector<std::uint32_t> seen_at(graph.nodes.size(), kNobody);
  auto current = static_cast<std::uint32_t>(std::find(left_over.begin(), left_over.end(), true) - left_over.begin());
  while (seen_at[current] == kNobody) {
    seen_at[current] = static_cast<std::uint32_t>(path.size());
    path.push_back(current);
    std::uint32_t next = kNobody;
    for_each_producer(graph.nodes[current], definitions, [&](std::uint32_t producer) {
      if (left_over[producer]) next = std::min(next, producer);
    });
    current = next;
  }
  std::vector<std::uint32_t> cycle(path.rbegin(), path.rend() - static_cast<std::ptrdiff_t>(seen_at[current]));
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > kMostNames && i == kMostNames - 1) {
      text += fmt::format("({} more) -> ", cycle.size() - kMostNames);
      i = cycle.size() - 1;
    }
    text += describe(graph, graph.nodes[cycle[i]]) + " -> ";
  }
  const Node& first = graph.nodes[cycle.front()];
  fail(graph, first, fmt::format("the graph has a cycle: {}back to {}", text, describe(graph, first)));
}

// Kahn's algorithm; of the nodes that are ready the one that stood first goes first.
std::vector<std::uint32_t> topological_order(const Graph& graph, const Definitions& definitions) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::uint32_t> waiting(count, 0);
  std::vector<std::size_t> first_reader(count + 1, 0);  // readers of node i: [first_reader[i], first_reader[i + 1])
  for (std::uint32_t i = 0; i < count; ++i) {
    for_each_producer(graph.nodes[i], definitions, [&](std::uint32_t producer) {
      ++waiting[i];
      ++first_reader[producer + 1];
    });
  }
  for (std::size_t i = 0; i < count; ++i) first_reader[i + 1] += first_reader[i];
  std::vector<std::uint32_t> readers(first_reader[count]);
  std::vector<std::size_t> next(first_reader.begin(), first_reader.end() - 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    for_each_producer(graph.nodes[i], definitions, [&](std::uint32_t producer) { readers[next[producer]++] = i; });
  }

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<std::uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (std::size_t i = first_reader[node]; i < first_reader[node + 1]; ++i) {
      if (--waiting[readers[i]] == 0) ready.push(readers[i]);
    }
  }
  if (order.size() < count) {
    std::vector<bool> left_over(count);
    std::transform(waiting.begin(), waiting.end(), left_over.begin(), [](std::uint32_t n) { return n > 0; });
    fail_on_cycle(graph, definitions, left_over);
  }
  return order;
}

}  // namespace

bool Graph::is_input(ValueId id) const { return std::find(inputs.begin(), inputs.end(), id) != inputs.end(); }

bool Graph::is_constant(ValueId id) const { return initializers.contains(id) && !is_input(id); }

ValueId Graph::find(const std::string& wanted) const {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const Value& candidate) { return candidate.name == wanted; });
  if (found == values.end()) return {};
  return {static_cast<std::uint32_t>(found - values.begin())};
}

std::int64_t int_attribute(const Node& node, const std::string& name, std::int64_t otherwise) {
  const auto at = node.attributes.find(name);
  const auto* value = at == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&at->second);
  return value == nullptr ? otherwise : *value;
}

std::string label(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return node.name;
  for (const ValueId id : node.outputs) {
    if (id.present() && id.index < graph.values.size()) return graph.value(id).name;
  }
  return {};
}

std::string describe(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return printable(node.op_type) + " " + quote(node.name);
  const std::string output = label(graph, node);
  return output.empty() ? printable(node.op_type) : printable(node.op_type) + " -> " + quote(output);
}

void sort_and_check(Graph& graph) {
  const Definitions definitions = find_definitions(graph);
  check_uses(graph, definitions);
  if (is_sorted(graph, definitions)) return;
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  for (const std::uint32_t index : topological_order(graph, definitions)) {
    sorted.push_back(std::move(graph.nodes[index]));
  }
  graph.nodes = std::move(sorted);
}

}  // namespace halfeven::ir
