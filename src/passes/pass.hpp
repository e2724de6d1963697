// Passes: functions from graph to graph, and pipelines of them.
//
// A pass has no context, no level and no global switch. What it needs to have been done before is part of it
// (`needs`), so a pass applied directly and the same pass in a pipeline are one function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace halfeven::passes {

/// What a pass found at one place: rewritten into what, or refused and why.
struct Finding {
  std::string pass;
  std::string where;  ///< node, or its first output
  bool applied = true;
  std::string text;    ///< what was made of it, or why not
  std::string advice;  ///< for refusals: the nearest thing that the model's author could change; may be empty
};

/// A graph and what led to it. `changes` counts edits; 0 means that the graph is the one that came in.
struct Rewrite {
  ir::Graph graph;
  std::size_t changes = 0;
  std::vector<Finding> findings;
};

/// One rewrite, applied everywhere it fits. The graph it gets is valid, and so is the one it gives.
struct Pass {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> needs;   ///< passes whose joint normal form this one starts from and leaves
  Rewrite (*rewrite)(const ir::Graph&);  ///< the rewrite alone, without what it needs
};

/// All passes, in the order of the default pipeline.
std::span<const Pass> passes();
/// The pass of that name, or null.
const Pass* find_pass(std::string_view name);

/// One entry of what really ran.
struct Step {
  std::string pass;
  std::size_t changes = 0;
  double milliseconds = 0;
};

struct PipelineResult {
  ir::Graph graph;
  /// In order, needed passes included, those that changed nothing too; a pass is not run again on a graph that it has
  /// left as it was.
  std::vector<Step> steps;
  std::vector<Finding> findings;  ///< of the last run of each pass that decides; applied ones of every run
};

/// Called after each step that changed something, with the graph before and after it.
using Observer = void (*)(void* context, const Step& step, const ir::Graph& before, const ir::Graph& after);

/// A sequence of passes. `text()` and `parse()` are inverse: "fold-constants,fuse-qdq".
class Pipeline {
 public:
  explicit Pipeline(std::vector<std::string> names) : names_(std::move(names)) {}
  /// Throws Error{usage} naming an unknown pass and the known ones.
  static Pipeline parse(std::string_view text);
  /// Every pass, once.
  static Pipeline all();

  std::string text() const;
  const std::vector<std::string>& names() const { return names_; }

  /// Applies the passes in turn, each with what it needs. A validity check follows every change.
  PipelineResult run(const ir::Graph& graph, Observer observer = nullptr, void* context = nullptr) const;
  /// Applies the sequence again until it changes nothing. Throws Error{other} if that takes more than 1,000 rounds.
  PipelineResult run_to_fixpoint(const ir::Graph& graph) const;

 private:
  std::vector<std::string> names_;
};

/// Applies one pass with what it needs: the function that a pass is. `table` is where needs are looked up.
/// Throws Error{other} for needs that are unknown or go round in a circle, naming them.
PipelineResult apply(const Pass& pass, const ir::Graph& graph, Observer observer = nullptr, void* context = nullptr,
                     std::span<const Pass> table = passes());

}  // namespace halfeven::passes
