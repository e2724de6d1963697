// What is tricky in the operators that move elements; ONNX's node tests cover their plain behaviour.
#include <gtest/gtest.h>

#include <limits>

#include "one_node.hpp"

namespace halfeven {
namespace {

using namespace halfeven::testing;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

std::string message(OneNode node) {
  try {
    node.run();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Reshape, CopiedDimensionsCancelWhereTheyAreNotKnown) {
  OneNode node("Reshape", 21);
  const Tensor y = node.input(counting({2, 3, 4})).constant(ints({0, -1})).run()[0];
  EXPECT_EQ(y.shape(), (Shape{2, 12}));
  EXPECT_EQ(node.inferred(), (Shape{-1, -1}));
}

TEST(Reshape, KeepsAnEmptyBatch) {
  EXPECT_EQ(OneNode("Reshape", 21).input(counting({0, 3})).constant(ints({0, -1})).run()[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(OneNode("Reshape", 21)
                .input(counting({0, 3}))
                .constant(ints({3, 0, 5}))
                .attribute("allowzero", std::int64_t{1})
                .run()[0]
                .shape(),
            (Shape{3, 0, 5}));
}

TEST(Reshape, RefusesSizesThatOverflow) {
  EXPECT_THROW(OneNode("Reshape", 21).input(counting({4})).constant(ints({kMax, kMax})).run(), Error);
  EXPECT_THROW(OneNode("Reshape", 21).input(counting({4})).constant(ints({-1, 3})).run(), Error);
}

TEST(Slice, LimitsExtremeEndsAndSteps) {
  const auto slice = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    return values(OneNode("Slice", 13)
                      .input(counting({5}))
                      .constant(ints({start}))
                      .constant(ints({end}))
                      .constant(ints({0}))
                      .constant(ints({step}))
                      .run()[0]);
  };
  using V = std::vector<float>;
  EXPECT_EQ(slice(0, kMax, 1), (V{0, 1, 2, 3, 4}));
  EXPECT_EQ(slice(kMax, kMin, -1), (V{4, 3, 2, 1, 0}));
  EXPECT_EQ(slice(-1, kMin, -2), (V{4, 2, 0}));
  EXPECT_EQ(slice(1, -1, 2), (V{1, 3}));
  EXPECT_EQ(slice(0, kMax, kMax), (V{0}));
  EXPECT_EQ(slice(-1, kMin, kMin), (V{4}));
  EXPECT_EQ(slice(3, 1, 1), (V{}));
  EXPECT_EQ(slice(0, -1, -1), (V{}));
}

TEST(Gather, NamesTheIndexThatIsOutOfRange) {
  OneNode node("Gather", 13);
  node.input(counting({2, 3})).constant(ints({1, 3})).attribute("axis", std::int64_t{1});
  EXPECT_NE(message(node).find("index 3 (element 1 of 'v1')"), std::string::npos) << message(node);
}

TEST(Pad, RemovesBeforeItPads) {
  OneNode node("Pad", 13);
  const Tensor y = node.input(counting({5})).constant(ints({-1, 2})).attribute("mode", std::string("reflect")).run()[0];
  EXPECT_EQ(values(y), (std::vector<float>{1, 2, 3, 4, 3, 2}));
}

TEST(Pad, ReflectsToAndFro) {
  OneNode node("Pad", 13);
  const Tensor y = node.input(counting({3})).constant(ints({0, 6})).attribute("mode", std::string("reflect")).run()[0];
  EXPECT_EQ(values(y), (std::vector<float>{0, 1, 2, 1, 0, 1, 2, 1, 0}));
}

TEST(Split, GivesTheLastPartWhatIsLeft) {
  const auto parts = OneNode("Split", 18).input(counting({5})).attribute("num_outputs", std::int64_t{2}).run(2);
  EXPECT_EQ(values(parts[1]), (std::vector<float>{3, 4}));
  EXPECT_THROW(OneNode("Split", 13).input(counting({5})).run(2), Error);
}

TEST(Dropout, GivesAMaskOfTheDataTypeBeforeVersion10) {
  const auto out = OneNode("Dropout", 7).input(counting({2})).run(2);
  EXPECT_EQ(values(out[1]), (std::vector<float>{1, 1}));
  EXPECT_EQ(OneNode("Dropout", 10).input(counting({2})).run(2)[1].dtype(), DType::boolean);
}

TEST(Upsample, EndsWithOpset9) {
  OneNode node("Upsample", 11);
  node.input(counting({1, 1, 2, 2})).constant(floats({4}, {1, 1, 2, 2}));
  EXPECT_NE(message(node).find("Resize"), std::string::npos);
}

TEST(Resize, TakesScalesAsTheExactValuesOfTheirFloats) {
  // 0.7 as a float is a little less than 7/10: ten elements become six.
  OneNode node("Resize", 19);
  const Tensor y = node.input(counting({10}))
                       .absent()
                       .constant(floats({1}, {0.7F}))
                       .attribute("coordinate_transformation_mode", std::string("asymmetric"))
                       .run()[0];
  EXPECT_EQ(y.shape(), (Shape{6}));
  EXPECT_EQ(node.inferred(), (Shape{-1}));
}

TEST(Resize, LinearWeightsAreRational) {
  // Coordinates 1/3 and 2/3 between 0 and 3: 1 and 2 exactly, which no rounded weight gives.
  OneNode node("Resize", 19);
  const Tensor y = node.input(floats({2}, {0, 3}))
                       .absent()
                       .absent()
                       .constant(ints({4}))
                       .attribute("mode", std::string("linear"))
                       .attribute("coordinate_transformation_mode", std::string("align_corners"))
                       .run()[0];
  EXPECT_EQ(values(y), (std::vector<float>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace halfeven
