#include "plan/selftest.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include <halfeven/error.hpp>

#include "interpreter/interpreter.hpp"
#include "passes/pass.hpp"
#include "plan/lower.hpp"
#include "plan/plan.hpp"
#include "plan/runner.hpp"
#include "plan/samples.hpp"

namespace halfeven::plan {
namespace {

// A sample, fused, and what the interpreter makes of it, both when first needed.
class Trial {
 public:
  /// For entries that name `word`, the sample's operator if it is empty.
  Trial(Sample sample, std::string word)
      : sample_(std::move(sample)), word_(word.empty() ? sample_.name : std::move(word)) {}

  const ir::Graph& graph() {
    if (!fused_) {
      // The passes that make groups and tables; the others would change nothing.
      const auto pipeline = passes::Pipeline::parse(word_ == "Table" ? "build-tables" : "fuse-qdq");
      fused_ = lower(pipeline.run(sample_.graph).graph);
      facts_ = ops::validate(*fused_);
    }
    return *fused_;
  }

  // Whether the entry takes a node of the graph. Operators that it does not name are not even fused.
  bool accepted_by(const Entry& entry) {
    if (!names_operator(entry, word_)) return false;
    const ir::Graph& g = graph();
    const std::vector<Form> forms(g.values.size());
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const ir::Node& node) {
      return entry.make({g, node, entry.isa, forms}).kernel != nullptr;
    });
  }

  std::string run(const Entry& entry) {
    const Plan plan = make_plan(graph(), {.isa = entry.isa, .self_test = false, .table = {&entry, 1}});
    if (expected_.empty()) expected_ = interpreter::run(graph(), facts_, sample_.inputs, {});
    const Runner runner(plan, sample_.inputs);
    runner.run(Runner::halves());
    std::string wrong = difference(runner);
    // And the way that plans run it where an input dies: written over it.
    for (std::size_t k = 0; k < plan.steps.size() && wrong.empty(); ++k) {
      const Step& step = plan.steps[k];
      if (!step.kernel->in_place || plan.places[step.outputs[0]].alias_of != SIZE_MAX) continue;
      for (std::size_t i = 0; i < step.inputs.size() && wrong.empty(); ++i) {
        const std::size_t p = step.inputs[i];
        if (p == SIZE_MAX || plan.places[p].bytes != plan.places[step.outputs[0]].bytes) continue;
        for (std::size_t n = 0; n < plan.steps.size(); ++n) {  // all, for the memory before it is used again behind it
          if (n == k) {
            runner.step_in_place(n, i, Runner::halves());
          } else {
            runner.step(n, Runner::halves());
          }
        }
        wrong = difference(runner);
        if (!wrong.empty()) wrong += " when written over an input";
      }
    }
    return wrong;
  }

 private:
  std::string difference(const Runner& runner) const {
    for (std::size_t k = 0; k < expected_.size(); ++k) {
      const Tensor& wanted = expected_[k];
      const std::byte* got = runner.output(k);
      const std::size_t width = storage_size(wanted.dtype());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (!std::equal(got + i * width, got + (i + 1) * width, wanted.data() + i * width)) {
          return "element " + std::to_string(i) + " of a " + sample_.name + " with worst-case operands is wrong";
        }
      }
    }
    return "";
  }

  Sample sample_;
  std::string word_;
  std::optional<ir::Graph> fused_;
  ops::Facts facts_;
  std::vector<Tensor> expected_;
};

std::vector<Trial> make_trials() {
  constexpr Operands kWorst = Operands::worst;
  std::vector<Trial> out;
  const auto add = [&](Sample s, const char* word = "") { out.emplace_back(std::move(s), word); };
  // Depths beyond one vector, channels that leave tails.
  add(sample_conv({.channels = 68, .height = 3, .width = 3, .out_channels = 17, .relu = true}, kWorst));
  add(sample_conv({.channels = 16,
                   .height = 4,
                   .width = 5,
                   .out_channels = 17,
                   .kernel_h = 3,
                   .kernel_w = 3,
                   .pad = 1,
                   .x = DType::int8},
                  kWorst));
  add(sample_conv({.channels = 21,
                   .height = 5,
                   .width = 6,
                   .out_channels = 21,
                   .kernel_h = 3,
                   .kernel_w = 3,
                   .pad = 1,
                   .groups = 21},
                  kWorst));
  add(sample_conv({.channels = 21,
                   .height = 4,
                   .width = 5,
                   .out_channels = 66,
                   .kernel_h = 3,
                   .kernel_w = 3,
                   .pad = 1,
                   .x = DType::uint16},
                  kWorst));
  add(sample_conv({.channels = 37,
                   .height = 5,
                   .width = 6,
                   .out_channels = 37,
                   .kernel_h = 3,
                   .kernel_w = 3,
                   .pad = 1,
                   .groups = 37,
                   .x = DType::int16},
                  kWorst));
  add(sample_product({.rows = 5, .depth = 130, .columns = 17}, kWorst));
  add(sample_product({.rows = 3, .depth = 70, .columns = 17, .a = DType::int8, .gemm = true}, kWorst));
  add(sample_product({.batch = 2, .rows = 5, .depth = 67, .columns = 17, .b = DType::uint8, .constant_b = false},
                     kWorst));
  for (const char* op : {"Add", "Sub", "Mul"}) add(sample_binary(op, {1, 5, 3, 7}, {1, 5, 3, 7}, DType::uint8, kWorst));
  add(sample_binary("Add", {3, 35}, {3, 35}, DType::int8, kWorst));
  for (const char* op : {"Add", "Mul"}) add(sample_binary(op, {3, 35}, {3, 35}, DType::uint16, kWorst));
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool"}) {
    add(sample_unary(op, {1, 19, 4, 4}, DType::uint8, kWorst));
  }
  for (const char* op : {"Softmax", "LayerNormalization"}) add(sample_unary(op, {3, 37}, DType::uint8, kWorst));
  add(sample_unary("Sigmoid", {3, 37}, DType::uint8, kWorst), "Table");  // what the passes make of it
  add(sample_quantize({3, 37}, DType::uint8));
  add(sample_quantize({3, 37}, DType::int8));
  add(sample_dequantize({3, 37}, DType::uint8));
  add(sample_unary("Transpose", {3, 5, 7}, DType::uint8, kWorst));
  for (const char* op : {"Add", "Div"}) add(sample_binary(op, {3, 37}, {37}, DType::uint8, kWorst), "elementwise");
  add(sample_dequantize({3, 37}, DType::uint8), "elementwise");
  return out;
}

}  // namespace

const std::string& self_test(const Entry& entry) {
  // Of the processor, not of any model: hence kept for the process.
  static std::mutex mutex;
  static std::map<std::pair<Factory, std::string>, std::string> results;
  static std::vector<Trial> trials;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = results.try_emplace({entry.make, std::string(entry.name)});
  if (!fresh) return at->second;
  if (trials.empty()) trials = make_trials();
  try {
    for (Trial& trial : trials) {
      if (!trial.accepted_by(entry)) continue;
      at->second = trial.run(entry);
      if (!at->second.empty()) break;
    }
  } catch (const Error& e) {
    at->second = std::string("it failed: ") + e.what();
  }
  return at->second;
}

}  // namespace halfeven::plan
