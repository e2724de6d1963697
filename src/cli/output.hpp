// What the command writes to the screen: results to stdout, everything else to stderr.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <halfeven/types.hpp>

namespace halfeven::cli {

/// Writes to stdout. Throws Error{other} if that fails, unless the reader has gone away (as `| head` does): then the
/// rest is dropped.
void print(const std::string& text);
/// Indented JSON and a newline; bytes that are no UTF-8 become U+FFFD.
void print(const nlohmann::ordered_json& json);
/// Flushes stdout; throws like print().
void flush();

/// "warning: ..." on stderr.
void warn(const std::string& message);

/// The element type as the tables and hash files name it: to_string(), but "bool" for booleans.
std::string type_name(DType type);

/// A line on stderr that says how far the work is: from one second on, only on a terminal, gone at the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string task);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::size_t done, std::size_t total);
  void say(const std::string& text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string task_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace halfeven::cli
