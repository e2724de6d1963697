// The subcommands. Each adds itself to the command line and runs when it was chosen; what it returns is the exit code.
#pragma once

#include <functional>

#include "cli/options.hpp"

namespace halfeven::cli {

using Command = std::function<int()>;

Command add_run(CommandLine& line);
Command add_inspect(CommandLine& line);
Command add_fuse(CommandLine& line);
Command add_verify(CommandLine& line);
Command add_plan(CommandLine& line);
Command add_bench(CommandLine& line);

}  // namespace halfeven::cli
