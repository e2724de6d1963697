// Ranges on a thread pool.
#pragma once

#include <halfeven/thread_pool.hpp>

#include "plan/kernel.hpp"

namespace halfeven::runtime {

/// parallel(n, f) on the pool: min(n, threads) pieces of nearly equal length. Exceptions of pieces reach the caller.
plan::ParallelFor parallel_on(ThreadPool& pool);

}  // namespace halfeven::runtime
