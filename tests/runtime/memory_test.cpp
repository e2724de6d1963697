// Blocks that are needed together do not overlap; the arrangement is close to what no arrangement can beat.
#include "plan/memory.hpp"

#include <random>

#include <gtest/gtest.h>

namespace halfeven::plan {
namespace {

void expect_apart(const std::vector<Block>& blocks, std::size_t all) {
  for (std::size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_LE(blocks[a].offset + blocks[a].bytes, all);
    for (std::size_t b = 0; b < a; ++b) {
      if (blocks[a].last < blocks[b].first || blocks[b].last < blocks[a].first) continue;
      EXPECT_TRUE(blocks[a].offset + blocks[a].bytes <= blocks[b].offset ||
                  blocks[b].offset + blocks[b].bytes <= blocks[a].offset)
          << "blocks " << a << " and " << b;
    }
  }
}

TEST(Memory, Nothing) {
  std::vector<Block> blocks;
  EXPECT_EQ(place_blocks(blocks), 0U);
  EXPECT_EQ(largest_live(blocks), 0U);
}

TEST(Memory, ChainTakesTwoNeighbours) {
  std::vector<Block> blocks;
  for (std::size_t k = 0; k < 10; ++k) blocks.push_back({k, k + 1, 64 * (k % 3 + 1), 0});
  EXPECT_EQ(largest_live(blocks), 320U);
  const std::size_t all = place_blocks(blocks);
  EXPECT_LE(all, 384U);
  expect_apart(blocks, all);
}

TEST(Memory, RandomBlocks) {
  std::mt19937_64 random(20261203);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks(1 + random() % 60);
    for (Block& b : blocks) {
      b.first = random() % 40;
      b.last = b.first + random() % (random() % 8 == 0 ? 20 : 3);
      b.bytes = 64 * (1 + random() % 50);
    }
    const std::size_t bound = largest_live(blocks);
    const std::size_t all = place_blocks(blocks);
    EXPECT_GE(all, bound);
    expect_apart(blocks, all);
    worst = std::max(worst, double(all) / double(bound));
  }
  EXPECT_LT(worst, 1.6);  // hostile random lifetimes; networks lie within a few per cent
}

}  // namespace
}  // namespace halfeven::plan
