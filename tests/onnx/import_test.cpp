#include "onnx/import.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "model_builder.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr std::int64_t kHuge = std::int64_t{1} << 33;

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

// relu_model() with one more tensor that nothing reads.
ModelProto with_initializer(DType type, std::initializer_list<std::int64_t> dims, const std::string& raw = {}) {
  ModelProto model = relu_model();
  add_initializer(model, "w", type, dims, raw);
  return model;
}

TensorProto& initializer(ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }

Tensor imported(const ModelProto& model) {
  const ir::Graph graph = import(model);
  return graph.initializers.at(graph.find("w"));
}

TEST(Import, ReadsWhatAModelDeclares) {
  ModelProto model = relu_model();
  model.set_producer_name("maker");
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("N");
  shape->add_dim();
  declare(*model.mutable_graph()->mutable_output(0), "y", DType::float32, {2, 3, 4});
  const ir::Graph graph = import(model);
  EXPECT_EQ(graph.name, "g");
  EXPECT_EQ(graph.producer, "maker");
  EXPECT_EQ(graph.ir_version, 8);
  EXPECT_EQ(graph.opsets, (std::map<std::string, int>{{"", 17}}));
  const ir::Value& x = graph.value(graph.inputs.at(0));
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.dtype, DType::float32);
  EXPECT_EQ(x.shape, (Shape{2, kUnknownDim, kUnknownDim}));
  EXPECT_EQ(x.dim_names, (std::vector<std::string>{"", "N", ""}));
  EXPECT_EQ(graph.value(graph.outputs.at(0)).shape, (Shape{2, 3, 4}));
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].version, 17);
  EXPECT_EQ(ir::describe(graph, graph.nodes[0]), "Relu 'r'");
}

TEST(Import, NormalisesTheDefaultDomain) {
  ModelProto model = relu_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  const ir::Graph graph = import(model);
  EXPECT_EQ(graph.nodes[0].domain, "");
  EXPECT_EQ(graph.opsets.at(""), 17);
}

TEST(Import, KeepsAbsentInputsInside) {
  ModelProto model = relu_model();
  add_node(model, "Clip", "c", {"y", "", "y", "", ""}, {"z", ""});
  const ir::Graph graph = import(model);
  ASSERT_EQ(graph.nodes[1].inputs.size(), 3U);
  EXPECT_FALSE(graph.nodes[1].inputs[1].present());
  EXPECT_EQ(graph.nodes[1].outputs.size(), 2U);
}

TEST(Import, InitializersMayBeInputsAndOutputs) {
  ModelProto model = with_initializer(DType::int8, {2}, "ab");
  add_input(model, "w", DType::int8, {2});
  add_output(model, "w");
  add_output(model, "x");
  const ir::Graph graph = import(model);
  const ir::ValueId w = graph.find("w");
  EXPECT_TRUE(graph.is_input(w));
  EXPECT_TRUE(graph.initializers.contains(w));
  EXPECT_EQ(graph.outputs.at(1), w);

  declare(*model.mutable_graph()->mutable_input(1), "w", DType::uint8, {2});
  EXPECT_EQ(error_of(model), "graph input 'w' is declared as uint8[2], but its initializer is int8[2]");
}

TEST(Import, ReadsAttributes) {
  ModelProto model = relu_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  add_int(node, "i", -5);
  add_int(node, "zero", 0).clear_i();  // some writers leave zeros out
  auto* f = node.add_attribute();
  f->set_name("f");
  f->set_f(0.5F);  // files of the first format version have no type
  auto* ints = node.add_attribute();
  ints->set_name("ints");
  ints->set_type(7);
  ints->add_ints(3);
  auto* t = node.add_attribute();
  t->set_name("t");
  t->set_type(4);
  t->mutable_t()->set_data_type(6);
  t->mutable_t()->add_int32_data(42);
  auto* s = node.add_attribute();
  s->set_name("s");
  s->set_type(3);
  s->set_s("text");
  const ir::Graph graph = import(model);
  const auto& attributes = graph.nodes[0].attributes;
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("i")), -5);
  EXPECT_EQ(std::get<std::int64_t>(attributes.at("zero")), 0);
  EXPECT_EQ(std::get<float>(attributes.at("f")), 0.5F);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes.at("ints")), std::vector<std::int64_t>{3});
  EXPECT_EQ(values_of<std::int32_t>(std::get<Tensor>(attributes.at("t"))), std::vector<std::int32_t>{42});
  EXPECT_EQ(std::get<std::string>(attributes.at("s")), "text");
}

TEST(Import, RefusesAttributesThatItCannotHold) {
  ModelProto model = relu_model();
  AttributeProto& attribute = add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  attribute.set_type(1);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' says that it is of type float, but holds a value of type int");
  attribute.clear_i();
  attribute.set_type(11);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is of type sparse tensor, which is not supported");
  attribute.set_type(99);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is of type number 99, which is not supported");
  attribute.clear_type();
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' has no type");
  attribute.set_type(4);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' holds no tensor");
  attribute.set_type(5);
  attribute.mutable_g();
  EXPECT_EQ(error_of(model), "operator Relu with a subgraph is not supported (node 'r', attribute 'a')");
  attribute.Clear();
  attribute.set_name("a");
  attribute.set_ref_attr_name("p");
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' refers to an attribute of a function, but stands in none");
  model = relu_model();
  add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  add_int(*model.mutable_graph()->mutable_node(0), "a", 1);
  EXPECT_EQ(error_of(model), "attribute 'a' of Relu 'r' is given twice");
}

TEST(Import, ChecksOpsets) {
  ModelProto model = relu_model();
  for (const int version : {7, 28}) {
    model.mutable_opset_import(0)->set_version(version);
    EXPECT_EQ(error_of(model), "no error");
  }
  model.mutable_opset_import(0)->set_version(6);
  EXPECT_EQ(error_of(model), "the model imports version 6 of domain 'ai.onnx'; versions 7 to 28 are supported");
  model.mutable_opset_import(0)->set_version(29);
  EXPECT_EQ(error_of(model), "the model imports version 29 of domain 'ai.onnx'; versions 7 to 28 are supported");
  model.mutable_opset_import(0)->set_version(std::int64_t{1} << 40);
  EXPECT_NE(error_of(model), "no error");
  model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  EXPECT_EQ(error_of(model), "the model imports no version of domain 'com.microsoft', which Relu 'r' belongs to");
  model.clear_opset_import();
  model.mutable_graph()->mutable_node(0)->clear_domain();
  EXPECT_EQ(error_of(model), "the model imports no version of domain 'ai.onnx', which Relu 'r' belongs to");
  model.set_ir_version(2);
  EXPECT_EQ(error_of(model), "the model imports version 1 of domain 'ai.onnx'; versions 7 to 28 are supported");
}

TEST(Import, RefusesWhatIsNoTensor) {
  ModelProto model = relu_model();
  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type();
  type->mutable_sequence_type();
  EXPECT_EQ(error_of(model), "graph input 'x' is a sequence, which is not supported");
  type->mutable_optional_type();
  EXPECT_EQ(error_of(model), "graph input 'x' is an optional, which is not supported");
  type->mutable_tensor_type()->set_elem_type(27);
  EXPECT_EQ(error_of(model), "graph input 'x' has element type number 27, which is not known");
  type->Clear();
  EXPECT_EQ(error_of(model), "graph input 'x' has no element type");
  model = relu_model();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("s");
  EXPECT_EQ(error_of(model), "initializer 's' is a sparse tensor, which is not supported");
}

TEST(Import, RefusesBadDeclaredShapes) {
  ModelProto model = relu_model();
  declare(*model.mutable_graph()->mutable_input(0), "x", DType::float32, {2, -2});
  EXPECT_EQ(error_of(model), "graph input 'x' has a negative dimension: -2 at position 1");
  declare(*model.mutable_graph()->mutable_input(0), "x", DType::float32, {kHuge, kHuge});
  EXPECT_NE(error_of(model).find("more elements than can exist"), std::string::npos);
}

TEST(Import, NamesBrokenStructure) {
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(error_of(model),
            "tensor 'nowhere' read by Relu 'r' (input 0) is not an input, an initializer or the output of a node");
  model.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_EQ(error_of(model), "the graph has a cycle: Relu 'r' -> back to Relu 'r'");
  model = relu_model();
  add_node(model, "Abs", "", {"x"}, {"y"});
  EXPECT_EQ(error_of(model), "tensor 'y' is defined twice: as an output of Relu 'r' and as an output of Abs -> 'y'");
  model = with_initializer(DType::int8, {1}, "a");
  add_initializer(model, "w", DType::int8, {1}, "a");
  EXPECT_EQ(error_of(model), "initializer 'w' is defined twice");
  model = relu_model();
  model.mutable_graph()->mutable_node(0)->clear_op_type();
  EXPECT_EQ(error_of(model), "node 'r' has no operator");
  EXPECT_EQ(error_of(ModelProto()), "the model has no graph");
}

TEST(Import, CarriesTheNodeInItsErrors) {
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  try {
    import(model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node(), "r");
  }
}

TEST(Import, StandsOddBytesInNames) {
  const std::string odd("a\n\0\xff'", 5);
  ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_output(0, odd);
  model.mutable_graph()->mutable_output(0)->set_name(odd);
  EXPECT_TRUE(import(model).find(odd).present());
  model.mutable_graph()->mutable_node(0)->set_input(0, odd + "b");
  EXPECT_EQ(error_of(model).find("tensor 'a\\x0a\\x00\\xff\\x27b' read by Relu 'r'"), 0U) << error_of(model);
}

TEST(Import, SaysWhereProtobufIsBroken) {
  const std::string bytes = with_initializer(DType::uint8, {64}, std::string(64, 'w')).SerializeAsString();
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    try {
      import_model(std::as_bytes(std::span(bytes).first(length)));
      FAIL() << length;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::model);
    }
  }
  try {
    import_model(std::as_bytes(std::span(bytes).first(50)));
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "truncated or invalid protobuf: the file has 50 bytes, and the field that starts at byte 2 is broken");
  }
}

TEST(Import, RespectsLimits) {
  Limits limits;
  limits.model_bytes = 10;
  EXPECT_NE(error_of(relu_model(), limits).find("more than the limit of 10"), std::string::npos);
  limits = {};
  limits.nodes = 0;
  EXPECT_EQ(error_of(relu_model(), limits), "the model has 1 nodes, more than the limit of 0");
  limits = {};
  limits.tensor_bytes = 3;
  EXPECT_NE(error_of(with_initializer(DType::int8, {4}, "abcd"), limits).find("limit of 3 bytes"), std::string::npos);
}

// A length-delimited field as protobuf writes it.
std::string field(char key, const std::string& payload) {
  std::string bytes(1, key);
  std::size_t length = payload.size();
  for (; length > 127; length >>= 7) bytes += static_cast<char>((length & 127) | 128);
  bytes += static_cast<char>(length);
  return bytes + payload;
}

TEST(Import, StandsHostileNesting) {
  std::string type;
  for (int i = 0; i < 20'000; ++i) type = field('\x22', field('\x0A', type));  // a sequence of sequences of ...
  const std::string bytes = field('\x3A', field('\x5A', field('\x12', type)));
  EXPECT_THROW(import_model(std::as_bytes(std::span(bytes))), Error);
}

TEST(ImportTensor, RefusesBadDimensions) {
  EXPECT_EQ(error_of(with_initializer(DType::float32, {kHuge, kHuge, 2, 2}, "1234")),
            "initializer 'w' declares 8589934592 x 8589934592 x 2 x 2 elements, more than can exist, but holds 4 bytes "
            "of data");
  EXPECT_EQ(error_of(with_initializer(DType::int8, {-2, 2, -1, 1}, "1234")),
            "initializer 'w' has a negative dimension: -2 x 2 x -1 x 1");
  EXPECT_EQ(error_of(with_initializer(DType::int8, {std::numeric_limits<std::int64_t>::min()})).find("initializer 'w'"),
            0U);
  EXPECT_EQ(error_of(with_initializer(DType::int16, {3}, "12345")),
            "initializer 'w' declares 3 elements of int16 ([3]), 6 bytes, but holds 5 bytes of data");
  EXPECT_EQ(error_of(with_initializer(DType::float32, {3})),
            "initializer 'w' declares 3 elements of float32 ([3]), 12 bytes, but holds no data");
  EXPECT_EQ(error_of(with_initializer(DType::float64, {std::int64_t{1} << 60}, "1")).find("initializer 'w'"), 0U);
}

TEST(ImportTensor, RefusesTypesWithoutStorage) {
  EXPECT_EQ(error_of(with_initializer(DType::string, {0})),
            "initializer 'w' has element type string, which is not supported");
  EXPECT_EQ(error_of(with_initializer(DType::complex64, {1}, "12345678")),
            "initializer 'w' has element type complex64, which is not supported");
  EXPECT_EQ(error_of(with_initializer(static_cast<DType>(99), {1}, "1")),
            "initializer 'w' has element type number 99, which is not known");
  EXPECT_EQ(error_of(with_initializer(DType::undefined, {1}, "1")),
            "initializer 'w' has element type undefined, which is not supported");
}

TEST(ImportTensor, ReadsEmptyAndScalarTensors) {
  EXPECT_EQ(imported(with_initializer(DType::float32, {0, 3})).size(), 0U);
  EXPECT_EQ(imported(with_initializer(DType::int8, {}, "\x05")).values<std::int8_t>()[0], 5);
}

TEST(ImportTensor, UnpacksRawElements) {
  const std::string packed = "\x8F\x07";  // nibbles F 8 7 0
  EXPECT_EQ(values_of<std::int8_t>(imported(with_initializer(DType::int4, {3}, packed))),
            (std::vector<std::int8_t>{-1, -8, 7}));
  EXPECT_EQ(values_of<std::uint8_t>(imported(with_initializer(DType::uint4, {3}, packed))),
            (std::vector<std::uint8_t>{15, 8, 7}));
  EXPECT_EQ(values_of<std::uint8_t>(imported(with_initializer(DType::float4e2m1, {2, 2}, packed))),
            (std::vector<std::uint8_t>{15, 8, 7, 0}));
  const std::string pairs = "\xE4\x02";  // 0 1 2 3, 2
  EXPECT_EQ(values_of<std::uint8_t>(imported(with_initializer(DType::uint2, {5}, pairs))),
            (std::vector<std::uint8_t>{0, 1, 2, 3, 2}));
  EXPECT_EQ(values_of<std::int8_t>(imported(with_initializer(DType::int2, {5}, pairs))),
            (std::vector<std::int8_t>{0, 1, -2, -1, -2}));
  EXPECT_NE(error_of(with_initializer(DType::int4, {5}, packed)), "no error");
  EXPECT_NE(error_of(with_initializer(DType::int4, {2}, packed)), "no error");
}

TEST(ImportTensor, ReadsTypedData) {
  const auto typed = [](DType type, std::int64_t count, auto fill_data) {
    ModelProto model = with_initializer(type, {count});
    fill_data(initializer(model));
    return imported(model);
  };
  const auto ints = [](std::vector<std::int32_t> values) {
    return [values](TensorProto& t) { t.mutable_int32_data()->Add(values.begin(), values.end()); };
  };
  EXPECT_EQ(values_of<float>(typed(DType::float32, 1, [](TensorProto& t) { t.add_float_data(1.5F); })),
            std::vector<float>{1.5F});
  EXPECT_EQ(values_of<double>(typed(DType::float64, 1, [](TensorProto& t) { t.add_double_data(1.5); })),
            std::vector<double>{1.5});
  EXPECT_EQ(values_of<std::int64_t>(typed(DType::int64, 1, [](TensorProto& t) { t.add_int64_data(-7); })),
            std::vector<std::int64_t>{-7});
  EXPECT_EQ(values_of<std::uint64_t>(typed(DType::uint64, 1, [](TensorProto& t) { t.add_uint64_data(~0ULL); })),
            std::vector<std::uint64_t>{~0ULL});
  EXPECT_EQ(values_of<std::uint32_t>(typed(DType::uint32, 1, [](TensorProto& t) { t.add_uint64_data(~0U); })),
            std::vector<std::uint32_t>{~0U});
  EXPECT_EQ(values_of<std::int32_t>(typed(DType::int32, 2, ints({-1, 2}))), (std::vector<std::int32_t>{-1, 2}));
  EXPECT_EQ(values_of<std::int16_t>(typed(DType::int16, 1, ints({-300}))), std::vector<std::int16_t>{-300});
  EXPECT_EQ(values_of<std::uint16_t>(typed(DType::uint16, 1, ints({65535}))), std::vector<std::uint16_t>{65535});
  EXPECT_EQ(values_of<std::int8_t>(typed(DType::int8, 2, ints({-128, 127}))), (std::vector<std::int8_t>{-128, 127}));
  EXPECT_EQ(values_of<std::uint8_t>(typed(DType::uint8, 1, ints({200}))), std::vector<std::uint8_t>{200});
  EXPECT_EQ(values_of<std::uint8_t>(typed(DType::boolean, 2, ints({0, 1}))), (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(values_of<std::uint16_t>(typed(DType::float16, 1, ints({0xBC00}))), std::vector<std::uint16_t>{0xBC00});
  EXPECT_EQ(values_of<std::uint16_t>(typed(DType::bfloat16, 1, ints({0x3F80}))), std::vector<std::uint16_t>{0x3F80});
  EXPECT_EQ(values_of<std::uint8_t>(typed(DType::float8e4m3fn, 1, ints({0xFE}))), std::vector<std::uint8_t>{0xFE});
  EXPECT_EQ(values_of<std::int8_t>(typed(DType::int4, 3, ints({0x8F, 7}))), (std::vector<std::int8_t>{-1, -8, 7}));
  EXPECT_EQ(values_of<std::uint8_t>(typed(DType::uint2, 4, ints({0xE4}))), (std::vector<std::uint8_t>{0, 1, 2, 3}));
}

TEST(ImportTensor, ChecksTypedData) {
  ModelProto model = with_initializer(DType::uint8, {2});
  initializer(model).add_int32_data(1);
  EXPECT_EQ(error_of(model),
            "initializer 'w' declares 2 elements of uint8 ([2]), 2 bytes, but holds 1 entries of int32_data");
  initializer(model).add_int32_data(256);
  EXPECT_EQ(error_of(model), "entry 1 of initializer 'w' is 256, which does not fit uint8");
  initializer(model).set_int32_data(1, 3);
  initializer(model).add_float_data(1);
  EXPECT_EQ(error_of(model), "initializer 'w' holds data twice: in float_data and in int32_data");
  EXPECT_EQ(error_of(with_initializer(DType::boolean, {2}, "\x01\x02")),
            "element 1 of initializer 'w' is 2, which is not a bool");
}

TEST(ImportTensor, ReadsStandAloneTensors) {
  TensorProto proto;
  proto.set_name("input");
  proto.set_data_type(3);
  proto.add_dims(2);
  proto.set_raw_data("\x01\xFF");
  std::string bytes = proto.SerializeAsString();
  std::string name;
  const Tensor tensor = import_tensor(std::as_bytes(std::span(bytes)), {}, &name);
  EXPECT_EQ(name, "input");
  EXPECT_EQ(values_of<std::int8_t>(tensor), (std::vector<std::int8_t>{1, -1}));
  bytes.pop_back();
  EXPECT_THROW(import_tensor(std::as_bytes(std::span(bytes))), Error);
  proto.set_data_location(1);
  proto.clear_raw_data();
  auto* location = proto.add_external_data();
  location->set_key("location");
  location->set_value("/etc/passwd");
  bytes = proto.SerializeAsString();
  try {
    import_tensor(std::as_bytes(std::span(bytes)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::input);
  }
}

// A folder of its own with a model folder in it, so that there is an outside to escape to.
class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "halfeven-import-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "sub");
    write(folder_ / "weights.bin", "abcdefgh");
    write(root_ / "secret.bin", "secret!!");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  static ModelProto model(const std::string& location, const char* offset, const char* length,
                          DType type = DType::uint8, std::int64_t count = 4) {
    ModelProto result = with_initializer(type, {count});
    TensorProto& w = initializer(result);
    w.set_data_location(1);
    const auto add = [&](const char* key, const std::string& value) {
      auto* entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    if (offset != nullptr) add("offset", offset);
    if (length != nullptr) add("length", length);
    return result;
  }

  std::string error(const ModelProto& proto, const Limits& limits = {}) const {
    return error_of(proto, limits, folder_);
  }
  std::string text(const ModelProto& proto) const {
    const ir::Graph graph = import(proto, {}, folder_);
    const auto bytes = graph.initializers.at(graph.find("w")).bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  fs::path root_;
  fs::path folder_;
};

TEST_F(ExternalDataTest, ReadsARange) {
  EXPECT_EQ(text(model("weights.bin", nullptr, nullptr)), "abcd");
  EXPECT_EQ(text(model("weights.bin", "4", "4")), "efgh");
  EXPECT_EQ(text(model("weights.bin", "1", "4", DType::int16, 2)), "bcde");  // misaligned, so copied
  EXPECT_EQ(text(model("sub/../weights.bin", "0", "4")), "abcd");
  EXPECT_EQ(text(model("./weights.bin", "8", "0", DType::uint8, 0)), "");
  EXPECT_EQ(text(model("weights.bin", "1", "1", DType::uint4, 2)), "\x02\x06");
}

TEST_F(ExternalDataTest, ReadsFromTheFolderOfTheFile) {
  std::ofstream(folder_ / "model.onnx", std::ios::binary) << model("weights.bin", "0", "4").SerializeAsString();
  EXPECT_EQ(import_model(folder_ / "model.onnx").initializers.size(), 1U);
  EXPECT_THROW(import_model(folder_ / "absent.onnx"), Error);
  EXPECT_THROW(import_model(folder_), Error);
}

TEST_F(ExternalDataTest, TensorsOutliveTheImport) {
  Tensor tensor;
  {
    const ir::Graph graph = import(model("weights.bin", "0", "4"), {}, folder_);
    tensor = graph.initializers.begin()->second;
  }
  EXPECT_EQ(tensor.values<char>()[3], 'd');
}

TEST_F(ExternalDataTest, NeverLeavesTheFolder) {
  EXPECT_EQ(error(model("../secret.bin", "0", "4")),
            "external data location '../secret.bin' of initializer 'w' escapes the model's folder");
  EXPECT_EQ(error(model("sub/../../secret.bin", "0", "4")),
            "external data location 'sub/../../secret.bin' of initializer 'w' escapes the model's folder");
  EXPECT_EQ(error(model((root_ / "secret.bin").string(), "0", "4")).find("is an absolute path") != std::string::npos,
            true);
  EXPECT_EQ(error(model(std::string("weights.bin\0x", 13), "0", "4")),
            "external data location 'weights.bin\\x00x' of initializer 'w' is not a file name");
  EXPECT_EQ(error(model("", "0", "4")), "external data location '' of initializer 'w' is not a file name");
}

TEST_F(ExternalDataTest, FollowsLinksOnlyInside) {
  fs::create_symlink("weights.bin", folder_ / "inside");
  fs::create_symlink("../secret.bin", folder_ / "outside");
  fs::create_directory_symlink("..", folder_ / "up");
  EXPECT_EQ(text(model("inside", "0", "4")), "abcd");
  EXPECT_EQ(error(model("outside", "0", "4")),
            "external data location 'outside' of initializer 'w' escapes the model's folder through a symbolic link");
  EXPECT_EQ(
      error(model("up/secret.bin", "0", "4")),
      "external data location 'up/secret.bin' of initializer 'w' escapes the model's folder through a symbolic link");
  EXPECT_EQ(text(model("up/model/weights.bin", "0", "4")), "abcd");
}

TEST_F(ExternalDataTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error(model("pipe", "0", "4")), "external data location 'pipe' of initializer 'w' is not a regular file");
  EXPECT_EQ(error(model("sub", "0", "4")), "external data location 'sub' of initializer 'w' is not a regular file");
  EXPECT_EQ(error(model("absent", "0", "4")), "external data location 'absent' of initializer 'w' does not exist");
  EXPECT_EQ(error(model(std::string(5000, 'x'), "0", "4")).find("external data location 'xxx"), 0U);
}

TEST_F(ExternalDataTest, ChecksTheRange) {
  EXPECT_EQ(error(model("weights.bin", "6", "4")),
            "external data of initializer 'w' reads bytes 6..10 of 'weights.bin', which has 8 bytes");
  EXPECT_NE(error(model("weights.bin", "18446744073709551615", "4")).find("which has 8 bytes"), std::string::npos);
  EXPECT_EQ(error(model("weights.bin", "0", "5")),
            "external data of initializer 'w' in 'weights.bin' has length 5, but the tensor's type and dimensions take "
            "4 bytes");
  for (const char* bad : {"-1", "+1", " 1", "1x", "0x1", "", "18446744073709551616"}) {
    EXPECT_NE(error(model("weights.bin", bad, "4")).find("which is not a number of bytes"), std::string::npos) << bad;
  }
  Limits limits;
  limits.external_bytes = 7;
  EXPECT_NE(error(model("weights.bin", "0", "4"), limits).find("more than the limit of 7"), std::string::npos);
}

TEST_F(ExternalDataTest, ChecksTheEntries) {
  ModelProto proto = model("weights.bin", "0", "4");
  initializer(proto).add_external_data()->set_key("offset");
  EXPECT_EQ(error(proto), "external data of initializer 'w' names 'offset' twice");
  initializer(proto).clear_external_data();
  EXPECT_EQ(error(proto), "external data of initializer 'w' has no location");
  proto = model("weights.bin", "0", "4");
  initializer(proto).set_raw_data("abcd");
  EXPECT_EQ(error(proto), "initializer 'w' holds raw_data besides its external data");
  EXPECT_EQ(error_of(model("weights.bin", "0", "4")),
            "external data location 'weights.bin' of initializer 'w' cannot be used: the model was given without a "
            "folder");
}

}  // namespace
}  // namespace halfeven::onnx
