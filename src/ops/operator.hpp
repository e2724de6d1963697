// What an operator is: its versions, its type and shape inference, its exact meaning. One file per operator family
// defines them; table.inc lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <halfeven/error.hpp>
#include <halfeven/tensor.hpp>

#include "ir/graph.hpp"
#include "numerics/exact_tensor.hpp"

namespace halfeven::ops {

/// Type and, as far as it is known, shape of a value (-1 for a dimension not known).
struct TypeShape {
  DType dtype = DType::undefined;
  std::optional<Shape> shape;
};

/// The value of a tensor between two operators: real numbers for the four float types, else a plain tensor.
struct Data {
  Tensor tensor;             ///< set for every type but float16, bfloat16, float32, float64
  numerics::ExactPtr reals;  ///< set for those

  Data() = default;
  Data(Tensor t);  // NOLINT(google-explicit-constructor): float tensors become reals
  Data(numerics::ExactPtr r) : reals(std::move(r)) {}  // NOLINT(google-explicit-constructor)

  bool present() const { return reals != nullptr || tensor.dtype() != DType::undefined; }
  DType dtype() const { return reals ? reals->dtype() : tensor.dtype(); }
  const Shape& shape() const { return reals ? reals->shape() : tensor.shape(); }
  std::size_t size() const { return reals ? reals->size() : tensor.size(); }
  std::size_t rank() const { return shape().size(); }
};

/// Reads a node's attributes; errors name the node.
class NodeReader {
 public:
  NodeReader(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node) {}

  const ir::Node& node() const { return node_; }
  int version() const { return node_.version; }  ///< opset version of the operator's domain
  bool has_attribute(const std::string& name) const { return node_.attributes.contains(name); }
  std::int64_t get_int(const std::string& name, std::int64_t otherwise) const;
  float get_float(const std::string& name, float otherwise) const;
  std::string get_string(const std::string& name, const std::string& otherwise) const;
  std::vector<std::int64_t> get_ints(const std::string& name, std::vector<std::int64_t> otherwise) const;
  std::vector<float> get_floats(const std::string& name, std::vector<float> otherwise) const;
  std::optional<Tensor> get_tensor(const std::string& name) const;

  std::size_t inputs() const { return node_.inputs.size(); }
  std::size_t outputs() const { return node_.outputs.size(); }
  bool has_input(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i].present(); }
  bool has_output(std::size_t i) const { return i < node_.outputs.size() && node_.outputs[i].present(); }
  /// Name of the tensor at input i, for messages.
  const std::string& input_name(std::size_t i) const { return graph_.value(node_.inputs[i]).name; }

  /// Throws Error{model}: "<node>: <message>". `fail_input`: Error{input}, for values and shapes that inputs bring.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_input(const std::string& message) const;

 private:
  template <class T>
  const T* attribute(const std::string& name, const char* kind) const;

  const ir::Graph& graph_;
  const ir::Node& node_;
};

/// What inference may look at: types, shapes as far as known, and values of inputs that are known.
class InferContext : public NodeReader {
 public:
  InferContext(const ir::Graph& graph, const ir::Node& node, std::vector<TypeShape> inputs,
               std::vector<std::optional<Tensor>> constants)
      : NodeReader(graph, node), inputs_(std::move(inputs)), constants_(std::move(constants)) {}

  DType dtype(std::size_t i) const { return inputs_[i].dtype; }
  const std::optional<Shape>& shape(std::size_t i) const { return inputs_[i].shape; }
  const TypeShape& type(std::size_t i) const { return inputs_[i]; }
  /// The value of input i where it is known: a constant, or at run time (then always for integer inputs).
  const std::optional<Tensor>& constant(std::size_t i) const { return constants_[i]; }
  /// The value of integer input i (int32 or int64, rank 0 or 1); nullopt where absent or not known.
  std::optional<std::vector<std::int64_t>> constant_ints(std::size_t i) const;
  /// The value of float input i; nullopt where absent or not known.
  std::optional<std::vector<double>> constant_floats(std::size_t i) const;

  /// Throws unless input i has one of the types (checked for present inputs).
  void require_type(std::size_t i, std::initializer_list<DType> allowed) const;
  void require_float(std::size_t i) const;
  /// Throws unless inputs i and j have the same type.
  void require_same_type(std::size_t i, std::size_t j) const;
  /// Rank of input i, if known; throws unless it lies in [least, most].
  std::optional<std::size_t> require_rank(std::size_t i, std::size_t least, std::size_t most) const;

 private:
  std::vector<TypeShape> inputs_;
  std::vector<std::optional<Tensor>> constants_;
};

/// What evaluation may look at: the input values, as this operator reads them, and the outputs' types and shapes.
class EvalContext : public NodeReader {
 public:
  EvalContext(const ir::Graph& graph, const ir::Node& node, std::vector<Data> inputs, std::vector<TypeShape> results,
              bool exact_contract, int threads)
      : NodeReader(graph, node),
        inputs_(std::move(inputs)),
        results_(std::move(results)),
        exact_(exact_contract),
        threads_(threads) {}

  const Data& input(std::size_t i) const { return inputs_[i]; }
  std::size_t input_count() const { return inputs_.size(); }
  /// Float input i as real numbers.
  const numerics::ExactPtr& reals(std::size_t i) const { return inputs_[i].reals; }
  /// Input i as a plain tensor: integers as they are, floats rounded to their type.
  Tensor tensor(std::size_t i) const;
  /// Integer input i (any integer type or boolean) as int64.
  std::vector<std::int64_t> ints(std::size_t i) const;

  DType result_type(std::size_t i = 0) const { return results_[i].dtype; }
  const Shape& result_shape(std::size_t i = 0) const { return *results_[i].shape; }
  /// True under contract section 1, false under section 2.
  bool exact_contract() const { return exact_; }
  int threads() const { return threads_; }

 private:
  std::vector<Data> inputs_;
  std::vector<TypeShape> results_;
  bool exact_;
  int threads_;
};

/// Contract section 1, rule 4: which operators pass their data inputs on, and which inputs these are.
enum class PassOn : std::uint8_t {
  none,
  first,        ///< the first input
  all,          ///< every input (Concat)
  last_two,     ///< the second and third (Where)
  if_widening,  ///< the first, for a Cast to a float type that holds every value of the source
};

/// An operator: everything the rest of the house knows about it.
struct Operator {
  std::string_view domain;  ///< "" for ai.onnx
  std::string_view name;
  std::vector<int> versions;  ///< opset versions at which the operator changed, as far as they are served
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;  ///< kVariadic: any number
  std::size_t max_outputs = 1;
  std::vector<TypeShape> (*infer)(const InferContext&) = nullptr;  ///< one per output of the node
  std::vector<Data> (*evaluate)(const EvalContext&) = nullptr;     ///< one per output of the node
  PassOn pass_on = PassOn::none;
  /// The output's value where types and shapes alone determine it (Shape, Size); nullopt while they do not.
  std::optional<Tensor> (*value_of_types)(const InferContext&) = nullptr;
};

inline constexpr std::size_t kVariadic = SIZE_MAX;

/// All operators, by domain and name.
std::span<const Operator> operators();
/// The operator of that domain and name, or null.
const Operator* find_operator(std::string_view domain, std::string_view name);

}  // namespace halfeven::ops
