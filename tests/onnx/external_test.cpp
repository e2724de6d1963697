#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model_builder.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;
namespace fs = std::filesystem;

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
