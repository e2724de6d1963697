#include "cli/inputs.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include <halfeven/error.hpp>

#include "cli/npy.hpp"

namespace halfeven::cli {
namespace {

ValueInfo input(const std::string& name, DType type = DType::uint8, bool optional = false) {
  return {name, type, Shape{2}, {}, optional};
}

Tensor bytes(std::uint8_t a, std::uint8_t b, DType type = DType::uint8) {
  return Tensor::of<std::uint8_t>(type, {2}, std::vector<std::uint8_t>{a, b});
}

template <class F>
void expect_refused(F f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::input) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

class LoadInputs : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("halfeven_inputs_") + test->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string save(const std::string& name, const Tensor& tensor) {
    save_npy(folder_ / name, tensor);
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST_F(LoadInputs, UnnamedFilesTakeWhatNamedOnesLeave) {
  const std::string first = save("1.npy", bytes(1, 1));
  const std::string second = save("2.npy", bytes(2, 2));
  const std::string third = save("3.npy", bytes(3, 3));
  const std::vector<ValueInfo> inputs = {input("a"), input("default", DType::uint8, true), input("b"), input("c")};
  const NamedTensors bound = load_inputs(inputs, {{first, second, "a=" + third}, {}, {}});
  EXPECT_EQ(bound.size(), 3U);
  EXPECT_TRUE(identical(bound.at("a"), bytes(3, 3)));
  EXPECT_TRUE(identical(bound.at("b"), bytes(1, 1)));
  EXPECT_TRUE(identical(bound.at("c"), bytes(2, 2)));
}

TEST_F(LoadInputs, NamesMayHoldEqualsSigns) {
  const std::string file = save("x=y.npy", bytes(1, 2));
  EXPECT_TRUE(load_inputs({input("a=b")}, {{"a=b=" + file}, {}, {}}).contains("a=b"));
  EXPECT_TRUE(load_inputs({input("a=b")}, {{file}, {}, {}}).contains("a=b"));
}

TEST_F(LoadInputs, SaysWhatFitsNowhere) {
  const std::string file = save("x.npy", bytes(1, 2));
  expect_refused([&] { load_inputs({input("a")}, {{"b=" + file}, {}, {}}); }, "no input 'b' (its inputs: 'a')");
  expect_refused([&] { load_inputs({input("a")}, {{file, file}, {}, {}}); }, "no further input");
  expect_refused([&] { load_inputs({input("a")}, {{"a=" + file, "a=" + file}, {}, {}}); }, "given twice");
  expect_refused(
      [&] {
        load_inputs({input("a", DType::float32)}, {{file}, {}, {}});
      },
      "it holds uint8, but input 'a' takes float32");
  expect_refused([&] { load_inputs({input("a")}, {{"nowhere.npy"}, {}, {}}); }, "no such file: 'nowhere.npy'");
  expect_refused([&] { load_inputs({input("a")}, {{folder_.string() + "/x.txt"}, {}, {}}); }, "x.txt");
  expect_refused([&] { load_inputs({input("a")}, {{}, {file}, {}}); }, "neither a PNG nor a JPEG");
}

TEST(Adapt, NarrowIntegersAreRangeChecked) {
  EXPECT_EQ(adapt(bytes(0, 15), input("x", DType::uint4), "f").dtype(), DType::uint4);
  EXPECT_EQ(adapt(bytes(0, 3), input("x", DType::uint2), "f").dtype(), DType::uint2);
  EXPECT_EQ(adapt(bytes(0xf8, 7, DType::int8), input("x", DType::int4), "f").values<std::int8_t>()[0], -8);
  EXPECT_EQ(adapt(bytes(0xfe, 1, DType::int8), input("x", DType::int2), "f").values<std::int8_t>()[0], -2);
  expect_refused([] { adapt(bytes(0, 16), input("x", DType::uint4), "'f'"); }, "'f': element 1 is 16");
  expect_refused([] { adapt(bytes(0xff, 0, DType::int8), input("x", DType::uint4), "'f'"); }, "element 0 is -1");
  expect_refused([] { adapt(bytes(0xf7, 0, DType::int8), input("x", DType::int4), "'f'"); }, "element 0 is -9");
  expect_refused([] { adapt(bytes(0, 2), input("x", DType::int2), "'f'"); }, "element 1 is 2");
  expect_refused([] { adapt(bytes(0, 16), input("x", DType::float4e2m1), "'f'"); }, "element 1 is 16");
}

TEST(Adapt, RawBitsOfNarrowFloats) {
  const Tensor words = Tensor::of<std::uint16_t>(DType::uint16, {1}, std::vector<std::uint16_t>{0x3f80});
  EXPECT_EQ(adapt(words, input("x", DType::bfloat16), "f").dtype(), DType::bfloat16);
  EXPECT_EQ(adapt(bytes(1, 2), input("x", DType::float8e4m3fn), "f").dtype(), DType::float8e4m3fn);
  expect_refused([&] { adapt(words, input("x", DType::float16), "'f'"); }, "takes float16");
  expect_refused([&] { adapt(bytes(0, 1), input("x", DType::boolean), "'f'"); }, "takes bool");
}

}  // namespace
}  // namespace halfeven::cli
