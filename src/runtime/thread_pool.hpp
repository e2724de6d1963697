// A small pool of threads that wait for work; one piece of work at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace halfeven::runtime {

class ThreadPool {
 public:
  using Piece = void (*)(const void* f, std::int64_t begin, std::int64_t end);

  /// `threads` in all, the calling one included.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls piece(f, begin, end) on pieces of [0, n), each of them once, and returns when all are done. Pieces are a
  /// fixed function of n and the number of threads. The piece does not throw.
  void parallel(std::int64_t n, Piece piece, const void* f);

 private:
  void work(std::size_t index);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Piece piece_ = nullptr;
  const void* task_ = nullptr;
  std::int64_t size_ = 0;
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
};

}  // namespace halfeven::runtime
