// Kernels are tried on this machine before they are trusted (contract section 5).
#pragma once

#include <string>

#include "plan/kernel.hpp"

namespace halfeven::plan {

/// Runs the table entry on small graphs with the worst operands there are (255, -128, 127 ...) and compares every bit
/// with the interpreter. Returns what differs; empty if nothing does. Done once per process and entry, then remembered:
/// the answer is a property of the processor. Safe from several threads.
const std::string& self_test(const Entry& entry);

}  // namespace halfeven::plan
