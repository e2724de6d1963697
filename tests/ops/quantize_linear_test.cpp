// Scales that do not fit their tensor are refused before anything is read.
#include <gtest/gtest.h>

#include <halfeven/error.hpp>

#include "one_node.hpp"

namespace halfeven {
namespace {

using namespace halfeven::testing;

Tensor bytes(Shape shape) {
  const std::vector<std::uint8_t> v(element_count(shape), 9);
  return Tensor::of<std::uint8_t>(DType::uint8, std::move(shape), v);
}

// A scale of several dimensions without block_size, as a misspelt attribute leaves it.
TEST(DequantizeLinear, RefusesAScaleThatDoesNotSpreadOverTheTensor) {
  EXPECT_THROW(OneNode("DequantizeLinear", 21).input(bytes({6, 4})).constant(counting({2, 4})).run(), Error);
  EXPECT_THROW(OneNode("DequantizeLinear", 21).input(bytes({6, 4})).input(counting({2, 4})).run(), Error);
  EXPECT_THROW(
      OneNode("QuantizeLinear", 21).input(counting({6, 4})).constant(floats({6, 2}, std::vector<float>(12, 1))).run(),
      Error);
}

TEST(QLinearConv, ActivationAndResultHaveOneScale) {
  const auto run = [](Shape x_scale, Shape y_scale) {
    const auto scale = [](const Shape& s) { return floats(s, std::vector<float>(element_count(s), 0.5F)); };
    OneNode node("QLinearConv", 10);
    node.input(bytes({2, 1, 3, 3})).constant(scale(x_scale)).constant(bytes(x_scale));
    node.constant(bytes({3, 1, 1, 1})).constant(scale({3})).constant(bytes({3}));
    node.constant(scale(y_scale)).constant(bytes(y_scale));
    return node.run()[0].shape();
  };
  EXPECT_EQ(run({}, {1}), (Shape{2, 3, 3, 3}));
  EXPECT_THROW(run({2}, {}), Error);
  EXPECT_THROW(run({}, {3}), Error);
}

}  // namespace
}  // namespace halfeven
