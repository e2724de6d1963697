#include "passes/editor.hpp"

#include <algorithm>

#include <halfeven/error.hpp>

#include "ops/validate.hpp"

namespace halfeven::passes {

Editor::Editor(const ir::Graph& graph) : graph_(graph) { index(); }

void Editor::index() {
  const std::size_t values = graph_.values.size();
  alive_.assign(graph_.nodes.size(), true);
  producer_.assign(values, std::nullopt);
  readers_.assign(values, {});
  output_.assign(values, false);
  input_.assign(values, false);
  for (const ir::Value& v : graph_.values) names_.emplace(v.name, 0);
  for (const ir::ValueId id : graph_.inputs) input_[id.index] = true;
  std::vector<bool> needed(values, false);
  for (const ir::ValueId id : graph_.outputs) output_[id.index] = needed[id.index] = true;
  for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
    const ir::Node& node = graph_.nodes[n];
    bool live = false;
    for (const ir::ValueId id : node.outputs) {
      if (!id.present()) continue;
      producer_[id.index] = n;
      live = live || needed[id.index];
    }
    if (!live) continue;
    for (const ir::ValueId id : node.inputs) {
      if (!id.present()) continue;
      needed[id.index] = true;
      read(n, id);
    }
  }
}

void Editor::read(std::size_t n, ir::ValueId id) {
  auto& list = readers_[id.index];
  const auto at = std::lower_bound(list.begin(), list.end(), n);
  if (at == list.end() || *at != n) list.insert(at, n);
}

void Editor::unread(std::size_t n, ir::ValueId id) {
  const auto& inputs = graph_.nodes[n].inputs;
  if (alive_[n] && std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return;
  auto& list = readers_[id.index];
  const auto at = std::lower_bound(list.begin(), list.end(), n);
  if (at != list.end() && *at == n) list.erase(at);
}

std::optional<std::size_t> Editor::producer(ir::ValueId id) const {
  return id.present() ? producer_[id.index] : std::nullopt;
}

std::optional<std::size_t> Editor::producer(ir::ValueId id, std::string_view op_type) const {
  const auto p = producer(id);
  return p && graph_.nodes[*p].op_type == op_type && !graph_.nodes[*p].body ? p : std::nullopt;
}

const Tensor* Editor::constant(ir::ValueId id) const {
  if (!id.present() || input_[id.index]) return nullptr;
  const auto at = graph_.initializers.find(id);
  return at == graph_.initializers.end() ? nullptr : &at->second;
}

std::optional<std::size_t> Editor::only_reader(ir::ValueId id) const {
  if (output_[id.index] || readers_[id.index].size() != 1) return std::nullopt;
  return readers_[id.index][0];
}

ir::ValueId Editor::add_value(const std::string& base, DType dtype) {
  std::string name = base;
  while (name.empty() || names_.contains(name)) name = base + "_" + std::to_string(++names_[base]);
  names_.emplace(name, 0);
  graph_.values.push_back({name, dtype, std::nullopt, {}});
  producer_.emplace_back();
  readers_.emplace_back();
  output_.push_back(false);
  input_.push_back(false);
  return {static_cast<std::uint32_t>(graph_.values.size() - 1)};
}

ir::ValueId Editor::add_constant(const std::string& base, const Tensor& tensor) {
  const ir::ValueId id = add_value(base, tensor.dtype());
  set_constant(id, tensor);
  return id;
}

void Editor::set_constant(ir::ValueId id, const Tensor& tensor) {
  graph_.value(id).dtype = tensor.dtype();
  graph_.value(id).shape = tensor.shape();
  graph_.initializers.insert_or_assign(id, tensor);
  producer_[id.index].reset();
  ++changes_;
}

std::size_t Editor::add_node(ir::Node node) {
  const std::size_t n = graph_.nodes.size();
  graph_.nodes.push_back(std::move(node));
  alive_.push_back(true);
  for (const ir::ValueId id : graph_.nodes[n].outputs) {
    if (id.present()) producer_[id.index] = n;
  }
  for (const ir::ValueId id : graph_.nodes[n].inputs) {
    if (id.present()) read(n, id);
  }
  ++changes_;
  return n;
}

ir::Node Editor::make_node(const std::string& op_type, std::vector<ir::ValueId> inputs,
                           std::vector<ir::ValueId> outputs, const std::string& name) const {
  ir::Node node;
  node.name = name;
  node.op_type = op_type;
  const auto at = graph_.opsets.find("");
  node.version = at == graph_.opsets.end() ? 21 : at->second;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

void Editor::remove_node(std::size_t n) {
  alive_[n] = false;
  for (const ir::ValueId id : graph_.nodes[n].inputs) {
    if (id.present()) unread(n, id);
  }
  for (const ir::ValueId id : graph_.nodes[n].outputs) {
    if (id.present() && producer_[id.index] == n) producer_[id.index].reset();
  }
  ++changes_;
}

void Editor::set_input(std::size_t n, std::size_t position, ir::ValueId id) {
  const ir::ValueId old = graph_.nodes[n].inputs[position];
  if (old == id) return;
  graph_.nodes[n].inputs[position] = id;
  if (old.present()) unread(n, old);
  if (id.present()) read(n, id);
  ++changes_;
}

void Editor::set_output(std::size_t n, std::size_t position, ir::ValueId id) {
  const ir::ValueId old = graph_.nodes[n].outputs[position];
  if (old == id) return;
  if (old.present() && producer_[old.index] == n) producer_[old.index].reset();
  graph_.nodes[n].outputs[position] = id;
  if (id.present()) producer_[id.index] = n;
  ++changes_;
}

void Editor::replace_reads(ir::ValueId from, ir::ValueId to) {
  const std::vector<std::size_t> all = readers_[from.index];
  for (const std::size_t n : all) {
    for (std::size_t k = 0; k < graph_.nodes[n].inputs.size(); ++k) {
      if (graph_.nodes[n].inputs[k] == from) set_input(n, k, to);
    }
  }
}

// Nodes from which no output can be reached may read what a rewrite took away: they go with every change.
void Editor::drop_dead() {
  // Added nodes stand behind their readers, so one sweep in order does not do: follow the producers instead.
  std::vector<ir::ValueId> open(graph_.outputs);
  std::vector<bool> live(graph_.nodes.size(), false);
  while (!open.empty()) {
    const ir::ValueId id = open.back();
    open.pop_back();
    const auto p = producer(id);
    if (!p || live[*p] || !alive_[*p]) continue;
    live[*p] = true;
    for (const ir::ValueId in : graph_.nodes[*p].inputs) {
      if (in.present()) open.push_back(in);
    }
  }
  for (std::size_t n = 0; n < live.size(); ++n) alive_[n] = alive_[n] && live[n];
}

ir::Graph Editor::finish() {
  drop_dead();
  ir::Graph out = std::move(graph_);
  std::vector<ir::Node> nodes;
  for (std::size_t n = 0; n < out.nodes.size(); ++n) {
    if (alive_[n]) nodes.push_back(std::move(out.nodes[n]));
  }
  out.nodes = std::move(nodes);
  // Values that nothing mentions go; constants stay while a node or an output uses them.
  std::vector<bool> used(out.values.size(), false);
  for (const ir::ValueId id : out.inputs) used[id.index] = true;
  for (const ir::ValueId id : out.outputs) used[id.index] = true;
  for (const ir::Node& node : out.nodes) {
    for (const ir::ValueId id : node.inputs) {
      if (id.present()) used[id.index] = true;
    }
    for (const ir::ValueId id : node.outputs) {
      if (id.present()) used[id.index] = true;
    }
  }
  std::vector<ir::ValueId> place(out.values.size());
  std::vector<ir::Value> values;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    place[i] = {static_cast<std::uint32_t>(values.size())};
    values.push_back(std::move(out.values[i]));
  }
  out.values = std::move(values);
  const auto move = [&](ir::ValueId& id) {
    if (id.present()) id = place[id.index];
  };
  for (ir::ValueId& id : out.inputs) move(id);
  for (ir::ValueId& id : out.outputs) move(id);
  for (ir::Node& node : out.nodes) {
    for (ir::ValueId& id : node.inputs) move(id);
    for (ir::ValueId& id : node.outputs) move(id);
  }
  std::map<ir::ValueId, Tensor> initializers;
  for (auto& [id, tensor] : out.initializers) {
    if (used[id.index]) initializers.emplace(place[id.index], std::move(tensor));
  }
  out.initializers = std::move(initializers);
  try {
    ops::validate(out);
  } catch (const Error& e) {
    throw Error(ErrorCode::other, std::string("a rewrite left an invalid graph: ") + e.what(), e.node());
  }
  return out;
}

}  // namespace halfeven::passes
