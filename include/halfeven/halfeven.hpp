// halfeven: a reference engine for quantized ONNX networks. This header is all an application needs.
//
// Numbers follow the numeric contract (docs/contract.md); its sections are cited where they decide.
#pragma once

#include <cstddef>
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

/// The version of the library: "0.1.0".
std::string_view version();

}  // namespace halfeven
