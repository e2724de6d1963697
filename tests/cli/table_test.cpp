#include "cli/table.hpp"

#include <gtest/gtest.h>

#include "cli/files.hpp"

namespace halfeven::cli {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"name", "n"});
  table.add({"x", "10"});
  table.add({"größe", ""});
  EXPECT_EQ(table.text(), "name   n\nx      10\ngröße\n");
  EXPECT_EQ(Table({"a"}).text(2), "  a\n");
}

TEST(Printable, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(printable("a\x1b[31m\nb\x7f"), "a\\x1b[31m\\x0ab\\x7f");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(in_quotes("a/b.npy"), "'a/b.npy'");
}

}  // namespace
}  // namespace halfeven::cli
