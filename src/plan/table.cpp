// The kernel table.
#include <algorithm>
#include <array>

#include "plan/kernel.hpp"

namespace halfeven::plan {

// Every factory of the table, declared once per line.
#define HALFEVEN_KERNEL(name, isa, factory, takes) Offer factory(const Site& site);
#include "plan/table.inc"
#undef HALFEVEN_KERNEL

std::span<const Entry> kernel_table() {
  static constexpr auto kTable = std::to_array<Entry>({
#define HALFEVEN_KERNEL(name, isa, factory, takes) {name, Isa::isa, factory, takes},
#include "plan/table.inc"
#undef HALFEVEN_KERNEL
  });
  return kTable;
}

bool names_operator(const Entry& entry, std::string_view word) {
  const auto has = [&](const Entry& e) { return e.takes.find(word) != std::string_view::npos; };
  const auto table = kernel_table();
  return has(entry) ||
         std::any_of(table.begin(), table.end(), [&](const Entry& e) { return e.make == entry.make && has(e); });
}

}  // namespace halfeven::plan
