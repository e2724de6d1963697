// Writing models: what is read back is the same graph, and writing that gives the same bytes.
#include "onnx/export.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "model_builder.hpp"
#include "onnx/own_functions.hpp"
#include "support/files.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;
using std::filesystem::path;

ModelProto parse(const std::vector<std::byte>& bytes) {
  ModelProto model;
  EXPECT_TRUE(model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return model;
}

ir::Graph round_trip(const ModelProto& model) { return import_model(export_model(import(model))); }

void expect_same_outputs(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_TRUE(identical(got[k], want[k])) << what << ": output " << k;
  }
}

// Reads back what is written, and expects the same graph; gives what was read.
Model expect_round_trip(const Model& model, const std::string& what) {
  const auto bytes = serialize(model);
  Model again = Model::load(bytes);
  EXPECT_EQ(again.summary().hash, model.summary().hash) << what;
  EXPECT_TRUE(serialize(again) == bytes) << what << ": written again, it has other bytes";
  return again;
}

// A refused input is refused by both.
std::vector<Tensor> run(const Model& model, const path& folder) {
  try {
    return interpret(model, test::load_inputs(model, folder));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::input) throw;
    return {};
  }
}

class ExportedCase : public ::testing::TestWithParam<path> {};

TEST_P(ExportedCase, IsReadBackAsItWas) {
  const path& folder = GetParam();
  std::optional<Model> loaded;
  try {
    loaded = Model::load(folder / "model.onnx");
  } catch (const Error& error) {
    ASSERT_TRUE(std::filesystem::exists(folder / "expected_error.txt")) << error.what();
    return;  // a malformed one
  }
  const Model& model = *loaded;
  const auto outputs = run(model, folder);
  expect_same_outputs(run(expect_round_trip(model, "plain"), folder), outputs, "plain");
  const Model fused = fuse(model).model;
  expect_same_outputs(run(fused, folder), outputs, "fused");
  expect_same_outputs(run(expect_round_trip(fused, "fused"), folder), outputs, "fused and read back");
}

INSTANTIATE_TEST_SUITE_P(Cases, ExportedCase, ::testing::ValuesIn(test::folders_in(path(HALFEVEN_TEST_DATA) / "cases")),
                         [](const auto& param) { return test::test_name(param.param); });

// Networks: equal hashes say that the graphs are equal, so they are not run.
class ExportedNetwork : public ::testing::TestWithParam<path> {};

TEST_P(ExportedNetwork, IsReadBackAsItWas) {
  const Model model = Model::load(GetParam() / "model.onnx");
  expect_round_trip(model, "plain");
  expect_round_trip(fuse(model).model, "fused");
}

std::vector<path> networks() {
  std::vector<path> all;
  for (const path& root : {path(HALFEVEN_EXAMPLES), path(HALFEVEN_SHARED) / "models"}) {
    for (const path& folder : test::folders_in(root)) {
      if (std::filesystem::exists(folder / "model.onnx")) all.push_back(folder);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, ExportedNetwork, ::testing::ValuesIn(networks()), [](const auto& param) {
  return (param.param.string().starts_with(HALFEVEN_EXAMPLES) ? "local_" : "shared_") + test::test_name(param.param);
});

TEST(Export, KeepsTensorsOfEveryType) {
  ModelProto model = relu_model();
  for (int number = 1; number <= static_cast<int>(DType::int2); ++number) {
    const auto type = static_cast<DType>(number);
    if (storage_size(type) == 0) continue;
    const std::string name = "w" + std::to_string(number);
    const std::size_t packed = (5 * static_cast<std::size_t>(bits(type)) + 7) / 8;
    std::string raw(packed, '\1');
    if (bits(type) == 4) raw = std::string("\x91\x2f\x07");
    if (bits(type) == 2) raw = std::string("\x1b\x02");
    add_initializer(model, name.c_str(), type, {5}, raw);
  }
  const ir::Graph before = import(model);
  const ir::Graph after = import_model(export_model(before));
  ASSERT_EQ(after.initializers.size(), before.initializers.size());
  for (const auto& [id, tensor] : before.initializers) {
    EXPECT_TRUE(identical(after.initializers.at(after.find(before.value(id).name)), tensor)) << before.value(id).name;
  }
  const ModelProto written = parse(export_model(before));
  for (int i = 0; i < model.graph().initializer_size(); ++i) {
    EXPECT_EQ(written.graph().initializer(i).raw_data(), model.graph().initializer(i).raw_data())
        << model.graph().initializer(i).name();
  }
}

TEST(Export, KeepsAttributesOfEveryType) {
  ModelProto model = relu_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  const auto add = [&](const char* name, int type) -> AttributeProto& {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  };
  add("f", 1).set_f(-0.0F);
  add("i", 2).set_i(-3);
  add("s", 3).set_s(std::string("\xff\0x", 3));
  auto& tensor = *add("t", 4).mutable_t();
  tensor.set_data_type(static_cast<int>(DType::int4));
  tensor.add_dims(1);
  tensor.set_raw_data("\x05");
  add("floats", 6).add_floats(0.1F);
  add("ints", 7).add_ints(1);
  add("strings", 8).add_strings("a");
  add("no_floats", 6);
  add("no_ints", 7);
  const ir::Graph before = import(model);
  EXPECT_EQ(before.nodes[0].attributes.size(), 9U);
  EXPECT_EQ(ir::structural_hash(round_trip(model)), ir::structural_hash(before));
}

TEST(Export, KeepsShapesSymbolsAndDefaults) {
  ModelProto model = relu_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("N");
  shape.add_dim();
  add_input(model, "with_default", DType::int8, {1});
  add_initializer(model, "with_default", DType::int8, {1}, "\x7f");
  const ir::Graph after = round_trip(model);
  EXPECT_EQ(ir::to_text(after), ir::to_text(import(model)));
  EXPECT_EQ(ir::structural_hash(after), ir::structural_hash(import(model)));
}

TEST(Export, KeepsInputsThatAreLeftOut) {
  ModelProto model = empty_model();
  add_input(model, "x");
  add_node(model, "Clip", "c", {"x", "", "x"}, {"y", "", "z"});
  add_output(model, "y");
  EXPECT_EQ(ir::structural_hash(round_trip(model)), ir::structural_hash(import(model)));
}

TEST(Export, StatesTheIrVersionThatTheOpsetNeeds) {
  const std::vector<std::pair<int, int>> wanted{{7, 4},   {9, 4},   {10, 5},  {11, 6},  {14, 7},  {18, 8}, {20, 9},
                                                {22, 10}, {23, 11}, {24, 12}, {25, 13}, {27, 13}, {28, 14}};
  for (const auto& [opset, version] : wanted) {
    ModelProto model = relu_model();
    model.set_ir_version(3);
    model.mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(parse(export_model(import(model))).ir_version(), version) << opset;
    model.set_ir_version(20);
    EXPECT_EQ(parse(export_model(import(model))).ir_version(), 20) << opset;
  }
}

TEST(Export, UsesTheVersionThatAllOperatorsHave) {
  ir::Graph graph = import(relu_model());
  graph.nodes[0].version = 14;
  EXPECT_EQ(import_model(export_model(graph)).opsets.at(""), 14);
  ModelProto two = relu_model();
  add_node(two, "Abs", "a", {"y"}, {"z"});
  graph = import(two);
  graph.nodes[1].version = 13;
  try {
    export_model(graph);
    FAIL() << "two versions were written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::other);
    EXPECT_EQ(std::string(error.what()),
              "Abs 'a' is of version 13 of domain 'ai.onnx', of which other operators use version 17: a file can say "
              "only one");
  }
}

// x -> halfeven.F_01234567 -> y; the function is t = Relu(a), b = Abs(t).
ModelProto group_model(const char* name = "F_01234567") {
  ModelProto model = empty_model();
  add_opset(*model.mutable_opset_import(), "halfeven", 1);
  add_input(model, "x");
  add_node(model, name, "call", {"x"}, {"y"}, "halfeven");
  add_output(model, "y");
  FunctionProto& function = *model.add_functions();
  function.set_domain("halfeven");
  function.set_name(name);
  function.add_input("a");
  function.add_output("b");
  add_opset(*function.mutable_opset_import(), "", 17);
  fill(*function.add_node(), "Relu", "first", {"a"}, {"t"});
  fill(*function.add_node(), "Abs", "", {"t"}, {"b"});
  return model;
}

FunctionProto& function(ModelProto& model) { return *model.mutable_functions(0); }

TEST(Groups, AreReadAsOneNode) {
  const ir::Graph graph = import(group_model());
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].op_type, "F");
  EXPECT_EQ(graph.nodes[0].version, 1);
  ASSERT_NE(graph.nodes[0].body, nullptr);
  EXPECT_EQ(graph.nodes[0].body->nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].body->name, "F");
  EXPECT_EQ(graph.nodes[0].body->opsets, (std::map<std::string, int>{{"", 17}}));
  EXPECT_EQ(import(group_model("F")).nodes[0].op_type, "F");
  EXPECT_EQ(import(group_model("_01234567")).nodes[0].op_type, "_01234567");
  EXPECT_EQ(import(group_model("F_0123456")).nodes[0].op_type, "F_0123456");
}

TEST(Groups, WithEqualBodiesShareAFunction) {
  ModelProto model = group_model();
  add_node(model, "F_01234567", "again", {"y"}, {"z"}, "halfeven");
  FunctionProto other = function(model);
  other.set_name("F_76543210");
  other.mutable_node(0)->set_name("of another name");
  other.set_input(0, "other");
  other.mutable_node(0)->set_input(0, "other");
  *model.add_functions() = other;
  add_node(model, "F_76543210", "third", {"z"}, {"u"}, "halfeven");
  other.set_name("F_00000000");
  other.mutable_node(1)->set_op_type("Neg");
  *model.add_functions() = other;
  add_node(model, "F_00000000", "fourth", {"u"}, {"v"}, "halfeven");
  const ModelProto written = parse(export_model(import(model)));
  ASSERT_EQ(written.functions_size(), 2);
  EXPECT_EQ(written.graph().node(0).op_type(), written.graph().node(2).op_type());
  EXPECT_NE(written.graph().node(0).op_type(), written.graph().node(3).op_type());
  EXPECT_EQ(ir::structural_hash(round_trip(model)), ir::structural_hash(import(model)));
}

TEST(Groups, ThatDoNotFitAreRefused) {
  const auto error_with = [](auto change) {
    ModelProto model = group_model();
    change(model);
    return error_of(model);
  };
  const auto node = [](ModelProto& model) -> NodeProto& { return *model.mutable_graph()->mutable_node(0); };
  const std::string arity =
      "halfeven.F_01234567 'call' has to have the 1 inputs and 1 outputs of function 'halfeven.F_01234567', none left "
      "out";
  EXPECT_EQ(error_with([&](ModelProto& m) { node(m).add_input("x"); }), arity);
  EXPECT_EQ(error_with([&](ModelProto& m) { node(m).clear_input(); }), arity);
  EXPECT_EQ(error_with([&](ModelProto& m) { node(m).add_output("z"); }), arity);
  EXPECT_EQ(error_with([&](ModelProto& m) { node(m).add_output(""); }), arity);
  EXPECT_EQ(error_with([&](ModelProto& m) { add_int(node(m), "k", 1); }),
            "halfeven.F_01234567 'call' sets attribute 'k', which function 'halfeven.F_01234567' does not have");
  EXPECT_EQ(error_with([&](ModelProto& m) { function(m).add_attribute("k"); }),
            "function 'halfeven.F_01234567' has attribute 'k'; functions of domain 'halfeven' have none");
  EXPECT_EQ(error_with([&](ModelProto& m) { add_reference(*function(m).mutable_node(0), "k", "k", 2); }),
            "attribute 'k' of Relu 'first' in function 'halfeven.F_01234567' refers to attribute 'k', which the "
            "function does not have");
  EXPECT_EQ(error_with([&](ModelProto& m) { m.mutable_opset_import(1)->set_version(2); }),
            "halfeven.F_01234567 'call' is of version 2 of domain 'halfeven'; version 1 is supported");
  EXPECT_EQ(error_with([&](ModelProto& m) { m.mutable_opset_import()->RemoveLast(); }),
            "the model imports no version of domain 'halfeven', which F_01234567 'call' belongs to");
  EXPECT_EQ(error_with([&](ModelProto& m) { function(m).mutable_node(0)->set_input(0, "b"); }),
            "function 'halfeven.F_01234567': the graph has a cycle: Relu 'first' -> Abs -> 'b' -> back to Relu "
            "'first'");
}

TEST(Groups, CallNoFunctions) {
  const std::string text =
      " in function 'halfeven.F_01234567' calls a function, which those of domain 'halfeven' cannot";
  ModelProto recursive = group_model();
  fill(*function(recursive).mutable_node(0), "F_01234567", "first", {}, {}, "halfeven");
  add_opset(*function(recursive).mutable_opset_import(), "halfeven", 1);
  EXPECT_EQ(error_of(recursive), "halfeven.F_01234567 'first'" + text);
  ModelProto table = group_model();
  fill(*function(table).mutable_node(0), "Table", "first", {}, {}, "halfeven");
  add_opset(*function(table).mutable_opset_import(), "halfeven", 1);
  EXPECT_EQ(error_of(table), "halfeven.Table 'first'" + text);
  ModelProto local = group_model();
  fill(*function(local).mutable_node(0), "G", "first", {}, {}, "local");
  FunctionProto& other = *local.add_functions();
  other.set_domain("local");
  other.set_name("G");
  EXPECT_EQ(error_of(local), "local.G 'first'" + text);
}

TEST(Groups, StandInOtherFunctionsToo) {
  ModelProto model = group_model();
  fill(*model.mutable_graph()->mutable_node(0), "L", "", {}, {}, "local");
  FunctionProto& local = *model.add_functions();
  local.set_domain("local");
  local.set_name("L");
  local.add_input("p");
  local.add_output("q");
  fill(*local.add_node(), "F_01234567", "inner", {"p"}, {"q"}, "halfeven");
  EXPECT_EQ(error_of(model),
            "function 'local.L' imports no version of domain 'halfeven', which F_01234567 'inner' in function "
            "'local.L' belongs to");
  add_opset(*local.mutable_opset_import(), "halfeven", 1);
  EXPECT_NE(import(model).nodes.at(0).body, nullptr);
}

TEST(Groups, CountAsWhatTheyStandFor) {
  ModelProto model = group_model();
  Limits limits;
  limits.nodes = 10;
  for (int i = 0; i < 3; ++i) {
    const std::string output = "z" + std::to_string(i);
    add_node(model, "F_01234567", "", {"x"}, {output}, "halfeven");
  }
  EXPECT_EQ(error_of(model, limits), "the model has more than 10 nodes after its functions are expanded");
}

// x -> halfeven.Table -> y.
ir::Graph table_graph(DType codes, DType entries) {
  ModelProto model = empty_model(21);
  add_opset(*model.mutable_opset_import(), "halfeven", 1);
  add_input(model, "x", codes);
  const std::int64_t size = std::int64_t{1} << bits(codes);
  const auto bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(bits(entries)) / 8;
  add_initializer(model, "t", entries, {size}, std::string(bytes, '\x21'));
  add_node(model, "Table", "table", {"x", "t"}, {"y"}, "halfeven");
  add_output(model, "y");
  return import(model);
}

TEST(Tables, AreFunctionsInTheFileAndOperatorsInTheGraph) {
  for (const DType codes : {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint4, DType::int4}) {
    for (const DType entries : {DType::uint8, DType::int8, DType::int16, DType::int32, DType::int4, DType::uint2}) {
      const ir::Graph graph = table_graph(codes, entries);
      const auto bytes = export_model(graph);
      EXPECT_EQ(parse(bytes).graph().node(0).op_type(), table_function(codes, entries));
      const ir::Graph again = import_model(bytes);
      EXPECT_EQ(ir::structural_hash(again), ir::structural_hash(graph));
      EXPECT_EQ(again.nodes.at(0).body, nullptr);
      EXPECT_TRUE(export_model(again) == bytes);
    }
  }
}

// The function's body does what the operator does.
TEST(Tables, HaveABodyThatMeansThem) {
  ModelProto model = parse(export_model(table_graph(DType::int8, DType::int16)));
  std::string entries;
  for (int i = 0; i < 512; ++i) entries += static_cast<char>(i * 7);
  initializer(model).set_raw_data(entries);
  const std::string plain = model.SerializeAsString();
  model.mutable_functions(0)->set_domain("local");
  model.mutable_graph()->mutable_node(0)->set_domain("local");
  const std::string expanded = model.SerializeAsString();
  const std::vector<std::int8_t> codes{-128, 127};
  const NamedTensors inputs{{"x", Tensor::of<std::int8_t>(DType::int8, {2}, codes)}};
  const auto load = [](const std::string& bytes) { return Model::load(std::as_bytes(std::span(bytes))); };
  EXPECT_GT(load(expanded).summary().operators.size(), 1U);
  expect_same_outputs(interpret(load(expanded), inputs), interpret(load(plain), inputs), "expanded");
}

TEST(Tables, ThatTheFileRedefinesAreRefused) {
  ModelProto model = parse(export_model(table_graph(DType::int8, DType::uint8)));
  for (auto& node : *function(model).mutable_node()) {
    if (node.op_type() == "Sub") node.set_op_type("Add");
  }
  EXPECT_EQ(error_of(model), "function 'halfeven.Table_int8' has another body than that operator");
}

TEST(Save, ReplacesTheFileAtOnce) {
  const path folder = std::filesystem::temp_directory_path() / "halfeven_save_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Model model = Model::load(path(HALFEVEN_EXAMPLES) / "ppocr_cls" / "model.onnx");
  const path file = folder / "m.onnx";
  save(model, file);
  const Model again = Model::load(file);
  save(again, file);
  EXPECT_EQ(Model::load(file).summary().hash, model.summary().hash);
  std::filesystem::create_symlink("m.onnx", folder / "link.onnx");
  save(model, folder / "link.onnx");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.onnx"));
  save(model, "/dev/null");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
  for (const path& bad : {folder, folder / "nowhere" / "m.onnx"}) {
    try {
      save(model, bad);
      ADD_FAILURE() << bad << " was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::other);
      EXPECT_NE(std::string(error.what()).find(bad.string()), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace halfeven::onnx
