// halfeven: a reference engine for quantized ONNX networks. What the interpreter, the passes
// and verify offer; the engine is in executable.hpp.
//
// Numbers follow the numeric contract (docs/contract.md); its sections are cited where they decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <halfeven/error.hpp>
#include <halfeven/tensor.hpp>
#include <halfeven/types.hpp>

namespace halfeven {

/// How results are rounded. Contract sections 1 and 2.
enum class Contract {
  exact,         ///< every operator exact, rounded once by its reader
  onnx_float32,  ///< every operator's exact result rounded once to its float type
};

/// "exact" or "onnx-float32"; nullopt for anything else.
std::optional<Contract> parse_contract(std::string_view name);
std::string_view to_string(Contract contract);

/// A model input or output as the model declares it.
struct ValueInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::optional<Shape> shape;          ///< -1 where a dimension is symbolic or unknown; nullopt: rank unknown
  std::vector<std::string> dim_names;  ///< symbol of each dimension ("" where it has none); may be empty
  bool optional = false;               ///< an input with a default (an initializer of the same name)
};

/// Quantisation parameters of one QuantizeLinear or DequantizeLinear, as far as they are constants of the model.
struct Quantization {
  std::string node;     ///< name of the node, or of its first output
  std::string op_type;  ///< QuantizeLinear or DequantizeLinear
  std::string tensor;   ///< the quantized tensor
  DType dtype = DType::undefined;
  Tensor scale;                 ///< undefined type if computed at run time
  Tensor zero_point;            ///< undefined type if absent (then 0) or computed
  std::int64_t axis = 1;        ///< meaning for scales of rank 1 and blocked ones
  std::int64_t block_size = 0;  ///< 0: not blocked
};

/// Operators of one kind and how often they occur.
struct OperatorCount {
  std::string domain;  ///< "" for ai.onnx
  std::string op_type;
  std::size_t count = 0;
};

/// What `halfeven inspect` prints.
struct Summary {
  std::string name;
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, int> opsets;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<OperatorCount> operators;
  std::map<std::string, std::size_t> quantized_types;  ///< element type -> tensors that are quantized to it
  std::size_t parameters = 0;                          ///< elements of all initializers
  std::size_t parameter_bytes = 0;                     ///< as ONNX packs them
  std::optional<std::uint64_t> macs;  ///< multiply-adds of Conv, MatMul, Gemm and their kin; nullopt: shapes unknown
  std::string hash;                   ///< structural hash, 64 hex digits
};

/// A loaded, valid model. Cheap to copy, immutable, safe to share between threads.
class Model {
 public:
  /// Reads an ONNX file. External data is mapped, and only from the file's own folder. Throws Error{model} naming what
  /// is wrong and where; Error{other} if the file cannot be opened.
  static Model load(const std::filesystem::path& path, const Limits& limits = {});

  /// Reads a model from memory. External data, if the model has any, is looked for in `folder`; without one it is an
  /// error.
  static Model load(std::span<const std::byte> bytes, const Limits& limits = {},
                    const std::filesystem::path& folder = {});

  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  std::vector<Quantization> quantization() const;
  /// Multiply-adds are counted with the shapes of `input_shapes` where given (by input name), else as declared.
  Summary summary(const std::map<std::string, Shape>& input_shapes = {}) const;
  /// What a careful reader should know (negative scales, symbols bound to two values ...), a sentence each.
  std::vector<std::string> warnings() const;
  /// The graph as text, a node a line.
  std::string text() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  friend class ModelAccess;
  std::shared_ptr<const Impl> impl_;
};

/// Called after each node: nodes done, nodes in all. Never from two threads at once.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

/// Called for every tensor that a node computes, in order: its name and what an ordinary reader sees of it (contract
/// section 1, rule 5), a dequantized value rounded to its type.
using Tap = std::function<void(const std::string& name, const Tensor& tensor)>;

struct InterpretOptions {
  Contract contract = Contract::exact;
  int threads = 0;  ///< 0: as many as the machine has. Changes no bit.
  Progress progress;
  Tap tap;
  std::function<void(const std::string&)> warn;  ///< receives warnings found while running
};

/// Inputs by name. Values need the declared type; a shape is checked against the declared one.
using NamedTensors = std::map<std::string, Tensor>;

/// Runs the model operator by operator. Returns the outputs in the model's order. Throws Error{input} for inputs that
/// are missing, unknown, of the wrong type or shape, or lead to a value without an answer (contract section 6), and
/// Error{model} where the model itself is at fault.
std::vector<Tensor> interpret(const Model& model, const NamedTensors& inputs, const InterpretOptions& options = {});

/// What interpret() asks of its inputs before it runs: throws Error{input} where one is missing, unknown or does not
/// fit its declaration. `warn` receives what is odd, but allowed: one symbol that stands for two dimensions.
void check_inputs(const Model& model, const NamedTensors& inputs,
                  const std::function<void(const std::string&)>& warn = {});

/// What a pass found at one place of the graph: rewritten into what, or refused and why.
struct Finding {
  std::string pass;
  std::string where;  ///< node, or its first output
  bool applied = true;
  std::string text;    ///< what was made of it, or why not
  std::string advice;  ///< for refusals: the nearest thing that the model's author could change; may be empty
};

/// One pass that ran, and how much it changed.
struct PassStep {
  std::string pass;
  std::size_t changes = 0;
  double milliseconds = 0;
};

/// A fused model and how it came about.
struct Fusion {
  Model model;
  std::vector<PassStep> steps;  ///< in order, needed passes included
  std::vector<Finding> findings;
  std::size_t compute_operators = 0;  ///< Conv, ConvTranspose, MatMul, Gemm of the original
  std::size_t fused_operators = 0;    ///< of these, how many are integer operators now
};

/// Name and summary of every pass, in the order of the default pipeline.
std::vector<std::pair<std::string, std::string>> pass_names();

/// Turns the QDQ graph into integer operators. `passes` is a comma-separated list; empty: all of them. Changes no bit
/// of any result under Contract::exact. Throws Error{usage} for an unknown pass.
Fusion fuse(const Model& model, std::string_view passes = {});

/// The model as an ONNX file. Fused operators that ONNX lacks are model-local functions of domain "halfeven", whose
/// bodies are what they replace, so other runtimes can run them. Throws Error{other} if it cannot be written.
std::vector<std::byte> serialize(const Model& model);
void save(const Model& model, const std::filesystem::path& path);

/// What verify() is to do.
struct VerifyOptions {
  std::string passes;                   ///< as fuse() takes them; empty: all of them
  int random = 0;                       ///< so many sets of random inputs besides the given ones
  std::uint64_t seed = 0;               ///< of the random inputs; the same numbers on every machine
  std::map<std::string, Shape> shapes;  ///< of random inputs whose shape the model leaves open
  int threads = 0;                      ///< 0: as many as the machine has. Changes no bit.
  bool contracts = true;                ///< also compare Contract::exact with Contract::onnx_float32
  bool kernels = true;                  ///< also compare every kernel of the plans with the interpreter
  std::string isa;                      ///< plans for this instruction set only; empty: for every one there is
  std::vector<std::string> prefer;      ///< kernels that the plans are to take where they serve
  /// Called before each step: steps done, and what comes next ("fuse-qdq, input set 1").
  std::function<void(std::size_t done, const std::string& next)> progress;
};

/// One pass that changed the graph, proven by the exact interpreter on the graphs before and after it (contract
/// section 3.2). Every graph output and every tensor whose name both graphs know is compared by type, shape and bits.
struct PassCheck {
  std::string pass;
  std::size_t changes = 0;
  std::size_t tensors = 0;    ///< compared, over all input sets
  std::size_t differing = 0;  ///< of these; 0 or the pass is wrong
  std::string difference;     ///< the first one: tensor, element, both values; or the error that the pass led to

  bool ok() const { return differing == 0 && difference.empty(); }
};

/// An element that the two contracts quantize differently. Distances are in steps of the quantized tensor.
struct FlippedElement {
  std::size_t input_set = 0;
  std::string tensor;
  std::vector<std::int64_t> position;
  double exact_value = 0;    ///< quantized value without zero point under Contract::exact
  double float32_value = 0;  ///< the same under Contract::onnx_float32
  double quotient = 0;       ///< exact quotient value / scale, rounded to double for printing
  double distance = 0;       ///< of the exact quotient from the tie between the two values
  double bound = 0;          ///< of the float32 path's error, computed for this element
  bool certified = false;    ///< the two are one step apart, and distance <= bound
};

/// One QuantizeLinear or DynamicQuantizeLinear and the float operators before it, run under both contracts on the
/// quantized tensors of the exact one (contract section 3.3), over all input sets.
struct GroupCheck {
  std::string node;       ///< the quantizing node's name, or its first output
  std::string operators;  ///< float operators of the group, the last one first: "Relu, Conv"
  std::size_t elements = 0;
  std::size_t differing = 0;
  std::vector<FlippedElement> flipped;  ///< every differing element
  std::string note;                     ///< why part of it was not judged; usually empty

  bool ok() const;
};

/// How far the two contracts are apart at a graph output: reported, not judged.
struct OutputDrift {
  std::size_t input_set = 0;
  std::string output;
  std::size_t elements = 0;
  std::size_t differing = 0;
  double largest = 0;  ///< difference, in steps of an integer type, in ulps of a float type
};

/// One step of a plan, run on what the interpreter gives its inputs and compared with what the interpreter gives for it
/// (contract section 3.1).
struct KernelCheck {
  std::size_t input_set = 0;
  std::string node;  ///< the first node that the step computes, or the value that it converts
  std::string kernel;
  std::string isa;  ///< of the plan
  int threads = 1;
  std::size_t elements = 0;
  std::size_t differing = 0;
  std::string difference;  ///< the first one: element and both values; or the error that the kernel gave

  bool ok() const { return differing == 0 && difference.empty(); }
};

/// What verify() found.
struct VerifyReport {
  std::size_t input_sets = 0;
  std::vector<std::string> passes;     ///< the pipeline, needed passes included, in the order in which they ran
  std::vector<PassCheck> steps;        ///< of these, the ones that changed something
  std::vector<KernelCheck> kernels;    ///< every kernel of every plan, on 1 and on 4 threads
  std::vector<GroupCheck> groups;      ///< in the graph's order
  std::vector<OutputDrift> in_groups;  ///< float outputs, both contracts given the exact path's quantized tensors
  std::vector<OutputDrift> whole;      ///< all outputs, each contract on its own from the inputs on
  std::string note;                    ///< why onnx-float32 has no answer to a whole run; usually empty

  bool ok() const;
  /// For people: pass by pass, then group by group with up to `most` flipped elements, then one closing line.
  std::string text(std::size_t most = 20) const;
};

/// Proves by computing that the passes change no bit, that every kernel gives the interpreter's bits on every
/// instruction set that this processor has, and that the two contracts differ only where they may (contract section 3).
/// Needs at least one set of inputs, given or random. Throws Error{usage} for an unknown pass or an option without a
/// meaning, Error{input} as interpret() does.
VerifyReport verify(const Model& model, const std::vector<NamedTensors>& inputs, const VerifyOptions& options = {});

/// The version of the library: "0.1.0".
std::string_view version();

}  // namespace halfeven
