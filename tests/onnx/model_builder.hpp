// Makes small ONNX models for the tests of the importer, valid ones and broken ones.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <halfeven/error.hpp>

#include "onnx/import.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx::testing {

using onnx_schema::AttributeProto;
using onnx_schema::FunctionProto;
using onnx_schema::ModelProto;
using onnx_schema::NodeProto;
using onnx_schema::TensorProto;
using onnx_schema::ValueInfoProto;

using Names = std::vector<std::string>;

inline void add_opset(google::protobuf::RepeatedPtrField<onnx_schema::OperatorSetIdProto>& opsets, const char* domain,
                      int version) {
  auto* opset = opsets.Add();
  opset->set_domain(domain);
  opset->set_version(version);
}

inline ModelProto empty_model(int opset = 17) {
  ModelProto model;
  model.set_ir_version(8);
  model.mutable_graph()->set_name("g");
  add_opset(*model.mutable_opset_import(), "", opset);
  return model;
}

inline void declare(ValueInfoProto& info, const char* name, DType type, std::initializer_list<std::int64_t> dims) {
  info.Clear();
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type));
  tensor->mutable_shape();
  for (const std::int64_t dim : dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

inline void add_input(ModelProto& model, const char* name, DType type = DType::float32,
                      std::initializer_list<std::int64_t> dims = {2}) {
  declare(*model.mutable_graph()->add_input(), name, type, dims);
}

inline void add_output(ModelProto& model, const char* name) { model.mutable_graph()->add_output()->set_name(name); }

inline void fill(NodeProto& node, const char* op, const char* name, const Names& inputs, const Names& outputs,
                 const char* domain = "") {
  node.set_op_type(op);
  node.set_name(name);
  node.set_domain(domain);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
}

inline NodeProto& add_node(ModelProto& model, const char* op, const char* name, const Names& inputs,
                           const Names& outputs, const char* domain = "") {
  NodeProto& node = *model.mutable_graph()->add_node();
  fill(node, op, name, inputs, outputs, domain);
  return node;
}

inline TensorProto& add_initializer(ModelProto& model, const char* name, DType type,
                                    std::initializer_list<std::int64_t> dims, const std::string& raw = {}) {
  TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int>(type));
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  if (!raw.empty()) tensor.set_raw_data(raw);
  return tensor;
}

inline AttributeProto& add_int(NodeProto& node, const char* name, std::int64_t value) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(2);
  attribute.set_i(value);
  return attribute;
}

inline AttributeProto& add_reference(NodeProto& node, const char* name, const char* parameter, int type) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  attribute.set_ref_attr_name(parameter);
  return attribute;
}

/// x -> Relu 'r' -> y.
inline ModelProto relu_model() {
  ModelProto model = empty_model();
  add_input(model, "x");
  add_node(model, "Relu", "r", {"x"}, {"y"});
  add_output(model, "y");
  return model;
}

/// relu_model() with one more tensor that nothing reads.
inline ModelProto with_initializer(DType type, std::initializer_list<std::int64_t> dims, const std::string& raw = {}) {
  ModelProto model = relu_model();
  add_initializer(model, "w", type, dims, raw);
  return model;
}

/// The first initializer.
inline TensorProto& initializer(ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }

inline ir::Graph import(const ModelProto& model, const Limits& limits = {}, const std::filesystem::path& folder = {}) {
  const std::string bytes = model.SerializeAsString();
  return import_model(std::as_bytes(std::span(bytes)), limits, folder);
}

/// The elements of a tensor.
template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

/// The message of the Error{model} that importing throws; "no error" if it throws none.
inline std::string error_of(const ModelProto& model, const Limits& limits = {},
                            const std::filesystem::path& folder = {}) {
  try {
    import(model, limits, folder);
  } catch (const Error& error) {
    return error.code() == ErrorCode::model ? error.what() : "wrong code: " + std::string(error.what());
  }
  return "no error";
}

}  // namespace halfeven::onnx::testing
