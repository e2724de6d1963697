// What ran when and on which thread, as Chrome and Perfetto show it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <halfeven/executable.hpp>

namespace halfeven::cli {

/// A pool that notes when each piece began and ended.
class TracingPool final : public ThreadPool {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TracingPool(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}

  int threads() const override { return pool_->threads(); }
  void run(int pieces, void (*piece)(void*, int), void* argument) override;

  /// Forgets what was noted; times count from now on.
  void restart();

  /// The trace as JSON: a line of steps, and a line of pieces for each thread.
  std::string json(const PlanReport& report, const std::vector<StepTime>& steps) const;

 private:
  struct Piece {
    std::thread::id thread;
    Clock::time_point start, end;
  };

  std::shared_ptr<ThreadPool> pool_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  Clock::time_point origin_;
};

}  // namespace halfeven::cli
