// Small graphs as plain data: written out as ONNX for the engine, read as they are by the rational evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <halfeven/tensor.hpp>

namespace halfeven::properties {

/// A tensor whose elements are doubles, which hold every value of the types used here exactly. No NaN, no -0.
struct SmallTensor {
  DType dtype = DType::float32;
  Shape shape;
  std::vector<double> values;
};

struct SmallNode {
  std::string op;
  std::vector<std::string> inputs;  ///< "": absent
  std::string output;
  std::map<std::string, std::int64_t> integers;
  std::map<std::string, std::vector<std::int64_t>> lists;
  std::map<std::string, float> floats;
  std::map<std::string, std::string> strings;
  std::vector<std::string> more_outputs{};  ///< behind the first
};

struct SmallGraph {
  std::vector<std::pair<std::string, SmallTensor>> inputs;
  std::vector<std::pair<std::string, SmallTensor>> constants;
  std::vector<SmallNode> nodes;
  std::vector<std::string> outputs;
};

/// A binary format: bits of precision, exponent of the least bit, greatest exponent e (values below 2^(e + 1)).
struct BinaryFormat {
  int precision;
  int lowest;
  int highest;
};
BinaryFormat binary_format(DType type);

/// The tensor as the engine holds it.
Tensor to_tensor(const SmallTensor& tensor);

/// An ONNX model (opset 21) of the graph; outputs are declared without shape, negative dimensions of inputs as symbols.
std::string to_onnx(const SmallGraph& graph);

/// For messages: a node a line.
std::string to_text(const SmallGraph& graph);

}  // namespace halfeven::properties
