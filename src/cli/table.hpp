// Columns of text for the screen.
#pragma once

#include <string>
#include <vector>

namespace halfeven::cli {

/// Rows of cells, each column as wide as its widest cell, two spaces apart; no spaces at line ends. The first row is
/// the heading.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// One line a row, each indented by `indent` spaces and ended by a newline.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace halfeven::cli
