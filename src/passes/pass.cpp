#include "passes/pass.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include <halfeven/error.hpp>

namespace halfeven::passes {

#define HALFEVEN_PASS(name) Pass name##_pass();
#include "passes/table.inc"
#undef HALFEVEN_PASS

namespace {

constexpr int kMostRounds = 1000;

class Runner {
 public:
  Runner(const ir::Graph& graph, std::span<const Pass> table, Observer observer, void* context)
      : table_(table), observer_(observer), context_(context), result_{graph, {}, {}} {}

  // What the pass needs, then the pass, until none of them changes anything: so the pass finds the normal form that it
  // starts from and leaves one.
  std::size_t apply(const Pass& pass) {
    std::vector<const Pass*> order;
    std::vector<std::string_view> path;
    collect(pass, order, path);
    std::size_t total = 0;
    for (int round = 0;; ++round) {
      // Every pass runs on the joint normal form of those before it, which are what it needs.
      std::size_t changes = 0;
      for (std::size_t k = 0; k < order.size() && changes == 0; ++k) changes = step(*order[k]);
      total += changes;
      if (changes == 0) return total;
      check_rounds(round, pass.name);
    }
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
    // A pass is a function: what changed nothing before changes nothing on the same graph.
    const auto idle = idle_at_.find(pass.name);
    if (idle != idle_at_.end() && idle->second == version_) return 0;
    const auto start = std::chrono::steady_clock::now();
    Rewrite rewrite = pass.rewrite(result_.graph);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    const Step done{std::string(pass.name), rewrite.changes, time.count()};
    result_.steps.push_back(done);
    // Refusals of an earlier run of the same pass are out of date.
    std::erase_if(result_.findings, [&](const Finding& f) { return !f.applied && f.pass == pass.name; });
    result_.findings.insert(result_.findings.end(), rewrite.findings.begin(), rewrite.findings.end());
    if (rewrite.changes == 0) {
      idle_at_.insert_or_assign(pass.name, version_);
    } else {
      ++version_;
      if (observer_ != nullptr) observer_(context_, done, result_.graph, rewrite.graph);
      result_.graph = std::move(rewrite.graph);
    }
    return rewrite.changes;
  }

  std::span<const Pass> table_;
  Observer observer_;
  void* context_;
  PipelineResult result_;
  std::size_t version_ = 0;                          // counts the graphs
  std::map<std::string_view, std::size_t> idle_at_;  // the graph that a pass last left as it was
};

}  // namespace

namespace {

const Pass& known_pass(const std::string& name) {
  const Pass* pass = find_pass(name);
  if (pass == nullptr) throw Error(ErrorCode::usage, "there is no pass '" + name + "'");
  return *pass;
}

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
  for (const std::string& name : names_) runner.apply(known_pass(name));
  return runner.take();
}

PipelineResult Pipeline::run_to_fixpoint(const ir::Graph& graph) const {
  Runner runner(graph, passes(), nullptr, nullptr);
  for (int round = 0;; ++round) {
    std::size_t changes = 0;
    for (const std::string& name : names_) changes += runner.apply(known_pass(name));
    if (changes == 0) return runner.take();
    Runner::check_rounds(round, text());
  }
}

}  // namespace halfeven::passes
