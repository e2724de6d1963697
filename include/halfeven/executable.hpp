// Executable: a model fused, planned for this machine and ready to run on integer kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <halfeven/tensor.hpp>

namespace halfeven {

class Model;

struct CompileOptions {
  std::map<std::string, Shape> shapes;  ///< of inputs whose declared shape has unknown dimensions
  int threads = 0;                      ///< that a Context uses; 0: as many as the machine has. Changes no bit.
  /// "sse2" (which stands for portable code elsewhere), "avx2", "avx512", "vnni" or "amx"; empty: what the environment
  /// variable HALFEVEN_ISA says, else the best that this processor has. Changes no bit.
  std::string isa;
  std::vector<std::string> kernels;  ///< names of kernels to be preferred where they serve (`halfeven plan` lists them)
};

/// One step of the plan, as `halfeven plan` prints it.
struct PlanStep {
  std::string node;
  std::string op_type;
  std::string kernel;                 ///< "reference": the interpreter
  std::string note;                   ///< accumulator range, requantise variant
  std::vector<std::string> refusals;  ///< why the kernels that come first did not take it
};

struct PlanReport {
  std::string isa;
  std::vector<PlanStep> steps;
  std::size_t arena_bytes = 0;   ///< memory for tensors between steps, reused
  std::size_t tensor_bytes = 0;  ///< what they would take side by side
  std::size_t scratch_bytes = 0;
};

/// What one step took in a profiled run.
struct StepTime {
  std::size_t step = 0;  ///< index into PlanReport::steps
  double milliseconds = 0;
};

/// Immutable; shared by threads. Gives the bits of interpret() under Contract::exact.
class Executable {
 public:
  /// Fuses, plans and packs. Throws Error{model} where a shape is known only when the model runs, Error{usage} for an
  /// unknown or missing instruction set or shape.
  static Executable compile(const Model& model, const CompileOptions& options = {});

  PlanReport plan() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Executable(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Memory and threads for running an Executable: one run at a time.
class Context {
 public:
  explicit Context(const Executable& executable);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  /// Inputs by name, of the types and shapes that the Executable was made for. Returns the outputs in the model's
  /// order. `times`, if given, receives what each step took. Throws Error{input} like interpret().
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, std::vector<StepTime>* times = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace halfeven
