// The kernel table.
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
  return entry.takes.find(word) != std::string_view::npos;
}

}  // namespace halfeven::plan
