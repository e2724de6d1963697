#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include <mpfr.h>

#include "numerics/exact_tensor.hpp"

namespace halfeven::numerics {

void parallel_for(std::size_t n, std::size_t grain, int threads,
                  const std::function<void(std::size_t, std::size_t)>& f) {
  const std::size_t pieces = std::max<std::size_t>(1, std::min(n / std::max<std::size_t>(grain, 1), std::size_t{256}));
  const std::size_t workers = std::min(pieces, static_cast<std::size_t>(std::max(threads, 1)));
  if (workers <= 1) {
    f(0, n);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(pieces);
  const auto work = [&] {
    for (std::size_t p = next++; p < pieces; p = next++) {
      try {
        f(n * p / pieces, n * (p + 1) / pieces);
      } catch (...) {
        errors[p] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (std::size_t w = 1; w < workers; ++w) {
      pool.emplace_back([&] {
        work();
        mpfr_free_cache();  // MPFR keeps constants per thread
      });
    }
    work();
  }
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace halfeven::numerics
