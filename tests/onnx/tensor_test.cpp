#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model_builder.hpp"

namespace halfeven::onnx {
namespace {

using namespace testing;

constexpr std::int64_t kHuge = std::int64_t{1} << 33;

Tensor imported(const ModelProto& model) {
  const ir::Graph graph = import(model);
  return graph.initializers.at(graph.find("w"));
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

}  // namespace
}  // namespace halfeven::onnx
