// Executable: a model fused, planned for this machine and ready to run on integer kernels.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <halfeven/halfeven.hpp>
#include <halfeven/tensor.hpp>
#include <halfeven/thread_pool.hpp>

namespace halfeven {

struct CompileOptions {
  /// Of inputs whose declared shape has unknown dimensions: all of them, or none to plan when a run brings them.
  std::map<std::string, Shape> shapes;
  /// Refuse runs with other shapes than these. The model's constants are let go then where kernels have packed them.
  bool only_these_shapes = false;
  Contract contract = Contract::exact;  ///< kernels know no other; interpret() does
  /// "cpu": kernels, and the interpreter for what none takes. "reference": the interpreter for all of it. "auto": cpu,
  /// or reference where a shape is known only when the model runs. Changes no bit.
  std::string backend = "auto";
  int threads = 0;  ///< that a Context uses; 0: as many as the machine has. Changes no bit.
  /// "sse2" (which stands for portable code elsewhere), "avx2", "avx512", "vnni" or "amx"; empty: what the environment
  /// variable HALFEVEN_ISA says, else the best that this processor has. Changes no bit.
  std::string isa;
  std::vector<std::string> kernels;  ///< names of kernels to be preferred where they serve (kernel_names() lists them)
  /// For measuring what exactness costs, and for nothing else: convolutions round in float32 without checking, so
  /// results may be off by one.
  bool plain_rounding = false;
  Limits limits;  ///< tensor_bytes bounds every tensor, and the memory between steps
};

/// Name, instruction set and operators of every kernel, those that are preferred first.
struct KernelInfo {
  std::string name;
  std::string isa;
  std::string takes;
};
std::vector<KernelInfo> kernel_names();

/// A tensor between steps, as the plan stores it.
struct PlanTensor {
  std::string memory;      ///< "arena", "input", "constant"; empty: absent
  std::size_t offset = 0;  ///< in the arena
  std::size_t bytes = 0;
  std::string layout;     ///< "plain" or "channels_last"
  bool biased = false;    ///< int8 stored as uint8, 128 added
  bool in_place = false;  ///< shares the memory of one of the step's inputs
};

/// How a step rounds sums of integers to its output's grid, and what was proved of it (contract section 4). Distances
/// are in steps of the output.
struct PlanRounding {
  std::string variant;  ///< what the kernel computes with, and where it looks twice
  /// The least distance from a tie, ties apart, among results that do not saturate, all channels: of all sums within
  /// their bounds, so reachable ones may keep further away. Rounded down; infinity where there are only ties.
  double closest_approach = 0;
  bool ties = false;            ///< whether such results include ties
  double double_error = 0;      ///< bound of what double is off by; 0: it is exact
  double float_error = 0;       ///< likewise of float32; infinity where it is of no use
  bool double_decides = false;  ///< proved: what double leaves open are ties, so no result needs more than double
  bool float_decides = false;   ///< proved: no float32 result needs a second look
};

/// One step of the plan, as `halfeven plan` prints it.
struct PlanStep {
  std::string node;
  std::string op_type;
  std::string kernel;  ///< "reference": the interpreter
  std::string note;    ///< accumulator range, requantise variant
  std::optional<PlanRounding> rounding;
  std::vector<std::string> refusals;  ///< why the kernels that come first did not take it: "conv.vnni: is no ..."
  std::vector<PlanTensor> outputs;
  std::size_t scratch_bytes = 0;
  std::size_t weight_bytes = 0;  ///< packed weights, tables, factors
};

struct PlanReport {
  std::string isa;
  std::vector<PlanStep> steps;
  std::size_t arena_bytes = 0;         ///< memory for tensors between steps, reused
  std::size_t tensor_bytes = 0;        ///< what they would take side by side
  std::size_t largest_live_bytes = 0;  ///< what one step needs at most: no arrangement takes less
  std::size_t scratch_bytes = 0;
  std::size_t weight_bytes = 0;      ///< sum over the steps
  std::vector<std::string> dropped;  ///< kernels that failed their self-test on this machine, and how
};

/// What one step took in a profiled run.
struct StepTime {
  std::size_t step = 0;  ///< index into PlanReport::steps
  double milliseconds = 0;
  double start = 0;  ///< milliseconds since the run began
};

/// A tensor in memory of the caller, aligned as its elements are. The shape is looked at, not copied, and has to
/// outlive the view.
struct TensorView {
  DType dtype = DType::undefined;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;

  TensorView() = default;
  TensorView(DType type, std::span<const std::int64_t> s, std::span<const std::byte> b)
      : dtype(type), shape(s), bytes(b) {}
  TensorView(const Tensor& t) : dtype(t.dtype()), shape(t.shape()), bytes(t.bytes()) {}  // NOLINT: as Tensor is used
};

/// Memory of the caller for a result.
struct MutableTensorView {
  DType dtype = DType::undefined;
  std::span<const std::int64_t> shape;
  std::span<std::byte> bytes;
};

struct NamedView {
  std::string_view name;
  TensorView tensor;
};
struct NamedMutableView {
  std::string_view name;
  MutableTensorView tensor;
};

/// Immutable; shared by threads. Gives the bits of interpret() under Contract::exact. Holds plans for the shapes that
/// were last asked for, at most kMostPlans, each with weights of its own; one is made at a time.
class Executable {
 public:
  static constexpr std::size_t kMostPlans = 8;

  /// Fuses, plans and packs. Throws Error{model} where a shape is known only when the model runs (backend "cpu"), or
  /// memory beyond the limits is needed; Error{usage} for a contract, backend, instruction set, kernel or shape that
  /// there is not.
  static Executable compile(const Model& model, const CompileOptions& options = {});
  /// The same for a model that is not needed any more: its constants are let go as kernels pack them, so that no two
  /// copies of the weights are held at one time.
  static Executable compile(Model&& model, const CompileOptions& options = {});

  /// Of the shapes that were compiled first. Throws Error{usage} if there are none yet.
  PlanReport plan() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Executable(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  friend class Context;
  std::shared_ptr<const Impl> impl_;
};

/// Memory and threads for running an Executable: one run at a time.
class Context {
 public:
  /// `pool`: threads to run on; by default a pool of its own with CompileOptions::threads of them.
  explicit Context(const Executable& executable, std::shared_ptr<ThreadPool> pool = nullptr);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  /// Inputs by name. Returns the outputs in the model's order. Shapes that the Executable has no plan for are planned
  /// now, which takes as long as compile(). `times`, if given, receives what each step took. Throws Error{input} like
  /// interpret().
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, std::vector<StepTime>* times = nullptr);

  /// The same on memory of the caller, inputs and outputs in the model's order. A view without type, and inputs left
  /// out at the end, stand for the default. After the first run with its shapes this allocates nothing as long as every
  /// step has a kernel, and takes no lock. Throws Error{input} also for an output of the wrong type, shape or size.
  void run(std::span<const TensorView> inputs, std::span<const MutableTensorView> outputs,
           std::vector<StepTime>* times = nullptr);

  /// The same by name; outputs that are not named are not given.
  void run(std::span<const NamedView> inputs, std::span<const NamedMutableView> outputs,
           std::vector<StepTime>* times = nullptr);

  /// Types and shapes of the outputs for inputs of these types and shapes, whose bytes are not read. Plans if need be.
  /// Throws Error{input} where they are known only when the model runs.
  std::vector<ValueInfo> output_types(std::span<const TensorView> inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace halfeven
