#include "runtime/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace halfeven {
namespace {

void pause() {
#ifdef __SSE2__
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Pieces are claimed from one word that holds the number of the job, how many pieces it has and how many are claimed:
// a thread that comes late cannot take a piece of another job than it looked at. A job ends when its pieces are done,
// so threads that were asleep all along do not hold it up.
class SpinningPool final : public ThreadPool {
 public:
  explicit SpinningPool(int threads)
      : spins_(threads <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0) {
    try {
      for (int k = 1; k < threads; ++k) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The system has no more: fewer give the same bits.
    }
  }

  ~SpinningPool() override {
    stop_.store(true, std::memory_order_relaxed);
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  int threads() const override { return static_cast<int>(workers_.size()) + 1; }

  void run(int pieces, void (*piece)(void*, int), void* argument) override {
    const bool alone = workers_.empty() || pieces <= 1;
    if (alone || taken_.exchange(true, std::memory_order_acquire)) {
      for (int k = 0; k < pieces; ++k) piece(argument, k);
      return;
    }
    for (int first = 0; first < pieces; first += kMostPieces) {
      piece_ = piece;
      argument_ = argument;
      first_ = first;
      const auto count = static_cast<std::uint32_t>(std::min(pieces - first, kMostPieces));
      unfinished_.store(count, std::memory_order_relaxed);
      state_.store((std::uint64_t{++job_} << 32) | (count << 16), std::memory_order_release);
      signal_.fetch_add(1, std::memory_order_release);
      signal_.notify_all();
      while (do_piece()) {
      }
      await_end();
    }
    taken_.store(false, std::memory_order_release);
  }

 private:
  static constexpr int kMostPieces = 0xFFFF;
  static constexpr int kSpins = 2000;  // some 50 us

  // Claims a piece and runs it; false if there is none.
  bool do_piece() {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    for (;;) {
      const auto count = static_cast<std::uint32_t>(state >> 16) & 0xFFFFU;
      const auto next = static_cast<std::uint32_t>(state) & 0xFFFFU;
      if (next >= count) return false;
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        continue;
      }
      piece_(argument_, first_ + static_cast<int>(next));
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
      return true;
    }
  }

  void await_end() {
    for (int k = 0; k < spins_; ++k) {
      if (unfinished_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    for (std::uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
         left = unfinished_.load(std::memory_order_acquire)) {
      unfinished_.wait(left, std::memory_order_acquire);
    }
  }

  void work() {
    for (;;) {
      const std::uint32_t seen = signal_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      while (do_piece()) {
      }
      bool news = false;
      for (int k = 0; k < spins_ && !news; ++k) {
        news = signal_.load(std::memory_order_relaxed) != seen;
        if (!news) pause();
      }
      if (!news) signal_.wait(seen, std::memory_order_acquire);
    }
  }

  // Written by the caller of run() before state_ is, and read by those who have claimed a piece.
  void (*piece_)(void*, int) = nullptr;
  void* argument_ = nullptr;
  int first_ = 0;
  std::uint32_t job_ = 0;
  const int spins_;
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  alignas(64) std::atomic<std::uint32_t> signal_{0};
  std::atomic<bool> taken_{false};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace

std::shared_ptr<ThreadPool> make_thread_pool(int threads) { return std::make_shared<SpinningPool>(threads); }

namespace runtime {
namespace {

struct Job {
  plan::ParallelFor::Piece piece;
  const void* f;
  std::int64_t n;
  int pieces;
  std::atomic_flag writing{};
  int failed = INT_MAX;  // the first piece that threw
  std::exception_ptr error{};

  void run(int k) noexcept {
    try {
      const auto of = static_cast<std::int64_t>(pieces);
      // n * k may not fit; whole and rest do.
      const std::int64_t whole = n / of;
      const std::int64_t rest = n % of;
      const auto edge = [&](std::int64_t at) { return whole * at + rest * at / of; };
      piece(f, edge(k), edge(k + 1));
    } catch (...) {
      while (writing.test_and_set(std::memory_order_acquire)) pause();
      if (k < failed) {
        failed = k;
        error = std::current_exception();
      }
      writing.clear(std::memory_order_release);
    }
  }
};

void run(void* pool, std::int64_t n, plan::ParallelFor::Piece piece, const void* f) {
  auto& threads = *static_cast<ThreadPool*>(pool);
  if (n <= 0) return;
  const auto pieces = static_cast<int>(std::min<std::int64_t>(n, threads.threads()));
  if (pieces <= 1) return piece(f, 0, n);
  Job job{piece, f, n, pieces};
  threads.run(
      pieces, [](void* argument, int k) { static_cast<Job*>(argument)->run(k); }, &job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace

plan::ParallelFor parallel_on(ThreadPool& pool) { return {&pool, &run, pool.threads()}; }

}  // namespace runtime
}  // namespace halfeven
