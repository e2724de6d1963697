#include "cli/values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace halfeven::cli {
namespace {

TEST(Values, SmallFloats) {
  EXPECT_EQ(decode_float(DType::float8e4m3fn, 0x7e), 448.0);
  EXPECT_NE(decode_float(DType::float8e4m3fn, 0x7f), decode_float(DType::float8e4m3fn, 0x7f));
  EXPECT_EQ(decode_float(DType::float8e4m3fnuz, 0x7f), 240.0);
  EXPECT_EQ(decode_float(DType::float8e5m2, 0x7b), 57344.0);
  EXPECT_EQ(decode_float(DType::float8e5m2fnuz, 0x7f), 57344.0);
  EXPECT_EQ(decode_float(DType::float4e2m1, 0x0f), -6.0);
  EXPECT_EQ(decode_float(DType::float4e2m1, 0x01), 0.5);
  EXPECT_EQ(decode_float(DType::float8e8m0, 127), 1.0);
  for (const DType type : {DType::float16, DType::bfloat16}) {
    for (int code = 0; code < 0x10000; ++code) {
      const double value = decode_float(type, static_cast<std::uint16_t>(code));
      if (value == value) {
        ASSERT_EQ(encode_float(type, value), code);
      }
    }
  }
  EXPECT_EQ(encode_float(DType::float16, 65519.99), 0x7bff);
  EXPECT_EQ(encode_float(DType::float16, 65520), 0x7c00);
  EXPECT_EQ(encode_float(DType::float16, 2.98023223876953125e-8), 0);  // half the least subnormal: to even
}

TEST(Values, RangeLeavesNansOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Range range = find_range(Tensor::of<float>(DType::float32, {4}, std::vector<float>{nan, 2, -1, nan}));
  EXPECT_EQ(range.min_index, 2U);
  EXPECT_EQ(range.max_index, 1U);
  EXPECT_EQ(range.numbers, 2U);
  EXPECT_EQ(range.nans, 2U);
  EXPECT_EQ(find_range(Tensor::of<float>(DType::float32, {0}, {})).numbers, 0U);
}

TEST(Values, FormatsEveryDigit) {
  const Tensor big = Tensor::of<std::uint64_t>(DType::uint64, {1}, std::vector<std::uint64_t>{18446744073709551615U});
  EXPECT_EQ(format_element(big, 0), "18446744073709551615");
  EXPECT_EQ(format_element(Tensor::of<float>(DType::float32, {1}, std::vector<float>{0.1F}), 0), "0.1");
  EXPECT_EQ(format_element(Tensor::of<std::int8_t>(DType::int4, {1}, std::vector<std::int8_t>{-8}), 0), "-8");
}

TEST(Values, CompareCountsBitsAndValues) {
  const Tensor a = Tensor::of<float>(DType::float32, {3}, std::vector<float>{1, 0.0F, 5});
  const Tensor b = Tensor::of<float>(DType::float32, {3}, std::vector<float>{1, -0.0F, 4.5F});
  const Difference difference = compare(a, b);
  EXPECT_EQ(difference.values, 2U);
  EXPECT_EQ(difference.total_values, 3U);
  EXPECT_EQ(difference.bits, 3U);
  EXPECT_EQ(difference.total_bits, 96U);
  EXPECT_EQ(difference.largest, 0.5);
  EXPECT_EQ(compare(a, a).bits, 0U);
}

}  // namespace
}  // namespace halfeven::cli
