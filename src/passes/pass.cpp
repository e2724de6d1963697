#include "passes/pass.hpp"

#include <algorithm>
#include <chrono>

#include <halfeven/error.hpp>

namespace halfeven::passes {

#define HALFEVEN_PASS(name) Pass name##_pass();
#include "passes/table.inc"
#undef HALFEVEN_PASS

namespace {

constexpr int kMostRounds = 64;

class Runner {
 public:
  Runner(const ir::Graph& graph, std::span<const Pass> table, Observer observer, void* context)
      : table_(table), observer_(observer), context_(context), result_{graph, {}, {}} {}

  // What the pass needs, to a joint fixpoint; then the pass.
  void apply(const Pass& pass) {
    std::vector<const Pass*> order;
    std::vector<std::string_view> path;
    collect(pass, order, path);
    order.pop_back();  // the pass itself
    for (int round = 0; !order.empty(); ++round) {
      std::size_t changes = 0;
      for (const Pass* needed : order) changes += step(*needed);
      if (changes == 0) break;
      check_rounds(round, pass.name);
    }
    step(pass);
  }

  static void check_rounds(int round, std::string_view what) {
    if (round >= kMostRounds) {
      throw Error(ErrorCode::other, "passes undo each other's work: no fixpoint for " + std::string(what));
    }
  }

  PipelineResult take() { return std::move(result_); }

 private:
  void collect(const Pass& pass, std::vector<const Pass*>& order, std::vector<std::string_view>& path) const {
    if (std::find(path.begin(), path.end(), pass.name) != path.end()) {
      std::string text;
      for (const std::string_view name : path) text += std::string(name) + " needs ";
      throw Error(ErrorCode::other, "passes need each other in a circle: " + text + std::string(pass.name));
    }
    if (std::find(order.begin(), order.end(), &pass) != order.end()) return;
    path.push_back(pass.name);
    for (const std::string_view name : pass.needs) {
      const auto at = std::find_if(table_.begin(), table_.end(), [&](const Pass& p) { return p.name == name; });
      if (at == table_.end()) {
        throw Error(ErrorCode::other,
                    "pass " + std::string(pass.name) + " needs " + std::string(name) + ", which does not exist");
      }
      collect(*at, order, path);
    }
    path.pop_back();
    order.push_back(&pass);
  }

  std::size_t step(const Pass& pass) {
    const auto start = std::chrono::steady_clock::now();
    Rewrite rewrite = pass.rewrite(result_.graph);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    const Step done{std::string(pass.name), rewrite.changes, time.count()};
    result_.steps.push_back(done);
    // Refusals of an earlier run of the same pass are out of date.
    std::erase_if(result_.findings, [&](const Finding& f) { return !f.applied && f.pass == pass.name; });
    result_.findings.insert(result_.findings.end(), rewrite.findings.begin(), rewrite.findings.end());
    if (rewrite.changes > 0) {
      if (observer_ != nullptr) observer_(context_, done, result_.graph, rewrite.graph);
      result_.graph = std::move(rewrite.graph);
    }
    return rewrite.changes;
  }

  std::span<const Pass> table_;
  Observer observer_;
  void* context_;
  PipelineResult result_;
};

}  // namespace

std::span<const Pass> passes() {
  static const std::vector<Pass> table{
#define HALFEVEN_PASS(name) name##_pass(),
#include "passes/table.inc"
#undef HALFEVEN_PASS
  };
  return table;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : passes()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

PipelineResult apply(const Pass& pass, const ir::Graph& graph, Observer observer, void* context,
                     std::span<const Pass> table) {
  Runner runner(graph, table, observer, context);
  runner.apply(pass);
  return runner.take();
}

Pipeline Pipeline::parse(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, end);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (find_pass(name) == nullptr) {
      std::string known;
      for (const Pass& pass : passes()) known += (known.empty() ? "" : ", ") + std::string(pass.name);
      throw Error(ErrorCode::usage, "there is no pass '" + std::string(name) + "'; there are " + known);
    }
    names.emplace_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Pipeline(std::move(names));
}

Pipeline Pipeline::all() {
  std::vector<std::string> names;
  for (const Pass& pass : passes()) names.emplace_back(pass.name);
  return Pipeline(std::move(names));
}

std::string Pipeline::text() const {
  std::string out;
  for (const std::string& name : names_) out += (out.empty() ? "" : ",") + name;
  return out;
}

PipelineResult Pipeline::run(const ir::Graph& graph, Observer observer, void* context) const {
  Runner runner(graph, passes(), observer, context);
  for (const std::string& name : names_) {
    const Pass* pass = find_pass(name);
    if (pass == nullptr) throw Error(ErrorCode::usage, "there is no pass '" + name + "'");
    runner.apply(*pass);
  }
  return runner.take();
}

PipelineResult Pipeline::run_to_fixpoint(const ir::Graph& graph) const {
  PipelineResult total{graph, {}, {}};
  for (int round = 0;; ++round) {
    PipelineResult once = run(total.graph);
    std::size_t changes = 0;
    for (const Step& step : once.steps) changes += step.changes;
    total.steps.insert(total.steps.end(), once.steps.begin(), once.steps.end());
    total.findings.insert(total.findings.end(), once.findings.begin(), once.findings.end());
    total.graph = std::move(once.graph);
    if (changes == 0) return total;
    Runner::check_rounds(round, text());
  }
}

}  // namespace halfeven::passes
