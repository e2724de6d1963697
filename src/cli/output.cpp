#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <halfeven/error.hpp>

#include "cli/files.hpp"

namespace halfeven::cli {
namespace {

void check_stdout(bool good) {
  if (!good && errno != EPIPE) throw Error(ErrorCode::other, "cannot write to standard output");
}

}  // namespace

void print(const std::string& text) { check_stdout(std::fwrite(text.data(), 1, text.size(), stdout) == text.size()); }

void print(const nlohmann::ordered_json& json) {
  print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

void flush() { check_stdout(std::fflush(stdout) == 0); }

void warn(const std::string& message) {
  const std::string line = fmt::format("warning: {}\n", printable(message));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string type_name(DType type) { return type == DType::boolean ? "bool" : std::string(to_string(type)); }

ProgressLine::ProgressLine(std::string task)
    : task_(std::move(task)), enabled_(isatty(STDERR_FILENO) != 0), next_(Clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(std::size_t done, std::size_t total) { say(fmt::format("node {} of {}", done, total)); }

void ProgressLine::say(const std::string& text) {
  if (!enabled_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  const std::string line = fmt::format("\r{}: {}\x1b[K", task_, printable(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace halfeven::cli
