// The subcommands. Each adds itself to the command line and runs when it was chosen; what it returns is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace halfeven::cli {

using Command = std::function<int()>;

Command add_run(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_fuse(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_bench(CLI::App& app);

}  // namespace halfeven::cli
