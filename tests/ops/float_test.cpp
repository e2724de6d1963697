// Where the float operators are tricky: exact values, infinities, NaN, empty sets, padding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "one_node.hpp"

namespace halfeven {
namespace {

using namespace halfeven::testing;

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

Tensor scalar(float v) { return floats({}, {v}); }

std::vector<float> softmax(const std::vector<float>& row) {
  return values(OneNode("Softmax", 13).input(floats({1, static_cast<std::int64_t>(row.size())}, row)).run()[0]);
}

TEST(Softmax, EqualValuesGiveExactly1OverN) {
  EXPECT_EQ(softmax({7.5F, 7.5F, 7.5F}), (std::vector<float>(3, 1.0F / 3)));
  EXPECT_EQ(softmax({-kInf, 2, -kInf, 2}), (std::vector<float>{0, 0.5F, 0, 0.5F}));
}

TEST(Softmax, FarAwayValuesVanish) {
  EXPECT_EQ(softmax({0, -std::numeric_limits<float>::max()}), (std::vector<float>{1, 0}));
}

TEST(Softmax, HasNoValueForInfiniteRows) {
  for (const std::vector<float>& row : {std::vector{-kInf, -kInf}, {kInf, 0}, {kNan, 1}}) {
    for (const float v : softmax(row)) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(Softmax, SpansAllAxesFromAxisOnBefore13) {
  const Tensor x = floats({1, 2, 2}, {1, 1, 1, 1});
  EXPECT_EQ(values(OneNode("Softmax", 11).input(x).run()[0]), std::vector<float>(4, 0.25F));
  EXPECT_EQ(values(OneNode("Softmax", 13).input(x).run()[0]), std::vector<float>(4, 0.5F));
}

TEST(Relu, PassesOnOrGivesPlusZero) {
  const auto y = values(OneNode("Relu", 14).input(floats({4}, {-0.0F, -1, kNan, 1e-45F})).run()[0]);
  EXPECT_EQ(y[0], 0);
  EXPECT_FALSE(std::signbit(y[0]));
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1e-45F);
}

TEST(Clip, TheUpperBoundWins) {
  const Tensor x = floats({4}, {-5, 0, 5, kInf});
  EXPECT_EQ(values(OneNode("Clip", 13).input(x).input(scalar(3)).input(scalar(1)).run()[0]), std::vector<float>(4, 1));
  EXPECT_EQ(values(OneNode("Clip", 13).input(x).absent().input(scalar(1)).run()[0]), (std::vector<float>{-5, 0, 1, 1}));
  EXPECT_EQ(values(OneNode("Clip", 6).input(x).attribute("min", -1.0F).run()[0]), (std::vector<float>{-1, 0, 5, kInf}));
}

TEST(Max, NanWins) {
  const auto y = values(OneNode("Max", 13).input(floats({2}, {kNan, 1})).input(floats({2}, {2, kNan})).run()[0]);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
}

TEST(Max, OrdersUint64ByValue) {
  const std::vector<std::uint64_t> a{~std::uint64_t{0}, 1};
  const std::vector<std::uint64_t> b{5, std::uint64_t{1} << 63U};
  const auto y = OneNode("Max", 13)
                     .input(Tensor::of<std::uint64_t>(DType::uint64, {2}, a))
                     .input(Tensor::of<std::uint64_t>(DType::uint64, {2}, b))
                     .run()[0];
  EXPECT_EQ(y.values<std::uint64_t>()[0], a[0]);
  EXPECT_EQ(y.values<std::uint64_t>()[1], b[1]);
}

TEST(Mod, FollowsTheSignOfDivisorOrDividend) {
  const Tensor x = floats({3}, {-5.5F, 5.5F, kInf});
  const Tensor y = floats({3}, {3, -3, 2});
  const auto fmod = values(OneNode("Mod", 13).attribute("fmod", std::int64_t{1}).input(x).input(y).run()[0]);
  EXPECT_EQ(fmod[0], -2.5F);
  EXPECT_EQ(fmod[1], 2.5F);
  EXPECT_TRUE(std::isnan(fmod[2]));
  EXPECT_EQ(values(OneNode("Mod", 28).input(x).input(y).run()[0])[0], 0.5F);
  EXPECT_THROW(OneNode("Mod", 13).input(x).input(y).run(), Error);
  EXPECT_THROW(OneNode("Mod", 13).input(ints({1})).input(ints({0})).run(), Error);
}

TEST(Pow, IntegersWrapAndNegativePowersTruncate) {
  const auto power = [](std::int64_t x, std::int64_t y) {
    return OneNode("Pow", 15).input(ints({x})).input(ints({y})).run()[0].values<std::int64_t>()[0];
  };
  EXPECT_EQ(power(3, 4), 81);
  EXPECT_EQ(power(2, 64), 0);
  EXPECT_EQ(power(-1, -3), -1);
  EXPECT_EQ(power(5, -1), 0);
  EXPECT_THROW(power(0, -1), Error);
}

TEST(Reduce, OfNothing) {
  const Tensor none = floats({2, 0}, {});
  const auto reduce = [&](const char* op) {
    return values(OneNode(op, 20).input(none).constant(ints({1})).attribute("keepdims", std::int64_t{0}).run()[0]);
  };
  EXPECT_EQ(reduce("ReduceSum"), (std::vector<float>{0, 0}));
  EXPECT_EQ(reduce("ReduceProd"), (std::vector<float>{1, 1}));
  EXPECT_EQ(reduce("ReduceMax"), (std::vector<float>{-kInf, -kInf}));
  EXPECT_EQ(reduce("ReduceLogSumExp"), (std::vector<float>{-kInf, -kInf}));
  EXPECT_TRUE(std::isnan(reduce("ReduceMean")[0]));
}

TEST(Reduce, SumsExactly) {
  const Tensor x = floats({4}, {1e30F, 1, -1e30F, 0x1p-24F});
  EXPECT_EQ(values(OneNode("ReduceSum", 13).input(x).run()[0])[0], 1.0F);  // a tie, to even
  EXPECT_EQ(values(OneNode("ReduceL2", 18).input(floats({2}, {3, 4})).run()[0])[0], 5.0F);
}

TEST(MaxPool, RefusesPaddingOnly) {
  OneNode pool("MaxPool", 12);
  pool.attribute("kernel_shape", std::vector<std::int64_t>{1}).attribute("pads", std::vector<std::int64_t>{1, 0});
  EXPECT_THROW(pool.input(counting({1, 1, 2})).run(), Error);
}

TEST(MaxPool, IndicesInBothOrders) {
  const Tensor x = counting({1, 2, 3, 4});
  for (const std::int64_t order : {0, 1}) {
    OneNode pool("MaxPool", 12);
    pool.attribute("kernel_shape", std::vector<std::int64_t>{3, 4}).attribute("storage_order", order);
    const auto y = pool.input(x).run(2);
    EXPECT_EQ(values(y[0]), (std::vector<float>{11, 23}));
    EXPECT_EQ(y[1].values<std::int64_t>()[0], 11);
  }
  OneNode pool("MaxPool", 12);
  pool.attribute("kernel_shape", std::vector<std::int64_t>{2, 2}).attribute("storage_order", std::int64_t{1});
  EXPECT_EQ(pool.input(x).run(2)[1].values<std::int64_t>()[0], 4);  // row 1, column 1 of 3 rows
}

TEST(AveragePool, DoesNotCountWhatCeilModeAdds) {
  for (const std::int64_t include : {0, 1}) {
    OneNode pool("AveragePool", 19);
    pool.attribute("kernel_shape", std::vector<std::int64_t>{3})
        .attribute("strides", std::vector<std::int64_t>{2})
        .attribute("pads", std::vector<std::int64_t>{1, 0})
        .attribute("ceil_mode", std::int64_t{1})
        .attribute("count_include_pad", include);
    const auto y = values(pool.input(floats({1, 1, 5}, {6, 6, 6, 6, 6})).run()[0]);
    EXPECT_EQ(y, (std::vector<float>{include != 0 ? 4.0F : 6.0F, 6, 6}));
  }
}

TEST(LayerNormalization, AConstantRowGivesTheBias) {
  OneNode node("LayerNormalization", 17);
  const Tensor y = node.input(floats({1, 3}, {0.1F, 0.1F, 0.1F}))
                       .constant(floats({3}, {2, 3, 4}))
                       .constant(floats({3}, {0, 1e-30F, 5}))
                       .run()[0];
  EXPECT_EQ(values(y), (std::vector<float>{0, 1e-30F, 5}));
}

TEST(LayerNormalization, RowsOfNothingHaveNoMean) {
  OneNode node("LayerNormalization", 17);
  const auto y = node.input(floats({2, 0}, {})).constant(floats({0}, {})).run(3);
  EXPECT_EQ(y[1].shape(), (Shape{2, 1}));
  EXPECT_TRUE(std::isnan(values(y[1])[0]));
}

TEST(BatchNormalization, RefusesTraining) {
  const Tensor one = floats({1}, {1});
  OneNode node("BatchNormalization", 15);
  node.attribute("training_mode", std::int64_t{1}).input(counting({1, 1, 2}));
  for (int i = 0; i < 4; ++i) node.constant(one);
  EXPECT_THROW(node.run(), Error);
}

TEST(Unary, ExactPoints) {
  const auto at = [](const char* op, float x) { return values(OneNode(op, 22).input(floats({1}, {x})).run()[0])[0]; };
  EXPECT_EQ(at("Acos", 1), 0);
  EXPECT_EQ(at("Acosh", 1), 0);
  EXPECT_EQ(at("Atanh", 1), kInf);
  EXPECT_TRUE(std::isnan(at("Asin", 2)));
  EXPECT_EQ(at("Sinh", -kInf), -kInf);
  EXPECT_EQ(at("Sqrt", 2.25F), 1.5F);
  EXPECT_EQ(at("Exp", -1e9F), 0);
  EXPECT_EQ(at("Reciprocal", -0.0F), -kInf);
  EXPECT_EQ(at("Round", 2.5F), 2);
  EXPECT_FALSE(std::signbit(at("Neg", 0)));
}

Tensor bytes(const std::vector<std::uint8_t>& v) {
  return Tensor::of<std::uint8_t>(DType::uint8, {static_cast<std::int64_t>(v.size())}, v);
}

TEST(QLinearAdd, ZeroPointsMayBeLeftOut) {
  OneNode node("QLinearAdd", 1, "com.microsoft");
  node.input(bytes({1, 2, 255})).constant(scalar(0.5F)).absent();
  node.input(bytes({1, 1, 255})).constant(scalar(0.5F)).absent().constant(scalar(2));
  const Tensor y = node.run()[0];
  // (0.5 + 0.5) / 2, (1 + 0.5) / 2, 255 / 2: ties to even.
  EXPECT_EQ(std::vector<std::uint8_t>(y.values<std::uint8_t>().begin(), y.values<std::uint8_t>().end()),
            (std::vector<std::uint8_t>{0, 1, 128}));
  OneNode bad("QLinearAdd", 1, "com.microsoft");
  bad.input(bytes({1})).constant(scalar(1));
  EXPECT_THROW(bad.run(), Error);
}

TEST(QLinearConcat, RescalesEachPart) {
  OneNode node("QLinearConcat", 1, "com.microsoft");
  const Tensor zero = Tensor::of<std::uint8_t>(DType::uint8, {}, std::vector<std::uint8_t>{0});
  node.constant(scalar(1)).constant(zero).input(bytes({1, 3})).constant(scalar(0.5F)).constant(zero);
  node.input(bytes({7})).constant(scalar(100)).constant(zero).attribute("axis", std::int64_t{0});
  const Tensor y = node.run()[0];
  EXPECT_EQ(std::vector<std::uint8_t>(y.values<std::uint8_t>().begin(), y.values<std::uint8_t>().end()),
            (std::vector<std::uint8_t>{0, 2, 255}));
}

TEST(Max, RefusesInputsLeftOut) { EXPECT_THROW(OneNode("Max", 13).input(counting({2})).absent().run(), Error); }

TEST(PRelu, SlopeMustFitTheInput) {
  EXPECT_THROW(OneNode("PRelu", 16).input(counting({2})).constant(counting({3, 2})).run(), Error);
}

}  // namespace
}  // namespace halfeven
