// Editor: a graph under change, with the questions that rewrites ask of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace halfeven::passes {

/// Holds a copy of a graph. Nodes are numbered by their place in `graph.nodes`; removed ones keep their number until
/// finish(). Reader lists hold live readers only: nodes from which no graph output can be reached do not count, so that
/// dead nodes change no decision.
class Editor {
 public:
  explicit Editor(const ir::Graph& graph);

  const ir::Graph& graph() const { return graph_; }
  const ir::Node& node(std::size_t n) const { return graph_.nodes[n]; }
  std::size_t node_count() const { return graph_.nodes.size(); }
  bool alive(std::size_t n) const { return alive_[n]; }

  /// The node that computes the value, if one does.
  std::optional<std::size_t> producer(ir::ValueId id) const;
  /// The producer if it is of that ai.onnx type.
  std::optional<std::size_t> producer(ir::ValueId id, std::string_view op_type) const;
  /// Live nodes that read the value, ascending, each once.
  const std::vector<std::size_t>& readers(ir::ValueId id) const { return readers_[id.index]; }
  bool is_output(ir::ValueId id) const { return output_[id.index]; }
  /// The constant that the value is, or null.
  const Tensor* constant(ir::ValueId id) const;
  /// The only live reader of a value that is no graph output.
  std::optional<std::size_t> only_reader(ir::ValueId id) const;

  /// A new value with a name close to `base` that the graph does not have yet.
  ir::ValueId add_value(const std::string& base, DType dtype);
  ir::ValueId add_constant(const std::string& base, const Tensor& tensor);
  /// Adds a node (its place in the order does not matter) and returns its number.
  std::size_t add_node(ir::Node node);
  /// A node of ai.onnx in the version that the graph imports.
  ir::Node make_node(const std::string& op_type, std::vector<ir::ValueId> inputs, std::vector<ir::ValueId> outputs,
                     const std::string& name) const;
  void remove_node(std::size_t n);
  void set_input(std::size_t n, std::size_t position, ir::ValueId id);
  void set_output(std::size_t n, std::size_t position, ir::ValueId id);
  /// All readers of `from` read `to` instead (graph outputs stay).
  void replace_reads(ir::ValueId from, ir::ValueId to);
  void set_constant(ir::ValueId id, const Tensor& tensor);

  std::size_t changes() const { return changes_; }

  /// The changed graph: without removed nodes and unused values, in topological order, valid (types and shapes inferred
  /// anew). Throws Error{other} if a rewrite left an invalid graph.
  ir::Graph finish();

 private:
  void index();
  void drop_dead();
  void unread(std::size_t n, ir::ValueId id);
  void read(std::size_t n, ir::ValueId id);

  ir::Graph graph_;
  std::vector<bool> alive_;
  std::vector<std::optional<std::size_t>> producer_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<bool> output_;
  std::vector<bool> input_;
  std::map<std::string, int> names_;  // taken names; the number is tried first for the next one like it
  std::size_t changes_ = 0;
};

}  // namespace halfeven::passes
