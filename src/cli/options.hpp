// The command line: what options there are, and what was given. The one place that knows CLI11.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace halfeven::cli {

/// The options of a subcommand. Values are written when the command line is parsed, so they have to live until then.
class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  /// An operand without a name of its own: MODEL.
  void operand(const std::string& name, std::string& value, const std::string& text, bool required = true);
  /// --name VALUE; `type` stands for the value in the help text. `one_of`: the values there are, if not any.
  void option(const std::string& names, const std::string& type, std::string& value, const std::string& text,
              const std::vector<std::string>& one_of = {});
  void option(const std::string& names, const std::string& type, int& value, const std::string& text);
  void option(const std::string& names, const std::string& type, std::uint64_t& value, const std::string& text);
  void option(const std::string& names, const std::string& type, std::optional<int>& value, const std::string& text);
  /// May be given several times, with one value each time.
  void list(const std::string& names, const std::string& type, std::vector<std::string>& values,
            const std::string& text);
  void flag(const std::string& names, bool& value, const std::string& text);
  /// What is added from now on stands under this heading in the help text.
  void heading(const std::string& title) { heading_ = title; }

 private:
  template <class T>
  CLI::Option* add(const std::string& names, const std::string& type, T& value, const std::string& text);

  CLI::App& app_;
  std::string heading_;
};

/// A command with subcommands.
class CommandLine {
 public:
  /// `version` is what --version prints, `footer` ends the help text.
  CommandLine(const std::string& name, const std::string& text, const std::string& version, const std::string& footer);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  Options add(const std::string& name, const std::string& text);
  /// The chosen subcommand; empty where help or the version was asked for, and printed. Throws Error{usage}.
  std::string parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace halfeven::cli
