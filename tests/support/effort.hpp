// How much random testing a run does: HALFEVEN_PROPERTY_COUNT (default 6,000) sets the number of random graphs of the
// largest property; the others follow in proportion.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace halfeven::test {

/// `full` at the default, in proportion below it, at least `least`.
inline std::size_t effort(std::size_t full, std::size_t least) {
  const char* text = std::getenv("HALFEVEN_PROPERTY_COUNT");
  const std::size_t count = text == nullptr ? 6000 : std::strtoull(text, nullptr, 10);
  return std::max(least, full * std::min<std::size_t>(count, 6000) / 6000);
}

}  // namespace halfeven::test
