// The threads that kernels run on. An application may bring its own.
#pragma once

#include <memory>

namespace halfeven {

/// Runs numbered pieces of work side by side. Which thread runs which piece changes no bit of any result.
class ThreadPool {
 public:
  virtual ~ThreadPool() = default;

  /// How many pieces can run at one time, the calling thread included. Does not change.
  virtual int threads() const = 0;

  /// Calls piece(argument, k) for every k in [0, pieces), each once, and returns when all are done. `piece` does not
  /// throw. Must be safe from several threads at once if several Contexts share the pool. It should not allocate.
  virtual void run(int pieces, void (*piece)(void* argument, int number), void* argument) = 0;
};

/// The pool that a Context makes for itself: `threads` in all, the calling one included. Waiting threads spin for some
/// tens of microseconds, then sleep. Calls that come while another one runs are served by their own thread alone.
std::shared_ptr<ThreadPool> make_thread_pool(int threads);

}  // namespace halfeven
