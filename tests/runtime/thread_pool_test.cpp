// The pool runs every piece once, carries exceptions over, and serves several callers.
#include "runtime/thread_pool.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace halfeven::test {
namespace {

TEST(ThreadPool, CoversTheRangeOnce) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    const auto pool = make_thread_pool(threads);
    EXPECT_EQ(pool->threads(), threads);
    const auto parallel = runtime::parallel_on(*pool);
    for (const std::int64_t n : {0, 1, 2, 3, 5, 17, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<int> seen(static_cast<std::size_t>(n), 0);
        parallel(n, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(n), 1)) << threads << " threads, " << n;
      }
    }
  }
}

TEST(ThreadPool, PiecesAreAFunctionOfTheRange) {
  const auto pool = make_thread_pool(3);
  std::atomic<std::uint64_t> edges{0};
  runtime::parallel_on (*pool)(10, [&](std::int64_t begin, std::int64_t end) { edges += (1U << begin) | (1U << end); });
  EXPECT_EQ(edges, 1U + 2 * (1U << 3) + 2 * (1U << 6) + (1U << 10));
  // Ranges whose products with the number of pieces exceed 64 bits.
  std::atomic<std::uint64_t> sum{0};
  runtime::parallel_on (*pool)(
      INT64_MAX, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<std::uint64_t>(end - begin); });
  EXPECT_EQ(sum, static_cast<std::uint64_t>(INT64_MAX));
}

TEST(ThreadPool, FirstExceptionReachesTheCaller) {
  const auto pool = make_thread_pool(4);
  const auto parallel = runtime::parallel_on(*pool);
  for (int repeat = 0; repeat < 100; ++repeat) {
    try {
      parallel(4, [&](std::int64_t begin, std::int64_t) {
        if (begin != 0) throw std::runtime_error(std::to_string(begin));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "1");
    }
    std::atomic<int> good{0};
    parallel(4, [&](std::int64_t, std::int64_t) { ++good; });
    EXPECT_EQ(good, 4);
  }
}

TEST(ThreadPool, MorePiecesThanTheWordHolds) {
  const auto pool = make_thread_pool(2);
  std::atomic<std::int64_t> sum{0};
  pool->run(
      200'000, [](void* s, int k) { *static_cast<std::atomic<std::int64_t>*>(s) += k; }, &sum);
  EXPECT_EQ(sum, std::int64_t{200'000} * 199'999 / 2);
}

TEST(ThreadPool, SleepersWakeUp) {
  const auto pool = make_thread_pool(4);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> count{0};
    runtime::parallel_on (*pool)(100,
                                 [&](std::int64_t begin, std::int64_t end) { count += static_cast<int>(end - begin); });
    EXPECT_EQ(count, 100);
  }
}

TEST(ThreadPool, ServesSeveralCallersAndNestedCalls) {
  const auto pool = make_thread_pool(3);
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        runtime::parallel_on (*pool)(5, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            runtime::parallel_on (*pool)(7, [&](std::int64_t b, std::int64_t e) { sum += e - b; });
          }
        });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 4 * 200 * 5 * 7);
}

}  // namespace
}  // namespace halfeven::test
