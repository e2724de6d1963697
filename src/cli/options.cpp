#include "cli/options.hpp"

#include <CLI/CLI.hpp>

#include <halfeven/error.hpp>

namespace halfeven::cli {

void Options::operand(const std::string& name, std::string& value, const std::string& text, bool required) {
  app_.add_option(name, value, text)->required(required);
}

template <class T>
CLI::Option* Options::add(const std::string& names, const std::string& type, T& value, const std::string& text) {
  CLI::Option* option = app_.add_option(names, value, text)->type_name(type);
  if (!heading_.empty()) option->group(heading_);
  return option;
}

void Options::option(const std::string& names, const std::string& type, std::string& value, const std::string& text,
                     const std::vector<std::string>& one_of) {
  CLI::Option* option = add(names, type, value, text);
  if (!one_of.empty()) option->check(CLI::IsMember(one_of));
}

void Options::option(const std::string& names, const std::string& type, int& value, const std::string& text) {
  add(names, type, value, text);
}

void Options::option(const std::string& names, const std::string& type, std::uint64_t& value, const std::string& text) {
  add(names, type, value, text);
}

void Options::option(const std::string& names, const std::string& type, std::optional<int>& value,
                     const std::string& text) {
  add(names, type, value, text);
}

void Options::list(const std::string& names, const std::string& type, std::vector<std::string>& values,
                   const std::string& text) {
  // One value each time, or the list would swallow MODEL.
  add(names, type, values, text)->expected(1)->allow_extra_args(false)->take_all();
}

void Options::flag(const std::string& names, bool& value, const std::string& text) {
  CLI::Option* option = app_.add_flag(names, value, text);
  if (!heading_.empty()) option->group(heading_);
}

CommandLine::CommandLine(const std::string& name, const std::string& text, const std::string& version,
                         const std::string& footer)
    : app_(std::make_unique<CLI::App>(text, name)) {
  app_->set_version_flag("--version", version);
  app_->footer(footer);
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

Options CommandLine::add(const std::string& name, const std::string& text) {
  return Options(*app_->add_subcommand(name, text));
}

std::string CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    app_->exit(request);
    return "";
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, std::string(error.what()) + " (see " + app_->get_name() + " --help)");
  }
  return app_->get_subcommands().front()->get_name();
}

}  // namespace halfeven::cli
