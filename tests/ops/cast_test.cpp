#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "one_node.hpp"

namespace halfeven {
namespace {

using namespace halfeven::testing;

Tensor cast(const Tensor& x, DType to) {
  return OneNode("Cast", 21).input(x).attribute("to", static_cast<std::int64_t>(to)).run()[0];
}

template <class T>
std::vector<T> elements(const Tensor& t) {
  const auto v = t.values<T>();
  return {v.begin(), v.end()};
}

TEST(Cast, TruncatesToIntegers) {
  const Tensor x = floats({4}, {1.9F, -1.9F, -0.9F, 127.5F});
  EXPECT_EQ(elements<std::int8_t>(cast(x, DType::int8)), (std::vector<std::int8_t>{1, -1, 0, 127}));
  EXPECT_EQ(elements<std::uint64_t>(cast(floats({2}, {0x1p63F, 0.5F}), DType::uint64)),
            (std::vector<std::uint64_t>{std::uint64_t{1} << 63, 0}));
}

TEST(Cast, RefusesWhatAnIntegerTypeCannotHold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, HUGE_VALF, -129.0F, 128.0F}) {
    try {
      cast(floats({2}, {0, bad}), DType::int8);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::input);
      EXPECT_NE(std::string(e.what()).find("element 1 of 'v0'"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(cast(floats({1}, {-1}), DType::uint64), Error);
  EXPECT_THROW(cast(floats({1}, {0x1p64F}), DType::uint64), Error);
  EXPECT_THROW(cast(floats({1}, {0x1p63F}), DType::int64), Error);
}

TEST(Cast, RoundsLargeIntegersOnce) {
  const std::vector<std::uint64_t> big{(std::uint64_t{1} << 63) + (std::uint64_t{1} << 39) + 1, ~std::uint64_t{0},
                                       (1U << 24) + 1};
  const Tensor y = cast(Tensor::of<std::uint64_t>(DType::uint64, {3}, big), DType::float32);
  EXPECT_EQ(values(y), (std::vector<float>{0x1p63F + 0x1p40F, 0x1p64F, 0x1p24F}));
}

TEST(Cast, AnythingButZeroIsTrue) {
  const Tensor x = floats({5}, {1e-45F, 0.0F, -0.0F, std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF});
  EXPECT_EQ(elements<std::uint8_t>(cast(x, DType::boolean)), (std::vector<std::uint8_t>{1, 0, 0, 1, 1}));
}

TEST(Cast, SaturatesSmallFloats) {
  const Tensor x = floats({4}, {1e6F, -HUGE_VALF, 0.3F, -0.0F});
  EXPECT_EQ(elements<std::uint8_t>(cast(x, DType::float8e4m3fn)), (std::vector<std::uint8_t>{0x7E, 0xFE, 0x2A, 0x80}));
  EXPECT_EQ(elements<std::uint8_t>(cast(x, DType::float4e2m1)), (std::vector<std::uint8_t>{7, 15, 1, 8}));
}

TEST(Cast, WideningKeepsTheSignOfZero) {
  const std::vector<std::uint16_t> halves{0x8000, 0x3C01, 0x0001};  // -0, 1 + 2^-10, 2^-24
  const auto y = values(cast(Tensor::of<std::uint16_t>(DType::float16, {3}, halves), DType::float32));
  EXPECT_EQ(y, (std::vector<float>{0, 1 + 0x1p-10F, 0x1p-24F}));
  EXPECT_TRUE(std::signbit(y[0]));
}

}  // namespace
}  // namespace halfeven
