#include "runtime/thread_pool.hpp"

#include <algorithm>

namespace halfeven::runtime {

ThreadPool::ThreadPool(int threads) {
  for (int k = 1; k < threads; ++k) {
    workers_.emplace_back([this, k] { work(static_cast<std::size_t>(k)); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::parallel(std::int64_t n, Piece piece, const void* f) {
  if (workers_.empty() || n <= 1) {
    if (n > 0) piece(f, 0, n);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    piece_ = piece;
    task_ = f;
    size_ = n;
    busy_ = workers_.size();
    ++round_;
  }
  wake_.notify_all();
  const auto pieces = static_cast<std::int64_t>(workers_.size() + 1);
  piece(f, 0, n / pieces);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(std::size_t index) {
  std::uint64_t seen = 0;
  for (;;) {
    std::int64_t n = 0;
    Piece piece = nullptr;
    const void* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      n = size_;
      piece = piece_;
      task = task_;
    }
    const auto pieces = static_cast<std::int64_t>(workers_.size() + 1);
    const auto k = static_cast<std::int64_t>(index);
    const std::int64_t begin = n * k / pieces;
    const std::int64_t end = n * (k + 1) / pieces;
    if (begin < end) piece(task, begin, end);
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    done_.notify_one();
  }
}

}  // namespace halfeven::runtime
