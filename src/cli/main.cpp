#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <string_view>

#include <halfeven/halfeven.hpp>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"

namespace {

using halfeven::ErrorCode;

constexpr std::string_view kExamples = R"(Examples:
  halfeven run model.onnx --input x.npy --output-dir out
  halfeven run model.onnx --input ids=ids.npy --input mask=mask.npy --check
  halfeven run classifier.onnx --image cat.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  halfeven inspect model.onnx --nodes
  halfeven fuse model.onnx -o fused.onnx --explain
  halfeven verify model.onnx --random 4
  halfeven bench model.onnx --input x.npy --threads 1 --profile

Exit codes: 0 good, 1 a check failed, 2 wrong usage, 3 unusable model, 4 unusable input, 5 anything else)";

int fail(ErrorCode code, std::string_view message) {
  const std::string line = fmt::format("halfeven: error: {}\n", halfeven::cli::printable(message));
  std::fwrite(line.data(), 1, line.size(), stderr);
  return static_cast<int>(code);
}

// A file must not take the number of a standard stream that the caller has closed.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDWR) != stream) std::_Exit(5);
  }
}

int run_command(int argc, char** argv) {
  using namespace halfeven::cli;
  CommandLine line("halfeven", "halfeven runs quantized ONNX networks so that every bit of the result is defined.",
                   fmt::format("halfeven {}", halfeven::version()), std::string(kExamples));
  const std::map<std::string, Command> commands{
      {"run", add_run(line)},       {"inspect", add_inspect(line)}, {"fuse", add_fuse(line)},
      {"verify", add_verify(line)}, {"plan", add_plan(line)},       {"bench", add_bench(line)},
  };
  const std::string chosen = line.parse(argc, argv);
  return chosen.empty() ? 0 : commands.at(chosen)();
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const int code = run_command(argc, argv);
    halfeven::cli::flush();
    return code;
  } catch (const halfeven::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::other, "not enough memory");
  } catch (const std::exception& error) {
    return fail(ErrorCode::other, error.what());
  }
}
