// The table in docs/onnx-conformance.md says what the operator table says, and its list of skipped tests is the one
// that the tests use.
#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/operator.hpp"

namespace halfeven::test {
namespace {

std::string read(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// The lines of `text` that start with `start`, as one text.
std::string lines_with(const std::string& text, const std::string& start) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(start)) out += line + "\n";
  }
  return out;
}

TEST(ServedOperators, AreDocumented) {
  std::string table;
  for (const ops::Operator& o : ops::operators()) {
    table += fmt::format("| `{}` | {} | {} |\n", o.name, o.domain.empty() ? "ai.onnx" : o.domain,
                         fmt::join(o.versions, ", "));
  }
  const std::string whole = read(HALFEVEN_TESTS "/../docs/onnx-conformance.md");
  const std::string page = whole.substr(std::min(whole.find("## Operators"), whole.size()));
  EXPECT_EQ(lines_with(page, "| `"), table) << "docs/onnx-conformance.md should hold this table:\n" << table;
}

TEST(ServedOperators, SkippedTestsAreDocumented) {
  const std::string page = read(HALFEVEN_TESTS "/../docs/onnx-conformance.md");
  std::istringstream in(lines_with(read(HALFEVEN_TESTS "/conformance/node_tests_skipped.txt"), "test_"));
  for (std::string line; std::getline(in, line);) {
    const std::string reason = line.substr(line.find(" | ") + 3);
    EXPECT_NE(page.find(reason), std::string::npos) << "docs/onnx-conformance.md lacks: " << reason;
  }
}

}  // namespace
}  // namespace halfeven::test
