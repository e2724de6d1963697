#include "verify/passes_check.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "interpreter/interpreter.hpp"
#include "ir/quote.hpp"
#include "ir/sha256.hpp"
#include "verify/values.hpp"

namespace halfeven::verification {
namespace {

ir::Digest digest(const Tensor& tensor) {
  ir::Sha256 sha;
  sha.number(static_cast<std::uint64_t>(tensor.dtype())).number(tensor.rank());
  for (const std::int64_t d : tensor.shape()) sha.number(static_cast<std::uint64_t>(d));
  return sha.bytes(tensor.bytes()).digest();
}

// What is kept of a run.
struct Trace {
  std::map<std::string, ir::Digest> computed;
  std::vector<Tensor> outputs;
};

interpreter::Options exact_options(int threads) {
  interpreter::Options options;
  options.threads = threads;
  return options;
}

Trace trace(const ir::Graph& graph, const ops::Facts& facts, const InputSet& inputs, int threads) {
  Trace out;
  auto options = exact_options(threads);
  options.tap = [&](ir::ValueId id, const Tensor& t) { out.computed[graph.value(id).name] = digest(t); };
  out.outputs = interpreter::run(graph, facts, inputs, options);
  return out;
}

// The tensor of that name in a new run.
Tensor find_tensor(const ir::Graph& graph, const std::string& name, const InputSet& inputs, int threads) {
  ir::Graph copy = graph;
  const ops::Facts facts = ops::validate(copy);
  const ir::ValueId wanted = copy.find(name);
  if (const auto at = copy.initializers.find(wanted); at != copy.initializers.end()) return at->second;
  Tensor found;
  auto options = exact_options(threads);
  options.tap = [&](ir::ValueId id, const Tensor& t) {
    if (id == wanted) found = t;
  };
  interpreter::run(copy, facts, inputs, options);
  return found;
}

// Constants of the graph by name.
std::map<std::string, ir::Digest> constants(const ir::Graph& graph) {
  std::map<std::string, ir::Digest> out;
  for (const auto& [id, tensor] : graph.initializers) {
    if (graph.is_constant(id)) out[graph.value(id).name] = digest(tensor);
  }
  return out;
}

class Checker {
 public:
  Checker(const ir::Graph& graph, const ops::Facts& facts, const std::vector<InputSet>& inputs,
          const CheckOptions& options)
      : inputs_(inputs), options_(options), constants_(constants(graph)) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      announce("the model", k);
      last_.push_back(trace(graph, facts, inputs[k], options.threads));
    }
  }

  static void observe(void* context, const passes::Step& step, const ir::Graph& before, const ir::Graph& after) {
    static_cast<Checker*>(context)->check(step, before, after);
  }

  std::vector<PassCheck> take() { return std::move(checks_); }

 private:
  void announce(const std::string& what, std::size_t set) {
    if (options_.progress) options_.progress(done_++, fmt::format("{}, input set {}", what, set + 1));
  }

  void check(const passes::Step& step, const ir::Graph& before, const ir::Graph& after) {
    PassCheck check{step.pass, step.changes, 0, 0, {}};
    try {
      ir::Graph copy = after;
      const ops::Facts facts = ops::validate(copy);
      const auto now_constant = constants(copy);
      for (std::size_t k = 0; k < inputs_.size(); ++k) {
        announce(step.pass, k);
        Trace now = trace(copy, facts, inputs_[k], options_.threads);
        compare(check, before, after, k, now, now_constant);
        last_[k] = std::move(now);
      }
      constants_ = now_constant;
    } catch (const Error& e) {
      check.difference = fmt::format("the graph that {} leaves cannot be run: {}", step.pass, e.what());
    }
    checks_.push_back(std::move(check));
  }

  void compare(PassCheck& check, const ir::Graph& before, const ir::Graph& after, std::size_t set, const Trace& now,
               const std::map<std::string, ir::Digest>& now_constant) const {
    const Trace& was = last_[set];
    const auto compare_named = [&](const std::string& name, const ir::Digest& old_digest) {
      const auto computed = now.computed.find(name);
      const auto constant = now_constant.find(name);
      if (computed == now.computed.end() && constant == now_constant.end()) return;
      ++check.tensors;
      if ((computed != now.computed.end() ? computed->second : constant->second) == old_digest) return;
      ++check.differing;
      if (!check.difference.empty()) return;
      check.difference = fmt::format("input set {}, tensor {}: {}", set + 1, ir::quote(name),
                                     describe_difference(find_tensor(before, name, inputs_[set], options_.threads),
                                                         find_tensor(after, name, inputs_[set], options_.threads)));
    };
    // Along the graph, so that the first difference is the one that the others come from.
    for (const ir::Node& node : before.nodes) {
      for (const ir::ValueId id : node.outputs) {
        if (!id.present()) continue;
        const std::string& name = before.value(id).name;
        if (const auto at = was.computed.find(name); at != was.computed.end()) compare_named(name, at->second);
      }
    }
    for (const auto& [name, old_digest] : constants_) compare_named(name, old_digest);
    for (std::size_t k = 0; k < std::max(was.outputs.size(), now.outputs.size()); ++k) {
      ++check.tensors;
      const bool both = k < was.outputs.size() && k < now.outputs.size();
      if (both && identical(was.outputs[k], now.outputs[k])) continue;
      ++check.differing;
      if (!check.difference.empty()) continue;
      check.difference =
          fmt::format("input set {}, output {}: {}", set + 1, k,
                      both ? describe_difference(was.outputs[k], now.outputs[k]) : "there is none before or after");
    }
  }

  const std::vector<InputSet>& inputs_;
  const CheckOptions& options_;
  std::map<std::string, ir::Digest> constants_;
  std::vector<Trace> last_;
  std::vector<PassCheck> checks_;
  std::size_t done_ = 0;
};

}  // namespace

PassesReport check_passes(const ir::Graph& graph, const ops::Facts& facts, const std::vector<InputSet>& inputs,
                          const RunPasses& run, const CheckOptions& options) {
  Checker checker(graph, facts, inputs, options);
  PassesReport report;
  try {
    const auto result = run(graph, &Checker::observe, &checker);
    for (const passes::Step& step : result.steps) report.ran.push_back(step.pass);
    report.steps = checker.take();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::usage) throw;
    report.steps = checker.take();
    report.steps.push_back({"the pass after these", 0, 0, 0, fmt::format("it failed: {}", e.what())});
  }
  return report;
}

}  // namespace halfeven::verification
