#include <algorithm>
#include <map>

#include "ops/operator.hpp"

namespace halfeven::ops {

#define HALFEVEN_OPS(file) std::vector<Operator> file##_operators();
#include "ops/table.inc"
#undef HALFEVEN_OPS

std::span<const Operator> operators() {
  static const std::vector<Operator> table = [] {
    std::vector<Operator> all;
    const auto append = [&](std::vector<Operator> family) { all.insert(all.end(), family.begin(), family.end()); };
#define HALFEVEN_OPS(file) append(file##_operators());
#include "ops/table.inc"
#undef HALFEVEN_OPS
    std::sort(all.begin(), all.end(), [](const Operator& a, const Operator& b) {
      return std::pair(a.domain, a.name) < std::pair(b.domain, b.name);
    });
    return all;
  }();
  return table;
}

const Operator* find_operator(std::string_view domain, std::string_view name) {
  const auto all = operators();
  const auto at =
      std::lower_bound(all.begin(), all.end(), std::pair(domain, name),
                       [](const Operator& o, const auto& key) { return std::pair(o.domain, o.name) < key; });
  return at != all.end() && at->domain == domain && at->name == name ? &*at : nullptr;
}

}  // namespace halfeven::ops
